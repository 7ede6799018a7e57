"""An attack on private training: what it proves about ε stays below the budget.

A canary, a graph whose gradient is clipped, is in the data or not. There are no other graphs, which
could only hide it. The attacker looks for the canary's direction in what was learned. How often it
is right gives a lower bound on ε, by Clopper and Pearson. Without noise, the attack succeeds.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from scipy.stats import beta
from torch import Tensor, nn

from ramet.data import Batch
from ramet.methods import fedavg
from ramet.models.layers import graph_sums
from ramet.privacy.accounting import Mechanism, needed_noise
from ramet.privacy.draws import SystemDraws
from ramet.randomness import Randomness
from ramet.rules.method import Method
from ramet.tasks import GraphClassification
from ramet.training.local import LocalTraining, Session
from ramet.training.private import fit_privately

RUNS = 20 if os.environ.get("RAMET_FAULTS") == "full" else 1
TRAININGS = 150
EPSILONS, DELTA = (0.1, 1.0, 4.0), 1e-3
STEPS, SAMPLING, CLIP = 3, 0.5, 1.0
TASK = GraphClassification()


class _Sums(nn.Module):
    """The class scores of a graph are a linear map of the sum of its features."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.map = nn.Linear(features, classes, bias=False)
        nn.init.zeros_(self.map.weight)

    def forward(self, batch: Batch) -> Tensor:
        scores: Tensor = self.map(graph_sums(batch.x, batch))
        return scores


def _learned(samples: Any, noise: float) -> Tensor:
    """The weights after a few steps of SGD."""
    training = LocalTraining(lr=1.0, weight_decay=0.0, algorithm="sgd")
    model = _Sums(samples.block.feature_width, samples.block.classes)
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
    fit_privately(session, Mechanism(noise, SAMPLING, STEPS), CLIP, SystemDraws())
    return model.map.weight.detach().flatten()


def _proven(samples: Any, noise: float) -> float:
    """The lower bound on ε, with 95 % confidence."""
    train = samples.split.train
    without = replace(samples, split=replace(samples.split, train=train[:0]))
    with_canary = replace(samples, split=replace(samples.split, train=train[:1]))
    outside = torch.stack([_learned(without, noise) for _ in range(TRAININGS)])
    inside = torch.stack([_learned(with_canary, noise) for _ in range(TRAININGS)])
    half = TRAININGS // 2  # one half gives direction and threshold, the other is evaluated
    direction = inside[:half].mean(0) - outside[:half].mean(0)
    threshold = ((inside[:half].mean(0) + outside[:half].mean(0)) / 2) @ direction
    found = int((inside[half:] @ direction > threshold).sum())
    mistaken = int((outside[half:] @ direction > threshold).sum())
    count = TRAININGS - half
    least = beta.ppf(0.025, found, count - found + 1) if found else 0.0
    most = beta.ppf(0.975, mistaken + 1, count - mistaken) if mistaken < count else 1.0
    return math.log(max(least - DELTA, 1e-9) / most)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_canaries_prove_no_more_than_the_budget(
    epsilon: float, tiny_samples: Callable[[str, Method], Any]
) -> None:
    samples = tiny_samples("rings", fedavg())
    noise = needed_noise(epsilon, DELTA, SAMPLING, STEPS)
    for _ in range(RUNS):
        assert _proven(samples, noise) < epsilon


def test_without_noise_canaries_are_found(tiny_samples: Callable[[str, Method], Any]) -> None:
    """With the canary in half of the steps, it is seen in 7 of 8 trainings."""
    assert _proven(tiny_samples("rings", fedavg()), 1e-6) > 1
