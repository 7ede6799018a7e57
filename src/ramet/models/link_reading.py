"""What a network reads of the values of links, and what it ignores."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from ramet.data.graphs.link_values import NO_VALUES, Edges, HasEdges, LinkValues
from ramet.errors import RametError
from ramet.models.shape import GraphShape, NodeShape

Value: TypeAlias = Literal["attributes", "weights", "direction"]
VALUES: tuple[Value, ...] = ("attributes", "weights", "direction")


def values_read(model: object) -> frozenset[Value]:
    """What a network, or what builds it, says in ``reads``.

    By default that is nothing; a user's network may read everything.
    """
    network = getattr(model, "func", model)
    known = network if hasattr(network, "__module__") else type(network)
    own = str(known.__module__).startswith("ramet.")
    return frozenset(getattr(network, "reads", () if own else VALUES))


def values_in(samples: object) -> frozenset[Value]:
    """What the links of a client's samples have to read."""
    graph = getattr(samples, "graph", getattr(samples, "block", None))
    values: LinkValues = getattr(graph, "link_values", NO_VALUES)
    given: dict[Value, bool] = {
        "attributes": values.attributes is not None,
        "weights": values.weights is not None,
        "direction": values.directed,
    }
    return frozenset(name for name, there in given.items() if there)


class LinkInput(nn.Linear):
    """A linear map of what links carry, for networks whose messages depend on it.

    A message against the direction of its link has a map of its own, and both know the direction.
    """

    def __init__(self, shape: GraphShape | NodeShape, hidden: int) -> None:
        width = 2 * shape.link_width + 1 if shape.directed else shape.link_width
        if not width:
            raise RametError(
                "this network reads attributes of links, and the data have none. Name their "
                "columns in [edges.TYPE.columns], or use another network, such as gin."
            )
        super().__init__(width, hidden)
        self.directed = shape.directed

    def read(self, graph: HasEdges) -> tuple[Tensor, Tensor]:
        """[2, edges] in both directions, and [edges, hidden] what they carry."""
        both = graph.both_ways
        return both.index, self(self._inputs(both))

    def _inputs(self, both: Edges) -> Tensor:  # [edges, in_features]
        given = both.values.attributes
        attributes = both.index.new_zeros((both.index.size(1), 0)) if given is None else given
        if not self.directed:
            return attributes
        ways = both.values.directions
        assert ways is not None
        way = ways.to(self.weight.dtype).unsqueeze(1)
        with_it, against = (attributes * (way * sign >= 0) for sign in (1, -1))
        return torch.cat([with_it, against, way], dim=1)
