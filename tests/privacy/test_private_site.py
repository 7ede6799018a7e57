"""What a site does in a run with differential privacy: noise, one answer, and no more numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from federations import protected
from ramet.engine.messages import request
from ramet.engine.site.client import Client
from ramet.engine.site.ledger import Ledger
from ramet.engine.site.private_site import Noise, PrivateSite
from ramet.engine.site.run_answers import RunAnswers
from ramet.errors import RametError
from ramet.methods import fedavg
from ramet.policy import WITHHELD, Ceiling, Policy, PolicyError
from ramet.privacy.accounting import Mechanism, spent_epsilon
from ramet.privacy.budget import Budget
from ramet.privacy.draws import SeededDraws
from ramet.randomness import Randomness
from ramet.training.local import LocalTraining

ClientMaker = Callable[..., Client]
GRAPH, SITE = Budget("graph", 1.0, 1e-3), Budget("site", 1.0, 1e-3, 0.5)


def private(node: Client, budget: Budget, folder: Path, run: str = "a" * 32) -> Client:
    ledger = Ledger(folder / "privacy.json")
    site = PrivateSite(budget, 3, run, "data", folder / run, ledger)
    return protected(node, private=site, run_answers=RunAnswers(folder / run / "answers"))


def deployed(node: Client, ceiling: Ceiling | None = None) -> Client:
    private = node.protection.private
    assert private is not None
    return protected(node, private=replace(private, deployed=True, ceiling=ceiling))


@pytest.mark.parametrize("budget", [GRAPH, SITE])
def test_loss_and_counted_work_do_not_leave(
    budget: Budget, tiny_client: ClientMaker, tmp_path: Path
) -> None:
    node = private(tiny_client("rings", fedavg()), budget, tmp_path)
    first = node.answer(request(1, True, {}))
    assert set(first.numbers) == {"weight", "up"}
    assert "loss" in first.notes[WITHHELD]
    second = node.answer(request(2, True, first.arrays, last=1))
    assert set(second.numbers) == {"weight", "up", "val", "test"}
    assert second.numbers["weight"] == (120 if budget is GRAPH else 1)
    closing = node.answer(request(4, False, first.arrays, last=2))
    assert ("private" in closing.notes) == (budget is GRAPH)


def test_a_site_answers_a_round_once(tiny_client: ClientMaker, tmp_path: Path) -> None:
    node = deployed(private(tiny_client("rings", fedavg()), GRAPH, tmp_path))
    first = node.answer(request(1, True, {}))
    again = node.answer(request(1, True, {}))
    for name, array in first.arrays.items():
        np.testing.assert_array_equal(again.arrays[name], array)
    assert again.numbers == first.numbers
    ledger = Ledger(tmp_path / "privacy.json")
    assert ledger.runs()["a" * 32].rounds == (1,)
    with pytest.raises(RametError, match="already answered round 1, to another message"):
        node.answer(request(1, True, {}, omitted=["layers.0.first.bias"]))
    with pytest.raises(RametError, match="round 4 is not one of them"):
        node.answer(request(4, True, {}))


def test_deployed_noise_does_not_follow_from_the_seed(
    tiny_client: ClientMaker, tmp_path: Path
) -> None:
    def reply(folder: str, is_deployed: bool) -> np.ndarray:
        node = private(tiny_client("rings", fedavg()), GRAPH, tmp_path / folder)
        node = deployed(node) if is_deployed else node
        return np.asarray(node.answer(request(1, True, {})).arrays["layers.0.first.weight"])

    np.testing.assert_array_equal(reply("a", False), reply("b", False))
    assert np.abs(reply("c", True) - reply("d", True)).max() > 1e-4


def test_deployed_dropout_does_not_follow_from_the_seed(tmp_path: Path) -> None:
    """Otherwise one graph more in a batch would shift the known masks of all others."""
    site = PrivateSite(GRAPH, 3, "a" * 32, "", tmp_path, Ledger(tmp_path / "l.json"))
    known = Randomness(1, "rings", 1)
    assert site.other_draws(known) == known
    secret = replace(site, deployed=True)
    assert len({secret.other_draws(known).number("training") for _ in range(3)} - {1}) == 3


def test_infinite_activations_of_one_graph_do_not_show_in_the_reply(
    tiny_client: ClientMaker, tmp_path: Path
) -> None:
    """The sums over the nodes of some graphs overflow, those of the others do not."""
    node = deployed(private(tiny_client("rings", fedavg()), GRAPH, tmp_path))
    arrays = {
        name: np.zeros_like(a) for name, a in node.answer(request(1, True, {})).arrays.items()
    }
    last = max(name for name in arrays if name.startswith("layers.") and name.endswith("bias"))
    arrays[last][0] = np.finfo(np.float32).max / 14
    reply = node.answer(request(2, True, arrays, last=1))
    assert all(np.isfinite(array).all() for array in reply.arrays.values())


def test_the_ceiling_of_the_policy_stops_a_run_before_its_reply(
    tiny_client: ClientMaker, tmp_path: Path
) -> None:
    ceiling = Ceiling(unit="graph", epsilon=1.0, delta=1e-3)
    node = tiny_client("rings", fedavg())
    first = deployed(private(node, GRAPH, tmp_path), ceiling)
    for number in (1, 2, 3):
        first.answer(request(number, True, {}, last=number - 1))
    second = deployed(private(node, GRAPH, tmp_path, "b" * 32), ceiling)
    with pytest.raises(PolicyError, match=r"its policy allows 1\."):
        second.answer(request(1, True, {}))
    assert not [*(tmp_path / ("b" * 32)).glob("reply-*")]


def test_a_policy_with_a_ceiling_refuses_other_runs(tiny_client: ClientMaker) -> None:
    ceiling = Ceiling(unit="graph", epsilon=4.0, delta=1e-5)
    with pytest.raises(PolicyError, match="with differential privacy only"):
        protected(tiny_client("rings", fedavg()), policy=Policy(privacy=ceiling)).answer(
            request(1, True, {})
        )
    for budget, reason in (
        (None, "the run has none"),
        (Budget("site", 1.0, 1e-6), "asks for graph"),
        (Budget("graph", 5.0, 1e-5), "exceeds the policy's"),
        (Budget("graph", 4.0, 1e-4), "exceeds the policy's"),
    ):
        with pytest.raises(PolicyError, match=reason):
            Policy(privacy=ceiling).check("fedavg", None, 3, False, budget)
    Policy(privacy=ceiling).check("fedavg", None, 3, False, Budget("graph", 4.0, 1e-5))


def test_a_sites_update_is_clipped_and_noisy(tmp_path: Path) -> None:
    """A change of norm 5 (3 and 4) is clipped to 0.5, so that 0.3 and 0.4 remain."""
    site = PrivateSite(SITE, 3, "a" * 32, "", tmp_path, Ledger(tmp_path / "l.json"))
    sent = {"a": np.full(1, 2.0, np.float32), "b": np.zeros((1, 1), np.float32)}
    trained = {"a": np.full(1, 5.0, np.float32), "b": np.full((1, 1), 4.0, np.float32)}
    silent = Noise(Mechanism(0.0), SeededDraws(torch.Generator()))
    clipped = site.noisy(trained, sent, silent)
    np.testing.assert_allclose(clipped["a"], [2.3], rtol=1e-6)
    np.testing.assert_allclose(clipped["b"], [[0.4]], rtol=1e-6)
    small = {"a": np.full(1, 2.1, np.float32)}
    np.testing.assert_allclose(site.noisy(small, sent, silent)["a"], [2.1], rtol=1e-6)


def test_the_noise_of_an_update_has_the_stated_deviation(tmp_path: Path) -> None:
    site = PrivateSite(SITE, 3, "a" * 32, "", tmp_path, Ledger(tmp_path / "l.json"))
    zeros = {"a": np.zeros((100, 200), np.float32)}
    noise = Noise(Mechanism(3.0), SeededDraws(torch.Generator().manual_seed(1)))
    noisy = site.noisy(zeros, zeros, noise)["a"]
    assert noisy.dtype == np.float32
    assert float(noisy.std()) == pytest.approx(3.0 * 0.5, rel=0.02)


def test_the_noise_of_updates_covers_two_clipping_norms(tmp_path: Path) -> None:
    """With other data, a site's update may point the opposite way; that it answers is public."""
    budget, ledger = Budget("site", 4.0, 1e-5), Ledger(tmp_path / "l.json")
    site = PrivateSite(budget, 10, "a" * 32, "", tmp_path, ledger)
    noise = site.spend(1, LocalTraining(), None).noise
    assert 3.9 < spent_epsilon([(Mechanism(noise / 2), 10)], 1e-5) <= 4.0
    assert ledger.runs()["a" * 32].mechanism == Mechanism(noise / 2)


def test_an_update_that_is_not_finite_leaves_as_noise(tmp_path: Path) -> None:
    site = PrivateSite(SITE, 3, "a" * 32, "", tmp_path, Ledger(tmp_path / "l.json"))
    bad = {"a": np.array([np.nan, 1.0], np.float32)}
    noise = Noise(Mechanism(1.0), SeededDraws(torch.Generator()))
    noisy = site.noisy(bad, {"a": np.zeros(2, np.float32)}, noise)["a"]
    assert np.isfinite(noisy).all()
