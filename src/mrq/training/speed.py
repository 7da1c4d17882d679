"""How fast training is on this machine, where a step's time goes, and what bounds it.

The whole is measured as users run it, over whole target periods, without evaluations. The parts are then measured one
by one, waiting for the device after each, so that with overlap they add up to more than the whole.
"""

import gc
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import count

import torch

from mrq.environments.probing import probe
from mrq.replay.memory import readable
from mrq.training.devices import chosen_device, chosen_precision, overlaps
from mrq.training.population import Population
from mrq.training.runs import agents_of, make_population
from mrq.training.settings import Settings
from mrq.version import __version__

RANDOM_STEPS = 1_000  # enough to sample from
PERIODS = 4  # target periods, on a GPU; a CPU is measured over one
REPEATS = 100
# The parts of a step, and what they are called in a table.
COLUMNS = {"environments": "env", "transfer": "transfer", "encoder": "encoder", "value and policy": "value, policy"}


@dataclass(frozen=True)
class Speed:
    tasks: str
    agents: int
    first_update: float  # seconds from the start to the end of the first update, compiling included
    steps_per_second: float  # of all agents together
    milliseconds: dict[str, float]  # of a step of all agents: the whole, and its parts
    bound_by: str
    gpu_memory: int  # bytes, at the most


def measure_speed(tasks: Sequence[str], seeds: Sequence[int], settings: Settings, say: Callable[[str], None]) -> Speed:
    gc.collect()  # what was measured before, with its memory
    began = time.perf_counter()
    # Room for a full replay, whose size costs time too, and a short start.
    h = replace(settings.hyperparameters, random_steps=RANDOM_STEPS)
    settings = replace(settings, steps=settings.steps or h.replay_capacity, hyperparameters=h)
    agents = agents_of(tasks, tuple(seeds))
    device = chosen_device(settings.device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    population = make_population(
        agents, probe(tasks, settings.environment_timeout), settings, settings.compile != "off", say
    )
    try:
        for _ in range(RANDOM_STEPS + 1):
            population.step()
        say("the first update, which compiles" if population.learner.compiled else "the first update")
        population.update(_never)
        _wait(population)
        first_update = time.perf_counter() - began
        # From the middle of a period, where everything is compiled and captured, to the middle of another: what follows
        # a period's encoder updates may run beside them.
        period = settings.hyperparameters.target_period
        _advance(population, period // 2)
        steps = period * (PERIODS if device.type == "cuda" else 1)
        say(f"{steps:,} steps")
        whole = _seconds(population, lambda: _advance(population, 1), steps)
        parts = _parts(population)
    finally:
        population.environments.close()
    return Speed(
        tasks=tasks[0] if len(tasks) == 1 else f"{len(tasks)} tasks",
        agents=len(agents),
        first_update=first_update,
        steps_per_second=len(agents) / whole,
        milliseconds={"a step": 1e3 * whole} | {name: 1e3 * seconds for name, seconds in parts.items()},
        bound_by=_bound(whole, parts, population.overlap),
        gpu_memory=torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0,
    )


def _advance(population: Population, steps: int) -> None:
    for _ in range(steps):
        population.step()
        population.update(_never)


def _parts(population: Population) -> dict[str, float]:
    """Seconds a step of each part alone."""
    chunk, steps, period = population.learner.chunk, population.steps, population.hyperparameters.target_period
    population._await_actions()
    played = [population.environments.step(population.active, population.actions, steps)]

    def environments() -> None:
        played[0] = population.environments.step(population.active, population.actions, steps)
        over = played[0].terminated | played[0].truncated
        if over.any():
            population.environments.reset(over, range(len(over)), steps)

    def transfer() -> None:
        population.replay.append(played[0])
        population.chosen[:] = False
        population._choose()
        population._await_actions()

    batch = count()  # another one each time: what has nothing to learn any more computes with denormal numbers

    def encoder() -> None:
        if population.hyperparameters.model_based:
            population._encoder.seek(next(batch) % (period // chunk) * chunk)
            population._update_encoder()

    def value_and_policy() -> None:
        population._value.seek(next(batch) % period)
        population._update_value_and_policy()

    repeats = REPEATS if population.device.type == "cuda" else 5
    return {
        "environments": _seconds(population, environments, REPEATS),
        "transfer": _seconds(population, transfer, REPEATS),
        "encoder": _seconds(population, encoder, max(repeats // chunk, 1)) / chunk,
        "value and policy": _seconds(population, value_and_policy, repeats),
    }


def _seconds(population: Population, work: Callable[[], None], repeats: int) -> float:
    work()  # once unmeasured, for what only a first time costs
    _wait(population)
    began = time.perf_counter()
    for _ in range(repeats):
        work()
    _wait(population)
    return (time.perf_counter() - began) / repeats


def _bound(whole: float, parts: dict[str, float], overlap: bool) -> str:
    """One of the two if the other costs less than a fourth of its time beside it, or after it."""
    update, environment = parts["encoder"] + parts["value and policy"], parts["environments"]
    longer = max(update, environment)
    if (whole - longer if overlap else min(update, environment)) < longer / 4:
        return "updates" if update >= environment else "environments"
    return "updates and environments together"


def _wait(population: Population) -> None:
    if population.device.type == "cuda":
        torch.cuda.synchronize(population.device)


def _never() -> bool:
    return False


def table(speeds: Sequence[Speed]) -> list[list[str]]:
    """A row of headings, and one a measurement; the parts are in ms a step."""
    rows = [["task", "agents", "steps/s", "ms a step", *COLUMNS.values(), "bound by", "first update", "GPU memory"]]
    for speed in speeds:
        milliseconds = [speed.milliseconds[name] for name in ("a step", *COLUMNS)]
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
    """The table with where and when it was measured."""
    device = chosen_device(settings.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    cores = len(os.sched_getaffinity(0))
    head = (
        f"{date.today().isoformat()}, {name}, {cores} cores, PyTorch {torch.__version__}, mrq {__version__}, "
        f"{chosen_precision(settings, device)}, overlap {'on' if overlaps(settings, device) else 'off'}"
    )
    rows = table(speeds)
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join([head, "", *(f"| {' | '.join(row)} |" for row in lines)]) + "\n"
