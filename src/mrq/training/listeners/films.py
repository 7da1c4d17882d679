"""Films of an agent at some of its evaluations, in the evaluation's first episode."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from mrq.environments.checked import CheckedEnvironment
from mrq.environments.local import LocalEnvironments
from mrq.environments.sources import refuse_repeated
from mrq.errors import MRQError
from mrq.interface import Array, Say
from mrq.training.evaluation import Evaluation, evaluate
from mrq.training.film import Film
from mrq.training.listeners.listener import Listener, Training


class Films(Listener):
    """Films each agent at the first evaluation and at every so many after it.

    Environments that cannot be filmed are named once, and training goes on without films.
    """

    needs_evaluations = True

    def __init__(
        self,
        every: int,  # evaluations
        folders: Sequence[Path],  # one per agent
        make: Callable[[int, bool], CheckedEnvironment],  # from an agent, and whether it has masks; renders pictures
        say: Say,
    ) -> None:
        self._every, self._folders, self._make, self._say = every, folders, make, say
        self._environments: LocalEnvironments | None = None  # one per agent, when they are first needed

    def training_begins(self, training: Training) -> None:
        self._training = training
        self._evaluations = max(map(len, training.returns))

    def evaluation(self, steps: int, evaluations: Mapping[int, Evaluation], seconds: Array) -> None:
        due = self._every and self._evaluations % self._every == 0
        self._evaluations += 1
        if not due:
            return
        try:
            if self._environments is None:
                self._environments = self._made()
            for agent in evaluations:
                self._film(self._environments, steps, agent)
        except (MRQError, OSError) as error:
            self._every = 0
            self._say(f"no films: {error}")

    def training_ends(self, steps: int) -> None:
        if self._environments is not None:
            self._environments.close()

    def _made(self) -> LocalEnvironments:
        identities = self._training.identities
        checked = [self._make(agent, spec.masked) for agent, spec in enumerate(self._training.learner.specs)]
        refuse_repeated([one.environment for one in checked], "films need an environment for each agent")
        return LocalEnvironments(checked, [identity.name for identity in identities])

    def _film(self, environments: LocalEnvironments, steps: int, agent: int) -> None:
        folder = self._folders[agent]
        folder.mkdir(parents=True, exist_ok=True)
        film, filmed = Film(folder / f"step-{steps}.mp4"), environments.environments[agent].environment
        identities = self._training.identities
        try:
            evaluated = evaluate(
                self._training.learner,
                environments,
                identities,
                steps,
                episodes=1,
                active=np.arange(len(identities)) == agent,
                before_step=lambda: film.take([filmed]),
            )
            assert evaluated is not None, "nothing interrupts it"
            for sentence in evaluated[1].values():
                raise MRQError(sentence)
        except BaseException:
            with suppress(MRQError):
                film.close(complete=False)
            raise
        film.close(complete=True)
