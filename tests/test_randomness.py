from __future__ import annotations

import torch

from ramet import randomness
from ramet.randomness import Randomness


def test_seed_who_round_and_purpose_all_matter() -> None:
    base = Randomness(1, "MUTAG", 3).number("training")
    assert base == Randomness(1, "MUTAG", 3).number("training")
    others = {
        Randomness(2, "MUTAG", 3).number("training"),
        Randomness(1, "BZR", 3).number("training"),
        Randomness(1, "MUTAG", 4).number("training"),
        Randomness(1, "MUTAG", 3).number("start"),
    }
    assert len(others) == 4
    assert base not in others


def test_draws_do_not_depend_on_earlier_draws_and_do_not_affect_later_ones() -> None:
    torch.manual_seed(5)
    undisturbed = torch.rand(3)
    torch.manual_seed(5)
    torch.rand(7)
    with Randomness(1, "a", 1).torch_draws("x"):
        first = torch.rand(4)
    torch.manual_seed(5)
    with Randomness(1, "a", 1).torch_draws("x"):
        second = torch.rand(4)
    assert torch.equal(first, second)
    assert torch.equal(torch.rand(3), undisturbed)


def test_whoever_knows_the_seed_can_subtract_noise_and_the_documentation_says_so() -> None:
    secret = torch.tensor([3.0, 1.0, 4.0])
    with Randomness(7, "site", 2).torch_draws("training"):
        sent = secret + torch.randn(3)
    with Randomness(7, "site", 2).torch_draws("training"):  # in the coordinator's process
        assert torch.allclose(sent - torch.randn(3), secret, atol=1e-6)
    assert "os.urandom" in (randomness.__doc__ or "")
