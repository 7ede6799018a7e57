"""What a search may vary: options with a range, `0.001..0.1:log`, or with choices, `32,64,128`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from ramet.errors import RametError

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

_LOG, _TO = ":log", ".."
_DIGITS = 3


@dataclass(frozen=True)
class Range:
    """Numbers from ``low`` to ``high``; integers if both are."""

    low: float
    high: float
    log: bool = False

    @property
    def is_integer(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)

    def distribution(self) -> BaseDistribution:
        from optuna.distributions import FloatDistribution, IntDistribution

        if self.is_integer:
            return IntDistribution(int(self.low), int(self.high), log=self.log)
        return FloatDistribution(self.low, self.high, log=self.log)

    def option(self, value: Any) -> str:
        """The value as an option's text; three digits are enough to repeat it."""
        if self.is_integer:
            return str(int(value))
        rounded = float(f"{value:.{_DIGITS}g}")
        return str(min(max(rounded, self.low), self.high))

    def value(self, option: str) -> float | None:
        """The value of an option's text; None if it is outside."""
        try:
            number = int(option) if self.is_integer else float(option)
        except ValueError:
            return None
        return number if self.low <= number <= self.high else None

    def __str__(self) -> str:
        return f"{self.low}{_TO}{self.high}{_LOG if self.log else ''}"


@dataclass(frozen=True)
class Choices:
    """A list of values. Numbers are ordered, so that the sampler knows which are neighbours."""

    options: tuple[str, ...]

    @property
    def is_ordered(self) -> bool:
        try:
            numbers = [float(option) for option in self.options]
        except ValueError:
            return False
        return numbers == sorted(numbers)

    def distribution(self) -> BaseDistribution:
        from optuna.distributions import CategoricalDistribution, IntDistribution

        if self.is_ordered:
            return IntDistribution(0, len(self.options) - 1)
        return CategoricalDistribution(self.options)

    def option(self, value: Any) -> str:
        return self.options[value] if self.is_ordered else str(value)

    def value(self, option: str) -> str | int | None:
        if option not in self.options:
            return None
        return self.options.index(option) if self.is_ordered else option

    def __str__(self) -> str:
        return ",".join(self.options)


Dimension: TypeAlias = Range | Choices
Space: TypeAlias = Mapping[str, Dimension]
"""What is searched for each option."""

DEFAULT_SPACE: Space = {
    "lr": Range(1e-4, 1e-1, log=True),
    "weight_decay": Range(1e-6, 1e-2, log=True),
    "dropout": Range(0.0, 0.7),
    "hidden": Choices(("16", "32", "64", "128")),
    "mu": Range(1e-3, 1.0, log=True),
}
"""Searched by default, in methods, networks and trainings that have the option."""


def parse_dimension(text: str) -> Dimension:
    """Parse `0.001..0.1`, `0.001..0.1:log` or `32,64,128`."""
    if _TO not in text:
        options = tuple(filter(None, text.split(",")))
        if len(options) < 2:
            raise _not_a_dimension(text)
        return Choices(options)
    numbers, log = text.removesuffix(_LOG), text.endswith(_LOG)
    low, _, high = numbers.partition(_TO)
    try:
        ends = _number(low), _number(high)
    except ValueError as error:
        raise _not_a_dimension(text) from error
    if not ends[0] < ends[1] or (log and ends[0] <= 0):
        raise _not_a_dimension(text)
    return Range(*ends, log=log)


def _number(text: str) -> float:
    """An integer where possible."""
    try:
        return int(text)
    except ValueError:
        number = float(text)
        if not math.isfinite(number):
            raise
        return number


def _not_a_dimension(text: str) -> RametError:
    return RametError(
        f"'{text}' is neither a range nor a list. Write 0.001..0.1, with :log for a logarithmic "
        "scale above 0, or values with commas, such as 32,64,128."
    )
