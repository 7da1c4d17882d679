"""What an environment is made with, besides its task: options of the command line that run.json records as they are."""

import json
import shlex
from ast import literal_eval
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import tyro

from mrq.bounds import MOST_STEPS, Between, check_fields, option, shown
from mrq.errors import MRQError, one_line
from mrq.files import read_text
from mrq.interface import LONGEST_HISTORY

LARGEST_FILE = 10_000_000  # bytes
IMAGE_SIZE = 84
SMALLEST_SIDE, LARGEST_SIDE = 32, 512  # of images
LONGEST_TEXT = 1_000  # characters
UNREADABLE = (ValueError, SyntaxError, MemoryError, RecursionError, TypeError)  # what reading a literal or JSON raises
OPENING = ("[", "{", "(", '"', "'")  # of a literal or JSON that is not plain text
MOST_WRAPPERS = 100
MOST_VALUES = 65_536  # of what is seen or chosen one-hot, together


class Wrapper(NamedTuple):
    """A wrapper: where it is, as module:Class, and its arguments after the environment."""

    place: str
    kwargs: dict[str, Any]

    @property
    def text(self) -> str:
        return f"{self.place}:{literal(self.kwargs)}" if self.kwargs else self.place


@dataclass(frozen=True)
class EnvironmentOptions:
    """Keyword arguments, wrappers and limits of an environment."""

    env_kwargs: tuple[str, ...] = ()
    """Keyword arguments of the environment, as NAME=VALUE: a Python literal or JSON, NAME=FILE.json, or else
    text."""
    eval_env_kwargs: tuple[str, ...] = ()
    """Those that are different in evaluations."""
    wrapper: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """Wrapper around the environment: module:Class, or 'module:Class:{"argument": 1}'. Repeat it for several; the first
    one is the innermost."""
    max_episode_steps: Annotated[int | None, Between(1, MOST_STEPS)] = None
    """Truncate episodes after so many steps, instead of the limit with which a Gymnasium id is registered."""
    history: Annotated[int | None, Between(1, LONGEST_HISTORY)] = None
    """Observations that agents see at once; by default 4 where they are grey images, 3 where they are RGB, else 1."""
    action_history: bool = False
    """Agents also see the action that led to each of these observations."""
    image_size: Annotated[int, Between(SMALLEST_SIDE, LARGEST_SIDE)] = IMAGE_SIZE
    """Height and width that images are resized to."""
    text: Annotated[int, Between(0, LONGEST_TEXT)] = 0
    """Characters of a text that agents see, of each text in an observation; 0 leaves texts out."""
    contacts: Literal["paper", "installed"] = "paper"
    """Contacts of the paper's gym tasks: as in the paper's MuJoCo 3.2, or as the installed version computes them."""
    given_as_object: tyro.conf.Suppress[bool] = False
    """The environment was an object, or a function's result, that cannot be made again from these options."""

    def __post_init__(self) -> None:
        check_fields(self, option)
        self.kwargs(in_evaluations=True)
        if len(self.wrapper) > MOST_WRAPPERS:
            raise MRQError(f"there are {len(self.wrapper):,} wrappers; give at most {MOST_WRAPPERS}.")
        for wrapper, text in zip(self.wrappers, self.wrapper, strict=True):
            module, _, name = wrapper.place.partition(":")
            if not (module and name):
                raise MRQError(f"--wrapper is {text!r}; it must be module:Class.")

    def kwargs(self, in_evaluations: bool = False) -> dict[str, Any]:
        """Returns the keyword arguments."""
        return values(self.env_kwargs, "--env-kwargs") | (
            values(self.eval_env_kwargs, "--eval-env-kwargs") if in_evaluations else {}
        )

    def with_files_read(self) -> "EnvironmentOptions":
        """Returns options with the content of NAME=FILE.json in place of the file, which may change later."""
        env_kwargs, eval_env_kwargs = (
            tuple(map(_with_file_read, texts)) for texts in (self.env_kwargs, self.eval_env_kwargs)
        )
        return replace(self, env_kwargs=env_kwargs, eval_env_kwargs=eval_env_kwargs)

    @property
    def view(self) -> dict[str, Any]:
        """What says how the networks see an observation."""
        return {name: getattr(self, name) for name in ("history", "action_history", "image_size", "text")}

    @property
    def made_with(self) -> str:
        """Returns what the environment is made with, as options of the command line, without its view."""
        plain = EnvironmentOptions(**self.view)
        changed = {name: value for name, value in vars(self).items() if value != getattr(plain, name)}
        words = ((name, value if isinstance(value, tuple) else [value]) for name, value in changed.items())
        return " ".join(f"{option(name)} {shlex.join(map(str, given))}" for name, given in words)

    @property
    def wrappers(self) -> list[Wrapper]:
        return [_wrapper(text) for text in self.wrapper]


def values(texts: Iterable[str], name: str) -> dict[str, Any]:
    """Returns keyword arguments that are given as NAME=VALUE."""
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.isidentifier():
            raise MRQError(f"{name} has {text!r}; give NAME=VALUE, such as is_slippery=False.")
        if key in found:
            raise MRQError(f"{name} gives {key} twice; give it once.")
        try:
            found[key] = _value(value)
        except ValueError:
            raise MRQError(
                f"{name} has {shown(text)}, whose value is neither a Python literal nor JSON; close its quotes and "
                f"brackets, or give text in quotes of its own: {key}='\"…\"'."
            ) from None
    return found


def texts(kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns keyword arguments as NAME=VALUE; raises ValueError if one of them is no literal."""
    return tuple(f"{key}={literal(value)}" for key, value in kwargs.items())


def literal(value: Any) -> str:
    """Returns a value as a Python literal; raises ValueError if it has none."""
    text = repr(value)
    try:
        found = literal_eval(text)
    except UNREADABLE:
        found = None
    if repr(found) != text or type(found) is not type(value):
        raise ValueError(f"{text} is not a literal")
    return text


def _with_file_read(text: str) -> str:
    key, _, name = text.partition("=")
    if not name.endswith(".json"):
        return text
    try:
        return f"{key}={literal(json.loads(read_text(Path(name), LARGEST_FILE, follow=True)))}"
    except (OSError, ValueError, RecursionError) as error:
        raise MRQError(f"{name} cannot be read as JSON: {one_line(error)}.") from None


def _value(text: str) -> Any:
    """Returns what a Python literal or JSON stands for; other text is itself.

    Raises ValueError for text that begins with a bracket or a quote, but is neither of them.
    """
    for read in (literal_eval, partial(json.loads, parse_constant=literal_eval)):  # JSON has no NaN and Infinity
        with suppress(*UNREADABLE):
            return read(text)
    if text.lstrip().startswith(OPENING):
        raise ValueError(f"{text} is neither a literal nor JSON")
    return text


def _wrapper(text: str) -> Wrapper:
    module, _, rest = text.partition(":")
    name, _, arguments = rest.partition(":")
    try:
        kwargs = _value(arguments) if arguments else {}
    except ValueError:
        kwargs = None
    if not isinstance(kwargs, dict) or not all(isinstance(key, str) for key in kwargs):
        raise MRQError(f"--wrapper has the arguments {arguments!r}; give a dictionary, such as '{{\"skip\": 4}}'.")
    return Wrapper(f"{module}:{name}", kwargs)
