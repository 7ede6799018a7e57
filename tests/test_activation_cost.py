from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from drawn import legend, the_panel, ys
from ramet.metrics import Record
from ramet.metrics.summary import tensors_sent


@pytest.fixture(scope="module")
def cost() -> Iterator[ModuleType]:
    """The benchmark, which has the formulas too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
        yield importlib.import_module("activation_cost")


def test_expected_costs_match_hand_calculations(cost: ModuleType) -> None:
    assert cost.rounds_between(0.5, 0.4) == 2  # 1, 0.5, 0.25
    # clients: 1, ½, ¼ of all; omitted as printed: 0, ¼, 1/16 of all tensors, in 3 rounds
    assert cost.restart_as_printed(0.5, 0.5, 1.0, 2) == pytest.approx((1.75 - (0.25 + 0.0625)) / 3)
    # tensors that are off stay off: active clients send 1, ½ and ¼ of them
    assert cost.restart(0.5, 0.5, 1.0, 2) == pytest.approx((1 + 0.25 + 0.0625) / 3)
    assert cost.restart(0.8, 0.0, 0.9, 3) == pytest.approx(
        cost.restart_as_printed(0.8, 0.0, 0.9, 3)
    )
    assert cost.explore_at_most(0.5, 0.5, 0.8, 0.6) == pytest.approx(0.6 - 0.6 * 0.5 * 0.5 * 0.8)


def record(number: int, **tensors: int) -> Record:
    trained = {client: {"tensors": float(count)} for client, count in tensors.items()}
    return Record(number, 3, trained, {}, {}, {}, 0.0)


def test_rates_are_computed_from_the_rounds(cost: ModuleType) -> None:
    # ten tensors, eight of them switchable; c is deactivated, then all clients restart
    records = [
        record(1, a=10, b=10, c=10),
        record(2, a=10, b=6),
        record(3, a=10, b=10, c=10),
    ]
    rounds = tensors_sent(records, ["a", "b", "c"])
    assert rounds == [[10, 10, 10], [10, 6, 0], [10, 10, 10]]
    observed = cost.activity(rounds, tensors=10, switchable=8)
    assert observed.stay == pytest.approx(2 / 3)
    assert observed.off == pytest.approx(1 - 12 / 16)
    assert observed.share == pytest.approx(76 / 90)
    assert observed.between == 1  # rounds 1 and 2, then a restart


def test_eq_8_holds_with_the_observed_rounds_between_restarts(cost: ModuleType) -> None:
    # four clients with ten tensors each, eight switchable: all, then three with six
    rounds = [[10, 10, 10, 10], [6, 6, 6, 0]] * 3
    observed = cost.activity(rounds, tensors=10, switchable=8)
    assert (observed.stay, observed.off, observed.between) == (0.75, 0.5, 1)
    assert cost.restart_as_printed(
        observed.stay, observed.off, 0.8, observed.between
    ) == pytest.approx(observed.share)
    assert cost.rounds_between(observed.stay, 0.4) == 4  # what eq. 8 uses instead


def test_tensors_are_drawn_per_round_as_a_running_mean_and_with_expected_levels(
    cost: ModuleType,
) -> None:
    shares = np.array([[1.0, 0.5, 0.0], [1.0, 0.0, 0.5]])
    panel = the_panel(cost.tensors_over_rounds({"fedda": (shares, {"eq. 8": 0.625})}))
    per_round, running_mean, level = panel.lines
    assert ys(per_round) == pytest.approx([1.0, 0.25, 0.25])
    # (1 + 1) / 2, then (1.5 / 2 + 1 / 2) / 2, then (1.5 / 3 + 1.5 / 3) / 2
    assert ys(running_mean) == pytest.approx([1.0, 0.625, 0.5])
    assert ys(level) == [0.625, 0.625]
    assert legend(panel) == ["per round", "running mean", "eq. 8: 0.62"]
