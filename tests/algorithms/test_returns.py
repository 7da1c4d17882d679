import torch

from mrq.algorithms.returns import multi_step_return


def test_returns_by_hand():
    rewards = torch.tensor([[1.0, 2.0, 4.0]] * 4)
    alive = torch.tensor(
        [
            [1.0, 1, 1, 1],  # continues
            [1.0, 1, 1, 0],  # terminates with the last reward
            [1.0, 1, 0, 0],  # terminates with the second
            [1.0, 0, 0, 0],  # terminates with the first
        ]
    )
    returns, weight = multi_step_return(rewards, alive, 0.5)
    assert returns.tolist() == [1 + 1 + 1, 1 + 1 + 1, 1 + 1, 1]
    assert weight.tolist() == [0.125, 0, 0, 0]


def test_one_step():
    returns, weight = multi_step_return(torch.tensor([[3.0]]), torch.tensor([[1.0, 1.0]]), 0.9)
    assert returns.item() == 3.0
    torch.testing.assert_close(weight, torch.tensor([0.9]))
