"""What happens to replies at a site's exit and at the server, with real clients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from federations import Climb, Federation, OfThisRound, Watched, climbing, nodes_of
from ramet.data import Batch
from ramet.engine.messages import request
from ramet.engine.site.audit import audit_entries
from ramet.engine.site.request import NotSharedError
from ramet.models.shape import GraphShape
from ramet.payload import Array, Arrays, Payload
from ramet.rules.eight_bit import EightBit
from ramet.rules.extras import Extras, Stage
from ramet.rules.merging import WeightedMean
from ramet.rules.release import Exit
from ramet.training.local import Session


def mapped(reply: Payload, change: Callable[[str, Array], Array]) -> Payload:
    return replace(reply, arrays={name: change(name, a) for name, a in reply.arrays.items()})


@dataclass(frozen=True)
class Plus:
    """Adds 1 to what leaves, and subtracts it from what arrives."""

    def leave(self, reply: Payload, exit: Exit) -> Payload:
        return mapped(reply, lambda name, array: array + np.float32(1))

    def form(self, reply: Payload, sent: Arrays) -> Payload:
        return reply

    def arrive(self, reply: Payload, sent: Arrays) -> Payload:
        return mapped(reply, lambda name, array: array - np.float32(1))


@dataclass(frozen=True)
class Double:
    """Doubles what leaves, in float64, and halves what arrives."""

    def leave(self, reply: Payload, exit: Exit) -> Payload:
        return mapped(reply, lambda name, array: array.astype(np.float64) * 2)

    def form(self, reply: Payload, sent: Arrays) -> Payload:
        return mapped(reply, lambda name, array: array.astype(np.float64))

    def arrive(self, reply: Payload, sent: Arrays) -> Payload:
        return mapped(reply, lambda name, array: (array / 2).astype(np.float32))


@pytest.mark.parametrize("plus_first", [True, False])
def test_releases_compose_in_order_and_arrive_in_reverse(plus_first: bool, tmp_path: Path) -> None:
    """Slopes of 1, 2 and 4 leave as 2 (n + 1), or as 2 n + 1. What is merged is their mean."""
    releases = (Plus(), Double()) if plus_first else (Double(), Plus())
    federation = Federation(climbing(release=releases), tmp_path)
    wire = Watched(federation)
    _, records = federation.run(1, wire)
    left = [reply.arrays["slope"] for reply in wire.replies if reply.arrays]
    assert [array.tolist() for array in left] == (
        [[4], [6], [10]] if plus_first else [[3], [5], [9]]
    )
    assert records[0].failed == {}
    assert records[0].bytes_up == 3 * 8
    assert federation.slopes("server", "slope", 1) == [pytest.approx(7 / 3)]


@dataclass(frozen=True)
class Sneaks(Plus):
    """Sends an array of another name, shape or type than its form declares."""

    name: str = "slope"
    array: Array = field(default_factory=lambda: np.zeros(1, np.float32))

    def leave(self, reply: Payload, exit: Exit) -> Payload:
        return replace(reply, arrays={**reply.arrays, self.name: self.array})


@dataclass(frozen=True)
class SneaksExtra(Plus):
    """Sends an extra that its form does not declare."""

    def leave(self, reply: Payload, exit: Exit) -> Payload:
        return replace(reply, extras={"raw data": np.zeros(3)})


@dataclass(frozen=True)
class SneaksNumber(Plus):
    """Sends a number that its form does not declare."""

    def leave(self, reply: Payload, exit: Exit) -> Payload:
        return replace(reply, numbers={**reply.numbers, "secret": 42.0})


@pytest.mark.parametrize(
    ("release", "message"),
    [
        (Sneaks("raw data"), r"'raw data' as float32\[1\], which Sneaks.form does not declare"),
        (Sneaks(array=np.zeros(2, np.float32)), r"'slope' as float32\[2\], which Sneaks.form"),
        (Sneaks(array=np.zeros(1)), r"'slope' as float64\[1\], which Sneaks.form does not"),
        (SneaksExtra(), r"'raw data' as float64\[3\], which SneaksExtra.form does not declare"),
        (SneaksNumber(), r"'secret', which SneaksNumber.form does not declare"),
    ],
)
def test_a_site_sends_only_what_the_form_declares(
    release: Plus, message: str, tmp_path: Path
) -> None:
    node = Federation(climbing(release=(release,)), tmp_path).client("a")
    with pytest.raises(NotSharedError, match=f"client a refuses to send {message}"):
        node.answer(request(1, True, {}))
    assert not node.snapshots.steps()


def tampering(federation: Federation, arrays: Arrays, extras: Arrays | None = None) -> Watched:
    """A wire that changes the replies of b which have arrays."""

    def change(client: str, reply: Payload) -> Payload:
        if client != "b" or not reply.arrays:
            return reply
        return replace(reply, arrays={**reply.arrays, **arrays}, extras=extras or {})

    return Watched(federation, change=change)


def test_the_server_refuses_what_does_not_have_the_form(tmp_path: Path) -> None:
    """The slope is due in float64."""
    federation = Federation(climbing(release=(Double(),)), tmp_path)
    _, records = federation.run(1, tampering(federation, {"slope": np.ones(1, np.float32)}))
    assert records[0].failed == {"b": "slope is float32[1] instead of float64[1]"}
    assert federation.slopes("server", "slope", 1) == [2.5]  # (1 + 4) / 2


class TwoSlopes(nn.Module):
    """Two slopes of different steepness, so that an update has two different numbers."""

    def __init__(self, shape: GraphShape) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.zeros(2))

    def forward(self, batch: Batch) -> Tensor:  # [graphs]
        return nodes_of(batch) * (self.slope @ torch.tensor([1.0, 1 / 1016]))


def eight_bit(tmp_path: Path) -> Federation:
    method = replace(climbing(release=(EightBit(),)), model=TwoSlopes, task=Climb())
    return Federation(method, tmp_path)


def test_what_rounding_leaves_out_is_sent_in_a_later_round(tmp_path: Path) -> None:
    """A round adds n * (1, 1/1016) to the slopes of a client. The scale is n / 127, so the second
    number is an eighth of the scale: it is left out until the error is above one half. After four
    rounds the error is 4/8, which is rounded to the even 0; in the fifth it is 5/8, and one unit is
    sent, n / 127 = 8 n / 1016. What is then missing is -3/8 of the scale.
    """
    federation = eight_bit(tmp_path)
    _, records = federation.run(5)
    second = [federation.state(number)["merging"].arrays["slope"][1] for number in range(1, 6)]
    assert second == pytest.approx([0, 0, 0, 0, 7 / 3 / 127], abs=1e-7)
    errors = [
        federation.saved("b", n).arrays["memory/release 0/error/slope"][1] for n in range(1, 6)
    ]
    assert errors == pytest.approx([2 * k / 1016 for k in (1, 2, 3, 4, -3)], abs=1e-7)
    assert federation.state(5)["merging"].arrays["slope"][0] == pytest.approx(5 * 7 / 3)
    assert [(r.bytes_up, r.bytes_down) for r in records] == [(3 * (2 + 4), 3 * 8)] * 5


def test_the_audit_shows_what_left(tmp_path: Path) -> None:
    eight_bit(tmp_path).run(1)
    entries, _ = audit_entries(tmp_path / "a")
    assert [[(t.name, t.shape, t.dtype, t.bytes) for t in entry.tensors] for entry in entries] == [
        [("slope", (2,), "int8", 2), ("slope/scale", (), "float32", 4)],
        [],
    ]


def test_what_arrives_is_checked_again(tmp_path: Path) -> None:
    """A scale of 1e9 is in range, but 127 times as much is not."""
    federation = eight_bit(tmp_path)
    huge = {"slope/scale": np.full((), 1e9, np.float32)}
    _, records = federation.run(1, tampering(federation, huge))
    assert records[0].failed == {"b": "slope is out of range"}


@dataclass(frozen=True)
class SmallExtras(Plus):
    """Sends extras divided by 1e9."""

    def leave(self, reply: Payload, exit: Exit) -> Payload:
        return replace(reply, extras={n: a / np.float32(1e9) for n, a in reply.extras.items()})

    def arrive(self, reply: Payload, sent: Arrays) -> Payload:
        return replace(reply, extras={n: a * np.float32(1e9) for n, a in reply.extras.items()})


def send_ones(session: Session) -> None:
    session.sending["two"] = torch.ones(2)


TWO = Extras(lambda model, shared: {"two": torch.zeros(2)}, OfThisRound())


def test_extras_that_arrive_are_checked_again(tmp_path: Path) -> None:
    method = climbing(release=(SmallExtras(),), extras=TWO, after=send_ones)
    federation = Federation(method, tmp_path)
    two = {"two": np.full(2, 2, np.float32)}
    _, records = federation.run(1, tampering(federation, {}, two))
    assert records[0].failed == {"b": "two is out of range"}


def test_replies_of_stages_are_released_too(tmp_path: Path) -> None:
    """Three clients send 1; the sum of what arrives is 3."""
    method = climbing(release=(SmallExtras(),), stages=(Stage("ones", TWO, send_ones),))
    federation = Federation(method, tmp_path)
    wire = Watched(federation)
    federation.run(1, wire)
    assert wire.replies[0].extras["two"].tolist() == pytest.approx([1e-9, 1e-9])
    assert federation.saved("server", 1).arrays["extras/ones/two"].tolist() == [3, 3]


@dataclass(frozen=True)
class SendsNothing(WeightedMean):
    """Merges, but sends nothing to clients."""

    def send(self, state: Payload, client: str) -> Arrays:
        return {}


def test_in_round_1_updates_are_relative_to_what_clients_start_with(tmp_path: Path) -> None:
    """Site and server agree on it even if the merging rule will not send the array. From round 2 on
    it has not been sent, so it leaves as it is.
    """
    federation = eight_bit(tmp_path)
    federation = replace(federation, method=replace(federation.method, merging=SendsNothing()))
    _, records = federation.run(2)
    assert [record.failed for record in records] == [{}, {}]
    assert [record.bytes_up for record in records] == [3 * (2 + 4), 3 * 8]
    assert federation.state(1)["merging"].arrays["slope"][0] == pytest.approx(7 / 3)
    assert federation.state(2)["merging"].arrays["slope"][0] == pytest.approx(2 * 7 / 3)
