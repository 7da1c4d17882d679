"""Playing episodes with a trained agent, and filming them."""

import warnings
from pathlib import Path
from typing import Any

import imageio
import numpy as np

from mrq.algorithm.learner import Learner
from mrq.environments.making import Environment
from mrq.environments.workers import Environments
from mrq.errors import MRQError
from mrq.interface import Array
from mrq.randomness import Stream, generator
from mrq.training.checkpoint import read_tensors, step_of
from mrq.training.evaluation import Evaluation, evaluate
from mrq.training.run_folder import RunFolder
from mrq.training.runs import check_spaces, make_environments
from mrq.training.settings import chosen_device

LONGEST_FILM = 1_000  # frames
FORMATS = (".mp4", ".gif")


def play(folder: Path, episodes: int, deterministic: bool, video: Path | None, device: str) -> Evaluation:
    """Evaluates the latest checkpoint of a run; with `video`, films its first episodes."""
    if episodes < 1:
        raise MRQError(f"--episodes is {episodes}; it must be 1 or more.")
    if video is not None and video.suffix not in FORMATS:
        raise MRQError(f"a video is written as {' or '.join(FORMATS)}, which {str(video)!r} does not end with.")
    run = RunFolder(folder)
    options: dict[str, Any] = {} if video is None else {"render_mode": "rgb_array"}
    environments = make_environments(run.task, (run.seed,), **options)
    check_spaces(run, environments.environments[0].environment)
    learner = Learner(
        environments.spec,
        run.settings.hyperparameters,
        [generator(run.seed, Stream.PARAMETERS)],
        chosen_device(device),
    )
    learner.load_state_of(0, read_tensors(run.checkpoint))
    film: list[Array] = []

    def watch(environment: Environment) -> None:
        if len(film) < LONGEST_FILM:
            film.append(_picture(environment))

    step = step_of(run.checkpoint)
    try:
        evaluations = evaluate(
            learner, environments, (run.seed,), step, episodes, deterministic, None if video is None else watch
        )
        if video is not None:
            _write_film(video, film, environments)
    finally:
        environments.close()
    assert evaluations is not None
    return evaluations[0]


def _picture(environment: Environment) -> Array:
    try:
        picture = environment.render()
    except Exception as error:
        what = " ".join(f"{type(error).__name__}: {error}".split())
        raise MRQError(f"the environment cannot be filmed: {what}") from error
    if not isinstance(picture, np.ndarray) or picture.ndim != 3:
        raise MRQError("the environment cannot be filmed: its render() does not return a picture for rgb_array.")
    return picture[: picture.shape[0] // 2 * 2, : picture.shape[1] // 2 * 2]  # the MP4 codec wants even sides


def _write_film(path: Path, film: list[Array], environments: Environments) -> None:
    rate = float(environments.environments[0].environment.metadata.get("render_fps") or 30)
    options: dict[str, Any] = (
        {"fps": rate, "macro_block_size": 2} if path.suffix == ".mp4" else {"duration": 1000 / rate, "loop": 0}
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            imageio.mimwrite(path, list[Any](film), **options)
    except OSError as error:
        raise MRQError(f"the video {path} could not be written: {error}") from error
