"""Finds the package that an id comes from by reading installed sources, without importing them."""

import re
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, distributions, entry_points
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from mrq.environments.suggestions import question

FEWEST_LETTERS = 4  # of an id that are no placeholder
ENTRY_POINTS = "gymnasium.envs"  # where packages name functions that register their environments
# An id where it is registered: register("Name-v0"), env_id = f"Name{size}-v0" or {"id": "Name-v0"}.
REGISTERED = re.compile(
    r"""(?:\bregister\(\s*|\b(?:\w+_)?id["']?\s*[=:]\s*)f?(["'])([^"'\s]+(?:-v(?:\d+|\{\w*\})|/[^"'\s]+))\1"""
)
PLACEHOLDER = re.compile(r"\{[^{}]*\}")
ID = re.compile(r"(?P<name>.+?)(?P<version>-v(?:\d+|\{\w*\}))?")


class Package(NamedTuple):
    """A well-known package, and what its ids look like."""

    distribution: str
    module: str  # that registers them when it is imported
    ids: str  # a regular expression for their beginning


WELL_KNOWN = (
    Package("minigrid", "minigrid", "MiniGrid-|BabyAI-"),
    Package(
        "gymnasium-robotics",
        "gymnasium_robotics",
        "Fetch|Hand(Reach|Manipulate)|(Ant|Point)Maze|Adroit|FrankaKitchen",
    ),
    Package(
        "highway-env",
        "highway_env",
        "(highway|merge|roundabout|parking|intersection|racetrack|exit|lane-keeping|two-way|u-turn)-",
    ),
    Package("flappy-bird-gymnasium", "flappy_bird_gymnasium", "FlappyBird"),
    Package("minatar", "minatar", "MinAtar/"),
    Package("mo-gymnasium", "mo_gymnasium", "mo-|deep-sea-treasure|resource-gathering|fishwood|minecart|fruit-tree"),
    Package("panda-gym", "panda_gym", "Panda(Reach|Push|Slide|PickAndPlace|Stack|Flip)"),
    Package("miniworld", "miniworld", "MiniWorld-"),
    Package("vizdoom", "vizdoom.gymnasium_wrapper", "Vizdoom"),
    Package("popgym", "popgym", "popgym-"),
    Package("gym-pusht", "gym_pusht", "gym_pusht/"),
    Package("gym-aloha", "gym_aloha", "gym_aloha/"),
    Package("metaworld", "metaworld", "Meta-World/"),
)


def meant_in_packages(name: str) -> str:
    """Says which package an id comes from, also where the user wrote package/id; "" if none is known."""
    for part in dict.fromkeys((name, name.rpartition("/")[2])):
        if sentence := same_name_in_packages(part) or _well_known(part):
            return sentence
    return ""


def same_name_in_packages(name: str) -> str:
    """Returns a question that suggests ids of installed packages with this name, or "" if there are none."""
    found = sorted(set(_meant(name)))
    exact = [task for _, task in found if task.partition(":")[2] == name]
    return question(exact or [task for version, task in found if version == found[-1][0]])


def _well_known(name: str) -> str:
    """Says which well-known package an id comes from and how to get it, or returns ""."""
    for package in WELL_KNOWN:
        if re.match(package.ids, name, re.IGNORECASE):
            task = f"{package.module}:{name}"
            if _spec(package.module) is not None:
                return f"name its package as well: mrq train {task}"
            name = package.distribution
            return f"such ids come with the package {name}: pip install {name}, then mrq train {task}"
    return ""


def distribution_of(module: str) -> str:
    """Returns the distribution of a well-known module, or "" if it is another one."""
    known = _well_known_with(module)
    return known.distribution if known else ""


def register_plugins(module: str) -> None:
    """Calls the functions with which a package that was imported registers its environments, if it names any."""
    top = module.partition(".")[0]
    for entry in entry_points(group=ENTRY_POINTS):
        if entry.module.partition(".")[0] == top and callable(register := entry.load()):
            register()


def _meant(name: str) -> Iterator[tuple[int, str]]:
    """Yields the ids of installed packages that differ from a name only in case or version, after their versions."""
    wanted = ID.fullmatch(name)
    if wanted is None:
        return
    for module, template in _registered():
        known = ID.fullmatch(template)
        assert known is not None
        literals = PLACEHOLDER.split(known["name"])
        if sum(map(len, literals)) < FEWEST_LETTERS:
            continue
        same = re.fullmatch(r"([\w.-]*)".join(map(re.escape, literals)), wanted["name"], re.IGNORECASE)
        if same is None:
            continue
        spelled = "".join(chain.from_iterable(zip(literals, [*same.groups(), ""], strict=True)))
        version = known["version"] or ""
        if "{" in version:
            version = wanted["version"] or ""
        yield int(version[2:] or 0), f"{module}:{spelled}{version}"


def _registered() -> Iterator[tuple[str, str]]:
    """Yields the ids in the sources of installed packages that use Gymnasium, with the modules that register them.

    An id may have {placeholders}, where the source computes a part of it.
    """
    for distribution in distributions():
        try:
            packages = _packages(distribution) if _uses_gymnasium(distribution) else set()
        except Exception:  # it is damaged
            continue
        for package in packages:
            known = _well_known_with(package)
            for source in _sources(package):
                try:
                    text = source.read_text(errors="replace")
                except OSError:
                    continue
                for match in REGISTERED.finditer(text):
                    yield known.module if known else package, match[2]


def _uses_gymnasium(distribution: Distribution) -> bool:
    needed = [re.split(r"[^\w-]", line, maxsplit=1)[0] for line in distribution.requires or [] if "extra" not in line]
    named = any(entry.group == ENTRY_POINTS for entry in distribution.entry_points)
    return named or any("gymnasium" in name.lower() for name in needed)


def _packages(distribution: Distribution) -> set[str]:
    """Returns the names of a distribution's packages that can be imported."""
    declared = (distribution.read_text("top_level.txt") or "").split()
    inferred = {file.parts[0] for file in distribution.files or [] if len(file.parts) > 1 and file.suffix == ".py"}
    return {name for name in declared or inferred if name.isidentifier() and name != "mrq"}


def _sources(package: str) -> Iterator[Path]:
    spec = _spec(package)
    for folder in (spec and spec.submodule_search_locations) or []:
        yield from sorted(Path(folder).rglob("*.py"))


def _spec(module: str) -> ModuleSpec | None:
    """Returns where the package of a module is, without importing it; None if it is not installed."""
    try:
        return find_spec(module.partition(".")[0])
    except (ImportError, ValueError):
        return None


def _well_known_with(module: str) -> Package | None:
    top = module.partition(".")[0]
    return next((package for package in WELL_KNOWN if package.module.partition(".")[0] == top), None)
