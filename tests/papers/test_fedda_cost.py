from __future__ import annotations

import pytest

from ramet.metrics import Record
from ramet.metrics.summary import tensors_sent
from ramet.papers.fedda_cost import (
    activity,
    explore_at_most,
    restart,
    restart_as_printed,
    rounds_between,
)


def test_expected_costs_match_hand_calculations() -> None:
    assert rounds_between(0.5, 0.4) == 2  # 1, 0.5, 0.25
    # clients: 1, ½, ¼ of all; omitted as printed: 0, ¼, 1/16 of all tensors, in 3 rounds
    assert restart_as_printed(0.5, 0.5, 1.0, 2) == pytest.approx((1.75 - (0.25 + 0.0625)) / 3)
    # tensors that are off stay off: active clients send 1, ½ and ¼ of them
    assert restart(0.5, 0.5, 1.0, 2) == pytest.approx((1 + 0.25 + 0.0625) / 3)
    assert restart(0.8, 0.0, 0.9, 3) == pytest.approx(restart_as_printed(0.8, 0.0, 0.9, 3))
    assert explore_at_most(0.5, 0.5, 0.8, 0.6) == pytest.approx(0.6 - 0.6 * 0.5 * 0.5 * 0.8)


def record(number: int, **tensors: int) -> Record:
    trained = {client: {"tensors": float(count)} for client, count in tensors.items()}
    return Record(number, 3, trained, {}, {}, {}, 0.0)


def test_rates_are_computed_from_the_rounds() -> None:
    # ten tensors, eight of them switchable; c is deactivated, then all clients restart
    records = [
        record(1, a=10, b=10, c=10),
        record(2, a=10, b=6),
        record(3, a=10, b=10, c=10),
    ]
    rounds = tensors_sent(records, ["a", "b", "c"])
    assert rounds == [[10, 10, 10], [10, 6, 0], [10, 10, 10]]
    observed = activity(rounds, tensors=10, switchable=8)
    assert observed.stay == pytest.approx(2 / 3)
    assert observed.off == pytest.approx(1 - 12 / 16)
    assert observed.share == pytest.approx(76 / 90)
    assert observed.between == 1  # rounds 1 and 2, then a restart


def test_eq_8_holds_with_the_observed_rounds_between_restarts() -> None:
    # four clients with ten tensors each, eight switchable: all, then three with six
    rounds = [[10, 10, 10, 10], [6, 6, 6, 0]] * 3
    observed = activity(rounds, tensors=10, switchable=8)
    assert (observed.stay, observed.off, observed.between) == (0.75, 0.5, 1)
    assert restart_as_printed(observed.stay, observed.off, 0.8, observed.between) == pytest.approx(
        observed.share
    )
    assert rounds_between(observed.stay, 0.4) == 4  # what eq. 8 uses instead
