"""Methods that are one algorithm under the terms of a comparison, such as FedProx after one step.

Nothing is known of methods here but their runs: what learned the same, bit for bit, is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations, takewhile
from typing import TypeAlias

from ramet.experiment import MethodSpec
from ramet.studies.finished_run import Draw, FinishedRun, FinishedRuns

Pair: TypeAlias = tuple[MethodSpec, MethodSpec]


def same_algorithms(runs: FinishedRuns) -> dict[str, str]:
    """The labels whose method is the algorithm of an earlier label, with that label.

    Two methods are the same algorithm if a run of each, with the same draw and equal options, ended
    with the same SHA-256. So are then their runs with other real numbers, such as learning rates,
    among the options that both have.
    """
    shown = [*_equal_pairs(runs)]
    same: dict[str, str] = {}
    for label in runs:
        for other in takewhile(label.__ne__, runs):
            pair = MethodSpec.parse(other), MethodSpec.parse(label)
            if other not in same and any(_alike(pair, one) for one in shown):
                same[label] = other
                break
    return same


def equal_results(own: Mapping[Draw, FinishedRun], other: Mapping[Draw, FinishedRun]) -> bool:
    """Whether each of these runs learned the same as the other method's run of that draw."""
    return all(draw in other and _learned_the_same(run, other[draw]) for draw, run in own.items())


def _equal_pairs(runs: FinishedRuns) -> Iterator[Pair]:
    """Different methods with equal options that learned the same in at least one draw."""
    for one, other in combinations(runs, 2):
        pair = MethodSpec.parse(one), MethodSpec.parse(other)
        draws = {*runs[one]} & {*runs[other]}
        if (
            pair[0].method != pair[1].method
            and all(pair[0].options[key] == pair[1].options[key] for key in _common(pair))
            and any(_learned_the_same(runs[one][draw], runs[other][draw]) for draw in draws)
        ):
            yield pair


def _learned_the_same(run: FinishedRun, other: FinishedRun) -> bool:
    return run.summary.sha256 == other.summary.sha256


def _alike(pair: Pair, shown: Pair) -> bool:
    """Whether both pairs have the same methods, which differ in common real numbers only."""
    real = {key for key in _common(pair) if _is_real(pair[0].options[key])}
    return all(_without(a, real) == _without(b, real) for a, b in zip(pair, shown, strict=True))


def _common(pair: Pair) -> set[str]:
    return {*pair[0].options} & {*pair[1].options}


def _is_real(text: str) -> bool:
    """Whether this is a number, but no integer: these may count epochs or layers."""
    try:
        return not float(text).is_integer()
    except ValueError:
        return False


def _without(spec: MethodSpec, keys: set[str]) -> MethodSpec:
    return replace(spec, options={k: v for k, v in spec.options.items() if k not in keys})
