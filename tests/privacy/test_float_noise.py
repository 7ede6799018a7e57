"""An attack on the last bits of noise (Mironov 2012): which float32 sums are possible with a graph.

The coordinator sends zeros, so that one step of SGD returns the noisy gradient itself. It knows the
gradient of one graph, and asks of each small sum whether any float32 noise, added to that gradient
in float32, rounds to it. If noise was added in that way, all sums pass with the graph in the data,
and few without it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ramet.data import Batch
from ramet.methods import fedavg
from ramet.models.layers import graph_sums
from ramet.privacy.accounting import Mechanism
from ramet.privacy.draws import Draws, SystemDraws
from ramet.randomness import Randomness
from ramet.rules.method import Method
from ramet.tasks import GraphClassification
from ramet.training.graph_gradients import clipped_sum
from ramet.training.local import LocalTraining, Session
from ramet.training.private import fit_privately

COPIES = 32_768
NOISE = 3.73
"""What ε = 1 at δ = 1e-5 needs, in clipping norms."""
TASK = GraphClassification()
Floats = NDArray[np.float32]


class _CopiedSums(nn.Module):
    """A linear map of many copies of a graph's summed features: many sums to look at."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.map = nn.Linear(COPIES * features, classes, bias=False)
        nn.init.zeros_(self.map.weight)

    def forward(self, batch: Batch) -> Tensor:
        scores: Tensor = self.map(graph_sums(batch.x, batch).repeat(1, COPIES))
        return scores


def _model(samples: Any) -> _CopiedSums:
    return _CopiedSums(samples.block.feature_width, samples.block.classes)


def _noisy_sum(samples: Any, draws: Draws) -> Floats:
    """What the coordinator sees of one step."""
    training = LocalTraining(lr=1.0, weight_decay=0.0, algorithm="sgd")
    model = _model(samples)
    session = Session(
        model=model,
        optimiser=training.optimiser(model),
        training=training,
        task=TASK,
        samples=samples,
        shared=(),
        randomness=Randomness(1, "rings", 1),
        device=torch.device("cpu"),
    )
    fit_privately(session, Mechanism(NOISE), 1.0, draws)
    return -model.map.weight.detach().numpy().ravel()


def _all_possible(sums: Floats, gradient: Floats) -> bool:
    """Whether float32 noise, added to the gradient in float32, can give all small sums."""
    small = np.abs(sums) < np.abs(gradient) / 4
    seen, added = sums[small], gradient[small]
    assert seen.size > 5
    nearest = (seen.astype(np.float64) - added).astype(np.float32)
    tried = (nearest, np.nextafter(nearest, np.float32(9)), np.nextafter(nearest, np.float32(-9)))
    return bool(np.any([noise + added == seen for noise in tried], axis=0).all())


@pytest.mark.parametrize("trials", [10, pytest.param(200, marks=pytest.mark.thorough)])
def test_the_last_bits_do_not_tell_whether_a_graph_is_there(
    trials: int, tiny_samples: Callable[[str, Method], Any]
) -> None:
    samples = tiny_samples("rings", fedavg())
    train = samples.split.train
    present = replace(samples, split=replace(samples.split, train=train[:1]))
    absent = replace(samples, split=replace(samples.split, train=train[:0]))
    found = clipped_sum(_model(samples), TASK, samples, train[:1], 1.0).gradients["map.weight"]
    gradient = found.numpy().ravel()
    for data in (present, absent):
        verdicts = [_all_possible(_noisy_sum(data, SystemDraws()), gradient) for _ in range(trials)]
        assert not any(verdicts)


def test_noise_that_is_added_in_float32_is_found(
    tiny_samples: Callable[[str, Method], Any],
) -> None:
    """The attack has the power to find what the test above denies."""
    samples = tiny_samples("rings", fedavg())
    train = samples.split.train
    found = clipped_sum(_model(samples), TASK, samples, train[:1], 1.0).gradients["map.weight"]
    gradient = found.numpy().ravel()
    noise = (NOISE * SystemDraws().normal(gradient.shape)).float().numpy()
    assert _all_possible(noise + gradient, gradient)
    assert not _all_possible(noise, gradient)
