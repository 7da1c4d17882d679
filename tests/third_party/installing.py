"""Virtual environments: one with mrq, and one per package, which sees the first and may replace its versions."""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

from tests.third_party.catalogue import Package

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".environments"
# What a package may not replace: mrq needs this Gymnasium, and every PyTorch takes gigabytes.
KEPT = "gymnasium>=1.1,<2\ntorch=={torch}\n"
INSTALLING_SECONDS = 1_800


class NotInstallable(Exception):
    """A package cannot be installed here; the message says why."""


@cache
def python_with_mrq() -> Path:
    """Returns a Python that has mrq from this tree, in its tested versions."""
    python = _created("mrq")
    _pip(python, "--constraint", str(ROOT / "constraints.txt"), "--editable", f"{ROOT}[mujoco,dmc,atari]")
    return python


def python_with(package: Package) -> Path:
    """Returns a Python that has mrq and a package."""
    shared = _site_packages(python_with_mrq())
    python = _created(package.name)
    (_site_packages(python) / "shared.pth").write_text(f"import site; site.addsitedir({str(shared)!r})\n")
    kept = FOLDER / package.name / "kept.txt"
    kept.write_text(KEPT.format(torch=_version(python, "torch")))
    if package.requirements:
        _pip(python, "--constraint", str(kept), *package.requirements)
    if package.without_dependencies:
        _pip(python, "--no-deps", *package.without_dependencies)
    return python


def versions(python: Path, names: list[str]) -> dict[str, str]:
    """Returns the installed versions of packages."""
    return {name: _version(python, name) for name in names}


def _created(name: str) -> Path:
    folder = FOLDER / name
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    return python


def _pip(python: Path, *arguments: str) -> None:
    """Runs pip install, unless it has run with the same arguments: it takes long to find that nothing is missing."""
    record = python.parents[1] / "installed.txt"
    line = f"{' '.join(arguments)}\n"
    if record.exists() and line in record.read_text():
        return
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALLING_SECONDS)
    except subprocess.TimeoutExpired:
        raise NotInstallable(f"pip took more than {INSTALLING_SECONDS:,} seconds") from None
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines()]
        errors = [line.removeprefix("ERROR: ") for line in lines if re.match(r"(\w*Error|ERROR): ", line)]
        raise NotInstallable(next(iter(errors), "pip failed"))
    with record.open("a") as file:
        file.write(line)


def _site_packages(python: Path) -> Path:
    return Path(_printed(python, "import sysconfig; print(sysconfig.get_path('purelib'))"))


def _version(python: Path, name: str) -> str:
    return _printed(python, f"import importlib.metadata as metadata; print(metadata.version({name!r}))")


def _printed(python: Path, code: str) -> str:
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
