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

from ramet.metrics.record import Record


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


def activity(records: Sequence[Record], clients: int, tensors: int, switchable: int) -> Activity:
    """From the rounds of a run to r_c, r_p and the share of FedAvg's tensors.

    A client that is asked for more than a round before has been called back, and is left out.
    """
    stayed, left, kept, asked = 0, 0, 0.0, 0.0
    for now, later in pairwise(records):
        before = {client: told["tensors"] for client, told in now.trained.items()}
        after = {client: told["tensors"] for client, told in later.trained.items()}
        if any(after[client] > before[client] for client in before.keys() & after.keys()):
            continue  # everyone was called back
        stayed += len(before.keys() & after.keys())
        left += len(before.keys() - after.keys())
        for client in before.keys() & after.keys():
            kept += after[client] - (tensors - switchable)
            asked += before[client] - (tensors - switchable)
    sent = sum(told["tensors"] for record in records for told in record.trained.values())
    return Activity(
        stay=stayed / max(1, stayed + left),
        off=1 - kept / asked if asked else 0.0,
        share=sent / (len(records) * clients * tensors),
    )


def _geometric(base: float, last: int) -> float:
    return sum(base**j for j in range(last + 1))
