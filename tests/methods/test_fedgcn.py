"""FedGCN: sums over neighbours at all sites, and a network that reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import ramet
from federations import stopped_and_resumed
from ramet.data import NodeGraph
from ramet.data.graphs.neighbour_sums import near, outside_of, sums_for_others, sums_of_all
from ramet.data.sources.node_graphs import read_graph
from ramet.errors import RametError
from ramet.experiment import checked_settings
from ramet.metrics import Record
from ramet.models.border_gcn import BorderGCN, all_degrees, scaled_features
from ramet.models.plain_node import NodeGCN
from ramet.models.settings import NodeNetwork
from ramet.models.shape import NodeShape
from ramet.partition.node_cuts import members
from ramet.rules.merging import Total


def parts_of(whole: NodeGraph, parts: Sequence[Tensor]) -> list[NodeGraph]:
    outside = outside_of(whole, parts)
    assert outside is not None
    return [replace(whole.subgraph(p), outside=o) for p, o in zip(parts, outside, strict=True)]


def added(terms: Sequence[Tensor]) -> Tensor:
    """The sum as the server computes it."""
    total = Total()
    for term in terms:
        total.add({"sums": term.numpy()})
    return torch.from_numpy(total.arrays()["sums"])


def exchanged(graphs: Sequence[NodeGraph], values: Sequence[Tensor]) -> list[Tensor]:
    """The sums over all neighbours, at each site."""
    pairs = [*zip(graphs, values, strict=True)]
    total = added([sums_for_others(*pair) for pair in pairs])
    return [sums_of_all(*pair, total) for pair in pairs]


def whole_of(parts: Sequence[Tensor], values: Sequence[Tensor]) -> Tensor:
    """Rows of all sites, in the order of the whole graph."""
    return torch.cat([*values])[torch.cat([*parts]).argsort()]


@pytest.fixture(scope="module")
def cora(data_root: Path) -> NodeGraph:
    return read_graph(data_root, "Planetoid", "Cora")


@pytest.mark.parametrize("cut", ["louvain", "label"])
@pytest.mark.parametrize("noisy", [False, True])
def test_sums_of_ten_sites_are_those_of_the_whole_graph_bit_for_bit(
    cora: NodeGraph, cut: str, noisy: bool
) -> None:
    """A·X and A²·X of Cora, whose features are 0 or 1, and of any features in fixed point."""
    if noisy:
        drawn = torch.rand(cora.features.shape, generator=torch.Generator().manual_seed(0))
        features = (drawn.double() * 2**24).round() / 2**24
    else:
        features = cora.features.double()
    parts = members("label" if cut == "label" else "louvain", cora, 10, 0, 0.5)
    graphs = parts_of(cora, parts)
    assert min(g.outside.left.numel() for g in graphs if g.outside) > 10
    one = exchanged(graphs, [features[part] for part in parts])
    two = exchanged(graphs, one)
    assert whole_of(parts, one).equal(near(cora, features))
    assert whole_of(parts, two).equal(near(cora, near(cora, features)))
    own_only = [near(g, features[p]) for g, p in zip(graphs, parts, strict=True)]
    assert not whole_of(parts, own_only).equal(near(cora, features))


def test_a_path_over_three_sites(small_path: NodeGraph) -> None:
    """0 - 1 - 2 - 3, of which site a has 0 and 1, b has 2 and c has 3; node i has feature 10^i."""
    parts = [torch.tensor([0, 1]), torch.tensor([2]), torch.tensor([3])]
    a, b, c = parts_of(small_path, parts)
    assert a.outside is not None
    assert (a.outside.rows, a.outside.nodes.tolist(), a.outside.row.tolist()) == (3, [1], [0])
    assert (a.outside.left.tolist(), a.outside.right.tolist()) == ([1], [1])
    sent = [sums_for_others(graph, graph.features).flatten().tolist() for graph in (a, b, c)]
    assert sent == [[1, 10, 0], [100, 0, 100], [0, 1000, 0]]
    assert all_degrees(a).tolist() == [1, 2]
    assert [
        s.flatten().tolist() for s in exchanged([a, b, c], [g.features for g in (a, b, c)])
    ] == [
        [10, 101],
        [1010],
        [100],
    ]


@pytest.fixture
def small_path() -> NodeGraph:
    return NodeGraph(
        features=torch.tensor([[1.0], [10.0], [100.0], [1000.0]]).double(),
        labels=torch.tensor([0, 1, 0, 1]),
        classes=2,
        left=torch.tensor([0, 1, 2], dtype=torch.int32),
        right=torch.tensor([1, 2, 3], dtype=torch.int32),
        kinds=torch.zeros(3, dtype=torch.int64),
        kind_names=("link",),
        trained=torch.zeros(4, dtype=torch.bool),
    )


def test_parts_with_common_nodes_know_nothing_of_each_other(small_path: NodeGraph) -> None:
    assert outside_of(small_path, [torch.tensor([0, 1, 2]), torch.tensor([2, 3])]) is None
    assert outside_of(small_path, [torch.tensor([0, 1]), torch.tensor([2])]) is None


def with_sums(model: BorderGCN, graphs: Sequence[NodeGraph]) -> BorderGCN:
    """The network with the sums and degrees that sites exchange."""
    sums = []
    for graph in graphs:
        outside, scaled = graph.outside, scaled_features(graph)
        assert outside is not None
        sent = sums_for_others(graph, scaled)
        sums.append(sent.index_add_(0, outside.row, scaled[outside.nodes]))
        model.degrees[outside.row] = all_degrees(graph)[outside.nodes].float()
    model.sums.copy_(added(sums))
    return model


@pytest.mark.parametrize(("hops", "layers"), [(2, 2), (2, 1), (1, 1)])
def test_the_output_is_that_of_a_gcn_on_the_whole_graph(
    cora: NodeGraph, hops: int, layers: int
) -> None:
    settings = NodeNetwork(hidden=16, layers=layers)
    parts = members("label", cora, 10, 0, 0.5)
    graphs = parts_of(cora, parts)
    assert graphs[0].outside is not None
    shape = NodeShape(cora.features.size(1), cora.classes, graphs[0].outside.rows)
    model = with_sums(BorderGCN(shape, settings, hops).eval(), graphs)
    gcn = NodeGCN(shape, settings).eval()
    gcn.load_state_dict({name: v for name, v in model.state_dict().items() if "layers" in name})
    with torch.no_grad():
        outputs = whole_of(parts, [model(graph) for graph in graphs])
        assert torch.allclose(outputs, gcn(cora), atol=1e-5)
        assert torch.allclose(model(cora), gcn(cora), atol=1e-6)
        lost = whole_of(parts, [gcn(graph) for graph in graphs])
        assert not torch.allclose(lost, gcn(cora), atol=1e-2)


def test_one_hop_differs_from_the_whole_graph_in_the_second_layer_only(cora: NodeGraph) -> None:
    parts = members("label", cora, 10, 0, 0.5)
    graphs = parts_of(cora, parts)
    assert graphs[0].outside is not None
    shape = NodeShape(cora.features.size(1), cora.classes, graphs[0].outside.rows)
    model = with_sums(BorderGCN(shape, NodeNetwork(hidden=16), hops=1).eval(), graphs)
    with torch.no_grad():
        hidden = whole_of(parts, [model.encode(graph) for graph in graphs])
        assert torch.allclose(hidden, NodeGCN.encode(model, cora), atol=1e-5)
        assert not torch.allclose(
            whole_of(parts, [model(graph) for graph in graphs]), model(cora), atol=1e-2
        )


def test_runs_end_alike_with_workers_and_after_a_stop(tmp_path: Path, data_root: Path) -> None:
    given: dict[str, Any] = {
        "setting": "cora",
        "rounds": 3,
        "data": data_root,
        "partition": "label",
        "hidden": 4,
    }
    whole = ramet.run("fedgcn", out=tmp_path / "whole", **given)
    workers = ramet.run("fedgcn", out=tmp_path / "workers", workers=2, **given)
    assert workers.summary.sha256 == whole.summary.sha256
    assert stopped_and_resumed(whole, tmp_path / "stopped") == whole.summary.sha256


def test_it_does_not_train_on_the_sums_of_some_sites(tmp_path: Path, data_root: Path) -> None:
    with pytest.raises(RametError, match="those of some are missing"):
        ramet.run(
            "fedgcn", "cora", rounds=2, activation="random-clients,count=2", data=data_root,
            out=tmp_path / "some",
        )  # fmt: skip


@pytest.mark.parametrize(
    ("more", "refusal"),
    [
        ({"secure": True}, "its stages are exchanged one by one"),
        ({"dp": "unit=link,epsilon=8,delta=1e-5"}, "buffers"),
        ({"dp": "unit=site,epsilon=8,delta=1e-5"}, "buffers"),
        ({"merge": "median"}, "but not the extras of fedgcn"),
    ],
)
def test_what_it_does_not_work_with_is_refused(
    more: dict[str, Any], refusal: str, tmp_path: Path
) -> None:
    with pytest.raises(RametError, match=refusal):
        checked_settings(method="fedgcn", setting="cora", data=tmp_path, **more)


def test_without_links_between_sites_it_is_fedavg(
    tmp_path: Path, data_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ramet.partition.by_community.outside_of", lambda *_: None)
    found = []
    for name, network in (("fedgcn", None), ("fedavg", "gcn")):
        folder = tmp_path / name
        result = ramet.run(name, "cora", rounds=2, data=data_root, network=network, out=folder)
        lines = (result.folder / "rounds.jsonl").read_text().splitlines()
        records = [Record.parse(line) for line in lines]
        losses = [{c: n["loss"] for c, n in record.trained.items()} for record in records]
        found.append((losses, [record.evaluated for record in records]))
    assert found[0] == found[1]
    assert len(found[0][0]) == 2
