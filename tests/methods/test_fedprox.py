from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from ramet.engine.messages import request
from ramet.engine.site.client import Client
from ramet.engine.start import start_shared
from ramet.methods import fedavg, fedprox
from ramet.methods.fedprox import Proximal
from ramet.payload import digest
from ramet.randomness import Randomness
from ramet.rules.method import assembled
from ramet.tasks import GraphClassification
from ramet.training.local import LocalTraining, Session


def test_mu_0_equals_fedavg(tiny_client: Callable[..., Client]) -> None:
    plain = tiny_client("rings", fedavg()).answer(request(1, True, {}))
    without = tiny_client("rings", fedprox(mu=0.0)).answer(request(1, True, {}))
    assert digest(plain.arrays) == digest(without.arrays)


def test_a_large_mu_keeps_shared_parameters_near_the_start(
    tiny_client: Callable[..., Client],
) -> None:
    def distance(mu: float) -> float:
        method = assembled(fedprox(mu=mu), training=LocalTraining(epochs=20))
        node = tiny_client("rings", method)
        reply = node.answer(request(1, True, {}))
        start = start_shared(method, method.task.shape(node.samples), 0)
        node.snapshots.folder.joinpath("000001.safetensors").unlink()
        return sum(float(abs(reply.arrays[name] - start[name]).sum()) for name in start)

    assert distance(100.0) < 0.5 * distance(0.0)


def test_the_term_and_its_gradient_by_hand() -> None:
    model = nn.Linear(2, 1)
    nn.init.constant_(model.weight, 1.0)
    nn.init.constant_(model.bias, 0.0)
    session = Session(
        model=model,
        optimiser=torch.optim.SGD(model.parameters(), lr=0.1),
        training=LocalTraining(),
        task=GraphClassification(),
        samples=None,  # type: ignore[arg-type]
        shared=("weight",),
        randomness=Randomness(0, "a", 1),
        device=torch.device("cpu"),
        start={"weight": torch.ones(1, 2)},
    )
    term = Proximal(mu=0.5)(session)
    with torch.no_grad():
        model.weight.add_(torch.tensor([[1.0, -2.0]]))
        model.bias.add_(100.0)  # private, so not in the penalty
    value = term(None, torch.empty(0))
    assert value.item() == pytest.approx(0.5 / 2 * (1 + 4))
    value.backward()  # type: ignore[no-untyped-call]
    assert model.weight.grad is not None
    assert model.weight.grad.tolist() == [[0.5, -1.0]]
    assert model.bias.grad is None
