"""The columns of a report: which algorithm a run belongs to, and where the paper's results stand."""

import json
import subprocess
import sys

import pytest

from mrq.algorithms.registry import algorithm_named
from mrq.environments.tasks import names_in
from mrq.interface import Identity
from mrq.report.bars import bars, draw_bars
from mrq.report.columns import ordered
from mrq.report.html_tables import columns
from mrq.report.records import collect
from mrq.report.report import build
from mrq.report.tables import suite_table
from mrq.report.text import markdown
from mrq.training.run_creation import create_run_folder
from mrq.training.settings import Settings
from tests.documents import document_of
from tests.report.example_runs import run

WALKER = "dmc-visual/walker-walk"
OF_REPORT = """
import sys
from pathlib import Path
from mrq.cli import Report
Report(folders=(sys.argv[1],), html=Path("report.html"), figures=Path("figures")).run()
Report(folders=(sys.argv[1],)).run()
print(sorted({"torch", "gymnasium", "mujoco", "matplotlib", "stable_baselines3", "ray"} & sys.modules.keys()))
"""


def folder_of(path, task, seed, algorithm, value, **hyperparameters):
    """Makes a run folder of a finished run with one evaluation."""
    settings = Settings(hyperparameters=algorithm_named(algorithm).hyperparameters(**hyperparameters)).completed([task])
    made = create_run_folder(path, Identity(task, seed), settings, False, {}, 5_000_000)
    made.close()
    with (path / "evaluations.csv").open("a") as file:
        file.write(f"{task},{seed},{settings.steps},{value},1,500,10,3600.0\n")
    return path


def test_runs_of_a_second_algorithm_have_a_column_beside_its_own_in_the_paper(tmp_path):
    for seed, value in enumerate((700, 800)):
        folder_of(tmp_path / f"drqv2-{seed}", WALKER, seed, "drqv2", value)
    folder_of(tmp_path / "changed", WALKER, 0, "drqv2", 600, batch_size=128)
    folder_of(tmp_path / "mrq", WALKER, 0, "mrq", 900)
    records = collect([tmp_path], print)
    table = suite_table("dmc-visual", records)
    changed = "DrQ-v2 with batch_size=128"
    assert table.ours == ["MR.Q", "DrQ-v2", changed]
    row = table.rows[WALKER]
    assert (row["DrQ-v2"].mean, row["DrQ-v2"].seeds, row[changed].mean, row["MR.Q"].mean) == (750, 2, 600, 900)
    assert row["DrQ-v2 (paper)"][:2] == (766, (489, 957))
    assert columns(table)[:5] == ["MR.Q", "DrQ-v2", changed, "MR.Q (paper)", "DrQ-v2 (paper)"]
    head, _, cells = markdown(build(records)).partition("## dmc-visual")[2].splitlines()[2:5]
    assert head.startswith(f"| task | MR.Q | DrQ-v2 | {changed} | ")
    assert "DrQ-v2 (paper)" in head
    assert "| - | - | - |" in cells  # acrobot-swingup
    (group,) = [group for group in build(records).groups if group.algorithm == "DrQ-v2"]
    assert (group.runs, group.hours, group.parameters) == (2, 2, (5_000_000, 5_000_000))


def test_bars_show_an_algorithm_beside_itself_in_the_paper():
    names = names_in("dmc-visual")
    records = [run(task, seed, 500.0, "DrQ-v2", 500_000) for task in names for seed in range(2)]
    table = suite_table("dmc-visual", records)
    shown = [name for name, _ in bars(table)]
    assert shown[:3] == ["DrQ-v2", "MR.Q (paper)", "DrQ-v2 (paper)"]
    assert len(shown) == 6
    svg, _, _ = draw_bars(table, {"DrQ-v2": 0})
    assert (svg.count('class="c0"'), svg.count('class="theirs"')) == (2, 4)  # ours, and DrQ-v2 in the paper


def test_the_order_of_the_columns():
    assert ordered(["SAC", "no-lap", "DrQ-v2", "revert", "MR.Q"]) == ["MR.Q", "revert", "no-lap", "DrQ-v2", "SAC"]


def test_baseline_runs_of_version_0_1_are_read(tmp_path):
    """Their folders hold MR.Q's hyperparameters, which had no effect."""
    folder = folder_of(tmp_path / "old", "gym/Hopper-v4", 0, "mrq", 2500)
    document = document_of(folder)
    (folder / "run.json").write_text(json.dumps(document | {"mrq": "0.1.0", "algorithm": "PPO"}))
    (record,) = collect([tmp_path], pytest.fail)
    assert (record.algorithm, record.returns.tolist(), record.parameters) == ("PPO", [2500], 5_000_000)


def test_a_report_needs_neither_pytorch_nor_gymnasium(tmp_path):
    folder_of(tmp_path / "runs" / "a", "gym/Hopper-v4", 0, "mrq", 2500)
    folder_of(tmp_path / "runs" / "b", WALKER, 0, "drqv2", 500)
    folder_of(tmp_path / "runs" / "c", "gym/Hopper-v4", 0, "ppo", 1500)
    process = subprocess.run(
        [sys.executable, "-c", OF_REPORT, tmp_path / "runs"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "| Hopper-v4 | 2,500 (1) | 1,500 (1) |" in process.stdout
    assert process.stdout.splitlines()[-1] == "[]"
