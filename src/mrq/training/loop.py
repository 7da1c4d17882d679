"""The training loop: environments -> replay -> learner; evaluations, checkpoints and listeners beside it."""

import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch

from mrq.environments.environments import EnvironmentFault, Environments
from mrq.errors import MRQError
from mrq.training.checkpoint import CheckpointFault
from mrq.training.episodes import Episode
from mrq.training.evaluation import evaluate
from mrq.training.listeners.listener import CallbackFault, Listener, Listeners, Training
from mrq.training.pace import Pace
from mrq.training.population import LossFault, Population
from mrq.training.run_folder import RunFolder
from mrq.training.settings import Settings


def train(
    population: Population,
    evaluation_environments: Environments | None,  # None: no evaluations
    runs: Sequence[RunFolder],  # one per agent, or none at all
    settings: Settings,
    listener: Listeners,
    interrupted: Callable[[], bool],
) -> None:
    """Trains until `settings.total_steps`, or until stopped; either way the runs end with a checkpoint.

    An agent that cannot continue is dropped, with a checkpoint if what it learned is sound; if it is the only one, its
    fault is raised.
    """
    random_steps = population.hyperparameters.random_steps
    pace = Pace(population.steps, population.learner.period)
    last_checkpoint = time.monotonic()
    began = last_checkpoint - population.seconds
    population.on_fault = partial(_leave_behind, population, runs, listener)
    population.active[:] = True  # agents that were dropped may try again,
    population.drop_diverged()  # unless what they learned is lost
    try:
        listener.training_begins(_training(population, runs, settings))
        while population.active.any() and listener.stopped_by is None:
            update(population, interrupted)  # first, since a resumed run may owe some
            population.seconds = time.monotonic() - began
            if evaluation_environments is not None and _evaluation_due(population, settings):
                before = time.monotonic()
                _evaluate(population, evaluation_environments, settings, listener, interrupted)
                pace.leave_out(time.monotonic() - before)
                population.seconds = time.monotonic() - began
            if interrupted() or listener.stopped_by or population.steps >= settings.total_steps:
                break
            if time.monotonic() - last_checkpoint >= 60 * settings.checkpoint_minutes:
                save(population, runs, listener)
                last_checkpoint = time.monotonic()
            if ended := step(population):
                listener.episodes_end(population.steps, ended)
            if random_steps <= population.steps < random_steps + population.copies:
                compiling = "; compiling takes a minute or two" if population.compiled else ""
                listener.message(f"step {population.steps:,}: random steps are over, learning begins{compiling}")
                pace.restart(population.steps)
            pace.mark(population.steps)
            if population.ends_period:
                listener.metrics(population.steps, _metrics(population), pace.steps_per_second)
            listener.step(population.steps, pace.steps_per_second)
        save(population, runs, listener)
        if listener.stopped_by is not None and population.steps < settings.total_steps:
            listener.message(f"stopped at step {population.steps:,}: {listener.stopped_by}")
    except CallbackFault:
        save(population, runs, Listener())  # without the callbacks, which may fail again
        raise
    finally:
        listener.training_ends(population.steps)


def step(population: Population) -> dict[int, list[Episode]]:
    """Takes one step in every environment; returns the episodes that it ended, by agent."""
    _choose(population)
    actions = population.acting.actions()
    transitions, failed = population.episodes.step(population.stepping, actions, population.steps)
    population.drop_failed(failed)
    population.replay.append(transitions)
    population.acting.see(transitions)
    population.learner.observe(transitions)
    population.steps += population.copies
    ended = population.episodes.count(transitions, population.stepping)
    if transitions.began is not None:
        population.learner.begin(transitions.began)
        population.episodes.began(transitions.began)
    if population.overlap:
        # Deviation: an action is chosen before the update that the step before it calls for, rather than after it, so
        # that the environments step while the device updates.
        _choose(population)
    return ended


def _choose(population: Population) -> None:
    """Begins the episodes that are due, and lets the next actions be chosen, unless they are already."""
    if population.acting.has_chosen:
        return
    if population.episodes.over.any():
        frames, failed = population.episodes.begin(population.steps)
        population.drop_failed(failed)
        starting = population.episodes.over.copy()
        population.replay.begin(starting, frames)
        population.acting.history.begin(starting, frames)
        population.learner.begin(starting)
        population.episodes.began(starting)
    population.acting.choose(population.steps)


def update(population: Population, interrupted: Callable[[], bool]) -> None:
    """Does the updates that the steps so far call for, and drops agents that cannot learn."""
    learner, steps = population.learner, population.steps
    if not population.learns:
        return
    if population.begins_period:
        population.drop_without_data()
    learner.update(steps, interrupted)
    # Looking at losses waits for a GPU. NaN stays NaN, so it need not be done at once.
    if population.device.type == "cpu" or population.ends_period:
        population.drop_diverged()


def save(
    population: Population, runs: Sequence[RunFolder], listener: Listener, agents: Sequence[int] | None = None
) -> None:
    """Writes a checkpoint of the given agents, or of all that are still in training.

    One that cannot be written does not keep the others from being written.
    """
    if not runs:
        return
    if agents is None:
        population.drop_diverged()  # an agent with NaN must not keep the others from being saved
        agents = np.flatnonzero(population.active).tolist()
    unwritten = []
    for agent in agents:
        state = population.state_of(agent)
        try:
            runs[agent].save(state)
        except CheckpointFault as fault:
            unwritten.append(fault)
        else:
            listener.checkpoint(population.steps, agent)
    if unwritten:
        raise unwritten[0]


def _leave_behind(
    population: Population, runs: Sequence[RunFolder], listener: Listener, agent: int, fault: MRQError
) -> None:
    """Saves an agent that cannot continue, if what it learned is sound."""
    if not isinstance(fault, LossFault):
        try:
            save(population, runs, listener, [agent])
        except CheckpointFault as unsaved:
            fault = EnvironmentFault(f"{fault} Besides, {unsaved}")
    if len(population.active) == 1:
        raise fault
    listener.agent_fails(agent, fault)
    listener.message(f"{fault} {'The other agents continue.' if population.active.any() else 'It was the last one.'}")


def _training(population: Population, runs: Sequence[RunFolder], settings: Settings) -> Training:
    earlier = [[float(row["return_mean"]) for row in run.evaluations()] for run in runs]
    return Training(
        identities=population.identities,
        steps=population.steps,
        total_steps=settings.total_steps,
        random_steps=population.hyperparameters.random_steps,
        returns=earlier or [[] for _ in population.identities],
        learner=population.learner,
    )


def _evaluation_due(population: Population, settings: Settings) -> bool:
    return settings.evaluates_at(population.steps) and population.evaluated_at != population.steps


def _evaluate(
    population: Population,
    environments: Environments,
    settings: Settings,
    listener: Listener,
    interrupted: Callable[[], bool],
) -> None:
    """Evaluates all agents, unless interrupted: then the resumed run will."""
    evaluated = evaluate(
        population.learner,
        environments,
        population.identities,
        population.steps,
        settings.evaluation_episodes,
        active=population.active,
        interrupted=interrupted,
    )
    if evaluated is None:
        return
    evaluations, failed = evaluated
    population.drop_failed(failed)
    population.evaluated_at = population.steps
    active = {agent: evaluations[agent] for agent in np.flatnonzero(population.active).tolist()}
    listener.evaluation(population.steps, active, population.seconds)


def _metrics(population: Population) -> dict[int, dict[str, float]]:
    """Returns the latest losses and values, by agent and name."""
    metrics = population.learner.metrics
    if not metrics:
        return {}
    values = torch.stack(list(metrics.values())).tolist()  # (metrics, agents)
    active = np.flatnonzero(population.active).tolist()
    return {agent: {name: row[agent] for name, row in zip(metrics, values, strict=True)} for agent in active}
