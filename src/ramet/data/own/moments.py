"""Count, mean and spread of a column at several sites, and how far one site can move them.

A site could tell sums that its data do not have, and with them spoil the column for all others. So
the sums of each site count only as far as they are near those of all others together.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

CONSTANT = 1e-12
"""A column that varies less than this, relative to its mean, is taken for constant."""
_FURTHEST = 4.0
"""How many scales of all others a site's mean may be away, and its own scale be wide."""
_HEAVIEST = 9
"""How many times the rows of all others together a site may have."""
_UNLIKE = 30.0
"""How many scales away, or how many times as wide or as narrow, a site's own values may be."""
_STEPS = 2**1074
"""How many steps of float64's smallest number are in 1."""
_MAJORITY = 3
"""With fewer sites, nobody can say which one is far from the others."""


@dataclass(frozen=True)
class Moments:
    """Sums over the rows of a column."""

    count: int
    total: float
    squares: float
    """The sum of squared deviations from the mean."""

    @property
    def mean(self) -> float:
        return self.total / self.count

    @property
    def scale(self) -> float:
        """The standard deviation; 0 for a constant column."""
        scale = sqrt(self.squares / self.count)
        return 0.0 if scale <= CONSTANT * abs(self.mean) else scale

    @property
    def wholes(self) -> tuple[int, int]:
        """The sums of the rows and of their squares, in steps of 2^-1074, which add up exactly.

        Every float64 is a whole number of these steps.
        """
        total = Fraction(self.total)
        of_squares = Fraction(self.squares) + total**2 / self.count
        return int(total * _STEPS), int(of_squares * _STEPS)

    @staticmethod
    def of_wholes(count: int, total: int, of_squares: int) -> Moments:
        """The moments of all rows; each number is rounded once."""
        squares = max(of_squares - Fraction(total**2, count * _STEPS), Fraction())
        return Moments(count, float(Fraction(total, _STEPS)), float(squares / _STEPS))

    def lighter(self, others: int) -> Moments:
        """The same mean and scale, of fewer rows if there are far more than at all others."""
        count = min(self.count, _HEAVIEST * others)
        if count == self.count:
            return self
        return Moments(count, count * self.mean, self.squares * count / self.count)

    def within(self, others: Moments) -> Moments:
        """These moments as far as they are near the others'; unchanged if they are near enough."""
        reach = _FURTHEST * others.scale
        if not reach or (abs(self.mean - others.mean) <= reach and self.scale <= reach):
            return self
        mean = min(max(self.mean, others.mean - reach), others.mean + reach)
        return Moments(self.count, self.count * mean, min(self.squares, self.count * reach**2))

    def is_unlike(self, mean: float, scale: float) -> bool:
        """Whether these rows would be useless as features with this mean and scale."""
        if abs(self.mean - mean) > _UNLIKE * scale or self.scale > _UNLIKE * scale:
            return True
        return 0 < self.scale * _UNLIKE < scale


def pooled(sites: Collection[Moments]) -> Moments:
    """The moments of all rows together; the order of the sites does not matter."""
    totals, of_squares = zip(*(site.wholes for site in sites), strict=True)
    return Moments.of_wholes(sum(site.count for site in sites), sum(totals), sum(of_squares))


def bounded(told: Mapping[str, Moments]) -> dict[str, Moments]:
    """What each site told, as far as it is near what all others told together.

    The others count alike: by rows, one that claims to be large would decide what is near.
    """
    if len(told) < _MAJORITY:
        return dict(told)
    rows = sum(own.count for own in told.values())
    alike = {site: Moments(1, own.mean, own.squares / own.count) for site, own in told.items()}
    return {
        site: own.lighter(rows - own.count).within(
            pooled([other for name, other in alike.items() if name != site])
        )
        for site, own in told.items()
    }
