"""All networks of the registry: they build, train, evaluate, and keep the conventions."""

from __future__ import annotations

import inspect
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor, nn

from ramet.data import EdgeGraph, LabelledEdges, NodeGraph, StructureEncoding
from ramet.data.graphs.link_values import LinkValues
from ramet.data.sources.graph_sets import read_block
from ramet.data.sources.hetero_graphs import read_planted_hetero
from ramet.models.networks import ALIGNED, DEFAULT_NETWORKS, NETWORKS
from ramet.models.plain_link import LinkGCN
from ramet.models.plain_node import NodeGCN
from ramet.models.settings import LinkNetwork, NodeAttentionNetwork, NodeNetwork
from ramet.models.shape import EdgeShape, GraphShape, LinkShape, NodeShape
from ramet.options import arguments
from ramet.payload import only
from ramet.source_names import dict_keys

EVERY = [
    (name, shape) for name, shapes in NETWORKS.items() if name not in ALIGNED for shape in shapes
]


def default_settings(name: str, shape: type[Any]) -> Any:
    return inspect.signature(NETWORKS[name][shape]).parameters["settings"].default


def example(kind: type[Any], small_graph: NodeGraph) -> tuple[Any, tuple[Any, ...]]:
    """A shape and the arguments of a forward pass on a graph of this shape."""
    if kind is GraphShape:
        block = read_block("tiny:blocks", StructureEncoding(0, 0), Path())
        block = replace(block, link_values=LinkValues(torch.randn(block.links, 2)))
        shape = GraphShape(block.feature_width, 0, block.classes, link_width=2)
        return shape, (block.cut(torch.arange(20)),)
    if issubclass(kind, NodeShape):
        ways = torch.arange(small_graph.links).remainder(3).sub(1).to(torch.int8)
        values = LinkValues(torch.randn(small_graph.links, 2), directions=ways)
        of_nodes = NodeShape(small_graph.features.size(1), small_graph.classes, 2, directed=True)
        linked = replace(small_graph, link_values=values)
        if kind is NodeShape:
            return of_nodes, (linked,)
        ends = torch.randint(linked.nodes, (2, 50))
        asked = LabelledEdges(ends, torch.randn(50, 3), ordered=True)
        labels = torch.zeros(50, dtype=torch.int64)
        of_edges = EdgeShape(**asdict(of_nodes), asked_width=3, ordered=True)
        return of_edges, (EdgeGraph.of(linked, asked, labels),)
    graph = read_planted_hetero(80, 3, 300, 5, 1, "random").content
    types = tuple((one.name, one.width) for one in graph.types)
    relations = tuple(relation.name for relation in graph.relations)
    return LinkShape(types, relations), (graph, graph.links)


@pytest.mark.parametrize(("name", "kind"), EVERY)
def test_every_network_trains_and_evaluates(
    name: str, kind: type[Any], small_graph: NodeGraph
) -> None:
    torch.manual_seed(0)
    shape, inputs = example(kind, small_graph)
    model = NETWORKS[name][kind](shape)
    out: Tensor = model(*inputs)
    out.square().mean().backward()  # type: ignore[no-untyped-call]
    for parameter_name, parameter in model.named_parameters():
        if parameter.grad is None:  # no pair is a reverse link or a self loop
            assert name == "simple-hgn"
            assert parameter_name.startswith("decode.")
            assert parameter_name.endswith(("-back", "loop"))
        else:
            assert torch.isfinite(parameter.grad).all(), parameter_name
    model.eval()
    assert torch.equal(model(*inputs), model(*inputs))
    assert not torch.equal(model(*inputs), model.train()(*inputs))


@pytest.mark.parametrize(("name", "kind"), EVERY)
def test_every_network_learns(name: str, kind: type[Any], small_graph: NodeGraph) -> None:
    """It fits ten targets."""
    torch.manual_seed(0)
    shape, inputs = example(kind, small_graph)
    model = NETWORKS[name][kind](shape)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(30):
        out = model(*inputs)[:10]
        logits = out if out.dim() > 1 else torch.stack([torch.zeros(10), out], dim=1)
        loss = nn.functional.cross_entropy(logits, torch.arange(10) % 2)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        losses.append(loss.item())
    assert sum(losses[-5:]) < sum(losses[:5])


def layers_of(model: nn.Module) -> str:
    """The path of the message-passing layers: `layers`, or `PART.layers`."""
    (path,) = (path for path, _ in model.named_modules() if path.split(".")[-1] == "layers")
    return str(path)


@pytest.mark.parametrize(("name", "kind"), EVERY)
def test_sizes_depend_on_the_client_only_in_the_first_and_last_parts(
    name: str, kind: type[Any], small_graph: NodeGraph
) -> None:
    shape, _ = example(kind, small_graph)
    settings = replace(default_settings(name, kind), layers=4)
    model = NETWORKS[name][kind](shape, settings)
    layers = layers_of(model)
    one, other = (
        {key: tuple(value.shape) for key, value in part.state_dict().items()}
        for part in (model, NETWORKS[name][kind](shape.other(), settings))
    )
    varying = {key for key in one | other if one.get(key) != other.get(key)}
    assert varying
    per_kind = only(*getattr(model, "switchable", ())).pick(varying)
    inner = [f"{layers}.{number}." for number in (1, 2)]
    assert any(key.startswith(inner[0]) for key in one)
    assert [key for key in varying if key.startswith(tuple(inner)) and key not in per_kind] == []


@pytest.mark.parametrize(("name", "kind"), EVERY)
def test_layers_come_after_the_input_and_before_the_head(
    name: str, kind: type[Any], small_graph: NodeGraph
) -> None:
    shape, _ = example(kind, small_graph)
    model = NETWORKS[name][kind](shape)
    names = [key for key, _ in model.named_parameters()]
    of_layers = [key.startswith(f"{layers_of(model)}.") for key in names]
    first, last = of_layers.index(True), len(names) - of_layers[::-1].index(True)
    assert all(of_layers[first:last])
    parts = [sorted({key.split(".")[0] for key in part}) for part in (names[:first], names[last:])]
    attributes = ["embed_links"] if name in ("gine", "gatv2") else []
    assert (
        parts
        == {
            GraphShape: [["embed", *attributes], ["classify", "hidden"]],
            EdgeShape: [
                ["nodes"] if name in ("gine", "gatv2", "dir-sage") else [],
                ["attributes", "classify", "source", "target"],
            ],
            NodeShape: {
                "fedlit-gcn": [["channel", "project"], ["classify"]],
                "fedsage-sage": [[], ["classify"]],
                **{key: [["embed", *attributes], []] for key in ("gine", "gatv2", "dir-sage")},
            }.get(name, [[], []]),
            LinkShape: [["project"], ["decode"]],
        }[kind]
    )


@pytest.mark.parametrize(("name", "kind"), EVERY)
def test_the_tensors_of_types_and_relations_are_switchable(
    name: str, kind: type[Any], small_graph: NodeGraph
) -> None:
    model = NETWORKS[name][kind](example(kind, small_graph)[0])
    names = list(model.state_dict())
    expected = [
        key
        for key in names
        if kind is LinkShape and (key.startswith(("project.", "decode.")) or ".kinds." in key)
    ]
    assert list(only(*getattr(model, "switchable", ())).pick(names)) == expected


@pytest.mark.parametrize("name", ["gin", "gcn", "sage", "gat"])
def test_evaluation_before_training_leaves_the_graph_usable(
    name: str, small_graph: NodeGraph
) -> None:
    words = replace(small_graph, features=(small_graph.features > 5).float())
    model = NETWORKS[name][NodeShape](NodeShape(8, 3)).eval()
    with torch.inference_mode():
        expected = model(words)
    assert words.sparse_features is not None
    logits = model(words.with_trained(torch.arange(5)))
    logits.sum().backward()
    assert torch.equal(logits, expected)
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize(("name", "kind"), EVERY)
def test_every_network_has_a_summary_and_options(name: str, kind: type[Any]) -> None:
    network = NETWORKS[name][kind]
    assert (network.__doc__ or "").splitlines()[0].endswith(".")
    options = arguments(network)
    assert next(iter(options)) == "shape"
    assert {"hidden", "layers", "dropout"} < set(options)
    assert ("heads" in options) == (name in ("gat", "gatv2", "simple-hgn"))


def test_defaults_are_networks_of_their_shape_and_completion_finds_the_names() -> None:
    assert set(DEFAULT_NETWORKS) == {GraphShape, NodeShape, EdgeShape, LinkShape}
    assert all(kind in NETWORKS[name] for kind, name in DEFAULT_NETWORKS.items())
    assert dict_keys("models/networks.py", "NETWORKS") == list(NETWORKS)


def test_heads_must_divide_hidden() -> None:
    for settings in ({"heads": 7}, {"hidden": 60}):
        with pytest.raises(ValidationError, match="heads must divide hidden") as error:
            NodeAttentionNetwork(**settings)
        assert error.value.errors()[0]["loc"] == ("heads",)
    assert NodeAttentionNetwork(hidden=60, heads=6).heads == 6


def test_plain_link_networks_decode_by_relation_or_by_product(small_graph: NodeGraph) -> None:
    shape, (graph, pairs) = example(LinkShape, small_graph)
    torch.manual_seed(0)
    model = LinkGCN(shape, LinkNetwork(hidden=8)).eval()
    nodes = model.encode(graph)
    assert nodes.shape == (graph.nodes, 8)
    products = nodes[pairs.heads] * nodes[pairs.tails]
    for number, name in enumerate(shape.relations):
        nn.init.constant_(model.decode[name], number + 2)
    expected = products.sum(dim=1) * (pairs.kinds + 2)
    assert torch.allclose(model(graph, pairs), expected, atol=1e-5)
    dot = LinkGCN(shape, LinkNetwork(hidden=8, decoder="dot")).eval()
    assert not any(key.startswith("decode.") for key in dot.state_dict())
    assert torch.allclose(dot.scores(nodes, pairs), products.sum(dim=1), atol=1e-5)


def test_embeddings_have_no_dropout_after_the_last_hidden_layer(small_graph: NodeGraph) -> None:
    """Dropout comes before a layer, so two passes in training agree, unlike their logits."""
    shape = NodeShape(small_graph.features.size(1), small_graph.classes)
    model = NodeGCN(shape, NodeNetwork(layers=2)).train()
    assert torch.equal(model.encode(small_graph), model.encode(small_graph))
    assert not torch.equal(model(small_graph), model(small_graph))
