"""How much noise a budget needs, and how much of it has been spent.

Both come from dp-accounting's accountant of privacy loss distributions (PLD), whose ε is an upper
bound. Two data sets are neighbours if a clipped term is in the sum of one of them only; where a
unit changes the sum by more, the noise counts as so much less (`SENSITIVITY`).

Noise in integers is a sum of discrete Gaussians, for which zero-concentrated differential privacy
is known (Kairouz, Liu and Steinke, *The Distributed Discrete Gaussian Mechanism*, ICML 2021,
Proposition 14). What is composed with such noise goes through dp-accounting's accountant of Rényi
divergences, whose ε is an upper bound too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ramet.errors import RametError

if TYPE_CHECKING:
    from dp_accounting import PrivacyAccountant

_FINE = 1e-4
"""The accountant's own grid of privacy losses."""
_COARSE = 5e-3
"""A grid for the search, many times as fast. Its ε is larger, so that the noise suffices."""
_TOLERANCE = 1e-3
_START, _LEAST = 32.0, 0.3
"""Where the search starts. The distribution of little noise takes long to compute, and a budget for
which less than twice the least would suffice protects nobody."""


LEAST_DEVIATION = 10.0
"""The least standard deviation of a site's noise in integers. In the proposition, the sum of n such
has the divergences of a Gaussian with √n times the deviation, and up to 10 n exp(-π² · 100) more
for each parameter, less than n · 1e-420, which changes no number in float64."""


@dataclass(frozen=True)
class Mechanism:
    """The steps of one round, each a sum of clipped terms with Gaussian noise.

    Args:
        noise: the standard deviation of the noise, divided by the most that a unit changes the sum.
        sampling: the probability with which a unit takes part in a step.
        steps: the number of steps in a round.
        discrete: whether the noise is a sum of discrete Gaussians, each with a standard deviation
            of at least `LEAST_DEVIATION`.
    """

    noise: float
    sampling: float = 1.0
    steps: int = 1
    discrete: bool = False


def spent_epsilon(spent: Iterable[tuple[Mechanism, int]], delta: float) -> float:
    """ε at this δ of mechanisms, each used for a number of rounds."""
    return _epsilon(tuple(spent), delta, _FINE)


def excess_epsilon(
    spent: Iterable[tuple[Mechanism, int]], epsilon: float, delta: float
) -> float | None:
    """ε at this δ if it is above ``epsilon``; None if it is not, which is mostly seen quickly."""
    both = tuple(spent)
    if _epsilon(both, delta, _COARSE) <= epsilon:
        return None
    exact = _epsilon(both, delta, _FINE)
    return exact if exact > epsilon else None


@lru_cache(maxsize=64)
def needed_noise(
    epsilon: float, delta: float, sampling: float, steps: int, discrete: bool = False
) -> float:
    """The noise with which this many steps stay within (ε, δ)."""
    from scipy.optimize import brentq

    def excess(noise: float) -> float:
        mechanism = Mechanism(noise, sampling, steps, discrete)
        return _epsilon(((mechanism, 1),), delta, _COARSE) - epsilon

    high = _START
    while excess(high) > 0:
        high *= 2
    low = high / 2
    while low > _LEAST and excess(low) <= 0:
        low, high = low / 2, low
    if low <= _LEAST:
        return high
    found = float(brentq(excess, low, high, xtol=_TOLERANCE))
    return found if excess(found) <= 0 else found + 2 * _TOLERANCE


def _epsilon(spent: tuple[tuple[Mechanism, int], ...], delta: float, grid: float) -> float:
    accountant = _accountant(grid, discrete=any(mechanism.discrete for mechanism, _ in spent))
    for mechanism, rounds in spent:
        accountant.compose(_event(mechanism), rounds * mechanism.steps)
    return float(accountant.get_epsilon(delta))


def _accountant(grid: float, discrete: bool) -> PrivacyAccountant:
    check_installed()
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

    if discrete:
        return RdpAccountant(neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE)
    return PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE, grid)


def _event(mechanism: Mechanism) -> Any:
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, ZCDpEvent

    if mechanism.discrete:
        return ZCDpEvent(1 / (2 * mechanism.noise**2))
    gaussian = GaussianDpEvent(mechanism.noise)
    if mechanism.sampling == 1:
        return gaussian
    return PoissonSampledDpEvent(mechanism.sampling, gaussian)


def check_installed() -> None:
    """Raise an error that names the extra if the accountant is missing."""
    try:
        import dp_accounting  # noqa: F401
    except ImportError as error:
        raise RametError(
            "differential privacy needs dp-accounting. Install it: pip install 'ramet[privacy]'"
        ) from error
