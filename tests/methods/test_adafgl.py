"""AdaFGL against numbers that were derived by hand, and its two phases."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch.nn.functional import cross_entropy

from federations import planted_run, stopped_and_resumed
from ramet.data import NodeGraph
from ramet.engine.processes.local import LocalWire
from ramet.engine.server.rounds import Rounds
from ramet.engine.server.wire import Answer
from ramet.engine.site.client import Client
from ramet.engine.start import start_shared
from ramet.engine.store.checkpoint import Snapshots
from ramet.errors import RametError
from ramet.experiment import RunFolder
from ramet.experiment.capabilities import Can
from ramet.experiment.compatibility import why_not
from ramet.methods import adafgl
from ramet.methods.adafgl import HiddenLabels, PersonalLoss, TwoPhases
from ramet.models.adaptive_gcn import AdaptiveGCN, Alike, HopsMLP, Parts, Propagation, signed_mean
from ramet.models.settings import NodeNetwork
from ramet.models.shape import NodeShape
from ramet.payload import Payload, digest
from ramet.rules.method import assembled
from ramet.studies.finished_run import FinishedRun
from ramet.training.local import Session

CLIENTS = ("rings", "trees", "blocks")
LN3 = math.log(3)
TWO_ROUNDS: dict[str, Any] = {"shared_rounds": 2, "personal_epochs": 2}


def graph_of(links: list[tuple[int, int]], labels: list[int]) -> NodeGraph:
    """All nodes are for training, and node i has feature i + 1."""
    left, right = torch.tensor(links, dtype=torch.int32).reshape(-1, 2).T
    return NodeGraph(
        features=torch.arange(1.0, len(labels) + 1).unsqueeze(1),
        labels=torch.tensor(labels),
        classes=2,
        left=left,
        right=right,
        kinds=torch.zeros(len(links), dtype=torch.uint8),
        kind_names=("link",),
        trained=torch.ones(len(labels), dtype=torch.bool),
    )


@pytest.fixture
def three() -> NodeGraph:
    """Nodes 0 and 1 are linked; node 2 is not."""
    return graph_of([(0, 1)], [0, 1, 0])


@pytest.fixture
def likeness() -> Alike:
    """Similarities 0.6, 0 and 0.8 of nodes 0 and 1, 0 and 2, 1 and 2; their mean is 7/15."""
    return Alike.by(torch.tensor([[2.0, 0.0], [0.3, 0.4], [0.0, 1.0]]))


def model_of(graph: NodeGraph) -> AdaptiveGCN:
    torch.manual_seed(0)
    shape = NodeShape(graph.features.size(1), graph.classes)
    return AdaptiveGCN(shape, NodeNetwork(hidden=4, dropout=0.0))


def test_the_propagation_matrix_by_hand(three: NodeGraph) -> None:
    """Nodes 0 and 2 are predicted alike, node 1 is not. With self loops and the norm, links are 1/2
    between nodes 0 and 1 and 1 for node 2; similarities are 1/2 between nodes 0 and 2 and 1 for
    node 1. The weights are 1/4 and 3/4.
    """
    alike = Alike.by(torch.tensor([[0.9, 0.0], [0.0, 0.5], [0.2, 0.0]]))
    matrix = Propagation(three, alike, link_share=0.25)(torch.eye(3))
    expected = [[4, 1, 3], [1, 7, 0], [3, 0, 5]]
    assert torch.allclose(matrix, torch.tensor(expected) / 8)


def test_similar_nodes_share_by_the_square_roots_of_their_sums(
    three: NodeGraph, likeness: Alike
) -> None:
    """With the nodes themselves, similarities sum to 1.6, 2.4 and 1.8."""
    matrix = Propagation(three, likeness, link_share=0.0)(torch.eye(3))
    assert matrix[0, 1].item() == pytest.approx(0.6 / math.sqrt(1.6 * 2.4))
    assert matrix[1, 2].item() == pytest.approx(0.8 / math.sqrt(2.4 * 1.8))
    assert matrix[2, 2].item() == pytest.approx(1 / 1.8)
    assert matrix[0, 2].item() == pytest.approx(0, abs=1e-6)


def test_messages_are_positive_and_negative(likeness: Alike) -> None:
    """Less their mean, similarities are 2/15, -7/15 and 5/15. For values 1, 2 and 4 the means are
    (2 · 2 - 7 · 4) / 30, (2 · 1 + 5 · 4) / 30 and (-7 · 1 + 5 · 2) / 30.
    """
    means = signed_mean(likeness, torch.tensor([[1.0], [2.0], [4.0]]))
    assert means.flatten().tolist() == pytest.approx([-24 / 30, 22 / 30, 3 / 30])


def test_mapping_before_propagation_gives_the_same(three: NodeGraph, likeness: Alike) -> None:
    torch.manual_seed(0)
    network = HopsMLP(NodeShape(1, 2), NodeNetwork(layers=1), hops=2)
    propagation = Propagation(three, likeness, link_share=0.5)
    hops = [three.features]
    for _ in range(2):
        hops.append(propagation(hops[-1]))
    assert torch.allclose(network(propagation), network.layers[0](torch.cat(hops, dim=1)))


def test_confidence_is_the_share_of_hidden_labels_that_neighbours_tell() -> None:
    """Three pairs. The hidden nodes 1 and 5 have the class of their neighbours, node 3 has not."""
    order, rule = torch.tensor([0, 2, 4, 1, 3, 5]), HiddenLabels()
    pairs = [(0, 1), (2, 3), (4, 5)]
    assert rule.found(graph_of(pairs, [1, 1, 1, 0, 0, 0]), order) == pytest.approx(2 / 3)
    assert rule.found(graph_of(pairs, [1, 0, 0, 1, 1, 0]), order) == 0
    assert HiddenLabels(hidden_share=0.0).found(graph_of(pairs, [1] * 6), order) == 0.5


def test_branches_are_mixed_by_confidence(three: NodeGraph) -> None:
    """Homophilous: (1 + 1/4) / 2 = 5/8. Heterophilous: (1/2 + 1/2 + 3/4) / 3 = 7/12."""
    model, even = model_of(three), torch.zeros(1, 2)
    model.confidence.fill_(0.25)
    smoothed, last = torch.tensor([[0.0, LN3]]), torch.tensor([[LN3, 0.0]])
    parts = Parts(torch.tensor([[1.0, 0.0]]), smoothed, (even, even, last))
    mixed = 5 / 8 / 4 + 3 / 4 * 7 / 12
    assert model.mixed(parts).flatten().tolist() == pytest.approx([mixed, 1 - mixed])


def test_the_personal_prediction_is_used_once_it_is_switched_on(three: NodeGraph) -> None:
    model = model_of(three).eval()
    model.confidence.fill_(0.25)
    assert torch.equal(model(three), model.extractor(three))
    model.personal.fill_(True)
    parts = model.parts(three)
    assert torch.allclose(model(three).exp(), model.mixed(parts))
    assert torch.equal(parts.known, model.extractor(three).softmax(dim=1))
    assert not torch.allclose(model(three).exp(), parts.known, atol=1e-3)


def test_the_personal_loss_by_hand(three: NodeGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    """One node of class 1: smoothed to 3/4, by other branches to 1/2 and 1/4.

    The smoothed prediction forgets the known one, (3/4, 1/4), by a squared 1/2 in both classes.
    """
    model = AdaptiveGCN(NodeShape(1, 2), NodeNetwork(hidden=2), 1, 0.5, 0.2)
    model.personal.fill_(True)
    parts = SimpleNamespace(
        smoothed=torch.tensor([[0.0, LN3]]),
        others=[torch.tensor([[0.0, 0.0]]), torch.tensor([[LN3, 0.0]])],
        known=torch.tensor([[0.75, 0.25]]),
    )
    monkeypatch.setattr(model, "parts", lambda _: parts)
    task = SimpleNamespace(loss=lambda logits, _: cross_entropy(logits, torch.tensor([1])))
    session = SimpleNamespace(model=model, task=task)
    rule = PersonalLoss(knowledge=8.0, hidden_labels=HiddenLabels())
    loss = rule(cast(Session, session))(three, torch.empty(0))
    assert loss.item() == pytest.approx(math.log(4 / 3) + math.log(2) + math.log(4) + 8 / 4)


def test_only_the_branches_have_gradients(three: NodeGraph) -> None:
    model = model_of(three).train()
    model.personal.fill_(True)
    parts = model.parts(three)
    logits = torch.cat([model(three), parts.smoothed, *parts.others])
    logits.sum().backward()  # type: ignore[no-untyped-call]
    trained = {name for name, value in model.named_parameters() if value.grad is not None}
    assert trained == {n for n, _ in model.named_parameters() if not n.startswith("extractor.")}
    assert model.extractor.training


class Recorded(LocalWire):
    """Keeps replies by round, and the extractor that each client has in its newest snapshot."""

    def __init__(self, nodes: dict[str, Client]) -> None:
        super().__init__(nodes.__getitem__)
        self.nodes, self.replies = nodes, list[tuple[int, Payload]]()
        self.extractors: dict[int, set[str]] = {}
        self.personal: dict[int, set[bool]] = {}

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]:
        listed = [*requests]
        number = int(listed[0][1].numbers["round"])
        for client, reply in super().exchange(listed):
            assert isinstance(reply, Payload)
            self.replies.append((number, reply))
            snapshots = self.nodes[client].snapshots
            state = snapshots.load(max(snapshots.steps())).arrays
            own = {name: array for name, array in state.items() if "model/extractor." in name}
            assert own
            self.extractors.setdefault(number, set()).add(digest(own))
            self.personal.setdefault(number, set()).add(bool(state["model/personal"]))
            yield client, reply


def test_after_the_first_phase_no_array_leaves_and_the_extractor_stays(
    tiny_client: Callable[..., Client], tmp_path: Path
) -> None:
    method = assembled(adafgl(training=TwoPhases(shared_rounds=2, personal_epochs=2)))
    nodes = {client: tiny_client(client, method) for client in CLIENTS}
    start = start_shared(method, method.task.shape(nodes["rings"].samples), 0)
    wire, snapshots = Recorded(nodes), Snapshots(tmp_path / "server")
    rounds = Rounds(method, CLIENTS, 4, 0, start, snapshots)
    rounds.run(wire, lambda _: None)
    for number, reply in wire.replies:
        assert set(reply.arrays) == (set(start) if number <= 2 else set())
    assert wire.personal == {1: {False}, 2: {False}, 3: {True}, 4: {True}, 5: {True}}
    trained_apart = {number: len(found) for number, found in wire.extractors.items()}
    assert trained_apart == {1: 3, 2: 3, 3: 1, 4: 1, 5: 1}
    assert wire.extractors[3] == wire.extractors[4]


def test_the_first_phase_is_fedavg(tmp_path: Path) -> None:
    plain = planted_run("fedavg", tmp_path / "plain")
    first = planted_run("adafgl", tmp_path / "first", shared_rounds=3)
    second = planted_run("adafgl", tmp_path / "second", **TWO_ROUNDS)
    scores = ["val", "test"]
    assert first.frame[scores].equals(plain.frame[scores])
    assert second.frame[scores][:2].equals(plain.frame[scores][:2])
    assert not second.frame[scores].equals(plain.frame[scores])
    up = [int(run.frame["up"].sum()) for run in (plain, first, second)]
    assert up[0] == up[1] == 3 / 2 * up[2] > 0


@pytest.mark.thorough
def test_a_personal_phase_reduces_its_loss(tmp_path: Path) -> None:
    one = planted_run("adafgl", tmp_path / "one", shared_rounds=1, personal_epochs=1)
    many = planted_run("adafgl", tmp_path / "many", shared_rounds=1, personal_epochs=40)
    assert many.frame["loss"].iloc[-1] < 0.7 * one.frame["loss"].iloc[-1]


def test_no_client_counts_as_left_out_when_none_sends_anything(tmp_path: Path) -> None:
    run = FinishedRun.of(RunFolder(planted_run("adafgl", tmp_path / "run", **TWO_ROUNDS).folder))
    assert run is not None
    assert [sum(row) for row in run.tensors] == [12, 12, 0]
    assert not run.left_out_clients()


def test_a_stopped_run_ends_with_the_same_result(tmp_path: Path) -> None:
    whole = planted_run("adafgl", tmp_path / "whole", **TWO_ROUNDS)
    assert stopped_and_resumed(whole, tmp_path / "stopped") == whole.summary.sha256


def test_regions_change_no_bit(tmp_path: Path) -> None:
    whole = planted_run("adafgl", tmp_path / "whole", **TWO_ROUNDS)
    divided = planted_run("adafgl", tmp_path / "divided", regions=2, **TWO_ROUNDS)
    assert divided.summary.sha256 == whole.summary.sha256


def test_it_can_be_summed_securely_if_sites_return_the_extractor(tmp_path: Path) -> None:
    reason = "FirstRounds asks for parts of replies"
    assert str(why_not(assembled(adafgl()), Can.SECURE)).startswith(reason)
    with pytest.raises(RametError, match=reason):
        planted_run("adafgl", tmp_path / "refused", secure=True, **TWO_ROUNDS)
    whole = {"activation": "everyone", **TWO_ROUNDS}
    fixed = planted_run("adafgl", tmp_path / "fixed", merge="fixed-point", **whole)
    secure = planted_run("adafgl", tmp_path / "secure", secure=True, **whole)
    assert secure.summary.sha256 == fixed.summary.sha256
