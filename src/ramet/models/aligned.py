"""Networks for graphs that all have the same nodes, such as regions of the brain."""

from __future__ import annotations

from pydantic import PositiveInt
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from ramet.data.graphs.graph_block import Batch
from ramet.errors import RametError
from ramet.models.layers import GCNLayer
from ramet.models.settings import DropoutRate, GraphNetwork
from ramet.models.shape import GraphShape
from ramet.models.single_channel import SingleChannel


class Linear(nn.Module):
    """Logistic regression on the features of all nodes, without links."""

    def __init__(self, shape: GraphShape) -> None:
        super().__init__()
        self.classify = nn.Linear(_nodes(shape) * shape.features, shape.classes)
        nn.init.zeros_(self.classify.weight)
        nn.init.zeros_(self.classify.bias)

    def forward(self, batch: Batch) -> Tensor:  # [graphs, classes]
        logits: Tensor = self.classify(batch.x.view(-1, self.classify.in_features))
        return logits


@dataclass(frozen=True)
class AlignedNetwork(GraphNetwork):
    """Hyper-parameters of networks for graphs with the same nodes."""

    hidden: PositiveInt = 16
    layers: PositiveInt = 1
    dropout: DropoutRate = 0.5


class AlignedGCN(SingleChannel):
    """Graph convolutional network whose head sees each node by itself, not their sum."""

    def __init__(self, shape: GraphShape, settings: AlignedNetwork = AlignedNetwork()) -> None:  # noqa: B008
        super().__init__(shape, settings, GCNLayer)

    def pooled_width(self, shape: GraphShape, hidden: int) -> int:
        return _nodes(shape) * hidden

    def pool(self, x: Tensor, batch: Batch) -> Tensor:  # noqa: ARG002
        return x.view(-1, self.hidden.in_features)


def _nodes(shape: GraphShape) -> int:
    if not shape.nodes:
        raise RametError(
            "this network needs the same nodes in every graph, as in the setting abide. Use "
            "another network, such as gin."
        )
    return shape.nodes
