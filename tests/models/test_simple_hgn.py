from __future__ import annotations

import pytest
import torch
from torch.nn import functional
from torch_geometric.utils import softmax

from ramet.data.graphs.hetero_graph import HeteroGraph, Links, NodeType, Relation
from ramet.models.layers import Dropout
from ramet.models.settings import HGNNetwork
from ramet.models.shape import LinkShape
from ramet.models.simple_hgn import SimpleHGN, _Attention
from ramet.payload import only

KINDS = ["b", "a", "b-back", "a-back", "loop"]


@pytest.fixture
def graph() -> HeteroGraph:
    """Two films (0, 1), three people (2, 3, 4), three links "plays" and one "directs"."""
    links = Links(
        torch.tensor([0, 0, 1, 1]), torch.tensor([2, 3, 3, 4]), torch.tensor([0, 0, 0, 1])
    )
    generator = torch.Generator().manual_seed(0)
    types = (NodeType("film", 2, torch.randn(2, 5, generator=generator)), NodeType("person", 3))
    relations = (Relation("plays", 0, 1), Relation("directs", 0, 1))
    return HeteroGraph(types, relations, links, torch.ones(4, dtype=torch.bool))


@pytest.mark.parametrize(
    ("types", "relations", "tensors", "switchable"), [(3, 5, 65, 50), (1, 2, 37, 22)]
)
def test_numbers_of_tensors_match_the_paper(
    types: int, relations: int, tensors: int, switchable: int
) -> None:
    shape = LinkShape(
        tuple((f"type{number}", 10) for number in range(types)),
        tuple(f"relation{number}" for number in range(relations)),
    )
    names = list(SimpleHGN(shape).state_dict())
    assert len(names) == tensors
    assert len(only(*SimpleHGN.switchable).pick(names)) == switchable
    if types == 3:  # FedAvg's row of Table 3, 40 rounds
        assert [len(names) * 40 * clients for clients in (4, 8, 16)] == [10_400, 20_800, 41_600]


def test_messages_flow_both_ways_and_over_self_loops(graph: HeteroGraph) -> None:
    flow = graph.flow
    columns = torch.stack([flow.sources, flow.targets, graph.flow_kinds], dim=1)
    links = {tuple(row) for row in columns.tolist()}
    forward = {(0, 2, 0), (0, 3, 0), (1, 3, 0), (1, 4, 1)}
    reverse = {(2, 0, 2), (3, 0, 2), (3, 1, 2), (4, 1, 3)}
    assert links == forward | reverse | {(node, node, 4) for node in range(5)}
    assert flow.sources[flow.back_order].tolist() == sorted(flow.sources.tolist())


def reference_layer(layer: _Attention, values: torch.Tensor, graph: HeteroGraph) -> torch.Tensor:
    """Eq. 2 computed per link, with PyG's softmax."""
    heads, flow, link_kinds = layer.heads, graph.flow, graph.flow_kinds
    mapped = (values @ layer.weight.T).view(values.size(0), heads, -1)
    embedded = torch.stack([layer.kinds[name] for name in KINDS])[link_kinds] @ layer.kind_weight.T
    embedded = embedded.view(link_kinds.numel(), heads, -1)
    scores = (
        (mapped[flow.sources] * layer.of_source).sum(2)
        + (mapped[flow.targets] * layer.of_target).sum(2)
        + (embedded * layer.of_kind).sum(2)
    )
    weights = softmax(functional.leaky_relu(scores, 0.01), flow.targets, num_nodes=flow.nodes)
    sums = torch.zeros_like(mapped)
    return sums.index_add(0, flow.targets, mapped[flow.sources] * weights.unsqueeze(2))


def test_a_layer_and_its_gradients_match_the_equation(graph: HeteroGraph) -> None:
    torch.manual_seed(1)
    layer = _Attention(6, 4, 3, 2, KINDS, residual=False)
    values = torch.randn(5, 6, requires_grad=True)
    direction = torch.randn(5, 3, 4)
    inputs = [values, *layer.parameters()]
    actual = layer(values, graph.flow, graph.flow_kinds, Dropout(0.0))
    expected = reference_layer(layer, values, graph)
    assert torch.allclose(actual, expected, atol=1e-6)
    actual_grads = torch.autograd.grad((actual * direction).sum(), inputs)
    expected_grads = torch.autograd.grad((expected * direction).sum(), inputs)
    for one, other in zip(actual_grads, expected_grads, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


def test_vectors_have_length_1_per_layer_and_decoders_differ(graph: HeteroGraph) -> None:
    shape = LinkShape((("film", 5), ("person", 3)), ("plays", "directs"))
    for decoder in ("distmult", "dot"):
        model = SimpleHGN(
            shape, HGNNetwork(hidden=8, decoder=decoder, residual=decoder == "dot")
        ).eval()
        nodes = model.encode(graph)
        assert nodes.shape == (5, 4 * 8)
        assert torch.allclose(nodes.view(5, 4, 8).norm(dim=2), torch.ones(5, 4), atol=1e-5)
        dots = (nodes[graph.links.heads] * nodes[graph.links.tails]).sum(dim=1)
        assert torch.allclose(model.scores(nodes, graph.links), dots, atol=1e-5)
        if decoder == "distmult":
            model.decode["plays"].data.mul_(2)
            factors = torch.tensor([2.0, 2.0, 2.0, 1.0])
            assert torch.allclose(model.scores(nodes, graph.links), factors * dots, atol=1e-5)


def test_a_relation_without_pairs_gets_no_gradient(graph: HeteroGraph) -> None:
    model = SimpleHGN(LinkShape((("film", 5), ("person", 3)), ("plays", "directs")))
    model(graph, graph.links[torch.tensor([0, 1, 2])]).sum().backward()
    assert model.decode["plays"].grad is not None
    assert model.decode["directs"].grad is None
