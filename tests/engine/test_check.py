"""Invalid replies are reported with a reason."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from ramet.engine.check import distance_fault, due_numbers, fault, range_fault
from ramet.payload import Payload
from ramet.scale import Scale
from ramet.tasks import GraphClassification, GraphRegression, LinkPrediction

EXPECTED = Payload({"w": np.zeros((2, 3), np.float32), "b": np.zeros(3, np.float32)})
VALID = {"w": np.ones((2, 3), np.float32), "b": np.ones(3, np.float32)}
NUMBERS = {"weight": 150.0, "loss": 0.5}


def with_(name: str, array: object) -> dict[str, np.ndarray]:
    return {**VALID, name: np.asarray(array)}


INVALID: dict[str, tuple[Payload, str]] = {
    "NaN": (Payload(with_("w", np.full((2, 3), np.nan, np.float32)), NUMBERS), "w is not finite"),
    "Inf": (Payload(with_("b", np.full(3, np.inf, np.float32)), NUMBERS), "b is not finite"),
    "1e30": (Payload(with_("b", np.full(3, 1e30, np.float32)), NUMBERS), "b is out of range"),
    "wrong shape": (Payload(with_("w", np.ones((3, 2), np.float32)), NUMBERS), "instead of"),
    "broadcastable": (Payload(with_("w", np.ones((1, 3), np.float32)), NUMBERS), "instead of"),
    "scalar": (Payload(with_("b", np.float32(1)), NUMBERS), "instead of"),
    "wrong type": (Payload(with_("b", np.ones(3)), NUMBERS), "b is float64"),
    "missing": (Payload({"w": VALID["w"]}, NUMBERS), "lacks b"),
    "extra": (Payload({**VALID, "x": VALID["b"]}, NUMBERS), "not requested: x"),
    "renamed": (Payload({"w": VALID["w"], "c": VALID["b"]}, NUMBERS), "lacks b"),
    "no weight": (Payload(VALID, {"loss": 0.5}), "weight None"),
    "zero weight": (Payload(VALID, {"weight": 0}), "weight 0"),
    "negative weight": (Payload(VALID, {"weight": -5}), "weight -5"),
    "the smallest integer": (
        Payload(with_("b", np.full(3, -(2**63)))),
        "b is int64",
    ),
    "NaN weight": (Payload(VALID, {"weight": float("nan")}), "weight is not finite"),
    "1e18 weight": (Payload(VALID, {"weight": 1e18}), "weight 1e\\+18"),
    "Inf loss": (Payload(VALID, {**NUMBERS, "loss": float("inf")}), "loss is not finite"),
}


@pytest.mark.parametrize("kind", INVALID)
def test_invalid_replies_are_reported(kind: str) -> None:
    reply, expected = INVALID[kind]
    reason = fault(reply, EXPECTED, train=True)
    assert reason is not None
    with pytest.raises(ValueError, match=expected):
        raise ValueError(reason)


def test_valid_replies_pass() -> None:
    assert fault(Payload(VALID, NUMBERS), EXPECTED, train=True) is None
    assert fault(Payload({}, {"test": 0.5}), EXPECTED, train=False) is None
    assert fault(Payload(VALID, NUMBERS), EXPECTED, train=False) is not None


def test_the_range_of_integers_is_checked() -> None:
    expected = Payload({"n": np.zeros(2, np.int64)})
    for value in (-(2**63), 2**62):
        reply = Payload({"n": np.full(2, value)}, NUMBERS)
        assert fault(reply, expected, train=True) == "n is out of range"


def test_missing_numbers_are_reported() -> None:
    reply = Payload(VALID, {**NUMBERS, "val": 0.5})
    assert fault(reply, EXPECTED, True, ("loss", "val")) is None
    assert fault(reply, EXPECTED, True, ("loss", "val", "test")) == "lacks the numbers test"
    assert fault(Payload(), EXPECTED, False, ("val", "test")) == "lacks the numbers val, test"


def test_scores_are_due_if_there_is_something_to_evaluate() -> None:
    assert due_numbers(train=True, evaluate=False) == ("loss",)
    assert due_numbers(train=True, evaluate=True) == ("loss", "val", "test")
    assert due_numbers(train=False, evaluate=True) == ("val", "test")


def test_the_distance_is_over_arrays_that_were_sent() -> None:
    sent = {"w": np.zeros((2, 3), np.float32), "other": np.ones(1, np.float32)}
    # sqrt(2 * 3 * 1 ** 2) = 2.449...
    assert distance_fault(VALID, sent, 2.45) is None
    assert distance_fault(VALID, sent, 2.44) == "moved by 2.45, but the bound is 2.44"
    assert distance_fault(VALID, {}, 0.0) is None


SHARE, SQUARED = (0.0, 1.0), (-math.inf, 1.0)


@pytest.mark.parametrize(
    ("numbers", "scores", "reason"),
    [
        ({"val": -1e300, "test": 0.5}, SHARE, "val -1e\\+300 is not from 0 to 1"),
        ({"val": 0.5, "test": 1.5}, SHARE, "test 1.5 is not from 0 to 1"),
        ({"val": -0.5, "test": 1.5}, SQUARED, "test 1.5 is not from -1e\\+09 to 1"),
        ({"val": -1e300}, SQUARED, "val -1e\\+300"),
        ({"accuracy": 2.0}, SQUARED, "accuracy 2 is not from 0 to 1"),
        ({"loss": -1e300}, SHARE, "loss"),
        ({"forward_multiplications": -1.0}, SHARE, "forward_multiplications -1 is not from 0"),
        ({"val": math.nan}, SHARE, "val nan"),
    ],
)
def test_a_number_outside_its_range(
    numbers: dict[str, float], scores: tuple[float, float], reason: str
) -> None:
    found = range_fault(numbers, scores)
    assert found is not None
    assert re.match(reason, found)


def test_numbers_within_their_ranges() -> None:
    numbers = {"val": 1.0 + 1e-9, "test": 0.0, "loss": -3.0, "entropy": 7.0, "memory": 1e11}
    assert range_fault(numbers, SHARE) is None
    assert range_fault({"val": -40.0}, SQUARED) is None
    assert range_fault({}, SHARE) is None


def test_tasks_say_where_their_scores_lie() -> None:
    class Declared(GraphClassification):
        @property
        def scale(self) -> Scale:
            return Scale(low=SQUARED[0], high=SQUARED[1])

    assert GraphClassification().scale.range == SHARE
    assert LinkPrediction().scale.range == SHARE
    assert GraphRegression().scale.range == (0, math.inf)
    assert GraphRegression(metric="r2").scale.range == (-math.inf, 1)
    assert Declared().scale.range == SQUARED
