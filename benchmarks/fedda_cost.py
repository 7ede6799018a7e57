r"""Expected and actual cost of FedDA's rules, as a share of FedAvg's tensors.

=====================  =====================================================================
paper symbol           name here
=====================  =====================================================================
:math:`r_c`            ``stay``: share of the active clients that are still active a round later
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
    """Number of rounds until fewer than ``beta`` of the clients are active."""
    return max(1, ceil(log(beta) / log(stay)))


def restart_as_printed(stay: float, off: float, switchable: float, rounds: int) -> float:
    """Expected cost of Restart by eq. 8, as a share of what FedAvg sends in the same rounds.

    Eq. 9 as printed lacks the division by the number of rounds, which is t₀ + 1 because eq. 8 also
    counts round 0.
    """
    both = stay * off
    omitted = switchable * (both - both ** (rounds + 1)) / (1 - both)
    return (_geometric(stay, rounds) - omitted) / (rounds + 1)


def restart(stay: float, off: float, switchable: float, rounds: int) -> float:
    """Like :func:`restart_as_printed`, but tensors that are off stay off until the restart.

    In eq. 8 the omitted share falls as :math:`r_p^j`; here it grows as :math:`1 - (1 - r_p)^j`.
    """
    total = sum(stay**j * (1 - switchable * (1 - (1 - off) ** j)) for j in range(rounds + 1))
    return total / (rounds + 1)


def explore_at_most(stay: float, off: float, switchable: float, beta: float) -> float:
    """Upper bound on the expected cost of Explore (eq. 11)."""
    return beta - beta * stay * off * switchable


@dataclass(frozen=True)
class Activity:
    """Rates observed in the rounds of a run."""

    stay: float
    off: float
    share: float  # tensors sent up, divided by those that FedAvg would have sent
    between: int  # rounds between two restarts


def activity(rounds: Sequence[Sequence[int]], tensors: int, switchable: int) -> Activity:
    """Compute r_c, r_p and the share of FedAvg's tensors from tensors per round and client.

    A round in which a client sends more tensors than before is a restart and is left out.
    """
    always = tensors - switchable
    stayed, left, kept, previous, restarts = 0, 0, 0, 0, 0
    for before, after in pairwise(rounds):
        both = [(b, a) for b, a in zip(before, after, strict=True) if b and a]
        if any(a > b for b, a in both):
            restarts += 1
            continue
        stayed += len(both)
        left += sum(b > 0 for b in before) - len(both)
        kept += sum(a - always for _, a in both)
        previous += sum(b - always for b, _ in both)
    return Activity(
        stay=stayed / max(1, stayed + left),
        off=1 - kept / previous if previous else 0.0,
        share=sum(map(sum, rounds)) / (len(rounds) * len(rounds[0]) * tensors),
        between=round(len(rounds) / (restarts + 1)) - 1,
    )


def _geometric(base: float, last: int) -> float:
    return sum(base**j for j in range(last + 1))
