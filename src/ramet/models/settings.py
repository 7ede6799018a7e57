"""Hyper-parameters of networks: methods take them, and networks are built from them."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, NonNegativeInt, PositiveInt
from pydantic.dataclasses import dataclass

DropoutRate: TypeAlias = Annotated[float, Field(ge=0, lt=1)]


@dataclass(frozen=True)
class GraphNetwork:
    """For networks that classify graphs."""

    hidden: PositiveInt = 64
    layers: PositiveInt = 3
    dropout: DropoutRate = 0.5


@dataclass(frozen=True)
class DenseNetwork(GraphNetwork):
    """For FedDense's network.

    Args:
        width: of every map but the first of each channel.
        activate: where the non-linear H of the paper's eqs. 7 and 8 is applied: to each feature map
            as it is computed, or to the concatenation that a layer reads, as the equations say
            literally.
    """

    width: PositiveInt = 32
    activate: Literal["maps", "inputs"] = "maps"


@dataclass(frozen=True)
class NodeNetwork:
    """For networks that classify nodes."""

    hidden: PositiveInt = 64
    layers: PositiveInt = 2
    dropout: DropoutRate = 0.5


@dataclass(frozen=True)
class GCNNetwork(NodeNetwork):
    """For graph convolutions.

    Args:
        activate: relu after the projections, as in FedLIT's eqs. 8 and 9.
        loops: self loops in every layer; without them a node hears only its neighbours.
    """

    activate: bool = True
    loops: bool = False


@dataclass(frozen=True)
class MultiChannelNetwork(GCNNetwork):
    """For one channel per kind of link.

    Args:
        kinds: the number k of channels.
        mean: average over the channels that touch a node instead of summing.
        degrees: normalise by the degrees in the whole graph (FedLIT's eq. 10) or in the channel.
    """

    kinds: PositiveInt = 4
    mean: bool = False
    degrees: Literal["graph", "channel"] = "graph"


@dataclass(frozen=True)
class LinkClustering:
    """How links are clustered into kinds.

    Args:
        smallest: a kind with fewer links is not reported: its centre and count are cleared after
            training, and it is drawn anew.
        steps: how often links are assigned and centres moved in one pass of training.
        view: what links are compared by: the nodes' projection as it is learned, as in the paper,
            or a ``fixed`` one, drawn alike everywhere, so that a kind stays what it was while the
            projection learns the classes. The fixed one never travels.
    """

    smallest: NonNegativeInt = 10
    steps: PositiveInt = 1
    view: Literal["learned", "fixed"] = "learned"


@dataclass(frozen=True)
class HGNNetwork:
    """For Simple-HGN.

    Args:
        layers: hidden ones; there is an output layer as well.
        kind_width: of the links' embeddings.
        residual: add a linear map of a layer's input to its output (eq. 3).
        decoder: weight the product of two nodes' vectors by the relation (``distmult``), or not.
    """

    hidden: PositiveInt = 64
    heads: PositiveInt = 3
    layers: PositiveInt = 2
    kind_width: PositiveInt = 32
    dropout: DropoutRate = 0.5
    residual: bool = False
    decoder: Literal["distmult", "dot"] = "distmult"
