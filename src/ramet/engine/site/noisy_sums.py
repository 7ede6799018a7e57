"""Noise inside a sum: a site's part of it, in the integers that are summed.

The change of a site's parameters is clipped, multiplied by the scale of the sum and rounded towards
zero, which enlarges no norm. Then discrete Gaussian noise is added. Only the total of all sites'
parts is the noise that the budget needs, so the sum must be all that anybody sees, and what the
method sums must be the parameters themselves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ramet.engine.site.gates import Inside, R, SameForm, zero_arrays
from ramet.engine.site.inner_gates import Summed
from ramet.engine.site.private_site import Noise, PrivateSite, clipped_changes
from ramet.errors import RametError
from ramet.payload import Array, Arrays, Payload
from ramet.privacy.accounting import LEAST_DEVIATION
from ramet.privacy.budget import NoiseShare
from ramet.rules.fixed_point import PARAMETERS, FixedPoint, RingTotal, prefixed
from ramet.rules.merging import WeightedMean
from ramet.rules.method import AssembledMethod

_MARGIN = 1 - 2.0**-30
"""What clipping leaves for rounding in float64, whose relative error is far smaller."""
_TAIL = 50
"""Standard deviations of noise, and of its sum, for which a sum in integers must have room."""


@dataclass(frozen=True)
class NoisedSum(SameForm):
    """Adds a site's part of the noise to its term, once the round is in the ledger.

    All of the site's data is protected, also their number: its weight in means is 1.
    """

    summed: Summed
    private: PrivateSite
    share: NoiseShare

    def __call__(self, request: R, inside: Inside[R]) -> Payload:
        if not request.trains:
            return self.summed(request, inside)
        check_summed(request.method)
        noise = self.private.noise(request.randomness, request.method.training, request.samples)
        deviation = self._deviation(noise)
        trained = inside(request)
        unchanged = zero_arrays(trained.arrays) | {
            name: request.sent[name] for name in trained.arrays.keys() & request.sent.keys()
        }
        public = replace(trained, arrays=unchanged, numbers={**trained.numbers, "weight": 1})
        reply = self.summed(request, lambda _: public)
        total = RingTotal(reply.arrays)
        change = self.change(trained.arrays, request.sent, deviation, noise)
        total.add(prefixed(PARAMETERS, change))
        return replace(reply, arrays=total.arrays)

    def form(self, form: Payload, sent: Arrays) -> Payload:
        return self.summed.form(form, sent)

    def change(self, arrays: Arrays, sent: Arrays, deviation: float, noise: Noise) -> Arrays:
        """The change of arrays since they were sent, clipped and with noise, as integers."""
        summation, added = self.summed.summation, dict[str, Array]()
        changes = clipped_changes(arrays, sent, _MARGIN * self.private.budget.clip)
        for name, change in changes.items():
            drawn = noise.draws.integers(change.shape, deviation)
            added[name] = np.asarray(summation.rounded_down(change) + drawn).astype(summation.dtype)
        return added

    def _deviation(self, noise: Noise) -> float:
        """The standard deviation of the site's part, in units of the last bit."""
        summation, clip = self.summed.summation, self.private.budget.clip
        return part_deviation(
            noise.mechanism.noise, clip, summation, self.share, self.summed.clients
        )


def check_summed(method: AssembledMethod) -> None:
    """Raise RametError unless the method sums the parameters of replies as they are."""
    rule = method.merging
    if not isinstance(rule, WeightedMean) or type(rule).term is not WeightedMean.term:
        raise RametError(
            f"{method.name} does not work with --dp unit=site and sums in fixed point: the terms "
            f"of {type(rule).__name__} are its own, and noise in their sum protects only means of "
            "parameters. Leave out --dp, or use a method such as fedavg or fedadam."
        )


def part_deviation(
    noise: float, clip: float, summation: FixedPoint, share: NoiseShare, sites: int
) -> float:
    """The standard deviation of one site's part of the noise, in units of the last bit.

    ``noise`` is that of all parts together, in clipping norms. Raise RametError if the integers are
    too coarse for it, or have no room for it.
    """
    deviation = noise * clip * summation.scale / math.sqrt(share.parts)
    if deviation < LEAST_DEVIATION:
        raise RametError(
            f"a sum with {summation.ring} bits is too coarse for noise in integers with clip="
            f"{clip:g}. Choose a larger clip, or --merge fixed-point with ring=64 or more `bits`."
        )
    if clip + _TAIL * deviation / summation.scale > summation.limit(sites):
        raise RametError(
            f"a sum with {summation.ring} bits over {sites} clients has no room for the noise with "
            f"clip={clip:g}. Choose a smaller clip, or --merge fixed-point with ring=64."
        )
    return deviation
