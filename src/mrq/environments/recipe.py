"""What an environment is made from: run.json records it, so that resuming and playing make the same one again."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from mrq.bounds import shown
from mrq.environments.contacts import EarlierMargins
from mrq.environments.making import Environment, Made, has_paper_contacts, import_module, layers, make, single
from mrq.environments.options import EnvironmentOptions, Wrapper, texts
from mrq.environments.tasks import module_of
from mrq.errors import MRQError, one_line

GYMNASIUM = "gymnasium.wrappers"
# Gymnasium's wrappers that run no other code and write no files, whatever their arguments are.
HARMLESS = {
    *("AtariPreprocessing", "ClipAction", "ClipReward", "DelayObservation", "DtypeObservation", "FilterObservation"),
    *("FlattenObservation", "FrameStackObservation", "GrayscaleObservation", "MaxAndSkipObservation", "RescaleAction"),
    *("RescaleObservation", "ReshapeObservation", "ResizeObservation", "StickyAction", "TimeAwareObservation"),
    "TimeLimit",
}
# They compute running means, which no checkpoint holds, and of which every copy of the environment has its own.
WITH_MEMORY = {"NormalizeObservation", "NormalizeReward"}
# From the innermost one on, the order in which gymnasium.make wraps an environment; all other wrappers come last.
ORDER: dict[type, int] = {PassiveEnvChecker: 0, OrderEnforcing: 1, TimeLimit: 2}
LARGEST_ARGUMENT = 1_000  # of a wrapper; a stack or a skip of more could fill the memory, or never end
PLAIN_TEXT = re.compile(r"[\w +-]*")  # names neither a file nor code


class Recipe(NamedTuple):
    """A task, and the options with which its environment is made."""

    task: str
    options: EnvironmentOptions = EnvironmentOptions()
    in_evaluations: bool = False

    def make(self, **kwargs: Any) -> Made:
        """Makes the environment, or its VectorEnv, with further keyword arguments."""
        options = self.options
        given = options.kwargs(self.in_evaluations) | kwargs
        made = make(self.task, given, options.max_episode_steps, options.contacts == "paper")
        for wrapper in options.wrappers:
            made = _wrapped(made, wrapper)
        return made

    def make_one(self, **kwargs: Any) -> Environment:
        """Makes the environment, with further keyword arguments; refuses a VectorEnv."""
        return single(self.make(**kwargs), self.task)

    @property
    def code(self) -> str:
        """What of it is code, or may lead to code or files, that a stranger chose; "" if nothing is."""
        if module := module_of(self.task):
            return f"the module {module}"
        for wrapper in self.options.wrappers:
            if not _is_of_gymnasium(wrapper, HARMLESS):
                return f"the wrapper {wrapper.place}"
        options = self.options
        arguments = [options.kwargs(), options.kwargs(in_evaluations=True), *(one.kwargs for one in options.wrappers)]
        for text in _values_in(arguments):
            if isinstance(text, bytes) or (isinstance(text, str) and not PLAIN_TEXT.fullmatch(text)):
                return f"the argument {text!r}"
        if any("render_mode" in kwargs for kwargs in arguments):
            return "the argument render_mode, which can open windows"
        for wrapper in options.wrappers:
            for value in [] if wrapper.place.endswith(":TimeLimit") else _values_in(wrapper.kwargs):
                if isinstance(value, int) and value > LARGEST_ARGUMENT:
                    return f"the argument {shown(value)} of {wrapper.place}"
        return ""


def options_of(environment: Environment) -> EnvironmentOptions:
    """Returns the options that make an environment again from its id, or that say that this is not possible."""
    try:
        return _options_of(environment)
    except ValueError:
        return EnvironmentOptions(given_as_object=True)


def spec_of(environment: Environment) -> EnvSpec:
    """Returns a spec from which gymnasium.make builds an environment with the same wrappers in the same order.

    Raises ValueError if there is none: the environment's own spec does not say where its limits of steps are.
    """
    spec = environment.spec
    if spec is None:
        raise ValueError("it was not made from a registered id")
    wrappers = [layer for layer in layers(environment) if isinstance(layer, gym.Wrapper)][::-1]  # innermost first
    order = [ORDER.get(type(wrapper), len(ORDER)) for wrapper in wrappers]
    if order != sorted(order) or order.count(len(ORDER)) != len(spec.additional_wrappers):
        raise ValueError("gymnasium.make puts its wrappers in another order")
    limits = [wrapper._max_episode_steps for wrapper in wrappers if type(wrapper) is TimeLimit]
    return replace(spec, max_episode_steps=min(limits, default=None))


def _options_of(environment: Environment) -> EnvironmentOptions:
    spec = spec_of(environment)
    registered = gym.registry.get(spec.id)
    if registered is None or not isinstance(spec.entry_point, str):
        raise ValueError("it was not made from a registered id")
    if spec.entry_point != registered.entry_point:
        raise ValueError("its id now stands for something else")
    if spec.max_episode_steps is None and registered.max_episode_steps is not None:
        raise ValueError("its limit of steps was removed")
    if spec.additional_wrappers[: len(registered.additional_wrappers)] != registered.additional_wrappers:
        raise ValueError("a wrapper of its id was removed")
    given = spec.additional_wrappers[len(registered.additional_wrappers) :]
    wrappers = [one for one in given if one.name != EarlierMargins.__name__]
    kwargs = {name: value for name, value in spec.kwargs.items() if name != "render_mode"}
    own = registered.kwargs
    changed = {name: value for name, value in kwargs.items() if name not in own or own[name] != value}
    plain = has_paper_contacts(spec.id, kwargs) and len(wrappers) == len(given)
    limit = spec.max_episode_steps
    return EnvironmentOptions(
        env_kwargs=texts(changed),
        wrapper=tuple(_text_of(one) for one in wrappers),
        max_episode_steps=None if limit == registered.max_episode_steps else limit,
        contacts="installed" if plain else "paper",
    )


def _text_of(wrapper: Any) -> str:
    """Returns the option that makes one of a spec's wrappers; raises ValueError if its arguments are not known."""
    if wrapper.kwargs is None or wrapper.name in WITH_MEMORY or wrapper.entry_point.startswith("__main__:"):
        raise ValueError("it cannot be made again")
    return Wrapper(wrapper.entry_point, dict(wrapper.kwargs)).text


def _wrapped(made: Made, wrapper: Wrapper) -> Made:
    if _is_of_gymnasium(wrapper, WITH_MEMORY):
        raise MRQError(
            f"the wrapper {wrapper.place} computes running means, which would differ between training, evaluations and "
            "resumed runs; leave it out: MR.Q needs no normalised observations or rewards."
        )
    module, _, name = wrapper.place.partition(":")
    make = getattr(import_module(module, wrapper.place), name, None)
    if not callable(make):
        raise MRQError(f"the module {module!r} has no wrapper {name!r}; give --wrapper module:Class.")
    try:
        wrapped: Made = make(made, **wrapper.kwargs)
    except Exception as error:
        raise MRQError(f"the wrapper {wrapper.text} could not be made: {one_line(error)}.") from error
    kind = gym.vector.VectorEnv if isinstance(made, gym.vector.VectorEnv) else gym.Env
    if not isinstance(wrapped, kind):
        raise MRQError(
            f"the wrapper {wrapper.text} returned {type(wrapped).__name__}; it must return a gymnasium.{kind.__name__}."
        )
    return wrapped


def _is_of_gymnasium(wrapper: Wrapper, names: set[str]) -> bool:
    module, _, name = wrapper.place.partition(":")
    return name in names and (module == GYMNASIUM or module.startswith(f"{GYMNASIUM}."))


def _values_in(value: Any) -> list[Any]:
    """Returns every text, number or other single value in nested arguments, except for names."""
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, list | tuple | set):
        return [value]
    return [single for part in value for single in _values_in(part)]
