"""Sharing rules: what methods without a network of their own share of each network."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch import nn

from ramet.engine.start import start_shared
from ramet.errors import RametError
from ramet.experiment import Experiment, checked_settings
from ramet.methods import fedavg, fedper
from ramet.models.multi_channel_gcn import GCN
from ramet.models.plain_node import NodeGCN
from ramet.models.shape import GraphShape
from ramet.models.simple_hgn import SimpleHGN
from ramet.models.single_channel import GIN, GraphSAGE
from ramet.rules.method import Method, Model, assembled
from ramet.rules.sharing import BaseLayers, NetworkArrays, SameSize
from ramet.tasks import GraphClassification, LinkPrediction, NodeClassification, Task

GRAPHS, NODES, LINKS = GraphClassification(), NodeClassification(), LinkPrediction()
HGN_LAYER = ("weight", "kind_weight", "of_source", "of_target", "of_kind")


def hgn_layers(count: int) -> tuple[str, ...]:
    """The arrays of Simple-HGN's layers that belong to no relation."""
    return tuple(f"layers.{layer}.{name}" for layer in range(count) for name in HGN_LAYER)


ONE_DOMAIN: list[tuple[Model, Task, tuple[str, ...]]] = [
    # without the last layer and the head
    (GIN, GRAPHS, ("embed.*", "layers.0.*", "layers.1.*")),
    (GraphSAGE, GRAPHS, ("embed.*", "layers.0.*", "layers.1.*")),
    (GCN, NODES, ("project.*", "channel.project.*", "channel.layers.0.*")),
    (NodeGCN, NODES, ("layers.0.*",)),
    (SimpleHGN, LINKS, ("project.*", "layers.0.*", "layers.1.*")),
]
SEVERAL_DOMAINS: list[tuple[Model, Task, tuple[str, ...], tuple[str, ...]]] = [
    # what has the same size, and that without the last layer and the head
    (GIN, GRAPHS, ("layers.*",), ("layers.0.*", "layers.1.*")),
    (GraphSAGE, GRAPHS, ("layers.*",), ("layers.0.*", "layers.1.*")),
    (GCN, NODES, ("channel.*",), ("channel.project.*", "channel.layers.0.*")),
    (SimpleHGN, LINKS, hgn_layers(3), hgn_layers(2)),
]


def patterns(method: Method, network: Model, task: Task, same_schema: bool) -> tuple[str, ...]:
    return assembled(method, task, network, same_schema=same_schema).shared.patterns


@pytest.mark.parametrize(("network", "task", "base"), ONE_DOMAIN)
def test_in_one_domain_the_whole_network_or_its_base_is_shared(
    network: Model, task: Task, base: tuple[str, ...]
) -> None:
    assert patterns(fedavg(), network, task, same_schema=True) == ("*",)
    assert patterns(fedper(), network, task, same_schema=True) == base


@pytest.mark.parametrize(("network", "task", "same_size", "base"), SEVERAL_DOMAINS)
def test_across_domains_only_arrays_of_the_same_size_are_shared(
    network: Model, task: Task, same_size: tuple[str, ...], base: tuple[str, ...]
) -> None:
    assert patterns(fedavg(), network, task, same_schema=False) == same_size
    assert patterns(fedper(), network, task, same_schema=False) == base


def test_shared_arrays_have_the_same_size_in_both_domains() -> None:
    method = assembled(fedavg(), GRAPHS, GIN)
    shapes = [
        {name: array.shape for name, array in start_shared(method, shape, 0).items()}
        for shape in (GraphShape(5, 0, 2), GraphShape(9, 0, 7))
    ]
    assert shapes[0] == shapes[1]
    assert shapes[0]["layers.2.second.weight"] == (64, 64)


def test_a_network_without_arrays_of_the_same_size_is_refused() -> None:
    """Two layers: the first depends on the features, the second on the classes."""
    for method in (fedavg(), fedper()):
        with pytest.raises(RametError, match=r"no part of this network has the same size.*--share"):
            patterns(method, NodeGCN, NODES, same_schema=False)


def test_personal_layers_must_leave_a_layer_to_share() -> None:
    arrays = NetworkArrays(("layers.0.weight", "layers.1.weight"))
    assert BaseLayers(1)(arrays).patterns == ("layers.0.*",)
    with pytest.raises(RametError, match="personal=2 leaves none of 2 message-passing layers"):
        BaseLayers(2)(arrays)


def test_a_part_stays_together_if_only_some_of_its_arrays_vary() -> None:
    """A varying weight keeps its bias private, and a varying array of the head the whole head."""
    arrays = NetworkArrays(
        ("embed.weight", "embed.bias", "layers.0.weight", "head.0.weight", "head.2.weight"),
        frozenset({"embed.weight", "head.2.weight"}),
    )
    assert SameSize()(arrays).patterns == ("layers.*",)


class Projecting(nn.Module):
    """A network with a projection between its layers and its classifier."""

    def __init__(self, shape: GraphShape) -> None:
        super().__init__()
        self.embed = nn.Linear(shape.features, 4)
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.project = nn.Linear(4, 4)
        self.classify = nn.Linear(4, shape.classes)


class ProjectingHead(Projecting):
    together = ("project", "classify")


def test_a_projection_after_the_layers_is_shared_unless_the_network_calls_it_a_head() -> None:
    assert patterns(fedavg(), Projecting, GRAPHS, same_schema=False) == ("layers.*", "project.*")
    assert patterns(fedper(), Projecting, GRAPHS, same_schema=False) == ("layers.0.*",)
    assert patterns(fedavg(), ProjectingHead, GRAPHS, same_schema=False) == ("layers.*",)
    assert patterns(fedavg(), ProjectingHead, GRAPHS, same_schema=True) == ("*",)


class WithoutLayers(nn.Module):
    """A network that does not follow the conventions for names."""

    def __init__(self, shape: GraphShape) -> None:
        super().__init__()
        self.first = nn.Linear(shape.features, 4)
        self.second = nn.Linear(4, 4)
        self.third = nn.Linear(4, shape.classes)


def test_a_network_without_named_layers_shares_its_parts_of_the_same_size() -> None:
    assert patterns(fedavg(), WithoutLayers, GRAPHS, same_schema=False) == ("second.*",)
    assert patterns(fedavg(), WithoutLayers, GRAPHS, same_schema=True) == ("*",)
    with pytest.raises(RametError, match="leaves none of 0 message-passing layers"):
        patterns(fedper(), WithoutLayers, GRAPHS, same_schema=True)


def test_share_replaces_the_rule() -> None:
    def shared(setting: str, **given: object) -> tuple[str, ...]:
        settings = checked_settings(setting=setting, data=Path(), rounds=1, **given)
        return Experiment(settings).method.shared.patterns

    assert shared("tiny", method="fedavg") == ("layers.*",)
    assert shared("tiny", method="fedavg", share=("layers.0.*",)) == ("layers.0.*",)
    assert shared("planted", method="fedper", share=("layers.1.*",)) == ("layers.1.*",)
    assert shared("planted", method="local", share=("*",)) == ("*",)
    assert shared("planted-hetero", method="fed-hgn", share=()) == ()
