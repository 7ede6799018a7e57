"""What a first layer tells: a column of its weights moves only if a site has such inputs.

A column that no sample uses has no gradient, so it changes by weight decay alone, which anyone can
compute from the run's settings. All others tell that their input occurs: a degree in a structure
encoding, a word, a kind of atom.

A layer with a bias tells more. The gradient of a unit's weights is that of its bias times the
input, so the change of the one divided by that of the other is the input: exactly after steps of
SGD with a single input, a mean over the inputs if there are several, and only its sign after a step
of Adam, which makes all changes equally large.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ramet.leak.candidates import Candidates
from ramet.leak.capture import Seen
from ramet.leak.intervals import Scores
from ramet.payload import Array, Arrays
from ramet.tasks import GraphSamples
from ramet.training.local import Training

_STEPS = 400
"""The largest number of local steps that is tried."""
_ROUNDING = 3e-6
"""Differences up to this times the largest weight are rounding errors."""
_COLUMNS, _QUOTIENT = "columns that moved", "weights divided by bias"


class _Columns(nn.Module):
    """Weights that no sample uses."""

    def __init__(self, start: Array) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.from_numpy(np.array(start)))


def moved(training: Training, sent: Array, received: Array) -> NDArray[np.bool_]:
    """Which columns changed by more than weight decay, for any number of local steps."""
    columns, found = _Columns(sent), torch.from_numpy(np.array(received))
    optimiser = training.optimiser(columns)
    nearest = torch.full((found.size(1),), torch.inf)
    for _ in range(_STEPS):
        columns.weight.grad = torch.zeros_like(columns.weight)
        optimiser.step()
        distances = (found - columns.weight.detach()).abs().amax(dim=0)
        nearest = torch.minimum(nearest, distances)
    limit = _ROUNDING * float(np.abs(sent).max())
    return (nearest > limit).numpy()


@dataclass(frozen=True)
class Layer:
    """A shared first layer: the name of its weights, and whether it reads structure encodings."""

    name: str
    structure: bool


def first_layer(shared: Arrays, site: Candidates, structure: bool) -> Layer | None:
    """The first shared matrix with a column for each feature or each structure encoding."""
    if structure:
        width = inputs(site, True).size
        names = [name for name in shared if name.startswith("structure.")]
    else:
        width, names = inputs(site, False).size, [*shared]
    fitting = [name for name in names if shared[name].ndim == 2 and shared[name].shape[1] == width]
    return Layer(fitting[0], structure) if fitting and width else None


def inputs(site: Candidates, structure: bool, signed: bool = False) -> Scores:
    """The sum of the inputs over the members, absolute or signed: of graphs over all nodes."""
    samples = site.samples
    if not isinstance(samples, GraphSamples):
        if structure:
            return np.zeros(0)
        features = samples.graph.features[site.members]
    else:
        batch = samples.block.cut(site.members)
        features = batch.structure if structure else batch.features
        if not features.is_floating_point():
            features = nn.functional.one_hot(features.long(), batch.feature_width)
    values = features.double() if signed else features.double().abs()
    total: Scores = values.sum(dim=0).numpy()
    return total


def degrees_found(
    seen: Seen, sites: Mapping[str, Candidates], layer: Layer, degrees: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which degrees occur at the sites, and which of them the replies give away."""
    truth, found = [np.zeros(0, bool)], [np.zeros(0, bool)]
    for client, arrays in with_layer(layer, seen):
        truth.append(inputs(sites[client], True)[:degrees] > 0)
        changed = moved(seen.method.training, seen.sent[client][layer.name], arrays[layer.name])
        found.append(changed[:degrees])
    return np.concatenate(truth), np.concatenate(found)


@dataclass(frozen=True)
class Similarity:
    """How similar the inputs of sites with one sample are to what was guessed, by site."""

    told: list[float] = field(default_factory=list)
    """To what the attacker made of the replies."""
    known: list[float] = field(default_factory=list)
    """To the usual inputs, which the attacker knows anyway."""

    def add(self, guess: Scores, usual: Scores, truth: Scores) -> None:
        self.told.append(_cosine(guess, truth))
        self.known.append(_cosine(usual, truth))

    @property
    def gain(self) -> float:
        return float(np.mean(self.told) - np.mean(self.known))


@dataclass(frozen=True)
class Reconstruction:
    """Two attacks on the first layer of sites with one training sample, and what they get."""

    layer: Layer
    usual: Scores
    """The sum of the absolute inputs over all sites; attackers may know it from similar data."""
    usual_signed: Scores
    by_attack: dict[str, Similarity] = field(default_factory=dict)

    @staticmethod
    def of(sites: Mapping[str, Candidates], layer: Layer) -> Reconstruction:
        usual, signed = (
            np.sum([inputs(site, layer.structure, signed) for site in sites.values()], axis=0)
            for signed in (False, True)
        )
        return Reconstruction(layer, usual, signed)

    def add(self, site: Candidates, training: Training, sent: Arrays, received: Arrays) -> None:
        """Attack the reply of a site."""
        name = self.layer.name
        changed = moved(training, sent[name], received[name])
        truth = inputs(site, self.layer.structure)
        found = self.by_attack.setdefault(_COLUMNS, Similarity())
        found.add(self.usual * changed, self.usual, truth)
        quotient = _quotient(self.layer, sent, received)
        if quotient is not None:
            truth = inputs(site, self.layer.structure, signed=True)
            found = self.by_attack.setdefault(_QUOTIENT, Similarity())
            found.add(quotient * changed, self.usual_signed, truth)

    def best(self) -> tuple[str, Similarity]:
        """The attack that adds most to what is known anyway."""
        return max(self.by_attack.items(), key=lambda one: one[1].gain)


def _quotient(layer: Layer, sent: Arrays, received: Arrays) -> Scores | None:
    """The change of a unit's weights divided by that of its bias, if the layer has one."""
    bias = f"{layer.name.removesuffix('weight')}bias"
    rows = sent[layer.name].shape[:1]
    if bias not in sent or bias not in received or sent[bias].shape != rows:
        return None
    of_weights, of_bias = (
        received[name].astype(np.float64) - sent[name] for name in (layer.name, bias)
    )
    unit = int(np.abs(of_bias).argmax())
    found: Scores = of_weights[unit] / (of_bias[unit] or np.inf)
    return found


def with_layer(layer: Layer, seen: Seen) -> list[tuple[str, dict[str, Array]]]:
    """The replies that have the layer; a run may ask for some arrays only."""
    return [(client, arrays) for client, arrays in seen.read().items() if layer.name in arrays]


def _cosine(first: Scores, second: Scores) -> float:
    size = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second) / size if size else 0.0
