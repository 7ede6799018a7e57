"""Every network gives the same output with PyG's arguments, and its code needs nothing of Ramet."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from ramet.data import GraphBlock, HeteroGraph, NodeGraph, StructureEncoding
from ramet.export import standalone as standalone_files
from ramet.export.example import Example, Form, invented
from ramet.export.inputs import inputs_of
from ramet.export.networks import standalone
from ramet.models.dense_dual_channel import DenseDualChannel
from ramet.models.dual_channel import DualChannel
from ramet.models.multi_channel_gcn import MultiChannelGCN
from ramet.models.networks import ALIGNED, NETWORKS
from ramet.models.node_sage import MendedSAGE
from ramet.models.plain_node import MaskedNodeGCN
from ramet.models.settings import (
    DenseNetwork,
    GCNNetwork,
    HGNNetwork,
    LinkClustering,
    LinkNetwork,
    MultiChannelNetwork,
    NodeNetwork,
)
from ramet.models.shape import EdgeShape, GraphShape, LinkShape, NodeShape
from ramet.models.simple_hgn import SimpleHGN
from ramet.models.structure_proxies import ProxyGCN

Build = Callable[[Any], nn.Module]
ENCODING = StructureEncoding(5, 6)
RELATIONS = (("patient", "takes", "drug"), ("patient", "meets", "patient"))
FORMS: dict[type, Form] = {
    GraphShape: Form(GraphShape(4, ENCODING.width, 3, link_width=2), ENCODING, weighted=True),
    NodeShape: Form(NodeShape(4, 3, 2, directed=True), ENCODING, kinds=3, weighted=True),
    EdgeShape: Form(
        EdgeShape(4, 3, 2, directed=True, asked_width=2, ordered=True),
        ENCODING,
        kinds=3,
        weighted=True,
    ),
    LinkShape: Form(
        LinkShape((("drug", 9), ("patient", 4)), ("takes", "meets")),
        ENCODING,
        RELATIONS,
        {"drug": 9},
    ),
}
GCN: Callable[..., nn.Module] = NETWORKS["fedlit-gcn"][NodeShape]


ALIKE = replace(FORMS[GraphShape], shape=GraphShape(4, ENCODING.width, 3, nodes=7))
"""Graphs that all have the same nodes."""


def form_of(shape: type, build: Build) -> Form:
    aligned = [NETWORKS[name][GraphShape] for name in ALIGNED]
    return ALIKE if build in aligned else FORMS[shape]


def networks() -> Iterator[tuple[str, type, Build]]:
    """All built-in networks, and those with other options."""
    for name, by_shape in NETWORKS.items():
        for shape, build in by_shape.items():
            yield f"{name}-{shape.__name__}", shape, build
    yield "fedstar", GraphShape, DualChannel
    yield "feddense", GraphShape, DenseDualChannel
    inputs = DenseNetwork(activate="inputs", width=7, hidden=9, layers=2)
    yield "feddense-inputs", GraphShape, partial(DenseDualChannel, settings=inputs)
    yield "fedsage+", NodeShape, MendedSAGE
    yield "fedspray", NodeShape, ProxyGCN
    yield "fedpub", NodeShape, partial(MaskedNodeGCN, threshold=0.9)
    loops = GCNNetwork(loops=True, activate=False, hidden=5)
    yield "fedlit-gcn-loops", NodeShape, partial(GCN, settings=loops)
    yield (
        "one-layer",
        NodeShape,
        partial(NETWORKS["gin"][NodeShape], settings=NodeNetwork(layers=1)),
    )
    channels = MultiChannelNetwork(kinds=3, hidden=6)
    yield "fed-mgcn", NodeShape, partial(MultiChannelGCN, settings=channels)
    for view in ("learned", "fixed"):
        clustering = LinkClustering(view=view)
        build = partial(MultiChannelGCN, settings=channels, clustering=clustering)
        yield f"fedlit-{view}", NodeShape, build
    mean = MultiChannelNetwork(kinds=3, mean=True, degrees="channel", loops=True, activate=False)
    yield "fed-mgcn-mean", NodeShape, partial(MultiChannelGCN, settings=mean)
    residual = HGNNetwork(residual=True, decoder="dot", layers=1, heads=2)
    yield "simple-hgn-dot", LinkShape, partial(SimpleHGN, settings=residual)
    dot = LinkNetwork(decoder="dot", layers=1)
    yield "sage-dot", LinkShape, partial(NETWORKS["sage"][LinkShape], settings=dot)


def trained(build: Build, shape: Any) -> nn.Module:
    """A network with random arrays, also where those of a new one are constant."""
    torch.manual_seed(1)
    model = build(shape)
    with torch.no_grad():
        for name, array in model.state_dict().items():
            if name != "kinds.nodes":
                array.add_(0.3 * torch.randn(array.shape))
    return model.eval()


def output(model: Any, example: Example) -> torch.Tensor:
    """The logits of Ramet's network; those of links ordered by relation."""
    graph = example.graph
    if isinstance(graph, HeteroGraph):
        assert example.pairs is not None
        logits: torch.Tensor = model(graph, example.pairs)
        return logits[example.pairs.kinds.argsort(stable=True)]
    whole = graph.cut(torch.arange(graph.graphs)) if isinstance(graph, GraphBlock) else graph
    result: torch.Tensor = model(whole)
    return result


@pytest.mark.parametrize(
    ("shape", "build"), [pytest.param(shape, build, id=name) for name, shape, build in networks()]
)
@torch.no_grad()
def test_a_standalone_network_gives_the_same_output(shape: type, build: Build) -> None:
    form = form_of(shape, build)
    model = trained(build, form.shape)
    found = standalone(model, form.shape, getattr(build, "keywords", {}))
    assert found is not None
    for nodes in (12, 25):
        example = invented(form, nodes, seed=nodes)
        logits = found.network(**inputs_of(example.graph, found.model, example.pairs))
        if isinstance(logits, dict):
            logits = torch.cat([*logits.values()])
        expected = output(model, example)
        near = 1e-5 * max(1.0, float(expected.abs().max()))
        torch.testing.assert_close(logits, expected, atol=near, rtol=1e-5)


def test_a_network_of_the_user_is_not_copied() -> None:
    assert standalone(nn.Linear(2, 2), NodeShape(2, 2), {}) is None


def imported(text: str) -> Iterator[str]:
    """The modules that a file imports, also inside functions."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def needed(text: str) -> set[str]:
    """What a file imports besides the standard library and the packages that the card names."""
    given = {*sys.stdlib_module_names, "torch", "torch_geometric", "pydantic", "safetensors"}
    given.add("numpy")  # PyG needs it
    return {name for name in imported(text) if name.partition(".")[0] not in given}


def test_scripts_import_nothing_of_ramet() -> None:
    for path in Path(standalone_files.__file__ or "").parent.glob("*.py"):
        assert not needed(path.read_text()), path


@pytest.mark.parametrize(
    ("shape", "build"), [pytest.param(shape, build, id=name) for name, shape, build in networks()]
)
def test_the_code_of_a_network_has_all_that_it_imports(shape: type, build: Build) -> None:
    form = form_of(shape, build)
    model = build(form.shape)
    found = standalone(model, form.shape, getattr(build, "keywords", {}))
    assert found is not None
    assert found.file in found.code
    for text in found.code.values():
        assert {f"{name.replace('.', '/')}.py" for name in needed(text)} <= {*found.code}


def test_a_graph_of_nodes_without_links_is_fine() -> None:
    form = FORMS[NodeShape]
    graph = invented(form, 12, seed=0).graph
    assert isinstance(graph, NodeGraph)
    assert graph.degrees.min() == 0
