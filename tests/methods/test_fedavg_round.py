"""Two rounds of FedAvg and FedStar against values calculated by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ramet.data import Batch, GraphBlock, Split
from ramet.engine.messages import request
from ramet.engine.processes.local import LocalWire
from ramet.engine.server.rounds import Rounds
from ramet.engine.server.state import MERGING, RunState
from ramet.engine.site.client import Client
from ramet.engine.store.checkpoint import Snapshots
from ramet.methods import METHODS, fedavg, fedstar
from ramet.metrics import Record
from ramet.payload import Payload, only
from ramet.rules.method import assembled
from ramet.tasks import GraphSamples
from ramet.training.local import LocalTraining
from servers import replied, server

SHARED = {"fedavg": "layers", "fedstar": "structure"}


@pytest.mark.parametrize("method", SHARED)
def test_replies_are_weighted(method: str) -> None:
    rule, name = METHODS[method]().merging, f"{SHARED[method]}.weight"
    replies = [
        ("a", Payload({name: np.array([1, 2], np.float32)}, {"weight": 1})),
        ("b", Payload({name: np.array([5, 10], np.float32)}, {"weight": 3})),
    ]
    merged = rule.merge(rule.start({name: np.zeros(2, np.float32)}), replied(replies), server())
    # (1 * 1 + 3 * 5) / 4 = 4 and (1 * 2 + 3 * 10) / 4 = 8
    assert merged.arrays[name].tolist() == [4, 8]


class OneWeight(nn.Module):
    """The logit of the first class is ``weight * nodes + bias``, that of the second 0."""

    def __init__(self, part: str) -> None:
        super().__init__()
        self.part = part
        linear = nn.Linear(1, 1, bias=False)
        nn.init.zeros_(linear.weight)
        self.add_module(part, linear)
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, batch: Batch) -> Tensor:  # [graphs, 2]
        nodes = torch.bincount(batch.graph, minlength=batch.graphs).to(torch.float32).unsqueeze(1)
        first = self.get_submodule(self.part)(nodes) + self.bias
        return torch.cat([first, torch.zeros_like(first)], dim=1)


class PlainSGD(LocalTraining):
    """Gradient descent without moments or weight decay."""

    def optimiser(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=self.lr)


def graphs_of(nodes: list[int], label: int) -> GraphBlock:
    """Graphs without links, with the given numbers of nodes, all of one of two classes."""
    count, none = sum(nodes), torch.zeros(0, dtype=torch.int64)
    block = GraphBlock.from_links(
        rows=none,
        columns=none,
        node_starts=torch.tensor([0, *nodes]).cumsum(0),
        features=torch.zeros(count, dtype=torch.int64),
        feature_width=1,
        labels=torch.full((len(nodes),), label),
        name="graphs without links",
    )
    return replace(block, class_count=2)


SAMPLES = {
    # train: one graph of four nodes; validation: one node; test: three nodes
    "a": GraphSamples(
        graphs_of([4, 1, 3], label=0),
        Split(torch.tensor([0]), torch.tensor([1]), torch.tensor([2])),
    ),
    # train: three graphs of two nodes; validation and test: one such graph each
    "b": GraphSamples(
        graphs_of([2, 2, 2, 2, 2], label=1),
        Split(torch.tensor([0, 1, 2]), torch.tensor([3]), torch.tensor([4])),
    ),
}


@pytest.mark.parametrize("method", SHARED)
def test_two_rounds_by_hand(method: str, tmp_path: Path) -> None:
    """With p = 1 / (1 + exp(-logit)) for the first class, the loss of a graph of that class is
    -log p, with gradient p - 1 with respect to the logit. For the second class they are -log(1 - p)
    and p. The logit is weight * nodes + bias, so the gradient of the weight is that times the
    number of nodes, and the gradient of the bias is that. All parameters start at 0, and the
    learning rate is 1/2.

    Round 1: p = 1/2 for every graph, so every loss is log 2 = 0.693147.
      a: gradient of the weight -1/2 * 4 = -2, weight  1;    of the bias -1/2, bias  1/4
      b: gradient of the weight  1/2 * 2 =  1, weight -1/2;  of the bias  1/2, bias -1/4
      merged weight: (1 * 1 + 3 * -1/2) / 4 = -1/8; the biases are private
    Evaluation with the merged weight, which predicts the first class for logits above 0:
      a: one node -1/8 + 1/4 = 1/8, correct; three nodes -3/8 + 1/4 = -1/8, wrong
      b: two nodes -2/8 - 1/4 = -1/2, correct
    Round 2, from -1/8 and the clients' own biases:
      a: logit -4/8 + 1/4 = -1/4, p = 0.4378235, loss -log p = 0.8259394;
         weight -0.125 - 0.5 * (p - 1) * 4 = 0.9993530
      b: logit -2/8 - 1/4 = -1/2, p = 0.3775407, loss -log(1 - p) = 0.4740770;
         weight -0.125 - 0.5 * p * 2 = -0.5025407
      merged weight: (0.9993530 + 3 * -0.5025407) / 4 = -0.1270673
    """
    part = SHARED[method]
    training = PlainSGD(lr=0.5, epochs=1)
    by_hand = assembled(
        replace(
            METHODS[method](),
            model=lambda _: OneWeight(part),
            shared=only(f"{part}.*"),
            training=training,
        )
    )
    nodes = {
        client: Client(
            name=client,
            method=by_hand,
            samples=samples,
            seed=0,
            snapshots=Snapshots(tmp_path / client),
            device=torch.device("cpu"),
        )
        for client, samples in SAMPLES.items()
    }
    start = {f"{part}.weight": np.zeros((1, 1), np.float32)}
    rounds = Rounds(by_hand, ("a", "b"), 2, 0, start, Snapshots(tmp_path / "server"))
    records: list[Record] = []
    rounds.run(LocalWire(lambda client: nodes[client]), records.append)

    saved = (Snapshots(tmp_path / "server").load(number) for number in (1, 2))
    first, second = (RunState.restored(one)[MERGING].arrays for one in saved)
    assert {name: array.tolist() for name, array in first.items()} == {f"{part}.weight": [[-0.125]]}
    assert second[f"{part}.weight"].tolist() == [[pytest.approx(-0.1270673, abs=1e-6)]]
    biases = [Snapshots(tmp_path / client).load(1).arrays["model/bias"] for client in nodes]
    assert [bias.tolist() for bias in biases] == [[0.25], [-0.25]]

    reported = [numbers for record in records for numbers in record.trained.values()]
    assert [numbers["weight"] for numbers in reported] == [1, 3, 1, 3]
    assert [numbers["loss"] for numbers in reported] == pytest.approx(
        [0.693147, 0.693147, 0.825939, 0.474077], abs=1e-6
    )
    assert records[0].evaluated == {"a": {"val": 1, "test": 0}, "b": {"val": 1, "test": 1}}


def test_payload_sizes_match_the_papers(tiny_client: Callable[..., Client]) -> None:
    sent = {
        method.name: tiny_client("rings", method).answer(request(1, True, {}))
        for method in (fedavg(), fedstar())
    }
    assert sum(array.size for array in sent["fedstar"].arrays.values()) == 14_592
    assert sent["fedstar"].numbers["up"] == 58_368
    assert sum(array.size for array in sent["fedavg"].arrays.values()) == 24_960
    assert sent["fedavg"].numbers["up"] == 99_840
