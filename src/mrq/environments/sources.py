"""What a user may pass as an environment in Python: an id, a recipe, an environment, or a function that makes one."""

from collections.abc import Callable, Sequence
from functools import partial

import gymnasium as gym
from gymnasium.vector import VectorEnv, VectorWrapper

from mrq.bounds import MOST_ENVIRONMENTS, Between
from mrq.environments.foreign import advice_on, foreign
from mrq.environments.making import Made
from mrq.environments.options import EnvironmentOptions
from mrq.environments.recipe import Recipe, options_of, spec_of
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


def maker_of(
    source: Recipe | Made | Callable[[], Made], need: str, in_evaluations: bool = False
) -> Callable[..., Made]:
    """Returns what makes more environments like the source's; `need` says why, for messages.

    It takes further keyword arguments, which a function of the user's is not given.
    """
    if isinstance(source, Recipe):
        return source._replace(in_evaluations=in_evaluations).make
    if not isinstance(source, gym.Env | VectorEnv):
        return lambda **_: made_from(source)
    refusal = MRQError(f"{need}: give MRQ an id, or a function that makes one.")
    if isinstance(source, VectorEnv):
        if source.spec is None or isinstance(source, VectorWrapper):  # a spec does not record wrappers of a VectorEnv
            raise refusal
        return partial(gym.make_vec, source.spec)
    try:
        return partial(gym.make, spec_of(source))
    except ValueError:
        raise refusal from None


def refuse_repeated(made: Sequence[Made], need: str) -> None:
    """Refuses environments of which two are the same object; `need` says why, for messages."""
    if len({id(environment.unwrapped) for environment in made}) < len(made):
        raise MRQError(f"{need}: the function must make a new one at every call.")


def options_from(source: Recipe | Made | Callable[[], Made], made: Sequence[Made], task: str) -> EnvironmentOptions:
    """Returns with what the source's environments can be made again from their task's name, if they are all alike."""
    if isinstance(source, Recipe) and source.task == task:
        return source.options
    found = {
        options_of(one)
        if isinstance(one, gym.Env) and one.spec is not None and one.spec.id == task
        else EnvironmentOptions(given_as_object=True)
        for one in made
    }
    return found.pop() if len(found) == 1 else EnvironmentOptions(given_as_object=True)


def several(source: Recipe | Made | Callable[[], Made], count: int) -> list[Made]:
    """Makes so many environments; a VectorEnv has several already."""
    first = made_from(source)
    if isinstance(first, VectorEnv):
        if count not in (1, first.num_envs):
            raise MRQError(f"envs is {count:,}, but the VectorEnv has {first.num_envs:,} environments; leave it out.")
        return [first]
    Between(1, MOST_ENVIRONMENTS).check(count, "envs")
    if count == 1:
        return [first]
    need = f"envs={count} needs as many environments"
    make = maker_of(source, need)
    made = [first, *(make() for _ in range(count - 1))]
    refuse_repeated(made, need)
    return made


def name_from(source: Recipe | Made | Callable[[], Made], made: Made) -> str:
    """Returns what run folders call the environment, where the user does not say it."""
    if isinstance(source, Recipe):
        return source.task
    return type(made.unwrapped).__name__ if made.spec is None else made.spec.id
