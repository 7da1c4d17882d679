"""evaluations.csv: a header, and one row per evaluation, in the order of their steps.

A kill may cut the last line short, which is then dropped; all other damage is refused. A checkpoint knows a digest of
the rows before it.
"""

import csv
import hashlib
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from mrq.errors import DAMAGE, MRQError, one_line
from mrq.files import read_text
from mrq.interface import Identity

COLUMNS = ("task", "seed", "step", "return_mean", "return_std", "length_mean", "episodes", "seconds")
LARGEST = 20_000_000  # bytes
Row = dict[str, str]  # by column


def read_rows(path: Path, identity: Identity) -> list[Row]:
    """Reads the rows of a run; there are none if there is no file."""
    try:
        text = read_text(path, LARGEST)
        whole = text[: text.rfind("\n") + 1]  # without a last line that was cut short
        lines = csv.reader(io.StringIO(whole, newline=""), strict=True)
        header = next(lines, None)
        if header != list(COLUMNS) and not (header is None and as_text([]).startswith(text)):
            raise ValueError(f"its first line is not {','.join(COLUMNS)}")
        rows = [_row(cells) for cells in lines]
        _check(rows, identity, path)
    except FileNotFoundError:
        return []
    except DAMAGE as error:
        raise MRQError(
            f"{path} cannot be read ({one_line(error)}); restore it from a copy, or remove it to resume the run "
            "without its earlier evaluations."
        ) from None
    return rows


def as_text(rows: Sequence[Mapping[str, str]]) -> str:
    """Returns the header and these rows as they stand in the file."""
    file = io.StringIO()
    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def summary(rows: Sequence[Mapping[str, str]]) -> dict[str, int | str]:
    """Returns what a checkpoint keeps of the rows before it: how many, and their digest."""
    return {"rows": len(rows), "digest": hashlib.sha256(as_text(rows).encode()).hexdigest()}


def _row(cells: list[str]) -> Row:
    if len(cells) != len(COLUMNS):
        raise ValueError(f"a row has {len(cells)} cells, and not {len(COLUMNS)}")
    return dict(zip(COLUMNS, cells, strict=True))


def _check(rows: Sequence[Row], identity: Identity, path: Path) -> None:
    """Refuses rows of another run, without numbers, or whose steps do not ascend."""
    last = -1
    for row in rows:
        step = int(row["step"])
        if (row["task"], row["seed"]) != (identity.task, str(identity.seed)):
            raise ValueError(f"rows of {path.name} are of another run than run.json")
        if step <= last:
            raise ValueError(f"the row of step {step} stands in the wrong place")
        for column in COLUMNS[3:]:
            float(row[column])
        last = step
