"""Damages run folders in every way, and then resumes, evaluates and reports them."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.soak.commands import LIMIT, Ended, run
from tests.soak.configurations import CONFIGURATIONS, Configuration
from tests.soak.outcomes import Outcome, Result, Wrong
from tests.soak.references import KILLED, OTHER, PAUSED, Reference, copied, played, reference, reported
from tests.soak.results import content_of, difference, latest, result_of, snapshot, stale_files, step_of

LARGEST = 10_000_000  # bytes; another damage may have made a file huge
NEVER_LOST = ("evaluations.csv", "run.json", "checkpoints/")
Operation = Callable[[Random, Path, Path, Path], object]


def trial(rng: Random, place: Path, workspace: Path, configuration: str | None) -> list[Result]:
    """Damages a copy of a run once or twice; then nothing may go wrong, be lost, or differ without a word."""
    c = CONFIGURATIONS[configuration or rng.choice([name for name, c in CONFIGURATIONS.items() if len(c.seeds) == 1])]
    expected = reference(c, workspace)
    base = rng.choice([PAUSED, KILLED])
    copied(expected.place / base / "runs", place / "runs")
    (folder,) = c.folders(place)
    other = next(copied(expected.place / OTHER, place / "other").rglob("run.json")).parent
    copied(latest(other), place / "outside")
    number = rng.choices([1, 2], [4, 1])[0]
    kinds = [_damage(rng, folder, other, place / "outside", alone=number == 1) for _ in range(number)]
    label = f"damage: {kinds[0][0]}"
    done = f"{c.name}, {base}: {'; '.join(what for _, what in kinds)}"
    try:
        outcomes = _use(c, base, expected, place, folder)
    except Wrong as wrong:
        return [Result(label, Outcome.WRONG, f"{done}\n{wrong}")]
    return [Result(label, Outcome.NOTICED if Outcome.NOTICED in outcomes else Outcome.EQUAL)]


def _use(c: Configuration, base: str, expected: Reference, place: Path, folder: Path) -> list[Outcome]:
    elsewhere, inside = _elsewhere(place, folder), snapshot(folder)
    outcomes = [
        judged_report(run(["report", "runs"], place), reported(expected, base)),
        _judged_play(run(["evaluate", str(folder), "--episodes", "1", *c.trusted], place), expected, base),
    ]
    if snapshot(folder) != inside:
        raise Wrong(f"reading the run changed it: {changes(inside, snapshot(folder))}")
    outcomes.append(_resumed(c, base, expected, place, folder))
    if _elsewhere(place, folder) != elsewhere:
        raise Wrong(f"files outside the run changed: {changes(elsewhere, _elsewhere(place, folder))}")
    return outcomes


def judged_report(ended: Ended, expected: str) -> Outcome:
    """Accepts the same report, or one that says what it leaves out."""
    if ended.fault or (ended.status != 0 and not ended.refused):
        raise Wrong(f"{ended.fault or 'no sentence'}: {ended}")
    if ended.status == 0 and ended.out == expected:
        return Outcome.EQUAL
    if ended.refused or "left out" in ended.out:
        return Outcome.NOTICED
    raise Wrong(f"another report without a word: {ended}\ninstead of\n{expected[-2_000:]}")


def _judged_play(ended: Ended, expected: Reference, base: str) -> Outcome:
    if ended.fault:
        raise Wrong(f"{ended.fault}: {ended}")
    lines = [line for line in ended.out.splitlines() if line.startswith("return ")]
    if not lines:
        if not ended.refused:
            raise Wrong(f"no sentence: {ended}")
        return Outcome.NOTICED
    if lines == [played(expected, base)[0]] and ended.status == 0:
        return Outcome.EQUAL
    if lines[0] in played(expected, base):
        return Outcome.NOTICED
    raise Wrong(f"another evaluation: {ended}\ninstead of {played(expected, base)}")


def _resumed(c: Configuration, base: str, expected: Reference, place: Path, folder: Path) -> Outcome:
    before, had_rows = snapshot(folder), os.path.lexists(folder / "evaluations.csv")
    rows = content_of(folder / "evaluations.csv")
    steps = ["--steps", str(c.steps)] if base == PAUSED else []
    ended = run(["resume", str(folder), *steps, *c.trusted], place, LIMIT)
    if ended.fault or "new episode" in ended.out:
        raise Wrong(f"{ended.fault or 'the episode could not be restored'}: {ended}")
    if ended.status == 0:
        found, whole = result_of(folder), result_of(expected.wholes[0])
        if not had_rows:  # who deletes them does without them
            count = len(found["evaluations"])
            whole = whole | {"evaluations": whole["evaluations"][-count:] if count else []}
        if (what := difference(found, whole)) is not None:
            raise Wrong(f"the result differs: {what}: {ended}")
        if stale := stale_files(folder):
            raise Wrong(f"stale files {stale}: {ended}")
        return Outcome.EQUAL
    if not ended.refused:
        raise Wrong(f"no sentence: {ended}")
    _refuse_losses(before, folder, rows, ended)
    return Outcome.NOTICED


def _refuse_losses(before: dict[str, str], folder: Path, rows: bytes, ended: Ended) -> None:
    """After a refusal, all results must still be there: unchanged, or followed by later ones."""
    after = snapshot(folder)
    if "evaluations.csv" in before:
        now = content_of(folder / "evaluations.csv")
        if _numbers(now)[: len(_numbers(rows))] != _numbers(rows):
            raise Wrong(f"evaluations are lost: {rows!r} became {now!r}: {ended}")
        after["evaluations.csv"] = before["evaluations.csv"]
    if step_of(folder) and not any(name.startswith("checkpoints/") and name not in before for name in after):
        lost = {name for name in before if name.startswith(NEVER_LOST) and before[name] != after.get(name)}
        if lost:
            raise Wrong(f"lost: {sorted(lost)}: {ended}")


def _numbers(rows: bytes) -> list[bytes]:
    """Returns the whole lines of evaluations.csv without their seconds, which differ in an evaluation done again."""
    return [line.rpartition(b",")[0] for line in rows.split(b"\n")[:-1]]


def changes(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Names what differs between two snapshots."""
    return [name for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name)]


def _elsewhere(place: Path, folder: Path) -> dict[str, str]:
    own = f"{folder.relative_to(place)}/"
    return {name: what for name, what in snapshot(place).items() if not f"{name}/".startswith(own)}


def _damage(rng: Random, folder: Path, other: Path, outside: Path, alone: bool) -> tuple[str, str]:
    """Damages a run; returns in which way, and what exactly."""
    if rng.random() < 0.25:
        kind = rng.choice(list(STRUCTURE))
        STRUCTURE[kind](rng, folder, other, outside)
        return f"folder: {kind}", kind
    kind, path = rng.choice(list(CONTENT)), _victim(rng, folder, alone)
    CONTENT[kind](rng, path, _counterpart(path, folder, other), outside)
    return kind, f"{kind}, {path.relative_to(folder)}"


def _victim(rng: Random, folder: Path, alone: bool) -> Path:
    """Chooses a file; those of which there are many, such as arrays, no more often than those of which there is one.

    The evaluations are damaged alone: only the latest checkpoint knows that the last rows were there.
    """
    kinds: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob("*")):
        if os.path.lexists(path) and not (path.is_dir() and not path.is_symlink()):
            parts = path.relative_to(folder).parts
            kinds.setdefault(path.suffix if parts[0] == "checkpoints" else parts[0], []).append(path)
    if not alone:
        kinds.pop("evaluations.csv", None)
    return rng.choice(kinds[rng.choice(sorted(kinds))])


def _counterpart(path: Path, folder: Path, other: Path) -> Path:
    """Returns the same file of another run."""
    name = path.relative_to(folder)
    if name.parts[0] == "checkpoints":
        return latest(other) / path.name
    found = other / name
    return found if found.is_file() else other / "run.json"


# Damage to a file: what there is at a path becomes something else. `theirs` is the same file of another run.


def _bytes(change: Callable[[Random, bytearray], object]) -> Operation:
    def damage(rng: Random, path: Path, theirs: Path, outside: Path) -> None:
        content, regular = bytearray(), path.is_file() and not path.is_symlink()
        if regular:
            with path.open("rb") as file:
                content += file.read(LARGEST)
        change(rng, content)
        if regular:
            path.write_bytes(content)  # in place: other links to the file change with it

    return damage


def _flip(rng: Random, content: bytearray) -> None:
    for _ in range(rng.choice([1, 1, 1, 8]) if content else 0):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)


def _truncate(rng: Random, content: bytearray) -> None:
    del content[rng.choice([0, rng.randrange(len(content) + 1), max(0, len(content) - 1)]) :]


def _extend(rng: Random, content: bytearray) -> None:
    content += rng.choice([bytes(100), rng.randbytes(100), b"\n", b" ", content[-50:]])


def _scramble(rng: Random, content: bytearray) -> None:
    content[:] = rng.choice([rng.randbytes(len(content)), bytes(len(content)), b"\xff" * 100, b"{}", b"[" * 100_000])


def _erase(rng: Random, content: bytearray) -> None:
    start = rng.randrange(len(content) + 1)
    content[start : start + 512] = bytes(len(content[start : start + 512]))


def _repeat(rng: Random, content: bytearray) -> None:
    start = rng.randrange(len(content) + 1)
    content[start:start] = content[start : start + rng.randrange(1, 300)]


def _cut(rng: Random, content: bytearray) -> None:
    start = rng.randrange(len(content) + 1)
    del content[start : start + rng.randrange(1, 300)]


def _replaced(make: Operation) -> Operation:
    def damage(rng: Random, path: Path, theirs: Path, outside: Path) -> None:
        _remove(path)
        make(rng, path, theirs, outside)

    return damage


def _link(rng: Random, path: Path, theirs: Path, outside: Path) -> None:
    targets = [theirs, outside, outside / "nothing", path, Path("/dev/zero"), outside / "learner.safetensors"]
    path.symlink_to(rng.choice(targets))


def _sparse(rng: Random, path: Path, theirs: Path, outside: Path) -> None:
    if path.is_file() and not path.is_symlink():
        os.truncate(path, 10**12)


CONTENT: dict[str, Operation] = {
    "bits flipped": _bytes(_flip),
    "truncated": _bytes(_truncate),
    "extended": _bytes(_extend),
    "scrambled": _bytes(_scramble),
    "erased": _bytes(_erase),
    "repeated": _bytes(_repeat),
    "cut": _bytes(_cut),
    "deleted": _replaced(lambda rng, path, theirs, outside: None),
    "of another run": _replaced(lambda rng, path, theirs, outside: shutil.copyfile(theirs, path)),
    "link": _replaced(_link),
    "pipe": _replaced(lambda rng, path, theirs, outside: os.mkfifo(path)),
    "folder": _replaced(lambda rng, path, theirs, outside: path.mkdir()),
    "huge": _sparse,
}


# Damage to the folder's structure.


def _checkpoints(folder: Path) -> list[Path]:
    named = folder.joinpath("checkpoints").glob("*-step-*")
    return sorted(path for path in named if path.is_dir() and not path.is_symlink())


def _any(rng: Random, folder: Path) -> Path:
    return rng.choice(_checkpoints(folder) or [folder / "checkpoints"])


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _rename(rng: Random, folder: Path, other: Path, outside: Path) -> None:
    path = _any(rng, folder)
    names = ["unfinished", "000099-step-7", "000000-step-9", "x-step-1", "7-step-", "9" * 200 + "-step-1", "old"]
    path.rename(path.with_name(rng.choice(names)))


def _exchange(rng: Random, folder: Path, other: Path, outside: Path) -> None:
    if len(found := _checkpoints(folder)) == 2:
        aside = folder / "aside"
        found[0].rename(aside)
        found[1].rename(found[0])
        aside.rename(found[1])


def _mix(rng: Random, folder: Path, other: Path, outside: Path) -> None:
    if len(found := _checkpoints(folder)) == 2:
        older, newer = rng.sample(found, 2)
        name = rng.choice(sorted(os.listdir(older)))
        _remove(newer / name)
        if (older / name).is_file():
            shutil.copyfile(older / name, newer / name)


def _link_away(rng: Random, folder: Path, other: Path, outside: Path) -> None:
    path = rng.choice([_any(rng, folder), folder / "checkpoints", folder / "tensorboard"])
    _remove(path)
    path.symlink_to(rng.choice([outside, outside.parent, path, outside / "nothing"]))


def _take_theirs(rng: Random, folder: Path, other: Path, outside: Path) -> None:
    path = rng.choice([_any(rng, folder), folder / "checkpoints"])
    _remove(path)
    shutil.copytree(latest(other) if path.name != "checkpoints" else other / "checkpoints", path)


def _put_in_the_way(rng: Random, folder: Path, other: Path, outside: Path) -> None:
    names = ["run.json.unfinished", "evaluations.csv.unfinished", "learning_curve.png.unfinished"]
    path = folder / rng.choice([*names, "checkpoints/unfinished", "checkpoints/unfinished/learner.safetensors"])
    _remove(path)
    path.parent.mkdir(exist_ok=True)
    make = rng.choice(
        [Path.mkdir, os.mkfifo, lambda p: p.symlink_to(outside), lambda p: p.write_text("x"), _file_below]
    )
    make(path)


def _file_below(path: Path) -> None:
    path.mkdir()
    (path / "file").write_text("x")


def _file_instead(rng: Random, folder: Path, other: Path, outside: Path) -> None:
    path = rng.choice([_any(rng, folder), folder / "checkpoints", folder / "tensorboard"])
    _remove(path)
    path.write_text("x")


STRUCTURE: dict[str, Operation] = {
    "checkpoint deleted": lambda rng, folder, other, outside: _remove(_any(rng, folder)),
    "checkpoints deleted": lambda rng, folder, other, outside: _remove(folder / "checkpoints"),
    "checkpoint emptied": lambda rng, folder, other, outside: [_remove(p) for p in list(_any(rng, folder).iterdir())],
    "checkpoint renamed": _rename,
    "checkpoints exchanged": _exchange,
    "checkpoints mixed": _mix,
    "linked": _link_away,
    "of another run": _take_theirs,
    "something in the way": _put_in_the_way,
    "a file instead": _file_instead,
}
