"""Sizes of the clients' models."""

from __future__ import annotations

from torch import nn

from ramet.experiment.sizes import Sizes
from ramet.methods import fedavg
from ramet.models.shape import GraphShape
from ramet.rules.method import assembled


class Normalised(nn.Module):
    """4 · 2 parameters of a batch normalisation, and its 2 · 4 + 1 numbers that are not trained."""

    def __init__(self, shape: GraphShape) -> None:
        super().__init__()
        self.embed = nn.Linear(shape.features, 4, bias=False)
        self.layers = nn.ModuleList([nn.BatchNorm1d(4)])
        self.classify = nn.Linear(4, shape.classes, bias=False)


def test_buffers_count_on_both_sides() -> None:
    shape, clients = GraphShape(3, 0, 2), ("a", "b")
    everywhere = assembled(fedavg(), network=Normalised, same_schema=True)
    sizes = Sizes(everywhere, 0, clients, lambda _: shape)
    whole = 3 * 4 + 2 * 4 + (2 * 4 + 1) + 4 * 2
    assert sizes.scalars() == {"a": whole, "b": whole}
    assert sizes.shared_scalars() == whole
    across = assembled(fedavg(), network=Normalised, same_schema=False)
    sizes = Sizes(across, 0, clients, lambda _: shape)
    assert sizes.shared_scalars() == 2 * 4 + (2 * 4 + 1)
    assert sizes.scalars_of("a") == whole
