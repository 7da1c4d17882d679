"""Makes an environment from the task that a user typed: a suite's, a Gymnasium id, or module:factory."""

import importlib
import os
import re
import reprlib
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium.wrappers import TimeLimit

from mrq.bounds import MOST_ENVIRONMENTS, Between
from mrq.environments import atari, dmc
from mrq.environments.advice import missing_package, not_in_module, unknown
from mrq.environments.contacts import EarlierMargins
from mrq.environments.foreign import OLD_GYM, foreign
from mrq.environments.packages import distribution_of, register_plugins
from mrq.environments.rendering import chosen_renderer, import_mujoco
from mrq.environments.tasks import names_in
from mrq.errors import MRQError, one_line
from mrq.printable import condensed
from mrq.processes import SAFE_PATH, environment_variables

Environment = gym.Env[Any, Any]
Vector = gym.vector.VectorEnv[Any, Any, Any]
Made = Environment | Vector
OF_VECTORS = {"num_envs", "vectorization_mode", "vector_kwargs"}  # arguments of gymnasium.make_vec
MAKING_SECONDS = 300.0  # more than a step may take, because packages are imported and levels built
# The names of a suite's tasks, and what makes one of them.
SUITES: dict[str, tuple[Callable[[], list[str]], Callable[..., Environment]]] = {
    "dmc": (dmc.task_names, dmc.ControlTask),
    "dmc-visual": (dmc.task_names, partial(dmc.ControlTask, visual=True)),
    "atari": (atari.task_names, atari.AtariGame),
}


class _Unknown(Exception):
    """No environment has the name of the task."""


def make_environment(task: str, **kwargs: Any) -> Environment:
    """Makes the environment of a task.

    A task begins with its suite (dmc/, dmc-visual/, atari/ or gym/); gym/ may be omitted. Keyword arguments are passed
    to gymnasium.make or to the factory.
    """
    return single(make(task, kwargs), task)


def single(made: Made, task: str) -> Environment:
    """Returns one environment; refuses a VectorEnv."""
    if isinstance(made, gym.vector.VectorEnv):
        raise MRQError(f"{task!r} makes {made.num_envs} environments at once, a VectorEnv; name one that makes one.")
    return made


def layers(environment: Environment) -> Iterator[Environment]:
    """Yields an environment's wrappers from the outermost one on, then what they wrap."""
    yield environment
    while isinstance(environment, gym.Wrapper):
        environment = environment.env
        yield environment


def make(
    task: str,
    kwargs: dict[str, Any],
    max_episode_steps: int | None = None,  # instead of the limit with which an id is registered
    paper_contacts: bool = True,  # of the paper's gym tasks
) -> Made:
    """Makes the environment of a task, or its VectorEnv, without further wrappers."""
    with warnings.catch_warnings():
        # The paper's tasks are -v4. Gymnasium would warn at every start that there are newer versions.
        warnings.filterwarnings("ignore", message=".*is out of date.*")
        try:
            environment = _make(task, kwargs, max_episode_steps, paper_contacts)
        except (MRQError, KeyboardInterrupt):
            raise
        except _Unknown:
            raise MRQError(f"there is no environment {task!r}; {unknown(task, _names_beside(task))}") from None
        except (ImportError, gym.error.DependencyNotInstalled) as error:
            raise MRQError(missing_package(task, error)) from error
        except BaseException as error:
            given = ", ".join(f"{name}={reprlib.repr(value)}" for name, value in kwargs.items())
            made_with = f"{task!r} with {given}" if given else repr(task)
            raise MRQError(f"the environment {made_with} could not be made: {_cause(error)}.") from error
    if not isinstance(environment, gym.Env | gym.vector.VectorEnv):
        raise foreign(environment, repr(task))
    return environment


def _make(task: str, kwargs: dict[str, Any], max_episode_steps: int | None, paper_contacts: bool) -> Made:
    suite, _, name = task.partition("/")
    if suite in SUITES:
        names, maker = SUITES[suite]
        if name not in names():
            raise _Unknown
        return _limited(maker(name, **kwargs), max_episode_steps)
    task = task.removeprefix("gym/")
    module_name, colon, name = task.partition(":")
    if colon:
        module = import_module(module_name, task)
        factory = getattr(module, name, None)
        if factory is not None:
            return _limited(_call(factory, kwargs, task), max_episode_steps)
        if name not in gym.registry:
            register_plugins(module.__name__)
        if name not in gym.registry or module.__name__ == OLD_GYM:
            raise MRQError(not_in_module(module.__name__, name))
        task = name
    if re.fullmatch(r"([\w:.-]+/)?[\w:.-]+", task) is None:
        raise _Unknown
    if task.startswith("ALE/"):
        gym.register_envs(importlib.import_module("ale_py"))
    if task not in gym.registry:  # also a name without a version, for which Gymnasium would take the latest
        raise _Unknown
    entry_point = str(gym.registry[task].entry_point)
    on_mujoco = "mujoco" in entry_point
    with environment_variables({SAFE_PATH: "1"} if on_mujoco else {}):  # GLFW starts Python when it is imported
        if on_mujoco:
            import_mujoco()
            if "render_mode" in kwargs:
                os.environ["MUJOCO_GL"] = chosen_renderer()  # which Gymnasium reads when it renders
        wrappers = [EarlierMargins] if paper_contacts and has_paper_contacts(task, kwargs) else []
        if kwargs.keys() & OF_VECTORS:
            return _make_vector(task, kwargs, max_episode_steps, wrappers)
        environment = gym.make(task, max_episode_steps, True, **kwargs)
    for wrapper in wrappers:
        environment = wrapper(environment)
    return environment


def _make_vector(
    task: str, kwargs: dict[str, Any], max_episode_steps: int | None, wrappers: Sequence[Callable[[Environment], Any]]
) -> Vector:
    """Makes the VectorEnv of an id, by gymnasium.make_vec."""
    if kwargs.get("vectorization_mode") == "async":
        raise MRQError("vectorization_mode=async starts processes of its own; give --envs N, which does that too.")
    if type(count := kwargs.get("num_envs", 1)) is not int:
        raise MRQError(f"num_envs is {count!r}; it must be a whole number.")
    Between(1, MOST_ENVIRONMENTS).check(count, "num_envs")
    more: dict[str, Any] = {} if max_episode_steps is None else {"max_episode_steps": max_episode_steps}
    of_its_own = gym.registry[task].vector_entry_point is not None
    if kwargs.get("vectorization_mode", "vector_entry_point" if of_its_own else "sync") != "vector_entry_point":
        more |= {"disable_env_checker": True, "wrappers": wrappers}
    return gym.make_vec(task, **more, **kwargs)


def has_paper_contacts(name: str, kwargs: Mapping[str, Any]) -> bool:
    """Says whether an id is one of the paper's gym tasks, whose contacts are those of an earlier MuJoCo."""
    in_paper = f"gym/{name}" in names_in("gym") and str(gym.registry[name].entry_point).startswith("gymnasium.")
    return in_paper and "xml_file" not in kwargs


def _limited(made: Made, max_episode_steps: int | None) -> Made:
    if max_episode_steps is None:
        return made
    if isinstance(made, gym.vector.VectorEnv):
        raise MRQError("--max-episode-steps cannot limit the episodes of a VectorEnv; limit them where it is made.")
    return TimeLimit(made, max_episode_steps) if isinstance(made, gym.Env) else made


def import_module(module_name: str, task: str) -> Any:
    """Imports a module, also from the current folder, where users keep their own environments.

    If it is found there, the folder stays on the path, because such a module may import its neighbours later. A
    package may be given by the name with dashes that pip installs it by.
    """
    if not re.fullmatch(r"[\w-]+(\.[\w-]+)*", module_name):
        raise MRQError(
            f"{task!r} begins with {module_name!r}, which is not the name of a module; give module:name, such as "
            "my_module:make, in the folder that holds my_module.py."
        )
    here = os.getcwd()
    if PathFinder.find_spec(module_name.partition(".")[0], [here, *sys.path]) is None:
        module_name = module_name.replace("-", "_")
    top = module_name.partition(".")[0]
    if top not in sys.modules and here not in sys.path and PathFinder.find_spec(top, [here]) is not None:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise
        distribution = distribution_of(module_name)
        advice = f"; run: pip install {distribution}" if distribution else "."
        raise MRQError(
            f"{task!r} needs the module {module_name!r}, which is neither in the current folder nor installed{advice}"
        ) from None


def _call(factory: Callable[..., Made], kwargs: dict[str, Any], task: str) -> Made:
    if not callable(factory):
        raise MRQError(f"{task!r} is not a function or class; it must be one that makes an environment.")
    return factory(**kwargs)


def _cause(error: BaseException) -> str:
    """Returns an error's message; that of a bare assertion is the assertion itself."""
    text = one_line(error)
    if ":" in text or error.__traceback__ is None:
        return text
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{text} ({Path(place.filename).name}, line {place.lineno}: {condensed(place.line or '')})"


def _names_beside(task: str) -> list[str]:
    """Returns the tasks of a task's suite, or none for a task of Gymnasium."""
    suite = task.partition("/")[0]
    return [f"{suite}/{name}" for name in SUITES[suite][0]()] if suite in SUITES else []
