"""Files are replaced as a whole, or not at all."""

import os

from mrq.files import written_aside


def test_what_replaces_a_file_is_on_the_disk_before(tmp_path, monkeypatch):
    """Otherwise, a power failure may leave an empty file under the name of the old one."""
    file, flushed, fsync = tmp_path / "file", [], os.fsync
    file.write_bytes(b"old")

    def noted(descriptor):
        fsync(descriptor)
        flushed.append((os.fstat(descriptor).st_size, file.read_bytes()))

    monkeypatch.setattr(os, "fsync", noted)
    with written_aside(file) as new:
        new.write(b"longer")
    assert flushed == [(6, b"old")]
    assert file.read_bytes() == b"longer"
