"""Ramet's networks as standalone ones, which need PyTorch and PyTorch Geometric only.

Each class of :mod:`ramet.models` has a counterpart in :mod:`ramet.export.standalone` that computes
the same with PyG's layers. Its arguments are read from the trained network, and the arrays are
renamed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import getsourcefile
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from ramet.export.standalone.dual_channel import DenseDualChannel, DualChannel
from ramet.export.standalone.graph_network import GraphNetwork
from ramet.export.standalone.link_network import LinkNetwork, SimpleHGN
from ramet.export.standalone.multi_channel_gcn import GCN, MultiChannelGCN
from ramet.export.standalone.node_network import NodeHops, NodeNetwork, NodeSAGE
from ramet.models import (
    dense_dual_channel,
    dual_channel,
    multi_channel_gcn,
    node_hops,
    node_sage,
    plain_link,
    plain_node,
    simple_hgn,
    single_channel,
)
from ramet.models.layers import self_and_neighbours
from ramet.models.link_scorer import LinkScorer

EdgeType: TypeAlias = tuple[str, str, str]
"""Type of the source, name of the relation, type of the target."""
Arguments: TypeAlias = dict[str, Any]
"""Arguments of a standalone network, in the form of JSON."""
Reader: TypeAlias = Callable[[Any, Sequence[EdgeType]], Arguments]


@dataclass(frozen=True)
class Standalone:
    """A network that does not need Ramet, with the weights of a trained one.

    Args:
        network: in evaluation mode.
        file: the Python file of the network.
        name: of the class or function in the file that builds the network.
        arguments: with which it is called.
        shape: the sizes of the data, for a network that takes them, and the data, as one object.
    """

    network: nn.Module
    file: Path
    name: str
    arguments: Arguments
    shape: Mapping[str, Any] | None = None


def standalone(model: nn.Module, relations: Sequence[EdgeType] = ()) -> Standalone | None:
    """The counterpart of one of Ramet's networks, in evaluation mode; None for other networks."""
    if isinstance(model, node_sage.MendedSAGE):
        model = model.classifier
    known = _COUNTERPARTS.get(type(model))
    if known is None:
        return None
    build, arguments_of = known
    arguments = arguments_of(model, relations)
    network = build(**arguments)
    _load(network, _renamed(model))
    file = Path(getsourcefile(build) or "")
    return Standalone(network.eval(), file, build.__name__, arguments)


def _load(network: nn.Module, arrays: dict[str, Tensor]) -> None:
    """Overwrite all arrays except those that PyG's layers keep constant."""
    state = network.state_dict()
    missing = [name for name in state if name not in arrays and not name.endswith(".eps")]
    assert not missing, missing
    for name, value in state.items():
        if name in arrays:
            value.copy_(arrays[name].view_as(value))


_NAMES = (
    (r"(layers\.\d+)\.first\.", r"\1.nn.0."),  # GINConv
    (r"(layers\.\d+)\.second\.", r"\1.nn.2."),
    (r"(layers\.\d+)\.neighbours\.", r"\1.lin_l."),  # SAGEConv
    (r"(layers\.\d+)\.own\.", r"\1.lin_r."),
    (r"(layers\.\d+)\.weight$", r"\1.lin.weight"),  # GCNConv, GATConv
    (r"(layers\.\d+)\.of_source$", r"\1.att_src"),
    (r"(layers\.\d+)\.of_target$", r"\1.att_dst"),
    (r"(layers\.\d+)\.linear\.weight$", r"\1.lin.weight"),  # FedLIT's convolution
    (r"(layers\.\d+)\.linear\.bias$", r"\1.bias"),
    (r"^kinds\.centres$", "centres"),
)


def _renamed(model: nn.Module) -> dict[str, Tensor]:
    """A network's arrays by the names that they have in its counterpart."""
    arrays = model.state_dict()
    if isinstance(model, node_hops.NodeHops):
        return arrays
    if isinstance(model, multi_channel_gcn.MultiChannelGCN) and model.view is not None:
        arrays["projection"] = model.view
    layers: Any
    if isinstance(model, plain_node.MaskedNodeGCN):
        layers = enumerate(model.eval().layers)
        arrays |= {f"layers.{number}.weight": layer.used_weight() for number, layer in layers}
    if isinstance(model, simple_hgn.SimpleHGN):
        layers = enumerate(model.layers)
        for number, layer in layers:
            arrays[f"layers.{number}.kinds"] = _stacked(layer.kinds, layer.names)
    if isinstance(model, LinkScorer) and len(model.decode):
        arrays["decode"] = _stacked(model.decode, model.relations)
    return {_new_name(name): value.detach() for name, value in arrays.items()}


def _new_name(name: str) -> str:
    for pattern, replacement in _NAMES:
        name = re.sub(pattern, replacement, name)
    return name


def _stacked(vectors: nn.ParameterDict, names: Sequence[str]) -> Tensor:
    return torch.stack([vectors[name] for name in names])


def _graph_network(convolution: str) -> Reader:
    def read(model: Any, _: Sequence[EdgeType]) -> Arguments:
        return {
            "features": model.embed.in_features,
            "classes": model.classify.out_features,
            "hidden": model.embed.out_features,
            "layers": len(model.layers),
            "convolution": convolution,
            "heads": _heads(model.layers[0]),
            "dropout": model.dropout.rate,
        }

    return read


def _node_network(convolution: str) -> Reader:
    def read(model: Any, _: Sequence[EdgeType]) -> Arguments:
        classes, hidden = model.embedding_size
        first = next(iter(model.layers[0].parameters()))
        return {
            "features": first.size(1),
            "classes": classes,
            "hidden": _inner(model) if convolution == "gin" else hidden,
            "layers": len(model.layers),
            "convolution": convolution,
            "heads": _heads(model.layers[0]),
            "dropout": model.dropout.rate,
        }

    return read


def _link_network(convolution: str) -> Reader:
    def read(model: Any, relations: Sequence[EdgeType]) -> Arguments:
        return {
            **_of_types(model, relations),
            "layers": len(model.layers),
            "convolution": convolution,
            "heads": _heads(model.layers[0]),
        }

    return read


def _dual_channel(model: Any, _: Sequence[EdgeType]) -> Arguments:
    return {
        "features": model.embed.in_features,
        "structure": model.structure.embed.in_features,
        "classes": model.classify.out_features,
        "hidden": model.embed.out_features,
        "layers": len(model.layers),
        "dropout": model.dropout.rate,
    }


def _dense_dual_channel(model: Any, _: Sequence[EdgeType]) -> Arguments:
    return {
        "features": model.embed.in_features,
        "structure": model.structure.embed.in_features,
        "classes": model.classify.out_features,
        "hidden": model.embed.out_features,
        "width": model.layers[0].second.out_features,
        "layers": len(model.layers),
        "activate": model.activate,
        "structure_maps": model.structure_maps,
        "dropout": model.dropout.rate,
    }


def _node_sage(model: Any, _: Sequence[EdgeType]) -> Arguments:
    return {
        "features": model.layers[0].own.in_features,
        "classes": model.classify.out_features,
        "hidden": model.classify.in_features,
        "layers": len(model.layers),
        "dropout": model.dropout.rate,
    }


def _node_hops(model: Any, _: Sequence[EdgeType]) -> Arguments:
    classes, hidden = model.embedding_size
    return {
        "features": model.layers[0].in_features // (model.hops + 1),
        "classes": classes,
        "hidden": hidden,
        "layers": len(model.layers),
        "hops": model.hops,
        "dropout": model.dropout.rate,
    }


def _gcn(model: Any, _: Sequence[EdgeType]) -> Arguments:
    return {
        "features": model.project.in_features,
        "classes": model.classify.out_features,
        "hidden": model.project.out_features,
        **_of_channel(model.channel),
    }


def _multi_channel(model: Any, _: Sequence[EdgeType]) -> Arguments:
    return {
        "features": model.project.in_features,
        "classes": model.classify.out_features,
        "hidden": model.project.out_features,
        "kinds": len(model.channels),
        "cluster": model.cluster,
        "view": model.view is not None,
        "mean": model.mean,
        "degrees": model.degrees,
        **_of_channel(model.channels[0]),
    }


def _of_channel(channel: Any) -> Arguments:
    return {
        "layers": len(channel.layers),
        "activate": channel.activate,
        "loops": channel.layers[0].sums is self_and_neighbours,
        "dropout": channel.dropout.rate,
    }


def _simple_hgn(model: Any, relations: Sequence[EdgeType]) -> Arguments:
    first = model.layers[0]
    return {
        **_of_types(model, relations),
        "heads": first.heads,
        "layers": len(model.layers) - 1,
        "kind_width": first.of_kind.size(1),
        "residual": first.residual is not None,
    }


def _of_types(model: Any, relations: Sequence[EdgeType]) -> Arguments:
    inputs = {name: layer.in_features for name, layer in model.project.items()}
    return {
        "types": inputs,
        "relations": [[*relation] for relation in relations],
        "hidden": next(iter(model.project.values())).out_features,
        "decoder": "distmult" if len(model.decode) else "dot",
        "dropout": model.dropout.rate,
    }


def _heads(layer: Any) -> int:
    return int(layer.of_source.size(0)) if hasattr(layer, "of_source") else 1


def _inner(model: Any) -> int:
    """The width inside a GIN layer, which is that of the hidden layers."""
    return int(model.layers[0].first.out_features)


_COUNTERPARTS: dict[type[nn.Module], tuple[type[nn.Module], Reader]] = {
    single_channel.GIN: (GraphNetwork, _graph_network("gin")),
    single_channel.GraphGCN: (GraphNetwork, _graph_network("gcn")),
    single_channel.GraphSAGE: (GraphNetwork, _graph_network("sage")),
    single_channel.GraphGAT: (GraphNetwork, _graph_network("gat")),
    dual_channel.DualChannel: (DualChannel, _dual_channel),
    dense_dual_channel.DenseDualChannel: (DenseDualChannel, _dense_dual_channel),
    plain_node.NodeGIN: (NodeNetwork, _node_network("gin")),
    plain_node.NodeGCN: (NodeNetwork, _node_network("gcn")),
    plain_node.MaskedNodeGCN: (NodeNetwork, _node_network("gcn")),
    plain_node.PlainNodeSAGE: (NodeNetwork, _node_network("sage")),
    plain_node.NodeGAT: (NodeNetwork, _node_network("gat")),
    node_sage.NodeSAGE: (NodeSAGE, _node_sage),
    node_hops.NodeHops: (NodeHops, _node_hops),
    multi_channel_gcn.GCN: (GCN, _gcn),
    multi_channel_gcn.MultiChannelGCN: (MultiChannelGCN, _multi_channel),
    plain_link.LinkGIN: (LinkNetwork, _link_network("gin")),
    plain_link.LinkGCN: (LinkNetwork, _link_network("gcn")),
    plain_link.LinkSAGE: (LinkNetwork, _link_network("sage")),
    plain_link.LinkGAT: (LinkNetwork, _link_network("gat")),
    simple_hgn.SimpleHGN: (SimpleHGN, _simple_hgn),
}
