"""How the values of a metric are read: their range, which end is better, and their unit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf, isnan
from typing import TypeVar

Item = TypeVar("Item")
PERCENT = "%"


@dataclass(frozen=True)
class Scale:
    """The range of a metric, its unit, and whether lower values are better.

    With the unit `%`, values are shares and shown times 100.
    """

    low: float | None = None
    """None without a bound."""
    high: float | None = None
    lower_is_better: bool = False
    unit: str = ""

    @property
    def range(self) -> tuple[float, float]:
        return (-inf if self.low is None else self.low, inf if self.high is None else self.high)

    @property
    def factor(self) -> int:
        """What values are multiplied by to be shown."""
        return 100 if self.unit == PERCENT else 1

    @property
    def suffix(self) -> str:
        """The unit after a number or a name, with a space; empty without one."""
        return f" {self.unit}" if self.unit else ""

    def label(self, metric: str) -> str:
        """The metric as the label of an axis: `accuracy, %`."""
        return f"{metric}, {self.unit}" if self.unit else metric

    def shown(self, value: float | None, digits: int = 2) -> str:
        """A value without its unit."""
        if value is None or isnan(value):
            return "–"
        return f"{100 * value:.{digits}f}" if self.unit == PERCENT else f"{value:.{digits + 2}g}"

    def change(self, value: float, digits: int = 1) -> str:
        """A difference with its sign; in percentage points if the unit is `%`."""
        return f"{100 * value:+.{digits}f}" if self.unit == PERCENT else f"{value:+.{digits + 2}g}"

    def gain(self, score: float, over: float) -> float:
        """How much better a score is than another."""
        return over - score if self.lower_is_better else score - over

    def reaches(self, score: float, target: float) -> bool:
        """Whether a score is as good as the target, or better."""
        return score <= target if self.lower_is_better else score >= target

    def best(self, items: Iterable[Item], key: Callable[[Item], float]) -> Item:
        """The best of the items, the first of equals."""
        return (min if self.lower_is_better else max)(items, key=key)

    def worst(self, scores: Iterable[float]) -> float:
        return (max if self.lower_is_better else min)(scores)


SHARE = Scale(low=0.0, high=1.0, unit=PERCENT)
"""From 0 to 1, shown in per cent; higher is better."""


def common_scale(scales: Iterable[Scale]) -> Scale:
    """The scale that all have in common; without one, plain numbers of which higher are better."""
    distinct = {*scales}
    return distinct.pop() if len(distinct) == 1 else Scale()
