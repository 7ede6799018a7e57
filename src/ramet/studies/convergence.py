"""Whether a run was trained to convergence, as its validation scores show.

Methods that have not converged are compared by how fast they learn, not by what they can learn, so
there is no verdict about them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, isnan, sqrt

import numpy as np

from ramet.studies.finished_run import FinishedRun

FEWEST_ROUNDS = 10
"""Fewer rounds, or less patience, do not show whether validation has stopped rising."""
TOO_SHORT = f"fewer than {FEWEST_ROUNDS} rounds do not show whether validation still rises"
NOT_YET_RISEN = "validation had not risen yet, while the training loss was still falling"
STILL_RISING = "validation was still rising at the last round"
_LEAST_RISE = 0.005
"""Half a point over the second half of the rounds; less does not matter."""
_ERRORS = 2.0
_TENTH = 0.1


def not_converged(runs: Iterable[FinishedRun]) -> str | None:
    """Why the scores of some of these runs are not final; None if all have converged."""
    return next(filter(None, map(_not_converged, runs)), None)


def _not_converged(run: FinishedRun) -> str | None:
    scores = [one.val for one in run.rounds if not isnan(one.val)]
    if len(scores) < FEWEST_ROUNDS:
        return TOO_SHORT
    if max(scores) <= scores[0] and _still_fitting([one.loss for one in run.rounds]):
        return NOT_YET_RISEN
    waited = run.summary.stopped_early and (run.patience or 0) >= FEWEST_ROUNDS
    return STILL_RISING if not waited and still_rising(scores) else None


def still_rising(scores: Sequence[float]) -> bool:
    """Whether scores were still rising when they ended.

    They were if the best one is in the last quarter, and if over the second half they rise by more
    than half a point and by more than chance: by more than two standard errors of the line of least
    squares.
    """
    quarter = ceil(len(scores) / 4)
    if max(scores[-quarter:]) <= max(scores[:-quarter]):
        return False
    rise, error = _rise(scores[len(scores) // 2 :])
    return rise > max(_LEAST_RISE, _ERRORS * error)


def _still_fitting(losses: Sequence[float | None]) -> bool:
    """Whether the second half of the rounds had more than a tenth of the fall of the loss."""
    first, middle, last = (losses[index] for index in (0, len(losses) // 2, -1))
    if first is None or middle is None or last is None or last >= first:
        return False
    return middle - last > _TENTH * (first - last)


def _rise(scores: Sequence[float]) -> tuple[float, float]:
    """How much the line of least squares rises from the first to the last score, and its error."""
    (slope, _), covariance = np.polyfit(range(len(scores)), scores, 1, cov=True)
    last = len(scores) - 1
    return last * float(slope), last * sqrt(covariance[0, 0])
