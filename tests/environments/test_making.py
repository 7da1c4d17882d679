import sys

import gymnasium as gym
import pytest

from mrq import MRQError
from mrq.environments.making import make_environment


def test_ids_and_factories():
    assert make_environment("Pendulum-v1").spec.id == "Pendulum-v1"
    made = make_environment("tests.environments_for_tests:Counting", lengths=(5,))
    assert made.lengths == (5,)
    assert make_environment("gymnasium:CartPole-v1").spec.id == "CartPole-v1"
    assert make_environment("gym/Pendulum-v1").spec.id == "Pendulum-v1"


def test_a_module_in_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "my_own.py").write_text("import gymnasium as gym\ndef make():\n    return gym.make('CartPole-v1')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    assert make_environment("my_own:make").spec.id == "CartPole-v1"


def test_the_current_folder_is_left_alone_unless_the_module_is_in_it(tmp_path, monkeypatch):
    (tmp_path / "neighbour.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    make_environment("gymnasium:CartPole-v1")
    assert str(tmp_path) not in sys.path


def test_a_module_may_change_the_path_and_import_its_neighbours_late(tmp_path, monkeypatch):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "from_lib.py").write_text("ID = 'CartPole-v1'\n")
    (tmp_path / "neighbour.py").write_text("import gymnasium as gym\n")
    (tmp_path / "adventurous.py").write_text(
        "import sys\nsys.path.insert(0, 'lib')\n"
        "def make():\n    from neighbour import gym\n    from from_lib import ID\n    return gym.make(ID)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    assert make_environment("adventurous:make").spec.id == "CartPole-v1"


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("Pendulun-v1", "did you mean Pendulum-v1"),
        ("pendulum-v1", "did you mean Pendulum-v1"),
        ("Pendulum-v9", "did you mean Pendulum-v1"),
        ("HalfCheetah", r"did you mean HalfCheetah-v4\?$"),  # not Gymnasium's latest, which is another task
        ("gym/Ant", r"did you mean gym/Ant-v4\?$"),
        ("walker_walk", r"did you mean dmc/walker-walk or dmc-visual/walker-walk\?$"),
        ("Pong", r"did you mean atari/Pong\?$"),
        ("atari/Pong ", r"did you mean atari/Pong\?$"),
        ("dmc", r"'dmc'; mrq tasks dmc lists"),
        ("gym/", r"'gym/'; mrq tasks gym lists"),
        ("CartPole", "did you mean CartPole-v1 or CartPole-v0"),
        ("Zzzz", "module:factory"),
        ("nowhere:Thing", "the module 'nowhere', which is neither in the current folder nor installed"),
        ("../x:y", r"'\.\./x:y' begins with '\.\./x', which is not the name of a module; give module:name"),
        (".x:y", "begins with '.x', which is not the name of a module"),
        (":y", "begins with '', which is not the name of a module"),
        ("x.py/:y", "begins with 'x.py/', which is not the name of a module"),
        ("tests.environments_for_tests:Missing", "has no 'Missing'"),
        ("tests.environments_for_tests:np", "is not a function or class"),
        ("builtins:dict", "returned dict; it must return a gymnasium.Env"),
        ("", "module:factory"),
        ("gym/Pendulun-v1", "did you mean gym/Pendulum-v1"),
        ("dmc/cheeta-run", "there is no environment 'dmc/cheeta-run'; did you mean dmc/cheetah-run"),
        ("dmc/ball-in-cup-catch", "did you mean dmc/ball_in_cup-catch"),
        ("dmc/cheetah_run", "did you mean dmc/cheetah-run"),
        ("dmc-visual/Walker-walk", "did you mean dmc-visual/walker-walk"),
        ("dmc/lqr-lqr_2_1", "there is no environment .*; mrq tasks dmc lists"),
        ("dmc/zzzz", "mrq tasks dmc lists"),
        ("atari/pong", "did you mean atari/Pong"),
        ("atari/Ms-Pacman", "did you mean atari/MsPacman"),
        ("atari/SpaceInvaders-v5", "did you mean atari/SpaceInvaders"),
    ],
)
def test_what_cannot_be_made(task, words):
    with pytest.raises(MRQError, match=words):
        make_environment(task)


@pytest.mark.parametrize(
    ("task", "module", "extra"),
    [
        ("HalfCheetah-v4", "mujoco", "mujoco"),
        ("gym/HalfCheetah-v4", "mujoco", "mujoco"),
        ("ALE/Pong-v5", "ale_py", "atari"),
        ("atari/Pong", "ale_py", "atari"),
        ("dmc/cheetah-run", "dm_control", "dmc"),
        ("dmc-visual/walker-walk", "dm_control", "dmc"),
    ],
)
def test_a_missing_extra_is_named_with_its_pip_line(task, module, extra, monkeypatch):
    for name in [name for name in sys.modules if name.startswith(("gymnasium.envs.mujoco", "mujoco"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    if module == "ale_py":
        for name in [name for name in gym.registry if name.startswith("ALE/")]:
            monkeypatch.delitem(gym.registry, name)
    with pytest.raises(MRQError, match=rf"pip install 'mrq-rl\[{extra}\]'"):
        make_environment(task)


@pytest.mark.parametrize(
    ("factory", "words"), [("Broken", "could not be made: TypeError"), ("gives_up", "could not be made: SystemExit: 4")]
)
def test_a_factory_that_raises(factory, words):
    with pytest.raises(MRQError, match=words):
        make_environment(f"tests.environments_for_tests:{factory}")
