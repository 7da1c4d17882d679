"""Checks that ids of packages are found or suggested, and that no package is imported that nobody named."""

import sys

import gymnasium as gym
import pytest

from mrq import MRQError
from mrq.environments.making import make_environment

CARTPOLE = "gymnasium.envs.classic_control:CartPoleEnv"
ROOMS = f"""
from gymnasium import register
from gymnasium.envs.classic_control import CartPoleEnv
register(id="TinyRoom-Empty-5x5-v0", entry_point="tiny_rooms:CartPoleEnv", max_episode_steps=7)
for size in ("", "Wide"):
    register(
        id=f"TinyGrasp{{size}}-v1", entry_point="{CARTPOLE}"
    )
    register(id=f"TinyGrasp{{size}}-v4", entry_point="{CARTPOLE}")
for game in ("Bricks", "Boats"):
    register("TinyGames/{{}}-v2".format(game), entry_point="{CARTPOLE}")
"""
HOSTILE = "raise SystemExit('imported')\n"


@pytest.mark.parametrize(
    ("task", "meant"),
    [
        ("TinyRoom-Empty-5x5-v0", "tiny_rooms:TinyRoom-Empty-5x5-v0"),
        ("tinyroom-empty-5x5", "tiny_rooms:TinyRoom-Empty-5x5-v0"),
        ("gym/TinyRoom-Empty-5x5-v0", "tiny_rooms:TinyRoom-Empty-5x5-v0"),
        ("tiny_rooms/TinyRoom-Empty-5x5-v0", "tiny_rooms:TinyRoom-Empty-5x5-v0"),
        ("TinyGrasp-v4", "tiny_rooms:TinyGrasp-v4"),
        ("TinyGrasp-v1", "tiny_rooms:TinyGrasp-v1"),
        ("tinygraspWide-v2", "tiny_rooms:TinyGraspWide-v4"),
        ("TinyGames/Bricks-v2", "tiny_rooms:TinyGames/Bricks-v2"),
    ],
)
def test_an_id_of_an_installed_package_is_suggested_without_importing_it(task, meant, site):
    site.install("tiny-rooms", {"tiny_rooms/__init__.py": HOSTILE, "tiny_rooms/envs/rooms.py": ROOMS})
    with pytest.raises(MRQError, match=rf"there is no environment '{task}'; did you mean {meant}\?$"):
        make_environment(task)
    assert "tiny_rooms" not in sys.modules


def test_a_damaged_package_is_passed_over(site):
    site.install("tiny-rooms", {"tiny_rooms/__init__.py": ROOMS})
    site.install("damaged", {"damaged/__init__.py": ""})
    (site.folder / "damaged-1.0.dist-info" / "RECORD").write_bytes(b"\xff")
    with pytest.raises(MRQError, match=r"did you mean tiny_rooms:TinyRoom-Empty-5x5-v0\?$"):
        make_environment("TinyRoom-Empty-5x5-v0")


def test_only_packages_that_use_gymnasium_are_searched(site):
    site.install("tiny-rooms", {"tiny_rooms/__init__.py": ROOMS}, requires='gymnasium; extra == "demo"')
    with pytest.raises(MRQError, match="there is no environment") as caught:
        make_environment("TinyRoom-Empty-5x5-v0")
    assert "tiny_rooms" not in str(caught.value)


@pytest.mark.parametrize("module", ["tiny_rooms", "tiny-rooms"])
def test_a_package_is_named_as_python_or_as_pip_does(module, site):
    site.install("tiny-rooms", {"tiny_rooms/__init__.py": ROOMS})
    assert make_environment(f"{module}:TinyRoom-Empty-5x5-v0").spec.max_episode_steps == 7
    with pytest.raises(MRQError, match=r"registers no .* that name; did you mean tiny_rooms:TinyRoom-Empty-5x5-v0\?"):
        make_environment(f"{module}:TinyRoom-Emty-5x5-v0")


def test_a_file_with_dashes_in_the_current_folder_is_found(tmp_path, monkeypatch):
    (tmp_path / "my-own.py").write_text("import gymnasium\ndef make():\n    return gymnasium.make('CartPole-v1')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    assert make_environment("my-own:make").spec.id == "CartPole-v1"


def test_a_package_may_name_the_function_that_registers_its_ids(site):
    register = f"def register_all():\n    import gymnasium as gym\n    gym.register('TinyPlug-v0', '{CARTPOLE}')\n"
    plugin = "[gymnasium.envs]\n__root__ = {}.later:register_all\n"
    for name, source in (("tiny_plug", register), ("other_plug", HOSTILE)):
        sources = {f"{name}/__init__.py": "", f"{name}/later.py": source}
        site.install(name, sources, entry_points=plugin.format(name))
    assert make_environment("tiny_plug:TinyPlug-v0").spec.id == "TinyPlug-v0"
    assert "other_plug" not in sys.modules


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (
            "MiniGrid-Empty-5x5-v0",
            "such ids come with the package minigrid: pip install minigrid, then mrq train minigrid:MiniGrid-Empty-",
        ),
        (
            "FetchReach-v4",
            "gymnasium-robotics: pip install gymnasium-robotics, then mrq train gymnasium_robotics:FetchReach-v4",
        ),
        ("MinAtar/Breakout-v1", "pip install minatar, then mrq train minatar:MinAtar/Breakout-v1"),
        ("VizdoomBasic-v1", "pip install vizdoom, then mrq train vizdoom.gymnasium_wrapper:VizdoomBasic-v1"),
        ("gymnasium-robotics:FetchReach-v4", "nor installed; run: pip install gymnasium-robotics$"),
        ("minigrid:MiniGrid-Empty-5x5-v0", "nor installed; run: pip install minigrid$"),
    ],
)
def test_a_well_known_package_that_is_not_installed_is_named(task, words, monkeypatch):
    monkeypatch.setattr("mrq.environments.packages.find_spec", lambda name: None)
    with pytest.raises(MRQError, match=words):
        make_environment(task)


def test_a_well_known_package_that_is_installed_is_asked_itself(site):
    site.install("minigrid", {"minigrid/__init__.py": HOSTILE})
    with pytest.raises(MRQError, match=r"name its package as well: mrq train minigrid:MiniGrid-Emty-5x5-v0$"):
        make_environment("MiniGrid-Emty-5x5-v0")


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("Pusher-v4", "^Pusher-v4 works only with MuJoCo before version 3; use Pusher-v5.$"),
        ("Pusher-v2", "^Pusher-v2 needs mujoco_py, which is no longer maintained; use Pusher-v5.$"),
        ("gym/HalfCheetah-v2", "^gym/HalfCheetah-v2 needs mujoco_py, .*; use HalfCheetah-v4.$"),
        ("Hopper-v3", "; use Hopper-v4.$"),  # the paper's
        ("Swimmer-v3", "; use Swimmer-v5.$"),
    ],
)
def test_an_outdated_id_names_the_one_to_use(task, words):
    with pytest.raises(MRQError, match=words):
        make_environment(task)


@pytest.mark.parametrize("task", ["PongNoFrameskip-v4", "PongDeterministic-v0"])
def test_an_id_of_the_old_games_names_the_suites(task, monkeypatch):
    monkeypatch.delitem(gym.registry, task, raising=False)  # it is there once ale_py has been imported
    with pytest.raises(MRQError, match=r"did you mean atari/Pong\?$"):
        make_environment(task)


def test_a_packages_outdated_id_names_its_latest(site):
    source = f"""
from gymnasium import register
def old(**kwargs):
    raise ImportError("No module named 'mujoco_py'")
register("TinyHand-v0", entry_point=old)
register("TinyHand-v3", entry_point="{CARTPOLE}")
"""
    site.install("tiny-hands", {"tiny_hands/__init__.py": source})
    with pytest.raises(MRQError, match=r"tiny_hands:TinyHand-v0 needs mujoco_py, .*; use tiny_hands:TinyHand-v3\.$"):
        make_environment("tiny_hands:TinyHand-v0")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("assert 1 + 1 == 3", r"could not be made: AssertionError \(__init__.py, line 4: assert 1 \+ 1 == 3\)\.$"),
        ("gym.make('Nowhere-v0')", "'tiny_broken:TinyBroken-v0' could not be made: NameNotFound: .*Nowhere"),
        ("import nothing_here", "needs a package that is not installed: .*nothing_here"),
        ("raise RuntimeError('no\\nmap')", "could not be made: RuntimeError: no map.$"),
    ],
)
def test_an_error_in_a_packages_constructor_is_one_sentence(error, words, site):
    source = f"import gymnasium as gym\ndef broken(**kwargs):\n    if True:\n        {error}\n"
    site.install("tiny-broken", {"tiny_broken/__init__.py": source + "gym.register('TinyBroken-v0', broken)\n"})
    with pytest.raises(MRQError, match=words) as caught:
        make_environment("tiny_broken:TinyBroken-v0")
    assert "\n" not in str(caught.value)
