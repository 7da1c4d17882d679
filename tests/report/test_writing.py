"""Checks how the files of a report are written."""

import os
import resource
import signal

import pytest

from mrq import MRQError
from mrq.report.writing import write


def test_a_full_disk_leaves_the_earlier_report(tmp_path):
    path = tmp_path / "report.html"
    write(path, "earlier")
    limit, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, limit[1]))
    try:
        with pytest.raises(MRQError, match=r"report\.html cannot be written: File too large"):
            write(path, "later" * 1_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_text() == "earlier"
    assert os.listdir(tmp_path) == ["report.html"]


def test_a_device_is_written_to_directly(tmp_path):
    null = tmp_path / "null"
    null.symlink_to(os.devnull)
    write(null, "gone")
    assert null.is_symlink()
