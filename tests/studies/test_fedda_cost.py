from __future__ import annotations

import pytest

from ramet.metrics import Record
from ramet.metrics.summary import tensors_sent
from ramet.studies.fedda_cost import (
    activity,
    explore_at_most,
    restart,
    restart_as_printed,
    rounds_between,
)


def test_by_hand() -> None:
    assert rounds_between(0.5, 0.4) == 2  # 1, 0.5, 0.25
    # clients 1, ½, ¼ of all; as printed they are spared 0, ¼, 1/16 of their tensors over 3 rounds
    assert restart_as_printed(0.5, 0.5, 1.0, 2) == pytest.approx((1.75 - (0.25 + 0.0625)) / 3)
    # what is off stays off: they send 1, ½ and ¼ of them
    assert restart(0.5, 0.5, 1.0, 2) == pytest.approx((1 + 0.25 + 0.0625) / 3)
    assert restart(0.8, 0.0, 0.9, 3) == pytest.approx(restart_as_printed(0.8, 0.0, 0.9, 3))
    assert explore_at_most(0.5, 0.5, 0.8, 0.6) == pytest.approx(0.6 - 0.6 * 0.5 * 0.5 * 0.8)


def record(number: int, **tensors: int) -> Record:
    trained = {client: {"tensors": float(count)} for client, count in tensors.items()}
    return Record(number, 3, trained, {}, {}, {}, 0.0)


def test_rates_are_read_from_the_rounds() -> None:
    # ten tensors, eight of them switchable; c leaves, then everyone is called back
    records = [
        record(1, a=10, b=10, c=10),
        record(2, a=10, b=6),
        record(3, a=10, b=10, c=10),
    ]
    rounds = tensors_sent(records, ["a", "b", "c"])
    assert rounds == [[10, 10, 10], [10, 6, 0], [10, 10, 10]]
    found = activity(rounds, tensors=10, switchable=8)
    assert found.stay == pytest.approx(2 / 3)
    assert found.off == pytest.approx(1 - 12 / 16)
    assert found.share == pytest.approx(76 / 90)
    assert found.between == 1  # rounds 1 and 2, and then everyone again


def test_eq_8_is_met_when_restarts_come_as_often_as_they_did() -> None:
    # four clients with ten tensors each, eight switchable: everybody, then three with six
    rounds = [[10, 10, 10, 10], [6, 6, 6, 0]] * 3
    seen = activity(rounds, tensors=10, switchable=8)
    assert (seen.stay, seen.off, seen.between) == (0.75, 0.5, 1)
    assert restart_as_printed(seen.stay, seen.off, 0.8, seen.between) == pytest.approx(seen.share)
    assert rounds_between(seen.stay, 0.4) == 4  # what eq. 8 takes instead
