"""Methods with as many parameters as the best one, so that a gain is not one of size."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from statistics import fmean

from ramet.experiment import MethodSpec
from ramet.experiment.named import NamedParts
from ramet.studies.comparison import standings
from ramet.studies.sweep import Sweep

_WIDTH, _WIDEST = "hidden", 4096


def winner(sweep: Sweep) -> MethodSpec:
    """The method of a finished sweep with the best mean test score."""
    best = max(standings(sweep.finished()), key=lambda standing: standing.test)
    return MethodSpec.parse(best.label)


def with_equal_sizes(sweep: Sweep, largest: MethodSpec) -> Sweep:
    """The sweep plus a copy of every smaller method, widened to the size of the given one."""
    target = scalars(sweep, largest)
    wider = (
        _widened(sweep, method, target)
        for method in sweep.methods
        if scalars(sweep, method) < target
    )
    return replace(sweep, methods=(*sweep.methods, *filter(None, wider)))


def scalars(sweep: Sweep, method: MethodSpec) -> float:
    """The size of a client's model, mean over clients."""
    return fmean(sweep.experiment(method).sizes.scalars().values())


def _widened(sweep: Sweep, method: MethodSpec, target: float) -> MethodSpec | None:
    """The method with the `hidden` width whose size is nearest to the target.

    None if the method has no such option. A model's size grows with its width.
    """
    known = NamedParts.of(sweep.experiment(method).settings).defaults()
    if _WIDTH not in known:
        return None

    def size(width: int) -> float:
        return scalars(sweep, method.with_option(_WIDTH, width))

    widths = range(int(method.options.get(_WIDTH, known[_WIDTH])), _WIDEST + 1)
    wider = bisect_right(widths, target, key=size)
    nearest = min(widths[wider - 1 : wider + 1], key=lambda width: abs(size(width) - target))
    return method.with_option(_WIDTH, nearest)
