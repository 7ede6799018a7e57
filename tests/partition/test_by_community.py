"""One graph distributed over clients by communities; links between clients are lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from ramet.data import StructureEncoding
from ramet.data.sources.node_graphs import read_nodes, sketch
from ramet.data.sources.planted import PlantedKind, planted
from ramet.errors import RametError
from ramet.experiment import checked_settings
from ramet.partition import SETTINGS, Reading
from ramet.partition.by_community import EvaluatedOn, SubgraphSetting
from ramet.partition.node_cuts import communities, pack

INPUTS = StructureEncoding(0, 0)


def small(parts: int, evaluated_on: EvaluatedOn = "own") -> SubgraphSetting:
    kinds = [PlantedKind(150, homophily, 0.9) for homophily in (0.9, 0.8, 0.7, 0.6)]
    graph = planted(300, 4, kinds, seed=3)
    return SubgraphSetting("planted", "planted:small", lambda _: graph, parts, evaluated_on)


def test_a_group_goes_into_the_smallest_part() -> None:
    groups = [[0, 1, 2, 3], [4, 5, 6], [7, 8], [9]]
    assert pack(groups, 2, 10).tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 1, 0]


def test_more_clients_than_communities_are_refused() -> None:
    with pytest.raises(RametError, match="Use fewer clients"):
        pack([[0, 1], [2]], 3, 3)


def test_clients_share_no_nodes_and_lose_only_links_between_them(tmp_path: Path) -> None:
    setting, reading = small(3), Reading(tmp_path, 123, INPUTS)
    whole = setting.overview(reading)
    owner_of = {
        tuple(row): client
        for client in setting.clients
        for row in setting.client_data(client, reading).content.features.tolist()
    }
    assert {tuple(row) for row in whole.content.features.tolist()} == set(owner_of)
    owners = [owner_of[tuple(row)] for row in whole.content.features.tolist()]
    assert len(owner_of) == whole.content.nodes
    pairs = zip(whole.content.left.tolist(), whole.content.right.tolist(), strict=True)
    inside = [owners[one] for one, other in pairs if owners[one] == owners[other]]
    assert 0 < len(inside) < whole.content.links
    for client in setting.clients:
        held = setting.client_data(client, reading)
        assert held.content.links == inside.count(client)
        assert sum(part.numel() for part in vars(held.split).values()) == owners.count(client)


def test_one_client_holds_everything(tmp_path: Path) -> None:
    held = small(1).client_data("part-00", Reading(tmp_path, 123, INPUTS))
    assert (held.content.nodes, held.split.train.numel()) == (300, 180)


def test_a_clients_model_can_be_evaluated_on_the_whole_graph(tmp_path: Path) -> None:
    reading = Reading(tmp_path, 123, INPUTS)
    own = small(3).client_data("part-01", reading)
    other = small(3, "whole").client_data("part-01", reading)
    whole = small(3).overview(reading)
    assert torch.equal(own.content.features, other.content.features)
    assert torch.equal(own.split.train, other.split.train)
    assert own.evaluated_on is None
    assert other.evaluated_on is not None
    assert torch.equal(other.evaluated_on["test"].left, whole.content.left)
    assert torch.equal(other.split.test, whole.split.test)


def test_parts_depend_only_on_the_seed(tmp_path: Path) -> None:
    def sizes(folder: str, seed: int) -> list[int]:
        setting, reading = small(3), Reading(tmp_path / folder, seed, INPUTS)
        return [setting.client_data(client, reading).content.links for client in setting.clients]

    assert sizes("here", 1) == sizes("here", 1) == sizes("there", 1)
    assert sizes("here", 1) != sizes("here", 2)


def test_cora_has_parts_of_equal_size(data_root: Path) -> None:
    setting, reading = SETTINGS["cora"](), Reading(data_root, 123, INPUTS)
    whole = setting.overview(reading)
    assert whole is not None
    assert (whole.content.nodes, whole.content.links, whole.content.classes) == (2708, 5278, 7)
    parts = [setting.client_data(client, reading) for client in setting.clients]
    assert sum(part.content.nodes for part in parts) == 2708
    assert max(part.content.nodes for part in parts) - min(p.content.nodes for p in parts) < 30
    assert 0.8 < sum(part.content.links for part in parts) / 5278 < 1
    assert [len(p) for p in (whole.split.train, whole.split.val, whole.split.test)] == [
        1624,
        542,
        542,
    ]
    assert sum(part.split.test.numel() for part in parts) == 542
    assert communities(whole.content, 123) == communities(whole.content, 123)


def test_citeseer_has_its_published_size(data_root: Path) -> None:
    graph = read_nodes(data_root, "Planetoid", "CiteSeer")
    assert (graph.nodes, graph.links, graph.classes) == (3327, 4552, 6)


@pytest.mark.parametrize(
    ("name", "metric"),
    [("questions", "roc-auc"), ("roman-empire", None), ("amazon-ratings", None)],
)
def test_heterophilous_graphs_are_read_through_pyg(
    name: str, metric: str | None, tmp_path: Path
) -> None:
    """A path of four nodes in the place where PyG would download a graph to."""
    file = name.replace("-", "_")
    raw = tmp_path / "Heterophilous" / file / "raw"
    raw.mkdir(parents=True)
    mask = np.ones((10, 4), bool)
    np.savez(
        raw / f"{file}.npz",
        node_features=np.eye(4, dtype=np.float32),
        node_labels=np.array([0, 1, 0, 1]),
        edges=np.array([[0, 1], [1, 2], [2, 3]]),
        train_masks=mask,
        val_masks=mask,
        test_masks=mask,
    )
    setting = SETTINGS[name]()
    assert isinstance(setting, SubgraphSetting)
    graph = setting.read(tmp_path)
    assert (graph.left.tolist(), graph.right.tolist()) == ([0, 1, 2], [1, 2, 3])
    assert (graph.nodes, graph.classes, setting.metric) == (4, 2, metric)


def test_a_sketch_preserves_distances() -> None:
    words = (torch.rand(40, 2000, generator=torch.Generator().manual_seed(0)) < 0.02).float()
    assert torch.allclose(torch.pdist(sketch(words, 512)), torch.pdist(words), rtol=0.2)


def test_missing_data_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for proxy in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(proxy, "http://127.0.0.1:9")
    with pytest.raises(RametError, match=r"Cora is not in .*could not be downloaded"):
        read_nodes(tmp_path, "Planetoid", "Cora")


def test_a_method_for_graphs_is_refused(data_root: Path) -> None:
    with pytest.raises(
        RametError,
        match=r"fedstar is for graph-classification, but the data of cora are for "
        r"node-classification\. Use a method for node-classification \(.*fedavg.*fedlit.*fedsage",
    ):
        checked_settings(method="fedstar", setting="cora", data=data_root)


def test_splits_vary_while_the_partition_stays(tmp_path: Path) -> None:
    def parts(setting: SubgraphSetting, seed: int) -> tuple[list[int], list[int]]:
        data = setting.client_data(setting.clients[0], Reading(tmp_path, seed, INPUTS))
        return data.content.labels.tolist(), data.split.train.tolist()

    fixed = replace(small(3), partition_seed=7)
    (nodes, train), (same, other) = parts(fixed, 1), parts(fixed, 2)
    assert nodes == same
    assert train != other
    assert parts(small(3), 7)[0] == nodes
    assert parts(small(3), 1)[0] != nodes


def test_validation_nodes_may_be_other_than_half(tmp_path: Path) -> None:
    whole = replace(small(1), train=0.48, val=0.32).overview(Reading(tmp_path, 1, INPUTS))
    assert whole is not None
    split = whole.split
    assert [*map(len, (split.train, split.val, split.test))] == [144, 96, 60]  # of 300
    with pytest.raises(RametError, match="leave no nodes for test"):
        SETTINGS["cora"](train=0.6, val=0.4)
