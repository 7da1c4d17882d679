"""The trackers that `--track` names."""

from collections.abc import Callable, Sequence
from importlib.util import find_spec

from mrq.errors import MRQError
from mrq.interface import Say
from mrq.training.listeners.listener import Listener
from mrq.training.listeners.mlflow import MLflowRun
from mrq.training.listeners.tensorboard import TensorBoard
from mrq.training.listeners.tracker import Tracker, TrackerRun
from mrq.training.listeners.trackio import TrackioRun
from mrq.training.listeners.wandb import WandBRun, refuse_settings_of_current_folder
from mrq.training.run_folder import RunFolder

BEGIN: dict[str, Callable[[RunFolder, str | None], TrackerRun]] = {
    "wandb": WandBRun,
    "mlflow": MLflowRun,
    "trackio": TrackioRun,
}


def trackers(names: Sequence[str], runs: Sequence[RunFolder], say: Say) -> list[Listener]:
    """Returns the listeners of these names."""
    return [
        TensorBoard(runs) if name == "tensorboard" else Tracker(name, BEGIN[name], runs, say)
        for name in dict.fromkeys(names)
    ]


def refuse_unusable_trackers(names: Sequence[str]) -> None:
    """Refuses trackers that are not installed, before anything is trained."""
    for name in BEGIN.keys() & set(names):
        package = find_spec(name)
        if package is None or package.origin is None:  # such as a folder wandb, where W&B keeps its files
            raise MRQError(f"--track {name} needs a package that is not installed; run: pip install 'mrq-rl[{name}]'")
    if "wandb" in names:
        refuse_settings_of_current_folder()
