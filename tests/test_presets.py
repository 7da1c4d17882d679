"""Presets on the command line: what they set, how they are listed, and who is told of them."""

import json
import sys
from dataclasses import replace

import pytest

from mrq import MRQError, cli
from mrq.algorithms.registry import algorithm_named


def test_a_preset_sets_hyperparameters_and_single_options_change_them(monkeypatch, capsys):
    small = algorithm_named("mrq").preset("small")
    for name in ("train", "speed", "bench"):
        where = "gym" if name == "bench" else "Pendulum-v1"
        command = cli.parse([name, where, "--preset", "small", "--batch-size", "7"])
        assert command.settings.hyperparameters == replace(small, batch_size=7)
        assert cli.parse([name, where]).settings.hyperparameters == algorithm_named("mrq").hyperparameters()
        with pytest.raises(MRQError, match=r"MR\.Q has no preset 'huge'; it has paper, small\."):
            cli.parse([name, where, "--preset", "huge"])
        with pytest.raises(MRQError, match=r"DrQ-v2 has no preset 'small'; it has paper\."):
            cli.parse([name, where, "--algorithm", "drqv2", "--preset=small"])
    with pytest.raises(MRQError, match="no preset '-1'"):
        cli.parse(["train", "Pendulum-v1", "--preset", "-1"])
    monkeypatch.setattr(sys, "argv", ["mrq", "presets"])
    cli.main()
    listed = capsys.readouterr().out
    assert "--algorithm mrq --preset paper: The hyperparameters of the paper" in listed
    assert f"    --batch-size {small.batch_size}  (paper: 256)" in listed
    assert "--algorithm ppo --preset paper: The defaults of Stable-Baselines3." in listed


def test_without_a_gpu_a_line_names_the_preset_for_that(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for seed, options in enumerate(([], ["--preset", "small"], ["--batch-size", "7"])):
        given = ["mrq", "train", "CartPole-v1", "--seed", str(seed), "--steps", "20", "--evaluate-every", "0", *options]
        monkeypatch.setattr(sys, "argv", [*given, "--device", "cpu"])
        cli.main()
        assert ("--preset small: made for machines without a GPU" in capsys.readouterr().out) == (not options)
        written = json.loads((tmp_path / "runs" / "CartPole-v1" / f"seed-{seed}" / "run.json").read_text())
        assert written["preset"] == ("small" if "small" in options else "paper")
