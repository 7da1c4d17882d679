"""Writes docs/environments-tested.md from the recorded results."""

import json
from typing import Any

from mrq.markdown import escaped, markdown_table
from tests.third_party.installing import FOLDER, ROOT

PAGE = ROOT / "docs" / "environments-tested.md"
HEAD = """\
# Environments of other packages

`make test-environments` wrote this page. It installs each package from PyPI into a virtual environment of its own,
beside `mrq` from the tree. Each environment is trained for 70 steps with small networks and ten updates, evaluated,
loaded by `mrq evaluate` and evaluated again, then loaded, asked for an action and saved in Python. Episodes are
truncated after 25 steps. So this page says what runs, not what is learned. How spaces are read, and which are refused,
is explained in [environments.md](environments.md).

To try a package again: `.venv/bin/python -m tests.third_party --packages NAME`. To add a package or an environment:
`tests/third_party/packages.toml`.

Environments are named as after `mrq train`. Numbers are what the networks see of vectors, one-hot options, grids and
texts.

"""


def write_page(names: list[str]) -> None:
    """Writes the page of all packages that have been tried."""
    files = [FOLDER / f"{name}.json" for name in names]
    records = [json.loads(file.read_text()) for file in files if file.exists()]
    sections = [HEAD, _summary(records), *map(_section, records)]
    PAGE.write_text("\n".join(sections))


def _summary(records: list[dict[str, Any]]) -> str:
    rows = [[record["package"], *map(str, _counts(record))] for record in records]
    total = ["all", *(str(sum(column)) for column in zip(*map(_counts, records), strict=True))]
    return markdown_table(["package", "tried", "train", "refused", "failed"], rows, [total]) + "\n"


def _counts(record: dict[str, Any]) -> list[int]:
    outcomes = [result["outcome"] for result in record.get("results", ())]
    return [len(outcomes), *(outcomes.count(outcome) for outcome in ("trains", "refused", "failed"))]


def _section(record: dict[str, Any]) -> str:
    if "not_installable" in record:
        return f"## {record['package']}\n\nNot installable on {record['date']}: {escaped(record['not_installable'])}.\n"
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    rows = [
        [one["environment"], one["observation"], one["action"], ": ".join(filter(None, (one["outcome"], one["why"])))]
        for one in record["results"]
    ]
    table = markdown_table(["environment", "observation", "action", "result"], rows)
    return f"## {record['package']}\n\nTried on {record['date']} with {versions}.\n\n{table}\n"
