"""A small part of the soak, the same at every call."""

import subprocess
import sys

import pytest

from tests.command_line import ENVIRONMENT

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("kinds", "trials"), [(["kills", "disks"], 4), (["damages", "forgeries"], 24), (["inputs"], 16)]
)
def test_nothing_goes_wrong(tmp_path, kinds, trials):
    command = [sys.executable, "-m", "tests.soak", "--seed", "1", "--configuration", "discrete", "--lanes", "1"]
    ended = subprocess.run(
        [*command, "--kinds", *kinds, "--trials", str(trials)],
        env=ENVIRONMENT | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert len([line for line in ended.stdout.splitlines() if line.startswith("all ")]) >= 1
