"""Playing episodes with a trained agent, and filming them."""

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import imageio
import numpy as np

from mrq.bounds import MOST_EPISODES, Between
from mrq.environments.making import Made
from mrq.environments.probing import checked_as_it_is, describe_spaces
from mrq.environments.rendering import advice
from mrq.errors import MRQError, one_line
from mrq.files import ASIDE, open_new, remove
from mrq.interface import Array, Say
from mrq.training.building import build_learner
from mrq.training.devices import chosen_device, set_precision
from mrq.training.environments import EVALUATED_AT_ONCE, environments_of, made_by
from mrq.training.evaluation import Evaluation, evaluate
from mrq.training.run_folder import RunFolder

LONGEST_FILM = 1_000  # frames
FORMATS = (".mp4", ".gif")
MOST_FRAMES_PER_SECOND = 1_000


def play(
    folder: Path,
    episodes: int,
    deterministic: bool,
    video: Path | None,
    device: str,
    say: Say = print,
    trust: bool = False,  # code that the folder brings may be run
    environment: str | None = None,  # to play in, instead of the one that the folder names
    beside_untrained: bool = False,  # the video shows the same episodes of the untrained agent too, on the left
) -> Evaluation:
    """Evaluates the latest checkpoint of a run; with `video`, films its first episodes."""
    Between(1, MOST_EPISODES).check(episodes, "--episodes")
    if video is not None and video.suffix not in FORMATS:
        raise MRQError(f"a video is written as {' or '.join(FORMATS)}, which {str(video)!r} does not end with.")
    if beside_untrained and video is None:
        raise MRQError("--beside-untrained is about the video; give --video too.")
    run = RunFolder(folder, environment)
    run.refuse_unknown_algorithm()
    run.refuse_untrusted(trust)
    if run.replaced:
        say(f"playing in {run.environment} instead of the run's own environment: {run.replaced}")
    tensors, counters = run.saved_learner(say)  # now, since a training that continues will replace it
    options: dict[str, Any] = {}
    if video is not None:
        options["render_mode"] = "rgb_array"
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame need not look for a screen
    identities = [run.identity] * (2 if beside_untrained else 1)  # the last one is the trained agent
    # A film shows one episode after the other.
    at_once = len(identities) if video is not None else min(episodes, EVALUATED_AT_ONCE)
    recipe = run.recipe()._replace(in_evaluations=True)
    made = made_by(lambda: recipe.make(**options), at_once)
    if beside_untrained and (len(made) < at_once or not run.settings.algorithm.in_populations):
        raise MRQError(
            f"{run.task} cannot be filmed beside the untrained agent: a process can only have one of its environments, "
            f"or one agent of {run.title}; leave out --beside-untrained."
        )
    first = checked_as_it_is(made[0], recipe)
    with closing(environments_of(run.identity, first, made[1:], recipe.options)) as playing:
        run.check_spaces(describe_spaces(made[0], playing.spec.masked))
        chosen = chosen_device(device)
        dtype = set_precision(run.settings, chosen)
        specs = [playing.spec] * len(identities)
        learner = build_learner(identities, specs, run.settings.hyperparameters, chosen, dtype)
        with run.restoring():
            learner.load_state_of(len(identities) - 1, tensors, counters.get("learner", counters))
        film = None if video is None else Film(video)
        try:
            evaluated = evaluate(
                learner,
                playing,
                identities,
                counters["steps"],
                episodes,
                deterministic,
                before_step=(lambda: None) if film is None else lambda: film.take(made[: len(identities)]),
            )
        except BaseException:
            if film is not None:
                with suppress(MRQError):
                    film.close(complete=False)
            raise
        if film is not None:
            film.close(complete=True)
    assert evaluated is not None, "nothing interrupts it"
    evaluations, failed = evaluated
    if failed:
        raise MRQError(next(iter(failed.values())))
    if beside_untrained:
        say(f"untrained return {evaluations[0]}, on the left of the video")
    return evaluations[-1]


class Film:
    """A video file to which pictures of environments are added. It is written aside, and replaces what was there."""

    def __init__(self, path: Path) -> None:
        self.path, self.frames = path, 0
        self._aside = path.with_name(f".{path.stem}{ASIDE}{path.suffix}")
        self._writer: Any = None
        self._shape: tuple[int, ...] | None = None  # of its pictures

    def take(self, environments: Sequence[Made]) -> None:
        """Adds a picture, of all environments side by side."""
        if self.frames == LONGEST_FILM:
            return
        pictures = [_picture(environment) for environment in environments]
        with self._writing():
            picture = np.concatenate(pictures, axis=1)
            if self._shape not in (None, picture.shape):
                raise ValueError("the environment's pictures differ in size")
            self._shape = picture.shape
            if self._writer is None:
                open_new(self._aside).close()  # finds out whether it may be written before a codec complains at length
                self._writer = imageio.get_writer(self._aside, **self._options(environments[0]))
            self._writer.append_data(picture)
        self.frames += 1

    def close(self, complete: bool) -> None:
        """Finishes the file, or removes what there is of it."""
        with self._writing():
            if self._writer is not None:
                self._writer.close()
            if complete:
                self._aside.replace(self.path)
            else:
                remove(self._aside)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            with suppress(OSError):
                remove(self._aside)
            reason = error.strerror if isinstance(error, OSError) and error.strerror else one_line(error)
            raise MRQError(f"the video {self.path} could not be written: {reason.rstrip('.')}.") from error

    def _options(self, environment: Made) -> dict[str, Any]:
        rate = float(environment.metadata.get("render_fps") or 30)
        if not 0 < rate < MOST_FRAMES_PER_SECOND:
            raise ValueError(f"its environment has {rate:g} frames per second")
        if self.path.suffix == ".mp4":
            return {"fps": rate, "macro_block_size": 2}
        return {"duration": 1000 / rate, "loop": 0}


def _picture(environment: Made) -> Array:
    picture: Any
    try:
        picture = environment.render()
    except (Exception, SystemExit) as error:
        of_mujoco = hasattr(environment.unwrapped, "mujoco_renderer")
        what = advice(error) if of_mujoco else f"{one_line(error)}."
        raise MRQError(f"the environment cannot be filmed: {what}") from error
    is_picture = isinstance(picture, np.ndarray) and picture.dtype == np.uint8 and picture.ndim == 3
    if not is_picture or picture.shape[2] not in (1, 3, 4):
        raise MRQError("the environment cannot be filmed: its render() does not return a picture for rgb_array.")
    even: Array = picture[: picture.shape[0] // 2 * 2, : picture.shape[1] // 2 * 2]  # the MP4 codec needs even sides
    return even
