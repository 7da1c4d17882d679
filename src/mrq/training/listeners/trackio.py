"""Trackio. Its own environment variables say where runs are recorded: TRACKIO_DIR, TRACKIO_SPACE_ID, and so on."""

import os
import re
import uuid
from contextlib import redirect_stdout
from contextvars import Context
from io import StringIO
from pathlib import Path
from typing import Any

from mrq.training.listeners.tracker import Rows
from mrq.training.run_folder import RunFolder


class TrackioRun:
    """One run there. Its name is what Trackio finds it by."""

    keeps = True  # after half a second

    def __init__(self, folder: RunFolder, known: str | None) -> None:
        import trackio

        self._trackio: Any = trackio
        project = os.environ.get("TRACKIO_PROJECT", "mrq")
        task = re.sub(r"[^A-Za-z0-9.]+", "-", folder.task)[:100].strip("-.")
        self.id = known or f"{task}-seed-{folder.seed}-{uuid.uuid4().hex[:8]}"
        self.place = f"run {self.id} of project {project}"
        with redirect_stdout(StringIO()):
            # Trackio ends the run of its context when another begins there; each agent's has a context of its own.
            self._run: Any = Context().run(
                trackio.init,
                project=project,
                name=self.id,
                group=folder.task,
                config=folder.document(),
                resume="allow",
                embed=False,
            )

    def log(self, rows: Rows) -> None:
        for steps, values in rows.items():
            self._run.log(dict(values), step=steps)

    def film(self, steps: int, path: Path) -> None:
        self._run.log({"film": self._trackio.Video(path, caption=path.name)}, step=steps)

    def checkpoint(self, steps: int, name: str) -> None:
        self._run.log({"checkpoint": name}, step=steps)

    def end(self, complete: bool) -> None:
        with redirect_stdout(StringIO()):
            self._run.finish()
