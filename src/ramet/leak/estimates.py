"""Findings from an attacker's scores, and the chance that they are compared with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ramet.leak.findings import Finding, View, finding, not_applicable
from ramet.leak.intervals import Estimate, Ranked, auc_estimate, hit_rate, mean, mean_auc

_FALSE_ALARMS = 0.01
_NOBODY = "no site has both members and other samples, or none answered in the last round"


def area(
    attack: str, view: View, ranked: Sequence[Ranked], controls: Sequence[Sequence[Ranked]]
) -> Finding:
    if not ranked:
        return not_applicable(attack, view, _NOBODY)
    areas = [mean_auc(one) for one in controls]
    estimate = auc_estimate(ranked, float(np.var(areas, ddof=1)) if areas else 0.0)
    return finding(attack, view, estimate, *_chance(areas, 0.5, ranked))


def hits(
    attack: str, view: View, ranked: Sequence[Ranked], controls: Sequence[Sequence[Ranked]]
) -> Finding:
    if not ranked:
        return not_applicable(attack, view, _NOBODY)
    rates = [hit_rate(one, _FALSE_ALARMS).value for one in controls]
    estimate = hit_rate(ranked, _FALSE_ALARMS)
    if rates:
        spread = 2 * float(np.std(rates, ddof=1))
        low, high = estimate.value - spread, estimate.value + spread
        estimate = Estimate(
            estimate.value, max(0.0, min(low, estimate.low)), min(1.0, max(high, estimate.high))
        )
    return finding(attack, view, estimate, *_chance(rates, _FALSE_ALARMS, ranked))


def _chance(
    controls: Sequence[float], otherwise: float, ranked: Sequence[Ranked]
) -> tuple[float, int, str]:
    """What one gets without the view, on how many samples, and where the first is from."""
    samples = sum(one.positives.size + one.negatives.size for one in ranked)
    if not controls:
        return otherwise, samples, ""
    note = f"chance: mean of {len(controls)} draws of random numbers in place of the replies"
    return round(fmean(controls), 6), samples, note


def paired(values: Sequence[float], chance: Sequence[float]) -> Estimate:
    """The mean of values from 0 to 1, with the interval of their difference from chance."""
    difference, centre = mean([a - b for a, b in zip(values, chance, strict=True)]), fmean(chance)
    low, high = centre + difference.low, centre + difference.high
    return Estimate(fmean(values), max(0.0, low), min(1.0, high))


def fmean(values: Sequence[float]) -> float:
    return float(np.mean(values))
