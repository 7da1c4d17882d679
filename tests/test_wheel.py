"""The wheel, in a new virtual environment that has what it depends on, and nothing else."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from mrq.training.checkpoint import latest_checkpoint, read_counters
from tests.command_line import SMALL

ROOT = Path(__file__).parents[1]
BUILT_FROM = ("LICENSE", "MANIFEST.in", "README.md", "pyproject.toml")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """Returns where packages are installed in a virtual environment that has the wheel, made as `make dist` does."""
    folder = tmp_path_factory.mktemp("wheel")
    tree, built, environment = folder / "tree", folder / "dist", folder / "environment"
    shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    for name in BUILT_FROM:
        shutil.copy(ROOT / name, tree / name)
    _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", built, tree)
    (wheel,) = built.glob("*.whl")
    _run(sys.executable, "-m", "venv", "--without-pip", environment)
    _run(sys.executable, "-m", "pip", "--python", environment, "install", "--no-deps", "--no-index", wheel)
    (site,) = environment.glob("lib/python*/site-packages")
    (metadata,) = site.glob("mrq_rl-*.dist-info")
    for needed in _needed(Distribution.at(metadata)):
        _link(needed, site)
    return site


def _needed(by: Distribution) -> Iterator[Distribution]:
    """Yields the installed distributions that another one requires without extras, and what these require in turn."""
    seen, due = set(), [(by, "")]  # with an extra
    while due:
        one, extra = due.pop()
        for needed in map(Requirement, one.requires or ()):
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                found = distribution(needed.name)
                yield found
                new = {(found.name, each) for each in ("", *needed.extras)} - seen
                due.extend((found, each) for _, each in new)
                seen |= new


def _link(installed: Distribution, site: Path) -> None:
    """Makes an installed distribution available in another environment as well."""
    for top in {file.parts[0] for file in installed.files or ()} - {"..", "__pycache__"}:
        if not (site / top).exists():
            (site / top).symlink_to(installed.locate_file(top))


def _run(*command: object, cwd: Path = ROOT) -> str:
    """Runs a command without this tree's modules; returns what it printed."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"OMP_NUM_THREADS": "1"}
    ended = subprocess.run(list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_every_file_of_the_package_is_installed(site):
    ours, theirs = (
        {path.relative_to(place) for path in place.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
        for place in (ROOT / "src" / "mrq", site / "mrq")
    )
    assert theirs == ours
    data = {"py.typed", "environments/tasks.csv", "report/reference/results.csv", "report/page/page.js"}
    assert {Path(name) for name in data} <= theirs


def test_it_trains_and_reports_with_what_it_depends_on_alone(site, tmp_path):
    programs = site.parents[2] / "bin"
    code = "import mrq, importlib.util as util; print(mrq.__file__, util.find_spec('stable_baselines3'))"
    assert _run(programs / "python", "-c", code, cwd=tmp_path).split() == [str(site / "mrq" / "__init__.py"), "None"]
    _run(programs / "mrq", "train", "Pendulum-v1", *SMALL, "--steps", 210, cwd=tmp_path)
    checkpoint = latest_checkpoint(tmp_path / "runs" / "Pendulum-v1" / "seed-0" / "checkpoints")
    assert read_counters(checkpoint)["learner"]["updates"] == 10, "one per step after 200 random ones"
    _run(programs / "mrq", "report", "runs", "--html", "report.html", cwd=tmp_path)
    assert "Pendulum-v1" in (tmp_path / "report.html").read_text()
