from mrq import Hyperparameters
from mrq.benchmark.variants import VARIANTS, variant_of, varied


def test_there_are_twelve_and_each_changes_the_defaults():
    plain = Hyperparameters()
    assert len(VARIANTS) == 12
    assert len({repr(varied(plain, name)) for name in VARIANTS} | {repr(plain)}) == 13
    revert = varied(plain, "revert")
    assert revert == varied(varied(varied(plain, "linear-value-function"), "dynamics-target"), "no-target-encoder")


def test_runs_are_named_by_what_was_changed():
    plain = Hyperparameters()
    assert variant_of(plain) == "MR.Q"
    assert [variant_of(varied(plain, name)) for name in VARIANTS] == list(VARIANTS)
    assert variant_of(Hyperparameters(batch_size=16, discount=0.9)) == "MR.Q with discount=0.9, batch_size=16"
    assert variant_of(Hyperparameters(prioritised=False, discount=0.9)) == "MR.Q with discount=0.9, prioritised=False"
