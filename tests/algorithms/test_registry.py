"""The algorithms by name, and what each says about tasks and hyperparameters."""

import subprocess
import sys
from dataclasses import asdict, replace

import pytest

from mrq import MRQError
from mrq.algorithms.registry import ALGORITHMS, algorithm_named, algorithm_of, algorithm_titled, default_algorithm
from mrq.interface import Image, Spec


@pytest.mark.parametrize("name", ALGORITHMS)
def test_each_algorithm_is_found_by_its_name_its_title_and_its_hyperparameters(name):
    algorithm = algorithm_named(name)
    assert algorithm.name == name
    assert algorithm_named(name.upper()) is algorithm
    assert algorithm_titled(algorithm.title) is algorithm
    hyperparameters = algorithm.hyperparameters()
    assert algorithm_of(hyperparameters) is algorithm
    assert algorithm.label(hyperparameters) == algorithm.title
    for variant in algorithm.variants:
        varied = algorithm.varied(hyperparameters, variant)
        assert asdict(varied) == asdict(hyperparameters) | algorithm.variants[variant]
        assert algorithm.label(varied) == variant
    for preset, described in algorithm.presets.items():
        own = algorithm.preset(preset)
        assert asdict(own) == asdict(hyperparameters) | described.changes
        assert algorithm.label(own) == (algorithm.title if preset == "paper" else f"{algorithm.title} {preset}")
        assert algorithm.closest_preset(own) == (preset, {})
    assert next(iter(algorithm.presets)) == "paper"


def test_changed_hyperparameters_are_named_by_the_closest_preset():
    mrq = algorithm_named("mrq")
    own = replace(mrq.preset("small"), batch_size=7, discount=0.9)
    assert mrq.closest_preset(own) == ("small", {"batch_size": 7, "discount": 0.9})
    assert mrq.label(own) == "MR.Q small with discount=0.9, batch_size=7"
    assert mrq.label(replace(mrq.preset("small"), value_horizon=1)) == "MR.Q small with value_horizon=1"
    assert mrq.label(replace(mrq.preset("paper"), value_horizon=1)) == "one-step-return"


def test_unknown_names_are_refused_with_those_there_are():
    assert default_algorithm().title == "MR.Q"
    with pytest.raises(MRQError, match="no algorithm 'mpo'; there are mrq, "):
        algorithm_named("mpo")
    with pytest.raises(MRQError, match="no algorithm titled 'MPO'"):
        algorithm_titled("MPO")
    with pytest.raises(MRQError, match=r"hyperparameters must be an object .* not int"):
        algorithm_of(3)


def test_tasks_that_an_algorithm_cannot_learn_are_refused_with_the_reason():
    vector, image = Spec(numbers=3, continuous=2), Spec((Image(3, 84, 84),), history=3, continuous=2)
    discrete = Spec((Image(3, 84, 84),), history=3, choices=(2,))
    algorithm = algorithm_named("drqv2")
    algorithm.refuse([image], ["walker"])
    with pytest.raises(MRQError, match=r"DrQ-v2 cannot learn Pendulum-v1, whose observations are vectors"):
        algorithm.refuse([image, vector], ["walker", "Pendulum-v1"])
    with pytest.raises(MRQError, match=r"DrQ-v2 cannot learn Pong, whose actions are discrete"):
        algorithm.refuse([discrete], ["Pong"])
    algorithm_named("mrq").refuse([vector, image, discrete], ["Pendulum-v1", "walker", "Pong"])


def test_looking_an_algorithm_up_does_not_import_pytorch():
    code = (
        "import sys; from mrq.algorithms.registry import ALGORITHMS, algorithm_named; "
        "[algorithm_named(name) for name in ALGORITHMS]; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
