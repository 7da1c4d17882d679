"""python -m tests.third_party"""

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import date
from functools import partial
from pathlib import Path

from tests.third_party.catalogue import Package, Trial, packages
from tests.third_party.installing import FOLDER, NotInstallable, python_with, versions
from tests.third_party.page import write_page
from tests.third_party.trying import Result, tried

BESIDES = ["gymnasium", "numpy"]  # packages whose versions are shown too


def main() -> int:
    """Tries the packages that are asked for, writes the page, and returns 1 if something is not as expected."""
    known = packages()
    parser = argparse.ArgumentParser(prog="python -m tests.third_party")
    parser.add_argument("--packages", nargs="+", choices=[package.name for package in known], help="only these")
    parser.add_argument("--jobs", type=int, default=2, help="environments that are tried side by side")
    asked = parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    wrong = 0
    for package in known:
        if asked.packages is None or package.name in asked.packages:
            wrong += _try(package, asked.jobs)
    write_page([package.name for package in known])
    return min(wrong, 1)


def _try(package: Package, jobs: int) -> int:
    """Tries a package's environments and records the results; returns how many are not as expected."""
    record: dict[str, object] = {"package": package.name, "date": date.today().isoformat()}
    wrong = 0
    try:
        python = python_with(package)
    except NotInstallable as error:
        print(f"{package.name}: not installable: {error}", flush=True)
        record |= {"not_installable": str(error), "trials": len(package.trials)}
        wrong = len(package.trials)
    else:
        with ThreadPoolExecutor(jobs) as pool:
            results = list(pool.map(partial(_result, python), package.trials))
        pairs = zip(results, package.trials, strict=True)
        wrong = sum((result.outcome == "trains") != trial.trains for result, trial in pairs)
        names = dict.fromkeys([package.name, *BESIDES])
        record |= {"versions": versions(python, list(names)), "results": [asdict(result) for result in results]}
    (FOLDER / f"{package.name}.json").write_text(json.dumps(record, indent=1))
    return wrong


def _result(python: Path, trial: Trial) -> Result:
    result = tried(python, trial.environment, trial.arguments)
    print(f"{trial.environment}: {result.outcome} {result.why}", flush=True)
    return result


if __name__ == "__main__":
    sys.exit(main())
