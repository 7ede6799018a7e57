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
from ramet.tasks import GraphSamples, NodeSamples
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
    """A shared first layer: its weights, and whether these read structure encodings or features.

    The first ``width`` columns are for a sample's own inputs.
    """

    name: str
    structure: bool
    width: int

    @property
    def bias(self) -> str:
        return f"{self.name.removesuffix('weight')}bias"

    @property
    def columns(self) -> slice:
        return slice(self.width)

    def rows(self, site: Candidates, signed: bool = True) -> Scores:  # [members, width]
        """The inputs of each member, signed or absolute: of graphs their sum over the nodes."""
        samples = site.samples
        if not isinstance(samples, GraphSamples):
            features = samples.graph.features[site.members].double()
            return (features if signed else features.abs()).numpy()
        batch = samples.block.cut(site.members)
        of_nodes = (batch.structure if self.structure else batch.x).double()
        sums = of_nodes.new_zeros(batch.graphs, of_nodes.size(1))
        sums.index_add_(0, batch.graph.long(), of_nodes if signed else of_nodes.abs())
        found: Scores = sums.numpy()
        return found


def first_layer(shared: Arrays, site: Candidates, structure: bool) -> Layer | None:
    """The first shared matrix with a column for each feature or each structure encoding.

    That of networks over hops also has columns for sums over neighbours, after the node's own.
    """
    names = [name for name in shared if name.startswith("structure.")] if structure else [*shared]
    matrices = {name: shared[name].shape[1] for name in names if shared[name].ndim == 2}
    width = _width(site, structure)
    for name, columns in matrices.items():
        if width and columns == width:
            return Layer(name, structure, width)
    name = next(iter(matrices), "")
    if width and isinstance(site.samples, NodeSamples) and name and not matrices[name] % width:
        return Layer(name, structure, width)
    return None


def _width(site: Candidates, structure: bool) -> int:
    samples = site.samples
    if isinstance(samples, GraphSamples):
        return int(samples.block.structure.size(1) if structure else samples.block.feature_width)
    return 0 if structure else int(samples.graph.features.size(1))


def degrees_found(
    seen: Seen, sites: Mapping[str, Candidates], layer: Layer, degrees: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which degrees occur at the sites, and which of them the replies give away."""
    truth, found = [np.zeros(0, bool)], [np.zeros(0, bool)]
    for client, arrays in with_layer(layer, seen):
        truth.append((layer.rows(sites[client]).max(axis=0) > 0)[:degrees])
        changed = moved(seen.training, seen.sent[client][layer.name], arrays[layer.name])
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
            np.sum([layer.rows(site, signed).sum(axis=0) for site in sites.values()], axis=0)
            for signed in (False, True)
        )
        return Reconstruction(layer, usual, signed)

    def add(self, site: Candidates, training: Training, sent: Arrays, received: Arrays) -> None:
        """Attack the reply of a site."""
        layer = self.layer
        changed = moved(training, sent[layer.name], received[layer.name])[layer.columns]
        found = self.by_attack.setdefault(_COLUMNS, Similarity())
        found.add(self.usual * changed, self.usual, layer.rows(site, signed=False).sum(axis=0))
        quotient = _quotient(layer, sent, received)
        if quotient is not None:
            found = self.by_attack.setdefault(_QUOTIENT, Similarity())
            found.add(quotient * changed, self.usual_signed, layer.rows(site).sum(axis=0))

    def best(self) -> tuple[str, Similarity]:
        """The attack that adds most to what is known anyway."""
        return max(self.by_attack.items(), key=lambda one: one[1].gain)


def _quotient(layer: Layer, sent: Arrays, received: Arrays) -> Scores | None:
    """The change of a unit's weights divided by that of its bias, if the layer has one."""
    rows = sent[layer.name].shape[:1]
    if not {layer.bias} <= sent.keys() & received.keys() or sent[layer.bias].shape != rows:
        return None
    of_weights, of_bias = (
        received[name].astype(np.float64) - sent[name] for name in (layer.name, layer.bias)
    )
    unit = int(np.abs(of_bias).argmax())
    found: Scores = of_weights[unit, layer.columns] / (of_bias[unit] or np.inf)
    return found


def with_layer(layer: Layer, seen: Seen) -> list[tuple[str, Arrays]]:
    """The replies that have the layer; a run may ask for some arrays only."""
    return [(client, own) for client, own in seen.received.items() if layer.name in own]


def _cosine(first: Scores, second: Scores) -> float:
    size = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second) / size if size else 0.0
