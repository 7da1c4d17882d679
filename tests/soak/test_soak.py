"""A small part of the soak, the same at every call."""

import subprocess
import sys

import pytest

from tests.command_line import ENVIRONMENT

# With this seed, the first twenty trials have kills, full disks, damage, forgeries, inputs and environments at fault.
PLAN = ["--seed", "174", "--trials", "20", "--configuration", "discrete", "--lanes", "1"]


@pytest.mark.slow
def test_nothing_goes_wrong(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-m", "tests.soak", *PLAN],
        env=ENVIRONMENT | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    for kind in ("kill", "disk", "damage", "forgery", "input", "environment"):
        assert f"\n{kind}: " in ended.stdout
