"""The commands, each run in a process of its own, as users run them."""

import csv
import importlib.metadata
import json
import os
import re
import shutil
import signal
import sys
import time
from collections import Counter
from contextlib import nullcontext

import imageio
import pytest

from mrq import MRQ, cli, make_environment
from mrq.cli import main
from mrq.environments.probing import checked_as_it_is
from mrq.training.checkpoint import latest_checkpoint
from mrq.training.environments import environments_of
from mrq.training.evaluation import evaluate
from mrq.training.run_folder import RunFolder
from mrq.training.runs import Outcome, resume_command
from mrq.training.summary import conclude
from tests.command_line import ENVIRONMENT, SMALL, assert_same, mrq, rows, start, train
from tests.documents import edit
from tests.waiting import children_of, gone, soon

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Trains two seeds of CartPole together; returns the folder of their runs."""
    folder = tmp_path_factory.mktemp("finished")
    train(folder, "--steps", 450, "--seeds", 0, 1, task="CartPole-v1")
    return folder / "runs" / "CartPole-v1"


@pytest.fixture
def refusal(tmp_path, monkeypatch, capsys):
    """Runs a command in this process, and returns what it printed when it failed."""

    def run(*arguments):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["mrq", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code == 1
        return capsys.readouterr().err

    return run


def test_what_a_run_folder_holds(finished):
    for seed in (0, 1):
        folder = finished / f"seed-{seed}"
        document = json.loads((folder / "run.json").read_text())
        assert (document["task"], document["seed"]) == ("CartPole-v1", seed)
        assert document["settings"]["hyperparameters"]["discount"] == 0.99
        assert {"python", "torch", "gymnasium", "numpy"} <= document["versions"].keys()
        evaluations = rows(folder)
        assert list(evaluations[0]) == ["task", "seed", "step", "return_mean", "return_std", "length_mean", "episodes"]
        assert [int(row["step"]) for row in evaluations] == [0, 200, 400, 450]
        assert all(
            float(row["return_mean"]) == float(row["length_mean"]) for row in evaluations
        )  # CartPole's reward is 1 per step
        assert (folder / "learning_curve.png").read_bytes().startswith(b"\x89PNG")
        assert latest_checkpoint(folder / "checkpoints").name.endswith("step-450")


def test_tensorboard_has_losses_values_and_speed(finished):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(finished / "seed-0" / "tensorboard"))
    events.Reload()
    names = {"dynamics_loss", "reward_loss", "terminal_loss", "value_loss", "policy_loss", "value_mean", "reward_scale"}
    assert {f"learning/{name}" for name in names} | {"speed/steps_per_second"} <= set(events.Tags()["scalars"])
    assert [event.step for event in events.Scalars("evaluation/return")] == [0, 200, 400, 450]
    assert events.Scalars("learning/reward_scale")[-1].value == pytest.approx(1.0)


def test_evaluate_and_film(finished, tmp_path):
    for name, magic in [("film.mp4", b"ftyp"), ("film.gif", b"GIF8")]:
        code, out, err = mrq("evaluate", finished / "seed-0", "--episodes", 2, "--video", tmp_path / name, cwd=tmp_path)
        assert code == 0, err
        assert "(episodes: 2)" in out
        assert magic in (tmp_path / name).read_bytes()[:16]
    code, out, _ = mrq("evaluate", finished / "seed-0", "--deterministic", "--episodes", 1, cwd=tmp_path)
    assert code == 0
    assert "(episodes: 1)" in out


def test_the_untrained_agent_is_filmed_beside_the_trained_one(finished, tmp_path):
    run = finished / "seed-1"
    code, alone, err = mrq("evaluate", run, "--episodes", 2, "--video", "alone.gif", cwd=tmp_path)
    assert code == 0, err
    code, both, err = mrq("evaluate", run, "--episodes", 2, "--video", "both.gif", "--beside-untrained", cwd=tmp_path)
    assert code == 0, err
    returns = {line.split()[0]: line for line in both.splitlines()}
    assert returns["return"] in alone  # the trained agent plays the same episodes
    folder, settings = RunFolder(run), RunFolder(run).settings
    untrained = MRQ("CartPole-v1", seed=1, hyperparameters=settings.hyperparameters, device="cpu")
    first = checked_as_it_is(make_environment("CartPole-v1"), folder.recipe())
    made = environments_of(folder.identity, first, [], settings.environment)
    (expected,), _ = evaluate(untrained._population.learner, made, [folder.identity], 450, 2)
    assert f"untrained return {expected}" in both
    one, two = (imageio.mimread(tmp_path / name, memtest=False) for name in ("alone.gif", "both.gif"))
    assert two[0].shape[:2] == (one[0].shape[0], 2 * one[0].shape[1])
    code, _, err = mrq("evaluate", run, "--beside-untrained", cwd=tmp_path)
    assert (code, "give --video too" in err) == (1, True)


def test_evaluating_in_another_environment_does_not_repeat_the_runs_own_evaluation(finished, tmp_path):
    evaluate = ("evaluate", finished / "seed-0", "--episodes", 1)
    assert "\nevaluation  " in mrq(*evaluate, cwd=tmp_path)[1]
    code, out, err = mrq(*evaluate, "--env", "gymnasium:CartPole-v1", cwd=tmp_path)
    assert code == 0, err
    assert "\nevaluation  " not in out
    assert "playing in gymnasium:CartPole-v1 instead of the run's own environment: CartPole-v1\n" in out


def test_mujoco_is_filmed_without_a_screen_and_played_without_a_renderer(tmp_path):
    train(tmp_path, "--steps", 210, "--evaluate-every", 0, task="gym/Hopper-v4")  # an untrained one soon falls
    run = tmp_path / "runs" / "gym" / "Hopper-v4" / "seed-0"
    code, _, err = mrq("evaluate", run, "--episodes", 1, "--video", "film.gif", cwd=tmp_path, MUJOCO_GL="")
    if code and not os.environ.get("CI"):
        pytest.skip(f"no renderer: {err}")
    assert code == 0, err
    assert (tmp_path / "film.gif").stat().st_size > 10_000
    code, out, err = mrq("evaluate", run, "--episodes", 1, cwd=tmp_path, MUJOCO_GL="no-such-renderer")
    assert code == 0, err
    assert "(episodes: 1)" in out


@pytest.mark.parametrize(
    ("task", "options"),
    [
        ("Pendulum-v1", []),
        ("tests.environments_for_tests:HybridTarget", []),
        ("tests.environments_for_tests:Workshop", ["--image-size", 32, "--history", 2, "--action-history"]),
    ],
)
def test_a_killed_run_resumes_bit_for_bit(tmp_path, task, options):
    options = [*options, "--steps", 500]
    train(tmp_path, *options, "--runs", "whole", task=task)
    process = start("train", task, *SMALL, *options, "--runs", "killed", "--checkpoint-minutes", 0.002, cwd=tmp_path)
    run = tmp_path / "killed" / task.replace(":", "-") / "seed-0"
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline and process.poll() is None:
        checkpoint = latest_checkpoint(run / "checkpoints")
        if checkpoint is not None and int(checkpoint.name.rpartition("-")[2]) > 300:
            break
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    code, out, err = mrq("resume", run, "--trust", cwd=tmp_path)
    assert code == 0, err
    assert "resuming at step" in out
    assert "could not be brought back" not in out
    assert_same(run, tmp_path / "whole" / run.relative_to(tmp_path / "killed"))
    code, out, err = mrq("evaluate", run, "--trust", "--episodes", 2, cwd=tmp_path)
    assert code == 0, err
    assert "(episodes: 2)" in out


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_population_saves_tells_the_signal_and_resumes(tmp_path, number, status):
    train(tmp_path, "--steps", 450, "--runs", "whole", "--seeds", 0, 1, task="CartPole-v1")
    process = start("train", "CartPole-v1", *SMALL, "--steps", 450, "--runs", "cut", "--seeds", 0, 1, cwd=tmp_path)
    for line in process.stdout:
        if "learning begins" in line:
            break
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (status, "")
    folders = [tmp_path / "cut" / "CartPole-v1" / f"seed-{seed}" for seed in (0, 1)]
    assert "interrupted at step" in out
    code, out, err = mrq("resume", *folders, cwd=tmp_path)
    assert code == 0, err
    for folder in folders:
        assert_same(folder, tmp_path / "whole" / "CartPole-v1" / folder.name)


SLEEPY = """
import time

from tests.environments_for_tests import Counting


class Sleepy(Counting):
    total = 0

    def step(self, action):
        self.total += 1
        if self.total == 30:
            print("asleep", flush=True)
            time.sleep(600)
        return super().step(action)
"""


@pytest.mark.parametrize("workers", [0, 1])
def test_a_second_signal_stops_at_once(tmp_path, workers):
    (tmp_path / "sleepy.py").write_text(SLEEPY)
    arguments = ["--steps", 300, "--evaluate-every", 0, "--workers", workers]
    process = start("train", "sleepy:Sleepy", *SMALL, *arguments, cwd=tmp_path)
    for line in process.stdout:
        if "asleep" in line:
            break
    for number in (signal.SIGTERM, signal.SIGINT):
        process.send_signal(number)
        time.sleep(0.2)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == "mrq: stopped at once; a checkpoint, if one was written, is intact.\n"


def test_a_stopped_worker_does_not_outlive_its_killed_parent(tmp_path):
    process = start("train", "Pendulum-v1", *SMALL, "--steps", 100_000, "--workers", 1, cwd=tmp_path)
    for line in process.stdout:
        if "learning begins" in line:
            break
    workers = [child for child in children_of(process.pid) if os.getpgid(child) == child]  # not the resource tracker
    assert workers
    for worker in workers:
        os.kill(worker, signal.SIGSTOP)
    process.kill()
    process.wait()
    assert soon(lambda: all(gone(worker) for worker in workers))


def test_training_continues_when_the_program_that_reads_its_output_ends(tmp_path):
    process = start("train", "Pendulum-v1", *SMALL, "--steps", 250, "--compile", "off", cwd=tmp_path)
    assert process.stdout.readline().startswith("replay of up to")
    process.stdout.close()
    assert process.wait(120) == 0
    assert process.stderr.read() == ""
    assert [row["step"] for row in rows(tmp_path / "runs" / "Pendulum-v1" / "seed-0")] == ["0", "200", "250"]


def test_an_environment_may_change_the_working_directory(tmp_path):
    arguments = [*SMALL, "--steps", 250, "--workers", 0]
    code, out, err = mrq("train", "tests.environments_for_tests:Leaves", *arguments, cwd=tmp_path)
    assert code == 0, err
    run = "runs/tests.environments_for_tests-Leaves/seed-0"
    assert f"run folder      {run}\n" in out
    code, out, err = mrq("evaluate", run, "--episodes", 1, "--trust", cwd=tmp_path)
    assert (code, f"run folder      {run}\n" in out) == (0, True), err


def test_an_interrupted_fleet_of_which_an_agent_stopped_early(finished, capsys):
    runs = [RunFolder(finished / f"seed-{seed}") for seed in (0, 1)]
    runs[1].change(steps=1_000)
    with pytest.raises(SystemExit, match=r"^143$"):  # the signal, because the others would have continued
        conclude(Outcome(runs, [runs[1]], interrupted=signal.SIGTERM))
    runs[1].change(steps=450)
    out, err = capsys.readouterr()
    assert f"interrupted; resume with: {resume_command([runs[1]])}\n" in out
    assert re.fullmatch(r"mrq: 1 of 2 agents stopped early, for the reasons given above\. .* is kept\.\n", err)


@pytest.mark.parametrize(("all_begun", "status"), [(True, 0), (False, 130)])
def test_a_signal_that_came_too_late_to_keep_a_training_from_finishing(finished, capsys, all_begun, status):
    runs = [RunFolder(finished / f"seed-{seed}") for seed in (0, 1)]
    with nullcontext() if status == 0 else pytest.raises(SystemExit, match=f"^{status}$"):
        conclude(Outcome(runs, [], signal.SIGINT, all_begun))
    assert "interrupted" not in capsys.readouterr().out


def test_a_faulty_environment_keeps_what_was_learned(tmp_path):
    code, _, err = mrq("train", "tests.environments_for_tests:nan_observation", *SMALL, "--steps", 300, cwd=tmp_path)
    assert code == 1
    assert "failed at step 29: the observation contains NaN. What was learned is kept" in err
    assert len(err.strip().splitlines()) == 1
    run = tmp_path / "runs" / "tests.environments_for_tests-nan_observation" / "seed-0"
    assert latest_checkpoint(run / "checkpoints").name.endswith("step-29")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["Pendulun-v1"], "did you mean Pendulum-v1"),
        (["dmc/" + 300 * "a"], "there is no environment"),
        (["Pendulum-v1", "--steps", "-5"], "--steps is -5"),
        (["Pendulum-v1", "--steps", "0"], "--steps is 0"),
        (["Pendulum-v1", "--steps", "99999999999999"], "between 1 and 10,000,000,000"),
        (["Pendulum-v1", "--seeds", "1", "1"], "different whole numbers"),
        (["Pendulum-v1", "--seed", "-1"], "0 or more"),
        (["Pendulum-v1", "--device", "cuda:7"], "use cpu or auto"),
        (["Pendulum-v1", "--device", "toaster"], "no device 'toaster'"),
        (["Pendulum-v1", "--discount", "1.5"], "discount is 1.5; it must be between 0 and 0.999999"),
        (["Pendulum-v1", "--batch-size", "0"], "batch_size"),
        (["Pendulum-v1", "--evaluate-every", "-1"], "--evaluate-every"),
        (["tests.environments_for_tests:Broken"], "could not be made"),
    ],
)
def test_bad_requests_get_one_sentence_and_no_folder(refusal, tmp_path, arguments, words):
    err = refusal("train", *arguments)
    assert words in err
    assert len(err.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_run_killed_before_its_first_checkpoint_starts_again(tmp_path):
    process = start("train", "Pendulum-v1", *SMALL, "--steps", 210, cwd=tmp_path)
    for line in process.stdout:
        if line.startswith("step 0:"):
            break
    process.kill()
    process.communicate()
    run = tmp_path / "runs" / "Pendulum-v1" / "seed-0"
    assert len(rows(run)) == 1
    code, _, err = mrq("resume", run, cwd=tmp_path)
    assert code == 0, err
    assert [row["step"] for row in rows(run)] == ["0", "200", "210"]


def test_a_changed_run_json_is_refused(refusal, finished, tmp_path):
    shutil.copytree(finished / "seed-0", tmp_path / "run")
    text = (tmp_path / "run" / "run.json").read_text()
    for change in (('"hidden_width": 32', '"hidden_width": 64'), ('"seed": 0', '"seed": 5')):
        (tmp_path / "run" / "run.json").write_text(text.replace(*change))
        assert "it has changed since mrq wrote it" in refusal("resume", "--steps", "600", tmp_path / "run")
        (tmp_path / "run" / "run.json").write_text(text)
        edit(tmp_path / "run", *change)
        assert "are not those of its checkpoint" in refusal("evaluate", tmp_path / "run")
        err = refusal("resume", "--steps", "600", tmp_path / "run")
        assert "are not those of its checkpoint" in err or "evaluations.csv are of another run than run.json" in err
    (tmp_path / "run" / "run.json").write_text(text)
    assert "is at step 450 already; --steps must be more." in refusal("resume", tmp_path / "run", "--steps", 10)
    assert (tmp_path / "run" / "run.json").read_text() == text, "a refused request changes nothing"


def test_a_finished_run_is_resumed_with_more_steps(finished, tmp_path):
    folders = [tmp_path / f"seed-{seed}" for seed in (0, 1)]
    for folder in folders:
        shutil.copytree(finished / folder.name, folder)
    code, _, err = mrq("resume", *folders, "--steps", 480, cwd=tmp_path)
    assert code == 0, err
    for folder in folders:
        assert [row["step"] for row in rows(folder)] == ["0", "200", "400", "450", "480"]
        assert json.loads((folder / "run.json").read_text())["settings"]["steps"] == 480


def test_a_nan_loss_stops_the_run_and_is_not_saved(finished, tmp_path):
    arguments = ["--steps", "300", *SMALL, "--value-learning-rate", "1e30"]
    code, _, err = mrq("train", "Pendulum-v1", *arguments, cwd=tmp_path)
    assert code == 1
    assert "loss became" in err
    assert len(err.strip().splitlines()) == 1
    assert latest_checkpoint(tmp_path / "runs" / "Pendulum-v1" / "seed-0" / "checkpoints") is None


def test_a_run_folder_that_exists_and_one_that_does_not(refusal, finished, tmp_path):
    assert "already exists" in refusal("train", "CartPole-v1", "--runs", finished.parent)
    for command in ("resume", "evaluate"):
        assert "there is no run in" in refusal(command, tmp_path / "nothing")
    assert "has finished its 450 steps" in refusal("resume", finished / "seed-0")
    assert ".mp4 or .gif" in refusal("evaluate", finished / "seed-0", "--video", "film.avi")


def test_a_fleet_in_worker_processes_with_overlap_and_one_of_it_resumed_alone(tmp_path):
    tasks = ("Pendulum-v1", "MountainCarContinuous-v0", "tests.environments_for_tests:Counting")
    options = ("--seeds", 0, 1, "--overlap", "on", "--workers", 2, "--steps", 260, "--runs")
    for runs in ("one", "other"):
        code, out, err = mrq("train", *tasks, *SMALL, *options, runs, cwd=tmp_path)
        assert code == 0, err
    folders = sorted(path.parent.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("run.json"))
    assert len(folders) == 6
    assert all(f"one/{folder}  return" in out.replace("other/", "one/") for folder in folders)
    for folder in folders:
        assert [row["step"] for row in rows(tmp_path / "one" / folder)] == ["0", "200", "260"]
        assert_same(tmp_path / "one" / folder, tmp_path / "other" / folder)
    alone = tmp_path / "one" / "Pendulum-v1" / "seed-1"
    code, out, err = mrq("resume", alone, "--steps", 300, cwd=tmp_path)
    assert code == 0, err
    assert "could not be brought back" not in out
    assert [row["step"] for row in rows(alone)] == ["0", "200", "260", "300"]


def test_the_other_agents_continue_without_one_that_fails(tmp_path):
    tasks = ("Pendulum-v1", "tests.environments_for_tests:nan_observation")
    code, out, err = mrq("train", *tasks, *SMALL, "--steps", 250, "--workers", 2, cwd=tmp_path)
    assert code == 1
    assert "failed at step 29: the observation contains NaN. The other agents continue." in out
    assert "1 of 2 agents stopped early" in err
    assert len(err.strip().splitlines()) == 1
    failed = "runs/tests.environments_for_tests-nan_observation/seed-0"
    assert err.strip().endswith(f"resume {failed} --trust")
    assert latest_checkpoint(tmp_path / failed / "checkpoints").name.endswith("step-29")
    healthy = tmp_path / "runs" / "Pendulum-v1" / "seed-0"
    assert [row["step"] for row in rows(healthy)] == ["0", "200", "250"]


def test_speed_prints_a_table_and_writes_it(tmp_path):
    small = [*SMALL[: SMALL.index("--random-steps")], "--compile", "off"]
    code, _, err = mrq("speed", "Pendulum-v1", "--agents", 1, 2, *small, "--markdown", "speed.md", cwd=tmp_path)
    assert code == 0, err
    lines = (tmp_path / "speed.md").read_text().splitlines()
    assert "float32" in lines[0]
    names = [cell.strip() for cell in lines[2].split("|")[1:-1]]
    for agents, line in zip((1, 2), lines[4:], strict=True):
        cells = dict(zip(names, (cell.strip() for cell in line.split("|")[1:-1]), strict=True))
        assert (cells["task"], cells["agents"]) == ("Pendulum-v1", str(agents))
        whole = agents * 1e3 / float(cells["steps/s"].replace(",", ""))
        assert whole == pytest.approx(float(cells["ms per step"]), rel=0.02)
        assert float(cells["encoder"]) > 0
        assert cells["bound by"] == "updates"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["Pendulum-v1", "gym/Pendulum-v1", "--together"], "give different ones"),
        (["--markdown", "nowhere/speed.md"], "nowhere/speed.md cannot be written: there is no folder nowhere."),
        (["--agents", "0"], "give one task or more, and 1 or more --agents."),
    ],
)
def test_what_speed_refuses_before_it_measures(refusal, arguments, sentence):
    err = refusal("speed", *arguments)
    assert (sentence in err, len(err.strip().splitlines())) == (True, 1)


@pytest.mark.parametrize(
    ("tasks", "words"),
    [
        (["Pendulum-v1", "CartPole-v1"], "train them in separate calls"),
        (["Pendulum-v1", "Pendulum-v1"], "different ones"),
        ([], "give a task"),
    ],
)
def test_impossible_fleets_are_refused(refusal, tmp_path, tasks, words):
    assert words in refusal("train", *tasks, *SMALL)
    assert not (tmp_path / "runs").exists()


def test_tasks_and_doctor_say_what_this_machine_can_run(tmp_path):
    (tmp_path / "ale_py.py").write_text("raise ModuleNotFoundError(\"No module named 'ale_py'\")")
    missing = {
        "PYTHONPATH": f"{tmp_path}{os.pathsep}{ENVIRONMENT['PYTHONPATH']}",
        "MUJOCO_GL": "no-such-renderer",
    }
    code, out, _ = mrq("tasks", "gym", "gym", cwd=tmp_path)
    assert (code, len(out.splitlines())) == (0, 1 + 5)
    code, out, _ = mrq("tasks", cwd=tmp_path, **missing)
    lines = out.splitlines()
    assert code == 0
    assert Counter(line.split("/")[0] + line[-4:] for line in lines if " 5,000 " in line or " 100,000 " in line) == {
        "gym yes": 5,
        "dmc yes": 28,
        "dmc-visual  no": 28,
        "atari  no": 57,
    }
    words = [line.split() for line in lines]
    assert ["gym/HalfCheetah-v4", "17", "6", "continuous", "1,000,000", "5,000", "yes"] in words
    assert ["atari/Pong", "84x84", "6", "discrete", "2,500,000", "100,000", "no"] in words
    assert "MUJOCO_GL is 'no-such-renderer', which does not work here" in lines[-2]
    assert lines[-2].endswith("; unset it.")
    assert "pip install 'mrq-rl[atari]'" in lines[-1]
    code, out, _ = mrq("doctor", cwd=tmp_path, **missing)
    states = {line.split()[1]: line.split()[0] for line in out.splitlines()}
    assert code == 0
    assert states["dmc/…"] == states["gym/…"] == "ok"
    assert states["dmc-visual/…"] == states["atari/…"] == "missing"
    assert "pip install 'mrq-rl[atari]'" in out


def test_steps_and_evaluations_are_the_suites(tmp_path):
    code, _, err = mrq("train", "gym/HalfCheetah-v4", "dmc/cheetah-run", cwd=tmp_path)
    assert code == 1
    assert "differ in --steps: 1,000,000 in gym and 500,000 in dmc; give one." in err
    process = start("train", "atari/Pong", "--random-steps", "2000000", "--replay-capacity", "1000", cwd=tmp_path)
    run = tmp_path / "runs" / "atari" / "Pong" / "seed-0" / "run.json"
    while not run.exists() and process.poll() is None:
        time.sleep(0.1)
    process.terminate()
    process.communicate(timeout=60)
    settings = json.loads(run.read_text())["settings"]
    assert (settings["steps"], settings["evaluate_every"]) == (2_500_000, 100_000)


def test_report_reads_runs_and_leaves_out_unreadable_ones(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "runs")
    broken = tmp_path / "runs" / "seed-9"
    broken.mkdir()
    (broken / "run.json").write_text("{")
    code, out, err = mrq("report", "runs", "--markdown", "report.md", "--csv", "report.csv", cwd=tmp_path)
    assert code == 0, err
    assert "left out: runs/seed-9/run.json cannot be read" in out
    text = (tmp_path / "report.md").read_text()
    returns = [float(rows(finished / f"seed-{seed}")[-1]["return_mean"]) for seed in (0, 1)]
    assert (
        "| gym/CartPole-v1 | MR.Q with random_steps=200, batch_size=16, target_period=50, state_embedding=32," in text
    )
    assert f"| 450 | {sum(returns) / 2:,.0f} [" in text
    (line,) = csv.DictReader((tmp_path / "report.csv").open())
    assert (line["suite"], line["row"], line["step"], line["seeds"]) == ("other tasks", "gym/CartPole-v1", "450", "2")
    assert float(line["mean"]) == pytest.approx(sum(returns) / 2)
    kept = (tmp_path / "runs" / "seed-0" / "evaluations.csv").read_text()
    code, _, err = mrq("report", "runs", "--csv", "runs/seed-0/evaluations.csv", cwd=tmp_path)
    assert (code, "it holds results that the report is made of" in err) == (1, True)
    assert (tmp_path / "runs" / "seed-0" / "evaluations.csv").read_text() == kept
    address = f"file://{tmp_path}/runs"
    code, out, err = mrq("report", address, "--markdown", "same.md", cwd=tmp_path)
    assert code == 0, err
    assert f"left out: {address}/seed-9/run.json cannot be read" in out
    assert (tmp_path / "same.md").read_text() == text
    for arguments, words in (
        (["nowhere"], "there is no folder nowhere"),
        (["runs/seed-0/tensorboard"], "no evaluated runs"),
        (
            ["runs", "--html", "nowhere/report.html"],
            "nowhere/report.html cannot be written: there is no folder nowhere.",
        ),
        (["runs", "--html", "runs"], "runs cannot be written: it is a folder, or given twice."),
    ):
        code, _, err = mrq("report", *arguments, cwd=tmp_path)
        assert (code, words in err) == (1, True)


def test_report_writes_a_page_and_figures_of_runs(finished, tmp_path):
    code, out, err = mrq("report", finished, "--html", "report.html", "--figures", "figures", cwd=tmp_path)
    assert code == 0, err
    assert "written: report.html" in out
    assert "written: figures (figures: 1)" in out
    (figure,) = (tmp_path / "figures").iterdir()
    assert figure.name == "curve-gym-CartPole-v1.svg"
    page = (tmp_path / "report.html").read_text()
    assert figure.read_text() in page
    assert "gym/CartPole-v1" in page
    assert f'<td class="text">{importlib.metadata.version("torch")}</td>' in page


@pytest.mark.parametrize(
    ("arguments", "algorithm"),
    [
        (["train", "Pendulum-v1"], "mrq"),
        (["train", "--algorithm", "ppo", "Pendulum-v1"], "ppo"),
        (["train", "Pendulum-v1", "--algorithm=sac"], "sac"),
        (["train", "Pendulum-v1", "--algorithm", "ppo", "--algorithm", "td3"], "td3"),
        (["bench", "gym", "--algorithm", "drqv2", "ppo"], "drqv2"),
        (["bench", "gym", "--algorithm", "--dry-run"], "mrq"),
        (["bench", "gym", "--algorithm"], "mrq"),
    ],
)
def test_the_algorithm_is_found_before_its_options_are_known(arguments, algorithm):
    assert cli.asked(arguments, "--algorithm", "mrq") == algorithm
