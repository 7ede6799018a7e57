"""Hyper-parameters of networks. Methods take them as options and build networks from them."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field, NonNegativeInt, PositiveInt, ValidationInfo
from pydantic.dataclasses import dataclass


def _divides_hidden(heads: int, info: ValidationInfo) -> int:
    hidden = info.data.get("hidden", heads)  # absent if it is invalid itself
    if hidden % heads:
        raise ValueError(f"heads must divide hidden, which is {hidden}")
    return heads


DropoutRate: TypeAlias = Annotated[float, Field(ge=0, lt=1)]
Decoder: TypeAlias = Literal["distmult", "dot"]
Heads: TypeAlias = Annotated[
    PositiveInt, AfterValidator(_divides_hidden), Field(validate_default=True)
]


@dataclass(frozen=True)
class GraphNetwork:
    """Hyper-parameters of networks for graph classification."""

    hidden: PositiveInt = 64
    layers: PositiveInt = 3
    dropout: DropoutRate = 0.5


@dataclass(frozen=True)
class GraphAttentionNetwork(GraphNetwork):
    """Hyper-parameters of graph attention networks for graph classification.

    Args:
        heads: attention heads of width hidden / heads in each layer.
    """

    heads: Heads = 8


def _even(hidden: int) -> int:
    if hidden % 2:
        raise ValueError("hidden must be even: half of it are sines, half cosines")
    return hidden


@dataclass(frozen=True)
class SpectralNetwork:
    """Hyper-parameters of FedSSP's network.

    Args:
        heads: filters of the spectrum, and attention heads over eigenvalues.
    """

    hidden: Annotated[PositiveInt, AfterValidator(_even)] = 128
    layers: PositiveInt = 3
    dropout: DropoutRate = 0.1
    heads: Heads = 4


@dataclass(frozen=True)
class DenseNetwork(GraphNetwork):
    """Hyper-parameters of FedDense's network.

    Args:
        width: of every map except the first of each channel.
        activate: where the non-linearity H of the paper's eqs. 7 and 8 is applied: to each feature
            map (``maps``), or to the concatenated inputs of a layer (``inputs``), as the equations
            say literally.
        structure_maps: the activation of the structure maps: ``tanh`` as in FedStar, or H
            (``relu``, then dropout) as for the feature maps.
    """

    width: PositiveInt = 32
    activate: Literal["maps", "inputs"] = "maps"
    structure_maps: Literal["tanh", "relu"] = "tanh"


@dataclass(frozen=True)
class NodeNetwork:
    """Hyper-parameters of networks for node classification."""

    hidden: PositiveInt = 64
    layers: PositiveInt = 2
    dropout: DropoutRate = 0.5


@dataclass(frozen=True)
class NodeAttentionNetwork(NodeNetwork):
    """Hyper-parameters of graph attention networks for node classification.

    Args:
        heads: attention heads of width hidden / heads in each layer except the last, which has one.
    """

    heads: Heads = 8


@dataclass(frozen=True)
class GCNNetwork(NodeNetwork):
    """Hyper-parameters of GCNs.

    Args:
        activate: relu after the projections, as in FedLIT's eqs. 8 and 9.
        loops: self loops in every layer; without them a layer sums over neighbours only.
    """

    activate: bool = True
    loops: bool = False


@dataclass(frozen=True)
class MultiChannelNetwork(GCNNetwork):
    """Hyper-parameters of GCNs with a channel for each kind of link.

    Args:
        kinds: the number k of channels.
        mean: average over the channels that touch a node instead of summing.
        degrees: normalise by degrees in the whole graph (FedLIT's eq. 10) or in the channel.
    """

    kinds: PositiveInt = 4
    mean: bool = False
    degrees: Literal["graph", "channel"] = "graph"


@dataclass(frozen=True)
class LinkClustering:
    """Hyper-parameters of the clustering of links into kinds.

    Args:
        smallest: kinds with fewer links are not reported: a training pass clears their centre and
            count, and the next one draws a new centre.
        steps: how often links are assigned and centres moved in a training pass.
        view: the node embeddings by which links are compared: the ``learned`` projection, as in the
            paper, or a ``fixed`` random one, the same at all clients, so that kinds do not drift
            while the projection learns the classes. The fixed projection is never sent.
    """

    smallest: NonNegativeInt = 10
    steps: PositiveInt = 1
    view: Literal["learned", "fixed"] = "learned"


@dataclass(frozen=True)
class LinkNetwork:
    """Hyper-parameters of networks for link prediction that ignore the kinds of links.

    Args:
        decoder: weight the product of two nodes' vectors by the relation (``distmult``), or not
            (``dot``).
    """

    hidden: PositiveInt = 64
    layers: PositiveInt = 2
    dropout: DropoutRate = 0.5
    decoder: Decoder = "distmult"


@dataclass(frozen=True)
class LinkAttentionNetwork(LinkNetwork):
    """Hyper-parameters of graph attention networks for link prediction.

    Args:
        heads: attention heads of width hidden / heads in each layer.
    """

    heads: Heads = 8


@dataclass(frozen=True)
class HGNNetwork:
    """Hyper-parameters of Simple-HGN.

    Args:
        layers: number of hidden layers, without the output layer.
        kind_width: width of the embeddings of link kinds.
        residual: add a linear map of a layer's input to its output (eq. 3).
        decoder: weight the product of two nodes' vectors by the relation (``distmult``), or not
            (``dot``).
    """

    hidden: PositiveInt = 64
    heads: PositiveInt = 3
    layers: PositiveInt = 2
    kind_width: PositiveInt = 32
    dropout: DropoutRate = 0.5
    residual: bool = False
    decoder: Decoder = "distmult"
