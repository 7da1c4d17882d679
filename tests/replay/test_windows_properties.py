"""The replay equals plain lists of episodes, whatever happens. `Life` is such a list, with the rules written out.

Agents live several lives at once, one in each of their environments.
"""

from dataclasses import dataclass
from itertools import cycle

import numpy as np
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mrq.interface import Array, Image, ReplaySettings, Spec, Transitions
from mrq.padding import within
from mrq.replay.buffer import Replay
from mrq.replay.priorities import BLOCK

CPU = torch.device("cpu")
MINIMUM_PRIORITY = 1.5
SMALLEST_RING = 20
ENDINGS = ("terminated", "truncated", "terminated and truncated", "abandoned")
MORE = st.integers(0, 40) | st.just(BLOCK)  # slots
PLANS = st.lists(st.tuples(st.integers(1, 30), st.sampled_from(ENDINGS)), min_size=1, max_size=8)


@dataclass
class Moment:
    """One observation in a life, and what followed it."""

    number: int  # among all the life's observations
    episode: int
    step: int
    frame: Array
    action: Array | None = None  # None: nothing followed it
    reward: float = 0.0
    terminated: bool = False
    priority: float = 0.0


class Life:
    """All that one agent experienced in one environment, as a list of episodes."""

    def __init__(self, number: int, spec: Spec, settings: ReplaySettings, plan: list[tuple[int, str]]) -> None:
        """`plan` are the episodes' lengths and endings; it repeats."""
        self.number, self.spec, self.settings, self.plan = number, spec, settings, cycle(plan)
        self.episodes: list[list[Moment]] = []
        self.observations = 0
        self.first_held = 0  # the number of the oldest moment that the ring still holds
        self.first_whole = 0  # the number of the oldest one whose stack cannot reach back to an overwritten frame
        self.over = True

    def begin(self) -> Array:
        """Begins the next episode; returns its first frame."""
        self.length, self.ending = next(self.plan)
        self.episodes.append([])
        self.over = False
        return self._see()

    def step(self) -> tuple[Array, float, bool, bool, Array]:
        """Takes a step; returns its transition."""
        now = self.episodes[-1][-1]
        now.action = (now.number % 7 + np.arange(1, self.spec.action_size + 1, dtype=np.float32)) / 16
        now.reward = (-1) ** now.number * (now.number + 0.25 * self.number)
        self.over = now.step + 1 == self.length
        now.terminated = self.over and self.ending.startswith("terminated")
        truncated = self.over and self.ending.endswith("truncated")
        return now.action, now.reward, now.terminated, truncated, self._see()

    def _see(self) -> Array:
        episode = self.episodes[-1]
        frame = np.zeros(self.spec.frame_shape, self.spec.frame_dtype)
        frame.flat[:3] = *divmod(self.observations, 256), self.number + 1
        episode.append(Moment(self.observations, len(self.episodes) - 1, len(episode), frame))
        self.observations += 1
        return frame

    def fit(self, slots: int) -> None:
        """Forgets what a ring of so many slots has overwritten."""
        if self.observations > slots:
            self.first_held = max(self.first_held, self.observations - slots)
            self.first_whole = max(self.first_whole, self.observations - slots + self.spec.history - 1)

    def held(self) -> list[Moment]:
        return [moment for episode in self.episodes for moment in episode if moment.number >= self.first_held]

    def samplable(self, highest: float) -> list[Moment]:
        """Returns the moments whose states may be sampled; new ones get the agent's highest priority so far."""
        moments = [moment for moment in self.held() if self._may_be_sampled(moment)]
        for moment in moments:
            moment.priority = moment.priority or highest
        return moments

    def _may_be_sampled(self, moment: Moment) -> bool:
        following = [m for m in self.episodes[moment.episode][moment.step :] if m.action is not None]
        terminated = bool(following) and following[-1].terminated
        return moment.number >= self.first_whole and (len(following) >= self.settings.horizon or terminated)

    def window(self, moment: Moment, offsets: tuple[int, ...]) -> tuple[Array, Array, Array, Array]:
        """Returns the states, actions, rewards and alive flags of the window that begins with a moment."""
        path, actions, rewards, alive = [moment], [], [], [1.0]
        for _ in range(offsets[-1]):
            now = path[-1]
            if alive[-1]:
                actions.append(now.action)
                rewards.append(now.reward)
                alive.append(0.0 if now.terminated else 1.0)
                path.append(self.episodes[now.episode][now.step + 1])
            else:
                actions.append(np.zeros(self.spec.action_size))
                rewards.append(0.0)
                alive.append(0.0)
                path.append(now)
        states = np.stack([np.concatenate(self.stack(path[offset])) for offset in offsets])
        return states, np.stack(actions), np.array(rewards), np.array(alive)

    def stack(self, moment: Moment) -> list[Array]:
        """Returns the latest frames of an episode, oldest first; its first frame is repeated."""
        episode = self.episodes[moment.episode]
        return [episode[max(moment.step - back, 0)].frame for back in range(self.spec.history - 1, -1, -1)]


def padded(array, shape):
    """Returns an array with zeros after it on every axis."""
    result = np.zeros(shape, array.dtype)
    result[within(array.shape)] = array
    return result


begun = precondition(lambda self: self.agents[0][0].episodes)


class ReplayAgainstLives(RuleBasedStateMachine):
    """Agents live in lockstep; in between they are sampled, get new priorities, more room, and other companions."""

    @initialize(
        copies=st.integers(1, 3),
        plans=st.lists(st.tuples(PLANS, PLANS, PLANS), min_size=1, max_size=3),  # of each agent's lives
        history=st.none() | st.integers(1, 4),  # of images; none: vectors
        horizon=st.integers(1, 6),
        exponent=st.sampled_from([0.0, 0.4]),
        slots=st.integers(SMALLEST_RING, 60),
    )
    def start(self, copies, plans, history, horizon, exponent, slots):
        self.settings, self.copies = ReplaySettings(100, horizon, exponent, MINIMUM_PRIORITY), copies
        self.agents = []  # lives of each
        self.highest = [MINIMUM_PRIORITY**exponent] * len(plans)  # of all priorities of each agent so far
        for agent, own in enumerate(plans):
            vector, image = (
                Spec(numbers=3 + agent, continuous=1 + agent % 2),
                Spec((Image(1, 2, 4),), history=history, choices=(2,)),
            )
            spec = vector if history is None else image
            self.agents.append([Life(3 * agent + n, spec, self.settings, plan) for n, plan in enumerate(own[:copies])])
        self.replay = self._empty_replay(SMALLEST_RING * copies)
        self.replay.make_room(slots * copies)

    @property
    def lives(self):
        return [life for own in self.agents for life in own]

    @rule(steps=st.integers(1, 60))
    def live(self, steps):
        spec = self.replay.spec
        for _ in range(steps):
            over = np.array([life.over for life in self.lives])
            if over.any():
                frames = np.full((len(over), *spec.frame_shape), 99, spec.frame_dtype)  # not to be stored
                for place in np.flatnonzero(over):
                    frames[place] = padded(self.lives[place].begin(), spec.frame_shape)
                self.replay.begin(over, frames)
            actions, rewards, terminated, truncated, frames = zip(*(life.step() for life in self.lives), strict=True)
            self.replay.append(
                Transitions(
                    actions=np.stack([padded(action, (spec.action_size,)) for action in actions]),
                    rewards=np.array(rewards),
                    terminated=np.array(terminated),
                    truncated=np.array(truncated),
                    next_frames=np.stack([padded(frame, spec.frame_shape) for frame in frames]),
                )
            )
            for life in self.lives:
                life.fit(self.replay.ring)

    @begun
    @rule(offsets=st.sets(st.integers(1, 6), min_size=1))
    def sample(self, offsets):
        """Draws every state that may be sampled, by a uniform from the middle of its share of the unit interval."""
        offsets = (0, *sorted({min(offset, self.settings.horizon) for offset in offsets}))
        samplable = self._samplable()
        uniforms = np.full((len(samplable), max(map(len, samplable))), 0.5)
        for row, moments in zip(uniforms, samplable, strict=True):
            shares = np.array([moment.priority for _, _, moment in moments])
            row[: len(moments)] = (shares.cumsum() - shares / 2) / shares.sum()
        windows = self.replay.sample(torch.from_numpy(uniforms), offsets)
        for agent, moments in enumerate(samplable):
            for place, (slot, life, moment) in enumerate(moments):
                window = [tensor[agent, place].numpy() for tensor in windows]
                expected = (np.array(slot), *life.window(moment, offsets))
                for ours, theirs in zip(window, expected, strict=True):
                    np.testing.assert_array_equal(ours, padded(theirs, ours.shape))

    @begun
    @rule(seed=st.integers(0, 1_000), count=st.integers(1, 20))
    def update_priorities(self, seed, count):
        samplable = self._samplable()
        if not all(samplable):
            return
        generator, slots, errors = np.random.default_rng(seed), [], []
        for agent, moments in enumerate(samplable):
            chosen = generator.choice(len(moments), count)  # some more than once
            errors.append(generator.uniform(0, 9, count))
            slots.append([moments[place][0] for place in chosen])
            for place in set(chosen):
                error = max(MINIMUM_PRIORITY, *errors[-1][chosen == place])
                moment = moments[place][2]
                moment.priority = error**self.settings.priority_exponent
                self.highest[agent] = max(self.highest[agent], moment.priority)
        self.replay.update_priorities(torch.tensor(slots), torch.tensor(np.array(errors), dtype=torch.float32))

    @precondition(lambda self: self.lives[0].episodes and not self._wrapped())
    @rule(more=MORE)
    def make_room(self, more):
        assert self.replay.make_room(self.replay.slots + more * self.copies) == (more > 0)

    @begun
    @rule(data=st.data(), more=MORE)
    def regroup(self, data, more):
        """Moves some of the agents, in any order, to another replay."""
        old, places = self.replay, data.draw(st.permutations(range(len(self.agents))))
        places = places[: data.draw(st.integers(1, len(places)))]
        slots = old.slots if self._wrapped() else old.slots + more * self.copies
        self.agents = [self.agents[place] for place in places]
        self.highest = [self.highest[place] for place in places]
        self.replay = self._empty_replay(slots)
        for agent, place in enumerate(places):
            self.replay.load_state_of(agent, *old.state_of(place))

    @invariant()
    def the_replay_holds_what_the_lives_say(self):
        replay = self.replay
        priorities = np.zeros(replay.priorities.values.shape)
        for agent, moments in enumerate(self._samplable()):
            for slot, _, moment in moments:
                priorities[agent, slot] = moment.priority
        np.testing.assert_array_equal(replay.priorities.values > 0, priorities > 0)
        np.testing.assert_allclose(replay.priorities.values, priorities, rtol=1e-6)
        sums = priorities.reshape(len(priorities), -1, BLOCK).sum(-1)
        np.testing.assert_allclose(replay.priorities.sums, sums, rtol=1e-6)
        np.testing.assert_allclose(replay.priorities.highest, self.highest, rtol=1e-6)
        np.testing.assert_array_equal(replay.can_sample(), priorities.any(1))
        moments = [[m for life in own for episode in life.episodes for m in episode] for own in self.agents]
        assert replay.terminated_before.tolist() == [any(m.terminated for m in own) for own in moments]

    @begun
    @invariant()
    def the_current_episodes_are_the_lives_last(self):
        rewards = self.replay.mean_absolute_reward()
        for environment, life in enumerate(self.lives):
            episode = life.episodes[-1]
            state = np.stack(life.stack(episode[-1]))
            agent, copy = divmod(environment, self.copies)
            present = self.replay.present_states(agent)[copy]
            np.testing.assert_array_equal(present, padded(state, present.shape))
            actions = self.replay.episode_actions(environment)
            assert (actions is None) == (episode[0].number < life.first_held)
            if actions is not None:
                own = np.stack([moment.action for moment in episode[:-1]])
                np.testing.assert_array_equal(actions, padded(own, actions.shape))
        for agent, lives in enumerate(self.agents):
            held = [abs(moment.reward) for life in lives for moment in life.held() if moment.action is not None]
            np.testing.assert_allclose(rewards[agent], np.mean(held), rtol=1e-6)

    def _samplable(self):
        """Returns the slots, lives and moments of each agent whose states may be sampled, by slot."""
        agents = []
        for lives, highest in zip(self.agents, self.highest, strict=True):
            own = [(copy, moment) for copy, life in enumerate(lives) for moment in life.samplable(highest)]
            own.sort(key=lambda each: self._slot(*each))
            agents.append([(self._slot(copy, moment), lives[copy], moment) for copy, moment in own])
        return agents

    def _slot(self, copy, moment):
        return moment.number % self.replay.ring * self.copies + copy

    def _wrapped(self):
        return any(life.first_held > 0 for life in self.lives)

    def _empty_replay(self, slots):
        return Replay([own[0].spec for own in self.agents], self.settings, slots, CPU, self.copies)


TestReplayAgainstLives = ReplayAgainstLives.TestCase
TestReplayAgainstLives.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
