r"""What FedDA's rules should cost, and what they did cost, as a share of FedAvg's tensors.

=====================  =====================================================================
paper symbol           name here
=====================  =====================================================================
:math:`r_c`            ``stay``: share of the active clients that are still there a round later
:math:`r_p`            ``off``: share of their switchable tensors that is switched off in a round
:math:`N_d / N`        ``switchable``
:math:`t_0`            ``rounds``: between two restarts
=====================  =====================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, log


def rounds_between(stay: float, beta: float) -> int:
    """How many rounds it takes until fewer than ``beta`` of the clients are left."""
    return max(1, ceil(log(beta) / log(stay)))


def restart_as_printed(stay: float, off: float, switchable: float, rounds: int) -> float:
    """Eq. 8 over t₀ + 1 rounds of everyone and everything.

    Eq. 9 as printed lacks the division by the number of rounds; eq. 8 counts round 0 too.
    """
    both = stay * off
    spared = switchable * (both - both ** (rounds + 1)) / (1 - both)
    return (_geometric(stay, rounds) - spared) / (rounds + 1)


def restart(stay: float, off: float, switchable: float, rounds: int) -> float:
    """As :func:`restart_as_printed`, but what is off stays off until the restart.

    In eq. 8 the spared share falls as :math:`r_p^j`; here it grows as :math:`1 - (1 - r_p)^j`.
    """
    total = sum(stay**j * (1 - switchable * (1 - (1 - off) ** j)) for j in range(rounds + 1))
    return total / (rounds + 1)


def explore_at_most(stay: float, off: float, switchable: float, beta: float) -> float:
    """Eq. 11."""
    return beta - beta * stay * off * switchable


@dataclass(frozen=True)
class Activity:
    """What a run's rounds show."""

    stay: float
    off: float
    share: float  # tensors sent up, over those that FedAvg would have sent
    between: int  # rounds between two times that everybody was called back


def activity(rounds: Sequence[Sequence[int]], tensors: int, switchable: int) -> Activity:
    """From the tensors of rounds and clients to r_c, r_p and the share of FedAvg's tensors.

    A round in which a client is asked for more than before has called everybody back; it is left
    out.
    """
    always = tensors - switchable
    stayed, left, kept, asked, calls = 0, 0, 0, 0, 0
    for before, after in pairwise(rounds):
        both = [(b, a) for b, a in zip(before, after, strict=True) if b and a]
        if any(a > b for b, a in both):
            calls += 1
            continue
        stayed += len(both)
        left += sum(b > 0 for b in before) - len(both)
        kept += sum(a - always for _, a in both)
        asked += sum(b - always for b, _ in both)
    return Activity(
        stay=stayed / max(1, stayed + left),
        off=1 - kept / asked if asked else 0.0,
        share=sum(map(sum, rounds)) / (len(rounds) * len(rounds[0]) * tensors),
        between=round(len(rounds) / (calls + 1)) - 1,
    )


def _geometric(base: float, last: int) -> float:
    return sum(base**j for j in range(last + 1))
