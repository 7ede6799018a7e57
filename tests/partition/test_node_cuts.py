"""Ways to distribute the nodes of one graph over clients, and the graphs of the field."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from ramet.data import NodeGraph
from ramet.data.sources.node_graphs import read_graph
from ramet.data.sources.planted import PlantedKind, planted
from ramet.errors import RametError
from ramet.experiment import checked_settings
from ramet.partition import SETTINGS, Reading
from ramet.partition.node_cuts import NodeCut, largest_component, members


def two_cliques() -> NodeGraph:
    """Nodes 0 to 19 and 20 to 39, all linked among themselves, and one link between the two."""
    pairs = [(a, b) for a in range(40) for b in range(a + 1, 40) if a // 20 == b // 20]
    left, right = torch.tensor([*pairs, (0, 20)], dtype=torch.int32).T
    return NodeGraph(
        features=torch.eye(40),
        labels=torch.arange(40) % 2,
        classes=2,
        left=left,
        right=right,
        kinds=torch.zeros(left.numel(), dtype=torch.uint8),
        kind_names=("link",),
        trained=torch.zeros(40, dtype=torch.bool),
    )


def test_the_largest_component() -> None:
    graph = two_cliques()
    kept = (graph.right != 39) & ~((graph.left == 0) & (graph.right == 20))
    apart = replace(graph, left=graph.left[kept], right=graph.right[kept], kinds=graph.kinds[kept])
    assert largest_component(graph).tolist() == [*range(40)]
    assert largest_component(apart).tolist() == [*range(20)]


@pytest.mark.parametrize(("name", "nodes"), [("cora", 2485), ("citeseer", 2120)])
def test_connected_graphs_with_normalised_features(name: str, nodes: int, data_root: Path) -> None:
    setting = SETTINGS[name](connected=True, normalised=True, partition="metis")
    everything = setting.overview(Reading(data_root, 123))
    assert everything is not None
    whole = everything.content
    assert whole.nodes == nodes
    sums = whole.features.sum(dim=1)
    assert torch.all(((sums - 1).abs() < 1e-6) | (sums == 0))


def cut(way: NodeCut, clients: int, seed: int = 1, alpha: float = 0.5) -> list[Tensor]:
    return members(way, two_cliques(), clients, seed, alpha)


@pytest.mark.parametrize("way", ["louvain", "metis"])
def test_a_cut_through_few_links_finds_the_cliques(way: NodeCut) -> None:
    parts = sorted(part.tolist() for part in cut(way, 2))
    assert parts == [[*range(20)], [*range(20, 40)]]


def test_overlapping_clients_have_half_of_their_part() -> None:
    parts = cut("overlapping", 10)
    assert [part.numel() for part in parts] == [10] * 10
    cliques = [{int(node) // 20 for node in part} for part in parts]
    assert [*map(len, cliques)] == [1] * 10
    assert {clique.pop() for clique in cliques[:5]} != {clique.pop() for clique in cliques[5:]}
    assert len({tuple(part.tolist()) for part in parts}) > 5
    assert all(len({*part.tolist()}) == 10 for part in parts)


def test_five_overlapping_clients_share_the_whole_graph() -> None:
    parts = cut("overlapping", 5)
    assert [part.numel() for part in parts] == [20] * 5
    with pytest.raises(RametError, match="must be a multiple of 5, not 7"):
        cut("overlapping", 7)


def test_classes_are_skewed_by_label() -> None:
    parts = cut("label", 2, seed=3, alpha=0.05)
    assert sorted(torch.cat(parts).tolist()) == [*range(40)]
    shares = [float((part % 2).double().mean()) for part in parts]
    assert max(abs(share - 0.5) for share in shares) > 0.3


@pytest.mark.parametrize("way", ["louvain", "metis", "overlapping", "label"])
def test_a_cut_depends_on_its_seed_alone(way: NodeCut) -> None:
    graph = planted(300, 4, [PlantedKind(500, 0.8, 0.9)], seed=3)

    def nodes(seed: int) -> list[list[int]]:
        return [part.tolist() for part in members(way, graph, 5, seed, 0.5)]

    assert nodes(1) == nodes(1)
    assert nodes(1) != nodes(2)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(RametError, match=r"pip install 'ramet\[metis\]'"):
        cut("metis", 2)


SIZES = {
    "chameleon": (890, 8_854, 2_325, 5),
    "minesweeper": (10_000, 39_402, 7, 2),
    "photo": (7_650, 119_081, 745, 8),
}


@pytest.mark.parametrize("name", SIZES)
def test_graphs_have_their_published_sizes(name: str, data_root: Path) -> None:
    if not (data_root / "nodes").exists():
        pytest.skip("the node graphs are not in RAMET_DATA")
    setting = SETTINGS[name](clients=10, partition="metis", train=0.2)
    reading = Reading(data_root, 123)
    whole = setting.overview(reading)
    assert whole is not None
    graph = whole.content
    assert (graph.nodes, graph.links, graph.features.size(1), graph.classes) == SIZES[name]
    assert whole.split.train.numel() == pytest.approx(0.2 * graph.nodes, abs=1)
    assert whole.split.val.numel() == pytest.approx(0.4 * graph.nodes, abs=1)
    parts = [setting.client_data(client, reading).content for client in setting.clients]
    assert sum(part.nodes for part in parts) == graph.nodes
    assert max(part.nodes for part in parts) < 1.05 * graph.nodes / 10
    assert sum(part.links for part in parts) > 0.7 * graph.links


def test_files_of_platonov_et_al_are_read(tmp_path: Path) -> None:
    (tmp_path / "nodes").mkdir()
    np.savez(
        tmp_path / "nodes" / "chameleon_filtered.npz",
        node_features=np.eye(4, 3),
        node_labels=np.array([0, 1, 1, 0]),
        edges=np.array([[0, 1], [1, 0], [3, 2], [2, 2]]),
    )
    graph = read_graph(tmp_path, "Filtered", "Chameleon")
    assert [*zip(graph.left.tolist(), graph.right.tolist(), strict=True)] == [(0, 1), (2, 3)]
    assert graph.features.tolist() == np.eye(4, 3).tolist()
    with pytest.raises(RametError, match=r"squirrel_filtered.npz does not exist"):
        read_graph(tmp_path, "Filtered", "Squirrel")


def test_options_reach_the_setting(data_root: Path) -> None:
    options = {"clients": "10", "partition": "metis", "missing_links": "0.5"}
    settings = checked_settings(method="fedavg", setting="cora", data=data_root, options=options)
    assert settings.options == options
    with pytest.raises(RametError, match="partition"):
        checked_settings(
            method="fedavg", setting="cora", data=data_root, options={"partition": "spectral"}
        )
