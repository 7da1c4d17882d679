"""Weights & Biases. Its own environment variables say who uploads what where: WANDB_API_KEY, WANDB_MODE, and so on."""

import os
from pathlib import Path
from typing import Any

from mrq.errors import MRQError
from mrq.training.listeners.tracker import Rows
from mrq.training.run_folder import RunFolder

SECONDS_TO_UPLOAD = 60  # at the end; what is left then stays on the disk, for `wandb sync`


class WandBRun:
    """One run there."""

    def __init__(self, folder: RunFolder, known: str | None) -> None:
        import wandb

        settings = wandb.Settings(
            console="off", silent=True, finish_timeout=SECONDS_TO_UPLOAD, finish_timeout_raises=True
        )
        self._wandb: Any = wandb
        self._run: Any = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "mrq"),
            id=known,
            resume="allow",
            name=folder.identity.name[:128],
            group=folder.task[:128],
            reinit="create_new",  # one per agent, side by side
            settings=settings,
        )
        self._run.config.update(folder.document(), allow_val_change=True)
        # Not W&B's own step, which only grows: an evaluation that was interrupted comes after values of later steps.
        self._run.define_metric("*", step_metric="step")
        self.id = str(self._run.id)
        self.keeps = not self._run.offline  # offline, it writes large blocks, or at its end
        self.place = str(self._run.settings.sync_dir if self._run.offline else self._run.url)

    def log(self, rows: Rows) -> None:
        for steps, values in rows.items():
            self._run.log({"step": steps, **values})

    def film(self, steps: int, path: Path) -> None:
        self._run.log({"step": steps, "film": self._wandb.Video(str(path), caption=path.name)})

    def checkpoint(self, steps: int, name: str) -> None:
        self._run.summary["checkpoint"] = name

    def end(self, complete: bool) -> None:
        self._run.finish(exit_code=0 if complete else 1)


def refuse_settings_of_current_folder() -> None:
    """Refuses the settings that W&B would read from the current folder, which could name a server of a stranger's."""
    for name in ("wandb", ".wandb"):
        if os.path.lexists(Path(name, "settings")):
            raise MRQError(
                f"W&B would take settings, such as its server, from {name}/settings in the current folder; start in "
                "another folder, or move them to ~/.config/wandb/settings or environment variables."
            )
