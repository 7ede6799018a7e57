"""What a first layer tells: a column of its weights moves only if a site has such inputs.

A column that no sample uses has no gradient, so it changes by weight decay alone, which anyone can
compute from the run's settings. All others tell that their input occurs: a degree in a structure
encoding, a word, a kind of atom.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ramet.leak.candidates import Candidates
from ramet.leak.capture import Seen
from ramet.leak.intervals import Scores
from ramet.methods.training import Training
from ramet.payload import Array, Arrays
from ramet.tasks import GraphSamples

_STEPS = 400
"""The largest number of local steps that is tried."""
_ROUNDING = 3e-6
"""Differences up to this times the largest weight are rounding errors."""


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


def inputs(site: Candidates, structure: bool) -> Scores:
    """The sum of the absolute inputs over the members: of graphs over all their nodes."""
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
    total: Scores = features.double().abs().sum(dim=0).numpy()
    return total


def degrees_found(
    seen: Seen, sites: Mapping[str, Candidates], layer: Layer, degrees: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which degrees occur at the sites, and which of them the replies give away."""
    truth, found = [np.zeros(0, bool)], [np.zeros(0, bool)]
    for client, arrays in _with(layer, seen):
        truth.append(inputs(sites[client], True)[:degrees] > 0)
        changed = moved(seen.method.training, seen.sent[client][layer.name], arrays[layer.name])
        found.append(changed[:degrees])
    return np.concatenate(truth), np.concatenate(found)


def reconstructed(
    seen: Seen, sites: Mapping[str, Candidates], layer: Layer, prior: Scores
) -> tuple[list[float], list[float]]:
    """How similar the inputs of a site's only sample are to what its reply tells, and to the prior.

    The attacker takes the usual inputs, and leaves out the columns that did not move.
    """
    told, known = [], []
    for client, arrays in _with(layer, seen):
        truth = inputs(sites[client], layer.structure)
        changed = moved(seen.method.training, seen.sent[client][layer.name], arrays[layer.name])
        told.append(_cosine(prior * changed, truth))
        known.append(_cosine(prior, truth))
    return told, known


def _with(layer: Layer, seen: Seen) -> list[tuple[str, dict[str, Array]]]:
    """The replies that have the layer; a run may ask for some arrays only."""
    return [(client, arrays) for client, arrays in seen.read().items() if layer.name in arrays]


def _cosine(first: Scores, second: Scores) -> float:
    size = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second) / size if size else 0.0


def usual_inputs(sites: Mapping[str, Candidates], layer: Layer) -> Scores:
    """The sum of the inputs over all sites, which an attacker may know from similar data."""
    total: Scores = np.sum([inputs(site, layer.structure) for site in sites.values()], axis=0)
    return total
