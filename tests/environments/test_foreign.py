"""Checks what is said about environments of other packages than Gymnasium."""

import numpy as np
import pytest

from mrq import MRQ, MRQError
from mrq.environments.checked import CheckedEnvironment
from mrq.environments.making import make_environment
from tests.environments_for_tests import Counting

OLD_GYM = {
    "gym/__init__.py": "from gym.core import Env, Wrapper\n",
    "gym/core.py": "class Env: ...\nclass Wrapper(Env): ...\n",
    "gym/envs/__init__.py": "",
    "tiny_old/__init__.py": (
        "import gym\nfrom gym.envs import registration\nclass Thing(gym.Env): ...\n"
        "def wrapped():\n    return gym.Wrapper()\n"
    ),
}


@pytest.mark.parametrize(
    ("version", "registry", "shim", "extra"),
    [
        ("0.26.2", "registry = {'Thing-v0': 0}\n", "GymV26CompatibilityV0", "gym-v26"),
        (
            "0.21.0",
            "class Registry:\n    env_specs = {'Thing-v0': 0}\nregistry = Registry()\n",
            "GymV21CompatibilityV0",
            "gym-v21",
        ),
    ],
)
def test_an_environment_of_the_old_gym_points_to_shimmy(version, registry, shim, extra, site, monkeypatch):
    site.install("old-gym", OLD_GYM | {"gym/envs/registration.py": registry})
    monkeypatch.setattr("mrq.environments.foreign.version", lambda name: version)
    words = rf"an environment of the old package gym: pip install 'shimmy\[{extra}\]', and give shimmy\.{shim}\(env="
    for factory, kind in (("Thing", "Thing"), ("wrapped", "Wrapper")):
        with pytest.raises(MRQError, match=f"^'tiny_old:{factory}' returned {kind}, {words}"):
            make_environment(f"tiny_old:{factory}")
    import tiny_old

    with pytest.raises(MRQError, match=f"^MRQ was given Thing, {words}"):
        MRQ(tiny_old.Thing())
    with pytest.raises(MRQError, match=f"^the function returned Thing, {words}"):
        MRQ(tiny_old.Thing)
    line = rf"then mrq train shimmy:{shim} --env-kwargs env_id=tiny_old:Thing-v0$"
    with pytest.raises(MRQError, match=rf"^Thing-v0 is an environment of the old package gym: .*{line}"):
        make_environment("tiny_old:Thing-v0")


def test_an_id_of_the_old_gym_is_not_taken_for_gymnasiums(site):
    site.install("old-gym", OLD_GYM | {"gym/envs/registration.py": "registry = {'CartPole-v1': 0}\n"})
    make_environment("gymnasium:CartPole-v1")
    import tiny_old  # noqa: F401, which imports the old gym's registry

    with pytest.raises(MRQError, match="CartPole-v1 is an environment of the old package gym"):
        make_environment("gym:CartPole-v1")


def test_an_environment_of_pettingzoo_has_several_agents(site):
    sources = {
        "pettingzoo/__init__.py": "class AECEnv: ...\nclass ParallelEnv: ...\nclass Wrapper(AECEnv): ...\n",
        "tiny_game.py": (
            "from pettingzoo import ParallelEnv, Wrapper\nclass Both(ParallelEnv): ...\n"
            "def env():\n    return Wrapper()\ndef parallel_env():\n    return Both()\n"
        ),
    }
    site.install("tiny-game", sources)
    for factory in ("env", "parallel_env", "Both"):
        with pytest.raises(MRQError, match="an environment of PettingZoo, which has several agents"):
            make_environment(f"tiny_game:{factory}")


class SeveralRewards(Counting):
    """Returns a reward per objective."""

    def step(self, action):
        observation, reward, *others = super().step(action)
        return observation, [reward, 1.0], *others


def test_a_reward_of_several_objectives_names_the_wrapper_that_sums_them():
    environment = CheckedEnvironment(SeveralRewards())
    environment.reset(0)
    with pytest.raises(MRQError, match=r"a single number: add --wrapper mo_gymnasium\.wrappers:LinearReward"):
        environment.step(np.zeros(1, np.float32))
