"""MOON against numbers that were derived by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from federations import graphs_of, planted_run, stopped_and_resumed
from ramet.data import Batch
from ramet.engine.messages import request
from ramet.engine.site.client import Client
from ramet.engine.store.checkpoint import Snapshots
from ramet.methods import fedavg, moon
from ramet.methods.moon import Contrast
from ramet.payload import digest, under
from ramet.randomness import Randomness
from ramet.tasks import GraphClassification
from ramet.training.local import LocalTraining, Session


class Constant(nn.Module):
    """Embeds every graph as ``weight``."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1.0, 0.0]))

    def encode(self, batch: Batch) -> Tensor:  # [graphs, 2]
        return self.weight.expand(batch.graphs, 2)


SAMPLES = graphs_of([1, 2, 3], [0, 1, 0])


def session_of(model: nn.Module, memory: dict[str, Tensor]) -> Session:
    training = LocalTraining(algorithm="sgd")
    return Session(
        model=model,
        optimiser=training.optimiser(model),
        training=training,
        task=GraphClassification(),
        samples=SAMPLES,
        shared=("weight",),
        randomness=Randomness(0, "a", 2),
        device=torch.device("cpu"),
        memory=memory,
    )


def test_the_term_and_its_gradient_by_hand() -> None:
    """The common embedding is (1, 0), the last one (0, 1), the one in training (3, 4). Its cosines
    with them are 0.6 and 0.8, and divided by the temperature of 1/2 1.2 and 1.6. The term is
    strength 2 times -log(exp 1.2 / (exp 1.2 + exp 1.6)) = 2 log(1 + exp 0.4) = 2 * 0.9130152.

    Its derivatives with respect to the cosines are -f and f with f = 2 / (1/2) * p and p = exp 0.4
    / (1 + exp 0.4) = 0.5986877, so f = 2.3947506. The cosines change with the embedding by
    ((1, 0) - 0.6 (0.6, 0.8)) / 5 = (0.128, -0.096) and ((0, 1) - 0.8 (0.6, 0.8)) / 5 =
    (-0.096, 0.072), so the gradient is f * (-0.224, 0.168) = (-0.5364241, 0.4023181): a step of
    descent goes towards the common embedding and away from the last one.
    """
    model = Constant()
    term = Contrast(strength=2.0, temperature=0.5)(
        session_of(model, {"weight": torch.tensor([0.0, 1.0])})
    )
    with torch.no_grad():
        model.weight.copy_(torch.tensor([3.0, 4.0]))
    batch = SAMPLES.block.cut(torch.arange(3))
    value = term(batch, torch.zeros(3, 2))
    assert value.item() == pytest.approx(2 * 0.9130152, abs=1e-6)
    value.backward()  # type: ignore[no-untyped-call]
    assert model.weight.grad is not None
    assert model.weight.grad.tolist() == pytest.approx([-0.5364241, 0.4023181], abs=1e-6)


def test_before_a_clients_first_round_there_is_no_contrast() -> None:
    term = Contrast(strength=2.0, temperature=0.5)(session_of(Constant(), {}))
    output = torch.ones(3, 2, requires_grad=True)
    value = term(SAMPLES.block.cut(torch.arange(3)), output)
    assert value.item() == 0
    value.backward()  # type: ignore[no-untyped-call]
    assert output.grad is not None
    assert not output.grad.any()


def test_the_contrast_begins_in_a_clients_second_round(
    tiny_client: Callable[..., Client], tmp_path: Path
) -> None:
    """In the first round MOON is FedAvg; in the second one the term pulls at the parameters."""
    plain = tiny_client("rings", fedavg())
    contrasted = replace(tiny_client("rings", moon()), snapshots=Snapshots(tmp_path / "moon"))
    first = [node.answer(request(1, True, {})).arrays for node in (plain, contrasted)]
    assert digest(first[0]) == digest(first[1])
    second = [node.answer(request(2, True, first[0], 1)).arrays for node in (plain, contrasted)]
    assert digest(second[0]) != digest(second[1])
    saved = contrasted.snapshots.load(2).arrays
    remembered = under("memory/method/", saved)  # the whole network as it was after training
    assert digest(remembered) == digest(under("model/", saved))
    assert "classify.weight" in remembered


@pytest.mark.parametrize("release", [None, "8-bit"])
def test_a_resumed_run_has_the_same_sha256(release: str | None, tmp_path: Path) -> None:
    whole = planted_run("moon", tmp_path / "whole", release=release)
    assert stopped_and_resumed(whole, tmp_path / "stopped") == whole.summary.sha256
