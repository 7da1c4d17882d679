"""What a user may pass as an environment in Python: an id, a recipe, an environment, or a function that makes one."""

from collections.abc import Callable, Sequence

import gymnasium as gym
from gymnasium.vector import VectorEnv, VectorWrapper

from mrq.environments.foreign import advice_on, foreign
from mrq.environments.making import Made
from mrq.environments.options import EnvironmentOptions
from mrq.environments.recipe import Recipe, options_of
from mrq.errors import MRQError

EnvironmentSource = str | Recipe | Made | Callable[[], Made]


def made_from(source: Recipe | Made | Callable[[], Made]) -> Made:
    """Returns the environment, or makes it."""
    if isinstance(source, gym.Env | VectorEnv):
        return source
    if isinstance(source, Recipe):
        return source.make()
    if advice := advice_on(source):
        raise MRQError(f"MRQ was given {type(source).__name__}, {advice}")
    if not callable(source):
        raise MRQError(
            f"MRQ was given {type(source).__name__}; it takes a Gymnasium id, a gymnasium.Env or VectorEnv, or a "
            "function that makes one."
        )
    made = source()
    if not isinstance(made, gym.Env | VectorEnv):
        raise foreign(made, "the function")
    return made


def maker_of(source: Recipe | Made | Callable[[], Made], need: str, in_evaluations: bool = False) -> Callable[[], Made]:
    """Returns what makes more environments like the source's; `need` says why, for messages."""
    if isinstance(source, Recipe):
        return source._replace(in_evaluations=in_evaluations).make
    if not isinstance(source, gym.Env | VectorEnv):
        return lambda: made_from(source)
    spec = source.spec
    if spec is None or isinstance(source, VectorWrapper):  # a spec does not record wrappers of a VectorEnv
        raise MRQError(f"{need}: give MRQ an id, or a function that makes one.")
    return lambda: gym.make_vec(spec) if isinstance(source, VectorEnv) else gym.make(spec)


def refuse_repeated(made: Sequence[Made], need: str) -> None:
    """Refuses environments of which two are the same object; `need` says why, for messages."""
    if len({id(environment.unwrapped) for environment in made}) < len(made):
        raise MRQError(f"{need}: the function must make a new one at every call.")


def options_from(source: Recipe | Made | Callable[[], Made], made: Made, task: str) -> EnvironmentOptions:
    """Returns with what the environment can be made again from its task's name."""
    if isinstance(source, Recipe) and source.task == task:
        return source.options
    if not isinstance(made, gym.Env) or made.spec is None or made.spec.id != task:
        return EnvironmentOptions(given_as_object=True)
    return options_of(made)


def name_from(source: Recipe | Made | Callable[[], Made], made: Made) -> str:
    """Returns what run folders call the environment, where the user does not say it."""
    if isinstance(source, Recipe):
        return source.task
    return type(made.unwrapped).__name__ if made.spec is None else made.spec.id
