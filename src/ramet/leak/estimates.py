"""Findings from an attacker's scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ramet.leak.findings import Finding, View, finding, not_applicable
from ramet.leak.intervals import Estimate, Ranked, auc_estimate, hit_rate, mean

_FALSE_ALARMS = 0.01
_NOBODY = "no site has both members and other samples, or none answered in the last round"


def area(attack: str, view: View, ranked: Sequence[Ranked]) -> Finding:
    if not ranked:
        return not_applicable(attack, view, _NOBODY)
    return finding(attack, view, auc_estimate(ranked), 0.5, _samples(ranked))


def hits(attack: str, view: View, ranked: Sequence[Ranked]) -> Finding:
    if not ranked:
        return not_applicable(attack, view, _NOBODY)
    found = hit_rate(ranked, _FALSE_ALARMS)
    return finding(attack, view, found, _FALSE_ALARMS, _samples(ranked))


def _samples(ranked: Sequence[Ranked]) -> int:
    return sum(one.positives.size + one.negatives.size for one in ranked)


def paired(values: Sequence[float], chance: Sequence[float], least: float = 0.0) -> Estimate:
    """The mean of values from ``least`` to 1, with the interval of their difference from chance."""
    difference, centre = mean([a - b for a, b in zip(values, chance, strict=True)]), fmean(chance)
    low, high = centre + difference.low, centre + difference.high
    return Estimate(fmean(values), max(least, low), min(1.0, high))


def fmean(values: Sequence[float]) -> float:
    return float(np.mean(values))
