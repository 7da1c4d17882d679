"""What a person sees of a matrix in training."""

from rich.console import Console

from mrq.algorithms.registry import default_algorithm
from mrq.benchmark.matrix import RunState, jobs
from mrq.benchmark.progress import Progress
from mrq.benchmark.view import View
from mrq.training.settings import Settings


def cells(view):
    return [list(column.cells) for column in view.table().columns]


def test_rows_are_sorted_by_stage(tmp_path):
    _, second, third, fourth, fifth = matrix = jobs(
        ["gym/Hopper-v4"], [default_algorithm()], [], range(5), Settings(steps=10_000), tmp_path
    )
    view = View(dict.fromkeys(matrix, RunState.TO_DO) | {fifth: RunState.FINISHED})
    view.console = Console(width=200, height=40, force_terminal=True)
    view.show([second], Progress(9_000, 20.0, {second.identity: 12.25}, 9_000))
    view.show([third, fourth], Progress(2_500, 2.0, {third.identity: 1.0, fourth.identity: -3.0}, 2_000))
    view.end([second], failed={second: "why"})
    runs, states, steps, speeds, returns, left = cells(view)
    assert runs == [f"gym/Hopper-v4 (seed {seed})" for seed in (2, 3, 1, 0, 4)]
    assert states == ["training", "training", "failed", "waiting", "finished"]
    assert steps == ["2,500 of 10,000"] * 2 + ["9,000 of 10,000", "of 10,000", "10,000"]
    assert speeds == ["2.0", "2.0", "", "", ""]
    assert returns == ["1.0", "-3.0", "12.2", "", ""]
    assert left == ["1:02:30", "1:02:30", "", "", ""]  # 7,500 steps at 2 steps/s
    assert view.table().title == "2 training, 1 failed, 1 waiting, 1 finished"


def test_rows_that_do_not_fit_are_counted(tmp_path):
    matrix = jobs(["gym/Hopper-v4"], [default_algorithm()], [], range(50), Settings(steps=10), tmp_path)
    view = View(dict.fromkeys(matrix, RunState.TO_DO))
    view.console = Console(width=200, height=27, force_terminal=True)
    assert len(cells(view)[0]) == 20
    assert view.table().caption == "and 30 more"


def test_a_log_file_has_a_line_per_evaluation_and_per_finished_run(tmp_path, capsys):
    (job,) = jobs(["gym/Hopper-v4"], [default_algorithm()], [], [0], Settings(steps=10), tmp_path)
    with View({job: RunState.TO_DO}) as view:
        view.show([job], Progress(5, 1.0, {}, None))
        for steps, evaluated_at in ((6, 6), (7, 6), (8, 8)):
            view.show([job], Progress(steps, 1.0, {job.identity: 1_234.56}, evaluated_at))
        view.end([job], {})
    assert capsys.readouterr().out.splitlines() == [
        "gym/Hopper-v4 (seed 0): return 1,234.6 at step 6",
        "gym/Hopper-v4 (seed 0): return 1,234.6 at step 8",
        "gym/Hopper-v4 (seed 0): finished",
    ]
