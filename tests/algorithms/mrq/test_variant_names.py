from mrq import Hyperparameters
from mrq.algorithms.mrq import MRQ
from mrq.algorithms.mrq.variants import VARIANTS


def test_there_are_twelve_and_each_changes_the_defaults():
    plain = Hyperparameters()
    assert len(VARIANTS) == 12
    assert len({repr(MRQ.varied(plain, name)) for name in VARIANTS} | {repr(plain)}) == 13
    revert = MRQ.varied(plain, "revert")
    assert revert == MRQ.varied(
        MRQ.varied(MRQ.varied(plain, "linear-value-function"), "dynamics-target"), "no-target-encoder"
    )


def test_runs_are_named_by_what_was_changed():
    plain = Hyperparameters()
    assert MRQ.label(plain) == "MR.Q"
    assert [MRQ.label(MRQ.varied(plain, name)) for name in VARIANTS] == list(VARIANTS)
    assert MRQ.label(Hyperparameters(batch_size=16, discount=0.9)) == "MR.Q with discount=0.9, batch_size=16"
    assert MRQ.label(Hyperparameters(prioritised=False, discount=0.9)) == "MR.Q with discount=0.9, prioritised=False"
