"""Local training in which no single graph can matter much: DP-SGD.

Abadi et al., *Deep Learning with Differential Privacy*, CCS 2016. In each step every training graph
takes part with the same probability (Poisson sampling). The gradient of each graph is clipped,
noise is added to the sum, and the sum is divided by the expected number of graphs, because the
drawn one is secret. Private layers are trained in the same way: they influence what is shared.

Noise is added in float64 and rounded to the parameter's type afterwards. Added in float32, the gaps
between the sums would tell what it was added to (Mironov, *On Significance of the Least Significant
Bits for Differential Privacy*, CCS 2012).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ramet.privacy.accounting import Mechanism
from ramet.privacy.draws import Draws
from ramet.tasks import GraphSamples
from ramet.training.graph_gradients import clipped_sum
from ramet.training.local import LocalTraining, Session


def training_steps(training: LocalTraining, samples: Any) -> tuple[float, int]:
    """The probability with which a graph takes part in a step, and the steps of a round."""
    assert isinstance(samples, GraphSamples)
    graphs = max(1, samples.split.train.numel())
    per_epoch = math.ceil(graphs / training.batch_size)
    return min(1.0, training.batch_size / graphs), training.epochs * per_epoch


def fit_privately(session: Session, mechanism: Mechanism, clip: float, draws: Draws) -> None:
    """Train in place with clipped and noisy gradients; there is no loss to report."""
    model, samples = session.model, session.samples
    assert isinstance(samples, GraphSamples)
    train = samples.split.train
    expected = max(1, train.numel()) * mechanism.sampling
    model.train()
    with session.randomness.torch_draws("training"):
        for _ in range(mechanism.steps):
            drawn = train[draws.chosen(train.numel(), mechanism.sampling)]
            found: Mapping[str, Tensor] = {}
            if drawn.numel():
                found = clipped_sum(model, session.task, samples, drawn, clip).gradients
            with torch.no_grad():
                for name, parameter in model.named_parameters():
                    total = mechanism.noise * clip * draws.normal(parameter.shape)
                    if name in found:
                        total += found[name].cpu().double()
                    parameter.grad = (total / expected).to(parameter)
            session.optimiser.step()
            session.steps += 1
