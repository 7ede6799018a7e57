"""What a lying coordinator reads off the answers to one prepared message.

The attack is that of Fowl et al., *Robbing the Fed*, ICLR 2022. All units of the first layer get
the same weights and different thresholds, and all layers above treat them alike. So the changes of
two neighbouring units differ by the samples between their thresholds alone; if that is one sample,
its features are the change of the weights divided by that of the bias. Everything else is as in the
run: its network, learning rate, optimiser and number of steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ramet.leak.candidates import Candidates
from ramet.leak.capture import Seen
from ramet.leak.columns import Layer
from ramet.leak.intervals import Scores
from ramet.payload import Array, Arrays

_SMALL = 1e-3
"""Of the prepared weights, so that the network's output is as good as constant."""
_ALIKE = 1 - 0.002**2 / 2
"""The cosine from which on features count as read: their difference is 0.2 % of their length."""


def prepared(shared: Arrays, layer: Layer, sites: Mapping[str, Candidates]) -> dict[str, Array]:
    """A message with a prepared network. Its thresholds suit the data, as if from similar data."""
    weights, draw = shared[layer.name], np.random.default_rng(0)
    units = weights.shape[0]
    direction = draw.normal(size=layer.width)
    known = np.concatenate([layer.rows(site) for site in sites.values()]) @ direction
    thresholds = np.quantile(known, np.arange(units) / units)
    own = np.zeros(weights.shape, weights.dtype)
    own[:, layer.columns] = _SMALL * direction
    found: dict[str, Array] = {layer.name: own}
    for name, array in shared.items():
        if name == layer.bias:
            found[name] = (-_SMALL * thresholds).astype(array.dtype)
        elif name != layer.name and array.ndim == 2 and array.shape[1] == units:
            signs = np.where(np.arange(array.shape[0]) % 2, -1.0, 1.0)[:, None] / units
            found[name] = np.broadcast_to(signs, array.shape).astype(array.dtype)
    return found


@dataclass(frozen=True)
class Read:
    """How many members' features were read, of how many, and what share one gets by guessing."""

    rows: int
    total: int
    chance: float


def rows_read(seen: Seen, layer: Layer, sites: Mapping[str, Candidates]) -> Read:
    """Compare what was read with the members' features, without regard to their lengths."""
    answered = [*seen.received]
    guesses = np.concatenate([_guesses(layer, seen.sent[c], seen.received[c]) for c in answered])
    truth = _unit(np.concatenate([layer.rows(sites[client]) for client in answered]))
    read = (truth @ guesses.T >= _ALIKE).any(axis=1)
    shared = ((truth @ truth.T >= _ALIKE).sum(axis=1) - 1) / max(1, len(truth) - 1)
    chance = float((1 - (1 - shared) ** len(guesses)).mean())
    return Read(int(read.sum()), len(truth), chance)


def _guesses(layer: Layer, sent: Arrays, received: Arrays) -> Scores:  # [guesses, width]
    """Quotients of each unit's changes, and of the differences between neighbouring units."""
    if layer.name not in received or layer.bias not in received:
        return np.zeros((0, layer.width))
    of_weights, of_bias = (
        received[name].astype(np.float64) - sent[name] for name in (layer.name, layer.bias)
    )
    of_weights = of_weights[:, layer.columns]
    tops = np.concatenate([of_weights, np.diff(of_weights, axis=0)])
    bottoms = np.concatenate([of_bias, np.diff(of_bias)])
    clear = np.abs(bottoms) > _SMALL * np.abs(bottoms).max()
    return _unit(tops[clear] / bottoms[clear][:, None])


def _unit(rows: Scores) -> Scores:
    sizes = np.linalg.norm(rows, axis=1, keepdims=True)
    found: Scores = np.divide(rows, sizes, out=np.zeros_like(rows), where=sizes > 0)
    return found
