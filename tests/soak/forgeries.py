"""Forges what a run folder holds, with digests that are right: nothing impossible may be trained from or played."""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from mrq.training.checkpoint import read_arrays, read_counters, read_tensors, write_checkpoint
from tests.documents import document_of
from tests.soak.commands import Command, Ended
from tests.soak.configurations import CONFIGURATIONS
from tests.soak.outcomes import Outcome, Result, Wrong
from tests.soak.references import PAUSED, copied, reference
from tests.soak.results import difference, latest, result_of, snapshot

PATIENCE = 15.0  # seconds after which a command that goes on is asked to end
IMPOSSIBLE: tuple[Any, ...] = (float("nan"), "x", [], {}, [[1]], 10**400)
NOT_A_COUNT: tuple[Any, ...] = (-1, 10**30, 0.5, None, *IMPOSSIBLE)
COUNTS = (
    "steps",
    "evaluated_at",
    "episodes",
    "cursor",
    "filled",
    "episode_steps",
    "encoder_updates",
    "updates",
    "seed",
)


def trial(rng: Random, place: Path, workspace: Path, configuration: str | None) -> list[Result]:
    """Forges one thing in the latest checkpoint or in run.json, then resumes and evaluates the run."""
    c = CONFIGURATIONS[configuration or rng.choice([name for name, c in CONFIGURATIONS.items() if len(c.seeds) == 1])]
    expected = reference(c, workspace)
    copied(expected.place / PAUSED / "runs", place / "runs")
    (folder,) = c.folders(place)
    kind = rng.choice(["tensor", "array", "counter", "settings"])
    what = _forge_settings(rng, folder) if kind == "settings" else _forge_checkpoint(rng, folder, kind)
    try:
        outcome = _use([str(folder), *c.trusted], str(c.steps), place, folder, result_of(expected.wholes[0]), kind)
    except Wrong as wrong:
        return [Result(f"forgery: {kind}", Outcome.WRONG, f"{c.name}: {kind} {what}\n{wrong}")]
    return [Result(f"forgery: {kind}", outcome)]


def _use(run: list[str], steps: str, place: Path, folder: Path, whole: dict[str, Any], kind: str) -> Outcome:
    before = snapshot(folder)
    played = Command(["evaluate", *run, "--episodes", "1"], place).end_unless_done(PATIENCE)
    _refuse_nonsense(played)
    resumed = Command(["resume", *run, "--steps", steps], place).end_unless_done(PATIENCE)
    _refuse_nonsense(resumed)
    if resumed.status == 0:
        what = difference(result_of(folder), whole)
        if what is not None and kind != "settings":  # with other settings, another result is right
            raise Wrong(f"it was taken for real ({what}): {resumed}")
        return Outcome.EQUAL if what is None else Outcome.ACCEPTED
    if not resumed.refused:
        return Outcome.ACCEPTED
    before["lock"] = "any"
    if before != snapshot(folder) | {"lock": "any"}:
        raise Wrong(f"it was refused, and changed: {resumed}")
    return Outcome.NOTICED


def _refuse_nonsense(ended: Ended) -> None:
    if ended.fault or (ended.status == 1 and not ended.refused):
        raise Wrong(f"{ended.fault or 'no sentence'}: {ended}")


def _forge_checkpoint(rng: Random, folder: Path, kind: str) -> str:
    checkpoint = latest(folder)
    tensors, arrays, counters = dict(read_tensors(checkpoint)), dict(read_arrays(checkpoint)), read_counters(checkpoint)
    if kind == "counter":
        what = _forge_value(rng, [place for place in _places(counters) if "run" not in place[1]])
    else:
        what = _forge_array(rng, tensors if kind == "tensor" else arrays)
    write_checkpoint(folder / "checkpoints", tensors, arrays, counters, previous=checkpoint)
    return what


def _forge_settings(rng: Random, folder: Path) -> str:
    document = document_of(folder)
    kinds = ("settings", "hyperparameters", "seed", "spaces", "compiled", "task", "algorithm")
    what = _forge_value(rng, [place for place in _places(document) if any(kind in place[1] for kind in kinds)])
    (folder / "run.json").write_text(json.dumps(document))
    return what


def _places(values: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[dict[str, Any], tuple[str, ...]]]:
    """Yields where each value of nested dictionaries stands."""
    for name, value in values.items():
        yield values, (*path, name)
        if isinstance(value, dict):
            yield from _places(value, (*path, name))


def _forge_value(rng: Random, places: list[tuple[dict[str, Any], tuple[str, ...]]]) -> str:
    holder, path = rng.choice(places)
    name = path[-1]
    if rng.random() < 0.15:
        del holder[name]
        return f"{path} removed"
    holder[name] = rng.choice(NOT_A_COUNT if name in COUNTS else IMPOSSIBLE)
    return f"{path} = {str(holder[name])[:50]}"


def _forge_array(rng: Random, arrays: dict[str, Any]) -> str:
    name = rng.choice(sorted(arrays))
    array = np.array(arrays[name])
    changes = {
        "missing": lambda: None,
        "flat": lambda: array.reshape(-1)[: max(1, array.size // 2)],
        "deeper": lambda: array[None],
        "empty": lambda: np.zeros(0, array.dtype),
        "wider": lambda: array.astype(np.complex128 if array.dtype.kind == "f" else np.int64),
        "text": lambda: np.full(array.shape, "x"),
        "nan": lambda: np.full(array.shape, np.nan, array.dtype if array.dtype.kind == "f" else np.float32),
        "one infinity": lambda: _with_infinity(rng, array),
    }
    how = rng.choice(sorted(changes))
    value = changes[how]()
    if value is None:
        del arrays[name]
    elif value.dtype.kind in "Uc" and name in arrays and not isinstance(arrays[name], np.memmap):
        arrays[name] = np.zeros((*array.shape, 2), array.dtype)  # the learner's format has neither
    else:
        arrays[name] = value
    return f"{name}: {how}"


def _with_infinity(rng: Random, array: Any) -> Any:
    if array.dtype.kind != "f" or not array.size:
        return np.zeros((*array.shape, 3), array.dtype)
    changed = array.copy()
    changed.reshape(-1)[rng.randrange(array.size)] = np.inf
    return changed
