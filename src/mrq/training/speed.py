"""How fast training is on this machine, where a step's time goes, and what bounds it.

The whole is measured as users run it, over whole periods of the algorithm, without evaluations. Then its parts are
measured over one more period: the environments, and each piece of device work, waiting for the device before and after
it. So with overlap they add up to more than the whole.
"""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from datetime import date
from functools import partial

import torch

from mrq.environments.probing import probe
from mrq.markdown import escaped, markdown_table
from mrq.memory import readable
from mrq.processes import cores
from mrq.training.devices import chosen_device, chosen_precision, overlaps
from mrq.training.environments import with_vectors
from mrq.training.loop import step, update
from mrq.training.population import Population
from mrq.training.runs import identities_of, make_population
from mrq.training.settings import Settings
from mrq.version import __version__

RANDOM_STEPS = 1_000  # enough to sample from
PERIODS = 4  # that are measured on a GPU; on a CPU it is one
STEPS_OF_ENVIRONMENTS = 100
STEP, ENVIRONMENTS = "ms per step", "environments"


@dataclass(frozen=True)
class Speed:
    """What was measured of one population."""

    tasks: str
    agents: int
    first_update: float  # seconds from the start to the end of the first update, compiling included
    steps_per_second: float  # of all agents together
    milliseconds: dict[str, float]  # per step of each agent: the whole, the environments, each piece of device work
    bound_by: str
    gpu_memory: int  # bytes, at the most


def measure_speed(tasks: Sequence[str], seeds: Sequence[int], settings: Settings, say: Callable[[str], None]) -> Speed:
    """Measures a population of these tasks and seeds."""
    gc.collect()  # frees the memory of what was measured before
    began = time.perf_counter()
    # Room for a full replay, whose size costs time too, and a short start.
    h = settings.hyperparameters
    settings = replace(settings, steps=settings.steps or h.replay.capacity)
    device = chosen_device(settings.device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    identities = identities_of(tasks, tuple(seeds))
    probes = probe({task: settings.recipe(task) for task in tasks}, settings.environment_timeout)
    settings = with_vectors(settings, probes)
    random_steps = max(RANDOM_STEPS, settings.envs * h.replay.horizon)
    if any(field.name == "random_steps" for field in fields(h)):
        settings = replace(settings, hyperparameters=replace(h, random_steps=random_steps))
    population = make_population(identities, probes, settings, settings.compile != "off", say)
    try:
        while population.steps <= random_steps:
            step(population)
        say("the first update, which compiles" if population.compiled else "the first update")
        update(population, _never)
        _wait(device)
        first_update = time.perf_counter() - began
        # From the middle of a period, where everything is compiled and captured, to the middle of another: the steps
        # after a burst of updates may run beside it.
        period = population.learner.period
        _advance(population, period // 2)
        steps = period * (PERIODS if device.type == "cuda" else 1)
        say(f"{steps:,} steps")
        if device.type == "cuda":
            whole = _seconds(device, partial(_advance, population, steps)) / steps
            with _measured(population):
                _advance(population, period)
        else:  # nothing runs beside anything else
            with _measured(population):
                whole = _seconds(device, partial(_advance, population, steps)) / steps
        parts = {work.name: work.seconds / period for work in population.works}
        parts = {ENVIRONMENTS: _environments(population), **parts}
    finally:
        population.environments.close()
    updates = sum(parts[work.name] for work in population.learner.works)
    return Speed(
        tasks=tasks[0] if len(tasks) == 1 else f"{len(tasks)} tasks",
        agents=len(identities),
        first_update=first_update,
        steps_per_second=len(identities) / whole,
        milliseconds={STEP: 1e3 * whole} | {name: 1e3 * seconds for name, seconds in parts.items()},
        # The updates of a library's algorithm are its own, and are not measured.
        bound_by=_bound(whole, updates, parts[ENVIRONMENTS], population.overlap) if population.learner.works else "-",
        gpu_memory=torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0,
    )


def _advance(population: Population, steps: int) -> None:
    end = population.steps + steps
    while population.steps < end:
        step(population)
        update(population, _never)


@contextmanager
def _measured(population: Population) -> Iterator[None]:
    """Times every piece of device work."""
    for work in population.works:
        work.measure(partial(_wait, population.device))
    yield


def _environments(population: Population) -> float:
    """Returns the seconds per step of the environments alone; training cannot continue after this."""
    environments, actions = population.environments, population.acting.actions()

    def play() -> None:
        for at in range(STEPS_OF_ENVIRONMENTS):
            transitions, _ = environments.step(population.stepping, actions, at)
            over = transitions.terminated | transitions.truncated
            if over.any():
                environments.reset(over, range(len(over)), at)

    return _seconds(population.device, play) / STEPS_OF_ENVIRONMENTS / population.copies


def _seconds(device: torch.device, work: Callable[[], None]) -> float:
    _wait(device)
    began = time.perf_counter()
    work()
    _wait(device)
    return time.perf_counter() - began


def _bound(whole: float, updates: float, environments: float, overlap: bool) -> str:
    """Names one of the two if the other costs less than a fourth of its time beside it, or after it."""
    longer = max(updates, environments)
    if (whole - longer if overlap else min(updates, environments)) < longer / 4:
        return "updates" if updates >= environments else "environments"
    return "updates and environments together"


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def _never() -> bool:
    return False


def table(speeds: Sequence[Speed]) -> list[list[str]]:
    """Returns a row of headings, and one per measurement; the parts are in ms per step."""
    columns = list(dict.fromkeys(name for speed in speeds for name in speed.milliseconds))
    rows = [["task", "agents", "steps/s", *columns, "bound by", "first update", "GPU memory"]]
    for speed in speeds:
        milliseconds = [speed.milliseconds.get(name, 0.0) for name in columns]
        rows.append(
            [
                speed.tasks,
                str(speed.agents),
                f"{speed.steps_per_second:,.4g}",
                *(f"{value:,.3g}" for value in milliseconds),
                speed.bound_by,
                f"{speed.first_update:,.0f} s",
                readable(speed.gpu_memory) if speed.gpu_memory else "-",
            ]
        )
    return rows


def markdown(speeds: Sequence[Speed], settings: Settings) -> str:
    """Returns the table with where and when it was measured."""
    device = chosen_device(settings.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type.upper()
    head = (
        f"{date.today().isoformat()}, {name}, {cores()} cores, PyTorch {torch.__version__}, mrq {__version__}, "
        f"{chosen_precision(settings, device)}, overlap {'on' if overlaps(settings, device) else 'off'}"
    )
    names, *rows = table(speeds)
    return f"{escaped(head)}\n\n{markdown_table(names, rows)}\n"
