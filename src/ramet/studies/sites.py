"""Each site's score alone and together, and what the interval of the difference says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from statistics import fmean
from typing import Any

import numpy as np

from ramet.experiment import MethodSpec, RunFolder
from ramet.methods import PAPER_NAMES
from ramet.metrics.bootstrap import bootstrap_interval
from ramet.metrics.classification import METRICS
from ramet.studies.finished_run import Draw, FinishedRun, FinishedRuns
from ramet.studies.gains import Gain, holm, paired_gain

ALONE = "local"


class Basis(Enum):
    """What the intervals cover."""

    SPLITS = "splits"
    SEEDS = "seeds"
    TEST_SAMPLES = "test samples"
    NONE = "nothing"


@dataclass(frozen=True)
class SiteStanding:
    """One site: trained alone, and together with the others by one method."""

    site: str
    majority: float | None
    alone: float
    together: float
    gain: Gain
    p_holm: float | None = None
    """The gain's p-value, adjusted for the number of sites."""

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "verdict": self.gain.verdict}


@dataclass(frozen=True)
class SiteStandings:
    """One method, compared with training alone at each site."""

    label: str
    metric: str
    basis: Basis
    runs: int
    sites: list[SiteStanding]


def site_standings(runs: FinishedRuns) -> list[SiteStandings]:
    """Each method's gain over `local` at each site; empty if `local` is not among the runs."""
    alone = [label for label in runs if _trains_alone(label)]
    found = (
        _standings(label, runs[baseline], together)
        for label, together in runs.items()
        if label not in alone and (baseline := _baseline(label, alone)) is not None
    )
    return [standings for standings in found if standings.sites]


def _trains_alone(label: str) -> bool:
    method = MethodSpec.parse(label).method
    paper = PAPER_NAMES.get(method)
    return (paper.method if paper else method) == ALONE


def _baseline(label: str, alone: Sequence[str]) -> str | None:
    """The only run of `local`, or the one with the options and the network of the method."""
    if len(alone) == 1:
        return alone[0]
    spec = MethodSpec.parse(label)
    same = (
        one
        for one in alone
        if (other := MethodSpec.parse(one)).options == spec.options
        and other.network == spec.network
    )
    return next(same, None)


def _standings(
    label: str, alone: Mapping[Draw, FinishedRun], together: Mapping[Draw, FinishedRun]
) -> SiteStandings:
    draws = sorted(alone.keys() & together.keys())
    pairs = {draw: (alone[draw], together[draw]) for draw in draws}
    first = next(iter(together.values()), None)
    sites = first.summary.scores.clients if first else {}
    found = [one for site in sites if (one := _standing(site, pairs)) is not None]
    adjusted = holm([one.gain.p_value for one in found])
    return SiteStandings(
        label=label,
        metric=first.summary.metric if first else "score",
        basis=_basis(pairs),
        runs=len(draws),
        sites=[replace(one, p_holm=p) for one, p in zip(found, adjusted, strict=True)],
    )


def _standing(
    site: str, pairs: Mapping[Draw, tuple[FinishedRun, FinishedRun]]
) -> SiteStanding | None:
    """None if the site did not reply in the last round of a run."""
    scores = {
        draw: (one.summary.scores.clients.get(site), other.summary.scores.clients.get(site))
        for draw, (one, other) in pairs.items()
    }
    known = {draw: (a, t) for draw, (a, t) in scores.items() if a is not None and t is not None}
    if not known or len(known) < len(pairs):
        return None
    baselines = [one.summary.baselines.get(site) for one, _ in pairs.values()]
    sizes = [found for found in baselines if found]
    majorities = [found.majority for found in sizes if found.majority is not None]
    ratio = fmean(found.test / max(found.train, 1) for found in sizes) if sizes else None
    gain = paired_gain({draw: t - a for draw, (a, t) in known.items()}, ratio)
    if _basis(pairs) is Basis.TEST_SAMPLES:
        gain = _bootstrapped(site, gain, *next(iter(pairs.values())))
    return SiteStanding(
        site=site,
        majority=fmean(majorities) if majorities else None,
        alone=fmean(a for a, _ in known.values()),
        together=fmean(t for _, t in known.values()),
        gain=gain,
    )


def _basis(pairs: Mapping[Draw, tuple[FinishedRun, FinishedRun]]) -> Basis:
    if len({draw.split_seed for draw in pairs}) > 1:
        return Basis.SPLITS
    if len(pairs) > 1:
        return Basis.SEEDS
    can_predict = all(
        run.folder is not None and run.summary.metric in METRICS
        for pair in pairs.values()
        for run in pair
    )
    return Basis.TEST_SAMPLES if pairs and can_predict else Basis.NONE


def _bootstrapped(site: str, gain: Gain, alone: FinishedRun, together: FinishedRun) -> Gain:
    """The gain with an interval over the site's test samples, if both runs have the same ones."""
    assert alone.folder
    assert together.folder
    first, second = (_test(folder, site) for folder in (alone.folder, together.folder))
    if not first.labels.size or not np.array_equal(first.labels, second.labels):
        return gain
    metric = METRICS[together.summary.metric]
    low, high = bootstrap_interval(first.labels, first.probabilities, second.probabilities, metric)
    return Gain(gain.mean, low, high)


def _test(folder: RunFolder, site: str) -> Any:
    return folder.predictions(site)["test"]
