"""Playing episodes with a trained agent, and filming them."""

from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from mrq.bounds import MOST_EPISODES, Between
from mrq.environments.probing import checked_as_it_is, describe_spaces
from mrq.errors import MRQError
from mrq.interface import Say
from mrq.training.building import build_learner
from mrq.training.devices import chosen_device, set_precision
from mrq.training.environments import EVALUATED_AT_ONCE, environments_of, made_by
from mrq.training.evaluation import Evaluation, evaluate
from mrq.training.film import FORMATS, Film, rendered
from mrq.training.run_folder import RunFolder


def play(
    folder: Path,
    episodes: int,
    deterministic: bool,
    video: Path | None,
    device: str,
    say: Say = print,
    trust: bool = False,  # code that the folder brings may be run
    environment: str | None = None,  # to play in, instead of the one that the folder names
    best: bool = False,  # the policy of the best evaluation plays, rather than the latest one
    beside_untrained: bool = False,  # the video shows the same episodes of the untrained agent too, on the left
) -> Evaluation:
    """Evaluates a run's latest or best policy; with `video`, films its first episodes."""
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
    tensors, counters = run.saved_learner(say, best)  # now, since a training that continues will replace it
    options: dict[str, Any] = {}
    if video is not None:
        options = rendered()
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
            learner.load_policy_of(len(identities) - 1, tensors, counters.get("learner", counters))
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
