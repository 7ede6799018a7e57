"""Each site's score alone and together, and what the interval of the difference says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from statistics import fmean
from typing import Any

import numpy as np

from ramet.experiment import MethodSpec
from ramet.methods import PAPER_NAMES
from ramet.metrics.bootstrap import bootstrap_error
from ramet.scale import Scale
from ramet.studies.convergence import not_converged
from ramet.studies.finished_run import Draw, FinishedRun, FinishedRuns
from ramet.studies.gains import Gain, holm, paired_gain

ALONE = "local"
NOT_FINAL = "not final"
UNDECIDED = "undecided"


class Basis(Enum):
    """What the intervals cover."""

    SPLITS = "splits"
    SEEDS = "seeds and test samples"
    SEEDS_ALONE = "seeds"
    TEST_SAMPLES = "test samples"
    NONE = "nothing"

    @property
    def decides(self) -> bool:
        """Whether the intervals cover both training and the choice of test samples.

        An interval that leaves out one of them excludes 0 too often: two runs of the same method
        differ, and so do two equally good methods on the same few samples.
        """
        return self in (Basis.SPLITS, Basis.SEEDS)


@dataclass(frozen=True)
class SiteStanding:
    """One site: trained alone, and together with the others by one method."""

    site: str
    constant: float | None
    """The score of the best constant prediction."""
    alone: float
    together: float
    gain: Gain
    p_holm: float | None = None
    """The gain's p-value, adjusted for the number of sites."""
    not_final: str | None = None
    """Why there is no verdict: a run of the method, or alone, has not converged."""
    decides: bool = True
    """Whether the interval covers enough for a verdict."""

    @property
    def verdict(self) -> str:
        if self.not_final:
            return NOT_FINAL
        return self.gain.verdict if self.decides else UNDECIDED

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "verdict": self.verdict}


@dataclass(frozen=True)
class SiteStandings:
    """One method, compared with training alone at each site."""

    label: str
    metric: str
    scale: Scale
    basis: Basis
    runs: int
    sites: list[SiteStanding]
    not_final: str | None = None
    """Why there are no verdicts, if some run has not converged."""


def site_standings(runs: FinishedRuns) -> list[SiteStandings]:
    """Each method's gain over `local` at each site; empty if `local` is not among the runs."""
    alone = [label for label in runs if _trains_alone(label)]
    found = (
        standings_of(label, runs[baseline], together)
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


def standings_of(
    label: str, alone: Mapping[Draw, FinishedRun], together: Mapping[Draw, FinishedRun]
) -> SiteStandings:
    """The second runs' gain over the first ones at each site."""
    draws = sorted(alone.keys() & together.keys())
    pairs = {draw: (alone[draw], together[draw]) for draw in draws}
    first = next(iter(together.values()), None)
    sites = first.summary.scores.clients if first else {}
    basis = _basis(pairs)
    predicted = _Predictions(basis in (Basis.SEEDS, Basis.TEST_SAMPLES), [*pairs.values()])
    found = [one for site in sites if (one := _standing(site, pairs, predicted)) is not None]
    adjusted = holm([one.gain.p_value for one in found])
    reason = not_converged(run for pair in pairs.values() for run in pair)
    return SiteStandings(
        label=label,
        metric=first.summary.metric if first else "score",
        scale=first.summary.scale if first else Scale(),
        basis=basis,
        runs=len(draws),
        sites=[
            replace(one, p_holm=p, not_final=reason, decides=basis.decides)
            for one, p in zip(found, adjusted, strict=True)
        ],
        not_final=reason,
    )


def _standing(
    site: str, pairs: Mapping[Draw, tuple[FinishedRun, FinishedRun]], predicted: _Predictions
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
    constants = [found.constant for found in sizes if found.constant is not None]
    scale = next(iter(pairs.values()))[0].summary.scale
    ratio = fmean(found.test / max(found.train, 1) for found in sizes) if sizes else None
    gain = paired_gain({draw: scale.gain(t, a) for draw, (a, t) in known.items()}, ratio)
    return SiteStanding(
        site=site,
        constant=fmean(constants) if constants else None,
        alone=fmean(a for a, _ in known.values()),
        together=fmean(t for _, t in known.values()),
        gain=gain.widened(predicted.error(site), sizes[0].test, ratio) if ratio else gain,
    )


def _basis(pairs: Mapping[Draw, tuple[FinishedRun, FinishedRun]]) -> Basis:
    if len({draw.split_seed for draw in pairs}) > 1:
        return Basis.SPLITS
    can_predict = all(run.chosen_metric is not None for pair in pairs.values() for run in pair)
    if len(pairs) > 1:
        return Basis.SEEDS if can_predict else Basis.SEEDS_ALONE
    return Basis.TEST_SAMPLES if pairs and can_predict else Basis.NONE


class _Predictions:
    """What the models of all pairs of runs predict for the sites' test samples."""

    def __init__(self, wanted: bool, pairs: Sequence[tuple[FinishedRun, FinishedRun]]) -> None:
        self._metric = pairs[0][1].chosen_metric if pairs and wanted else None
        both = [(one.predictor(), other.predictor()) for one, other in pairs if wanted]
        self._models = [(a, b) for a, b in both if a is not None and b is not None]

    def error(self, site: str) -> float | None:
        """The error of the mean gain from the site's test samples, if all have the same ones."""
        tests = [tuple(model(site)["test"] for model in pair) for pair in self._models]
        if not tests or self._metric is None:
            return None
        labels, floats = tests[0][0].labels, tests[0][0].labels.dtype.kind == "f"
        every = (one.labels for pair in tests for one in pair)
        if not all(np.array_equal(one, labels, equal_nan=floats) for one in every):
            return None
        predicted = [(one.predicted, other.predicted) for one, other in tests]
        return bootstrap_error(labels, predicted, self._metric)
