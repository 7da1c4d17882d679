"""The run matrix: which runs there are, which are finished, and which train together."""

from dataclasses import replace

import pytest

from mrq import MRQError
from mrq.algorithms.registry import algorithm_named, default_algorithm
from mrq.benchmark.bench import chosen_tasks
from mrq.benchmark.cost import overview
from mrq.benchmark.matrix import LARGEST_FLEET, RunState, fleets, jobs, state_of
from mrq.environments.options import EnvironmentOptions
from mrq.training.run_creation import create_run_folder
from mrq.training.settings import Settings

DEFAULT = default_algorithm()
PPO, TD3, DQN = (algorithm_named(name) for name in ("ppo", "td3", "dqn"))


def test_the_paper_has_1180_runs_and_its_study_5_seeds_of_13(tmp_path):
    whole = jobs(chosen_tasks("all", ()), [DEFAULT], [], range(10), Settings(), tmp_path)
    assert len({job.path for job in whole}) == 1180
    study = jobs(chosen_tasks("atari", ()), [DEFAULT], ["no-lap"], range(5), Settings(), tmp_path)
    assert {job.settings.total_steps for job in study if job.label == "MR.Q"} == {2_500_000}
    assert {job.settings.total_steps for job in study if job.label == "no-lap"} == {1_000_000}
    assert {job.settings.hyperparameters.prioritised for job in study if job.label == "no-lap"} == {False}
    assert study[-1].path == tmp_path / "no-lap" / "atari" / "Zaxxon" / "seed-4"
    assert study[-1].name == "atari/Zaxxon (seed 4), no-lap"
    rows = overview({job: state_of(job)[:2] for job in whole}, "cuda")
    assert rows[1][:4] == ["gym", "MR.Q", "50", "50"]
    assert rows[1][-1] == "3.9"  # hours: 50M steps at 3,600 a second


def test_tasks_are_named_with_their_suite_or_without():
    assert chosen_tasks("dmc", ("cheetah-run", "dmc/walker-run")) == ["dmc/cheetah-run", "dmc/walker-run"]
    assert chosen_tasks("all", ("cheetah-run",)) == ["dmc/cheetah-run", "dmc-visual/cheetah-run"]
    with pytest.raises(MRQError, match="the paper has no task 'cheetah-run' in gym"):
        chosen_tasks("gym", ("cheetah-run",))
    with pytest.raises(MRQError, match=r"no task 'walker_walk' in dmc; did you mean dmc/walker-walk\?"):
        chosen_tasks("dmc", ("walker_walk",))


def test_other_algorithms_have_folders_of_their_own_and_baselines_train_alone(tmp_path):
    made = jobs(["gym/Hopper-v4"], [DEFAULT, PPO], [], range(2), Settings(), tmp_path)
    assert [job.path for job in made[2:]] == [tmp_path / "PPO" / "gym" / "Hopper-v4" / f"seed-{n}" for n in (0, 1)]
    assert sorted(map(len, fleets(made, 10**12))) == [1, 1, 2]
    rows = overview({job: state_of(job)[:2] for job in made}, "cuda")
    assert rows[2] == ["gym", "PPO", "2", "2", "0", "0", "0", "unknown"]
    assert rows[3] == ["all", "", "4", "4", "0", "0", "0", "0.2 and more"]  # MR.Q's two million steps
    baseline_alone = overview({job: state_of(job)[:2] for job in made[2:]}, "cuda")
    assert [row[-1] for row in baseline_alone[1:]] == ["unknown", "unknown"]
    finished = overview(dict.fromkeys(made, (RunState.FINISHED, 1000000)), "cuda")
    assert [row[-1] for row in finished[1:]] == ["0.0", "0.0", "0.0"]
    with pytest.raises(MRQError, match="TD3 cannot learn atari/Pong, whose actions are discrete"):
        jobs(["atari/Pong"], [TD3], [], [0], Settings(), tmp_path)
    both = jobs(["gym/Hopper-v4", "atari/Pong"], [TD3, DQN, PPO], [], [0], Settings(), tmp_path)
    assert [(job.label, job.identity.task) for job in both] == [
        ("TD3", "gym/Hopper-v4"),
        ("DQN", "atari/Pong"),
        ("PPO", "gym/Hopper-v4"),
        ("PPO", "atari/Pong"),
    ]


def test_a_preset_has_folders_of_its_own_and_no_variants(tmp_path):
    settings = Settings(hyperparameters=DEFAULT.preset("small"))
    made = jobs(["gym/Hopper-v4"], [DEFAULT, PPO], [], [0], settings, tmp_path)
    assert [job.label for job in made] == ["MR.Q small", "PPO"]
    assert made[0].path == tmp_path / "MR.Q-small" / "gym" / "Hopper-v4" / "seed-0"
    assert made[0].name == "gym/Hopper-v4 (seed 0), MR.Q small"
    assert made[0].settings.hyperparameters == DEFAULT.preset("small")
    rows = overview({job: state_of(job)[:2] for job in made}, "cpu")
    assert [row[-1] for row in rows[1:]] == ["unknown", "unknown", "unknown"]  # its speed was not measured
    with pytest.raises(MRQError, match="give either --variants or --preset"):
        jobs(["gym/Hopper-v4"], [DEFAULT], ["no-lap"], [0], settings, tmp_path)


def test_an_algorithm_of_images_is_left_out_of_vectors_and_has_variants_and_hyperparameters_of_its_own(tmp_path, small):
    settings, drqv2 = Settings(hyperparameters=small), algorithm_named("drqv2")
    tasks = chosen_tasks("all", ["walker-walk", "Hopper-v4", "Pong"])
    made = jobs(tasks, [drqv2, DEFAULT], ["no-lap"], [0], settings, tmp_path)
    assert [(job.label, job.identity.task) for job in made] == [
        ("DrQ-v2", "dmc-visual/walker-walk"),
        *((label, task) for label in ("MR.Q", "no-lap") for task in tasks),
    ]
    assert made[0].path == tmp_path / "DrQ-v2" / "dmc-visual" / "walker-walk" / "seed-0"
    assert made[0].settings == Settings(500_000, 5_000, hyperparameters=drqv2.hyperparameters())
    assert {job.settings.hyperparameters for job in made[1:]} == {small, replace(small, prioritised=False)}
    with pytest.raises(MRQError, match="DrQ-v2 cannot learn gym/Hopper-v4, whose observations are vectors"):
        jobs(["gym/Hopper-v4"], [drqv2], [], [0], settings, tmp_path)


def test_a_fleet_has_one_suite_and_label_and_fits(tmp_path):
    def sizes(suite, memory, variants=(), seeds=3):
        made = fleets(jobs(chosen_tasks(suite, ()), [DEFAULT], variants, range(seeds), Settings(), tmp_path), memory)
        for fleet in made:
            assert len({(job.label, job.identity.task.partition("/")[0]) for job in fleet}) == 1
        return sorted(map(len, made))

    assert sizes("gym", 10**12) == [15]
    assert sizes("gym", 10**12, ["no-lap"]) == [15, 15]
    assert sizes("all", 10**12)[-3:] == [15, 84 - LARGEST_FLEET, LARGEST_FLEET]
    assert sizes("gym", None) == [1] * 15  # a CPU gains nothing from training together
    assert sizes("atari", 10**12) == [1] * 171  # nor do convolutional networks
    one = 4 * (376 + 17 + 5) * 1_000_000 + 400_000_000  # Humanoid's replay, and the rest
    assert sizes("gym", 4 * one) == [3, 4, 4, 4]
    assert sizes("gym", one // 2) == [1] * 15
    spread = fleets(jobs(chosen_tasks("gym", ()), [DEFAULT], [], range(3), Settings(), tmp_path), 10**12, largest=8)
    assert sorted(map(len, spread)) == [7, 8]


def test_states_of_runs(tmp_path, small):
    settings = Settings(steps=100, hyperparameters=small)
    first, second, third = jobs(["gym/Hopper-v4"], [DEFAULT], [], range(3), settings, tmp_path)
    assert state_of(first) == (RunState.TO_DO, 0, "")
    create_run_folder(first.path, first.identity, first.settings, False, {}, 1).close()
    assert state_of(first) == (RunState.UNFINISHED, 0, "")
    other = replace(first.settings, hyperparameters=replace(small, discount=0.5))
    create_run_folder(second.path, second.identity, other, False, {}, 1).close()
    state, _, why = state_of(second)
    assert (state, "was trained with other hyperparameters" in why) == (RunState.UNUSABLE, True)
    limited = EnvironmentOptions(max_episode_steps=9)
    for change, sentence in (
        ({"evaluation_episodes": 3}, "has --evaluation-episodes 10, not 3"),
        ({"envs": 8}, "has --envs 1, not 8"),
        ({"environment": limited}, "has an environment that is made with other options"),
    ):
        state, _, why = state_of(replace(first, settings=replace(first.settings, **change)))
        assert (state, sentence in why) == (RunState.UNUSABLE, True)
    third.path.mkdir()
    assert state_of(third) == (RunState.TO_DO, 0, "")
    (third.path / "notes.txt").touch()
    state, _, why = state_of(third)
    assert (state, "it has no run.json" in why) == (RunState.UNUSABLE, True)
    (first.path / "evaluations.csv").write_bytes(b"\xff\xfe")
    state, _, why = state_of(first)
    assert (state, "evaluations.csv cannot be read" in why) == (RunState.UNUSABLE, True)
    (first.path / "evaluations.csv").unlink()
    (first.path / "checkpoints" / "000001-step-none").mkdir(parents=True)  # not a checkpoint
    assert state_of(first) == (RunState.UNFINISHED, 0, "")
    (new,) = jobs(["gym/Hopper-v4"], [DEFAULT], [], [7], settings, tmp_path)
    assert [len(fleet) for fleet in fleets([first, new], 10**12)] == [1, 1]
    (elsewhere,) = jobs(["gym/Ant-v4"], [PPO], [], [0], Settings(steps=100), tmp_path)
    create_run_folder(elsewhere.path, elsewhere.identity, elsewhere.settings, False, {}, 1).close()
    (misplaced,) = jobs(["gym/Ant-v4"], [DEFAULT], [], [0], Settings(steps=100), tmp_path / "PPO")
    state, _, why = state_of(misplaced)
    assert (state, "was trained with PPO, not with MR.Q" in why) == (RunState.UNUSABLE, True)
