"""Extras and the step after training that sends them, with real clients.

In each round the clients add 1, 2 and 4 to the slope, and send it as an extra of two numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from federations import CLIMBERS, Federation, Watched, climbing
from ramet.engine.messages import request
from ramet.engine.site.audit import audit_entries
from ramet.engine.site.request import NotSharedError
from ramet.engine.start import start_extras
from ramet.errors import RametError
from ramet.payload import Array, Arrays, Payload, nothing, only
from ramet.rules.activation import RandomTensors
from ramet.rules.extras import Extras, Stage
from ramet.rules.merging import Reply, Summing, WeightedMean
from ramet.rules.server import Server
from ramet.training.local import Session


def two_zeros(model: nn.Module, shared: Sequence[str]) -> Mapping[str, Tensor]:
    assert [*dict(model.named_parameters())] == [*shared] == ["slope"]
    return {"two": torch.zeros(2)}


@dataclass(frozen=True)
class Sum(Summing):
    """Adds everything that clients have sent so far."""

    def term(self, reply: Payload) -> Arrays:
        return reply.extras

    def step(self, state: Payload, total: Arrays, server: Server) -> Payload:
        summed = {name: (state.arrays[name] + array) for name, array in total.items()}
        return Payload({**state.arrays, **{n: a.astype(np.float32) for n, a in summed.items()}})


def send_slope(session: Session) -> None:
    """Send the slope, and what the server has sent."""
    slope = session.model.get_parameter("slope").detach()
    session.sending["two"] = torch.cat([slope, session.received["two"][:1]])


TWO = Extras(two_zeros, Sum())


def test_extras_are_merged_and_sent_by_hand(tmp_path: Path) -> None:
    """Round 1: the slopes are 1, 2, 4 and the sum so far 0, so (7, 0); the mean slope is 7/3.

    Round 2: the slopes are 7/3 + 1, 2, 4, whose sum is 14, and all have received 7 and send it, so
    (7 + 14, 0 + 21).
    """
    federation = Federation(climbing(extras=TWO, after=send_slope), tmp_path)
    _, records = federation.run(2)
    first, second = (federation.saved("server", number).arrays for number in (1, 2))
    assert first["extras/training/two"].tolist() == [7, 0]
    assert second["extras/training/two"].tolist() == pytest.approx([21, 21])
    # a slope of 4 bytes and an extra of 8; in the closing message only the slope
    assert [record.bytes_up for record in records] == [3 * 12, 3 * 12]
    assert [record.bytes_down for record in records] == [3 * 12, 3 * 4]
    assert [record.tensors_down for record in records] == [3 * 2, 3]
    assert records[0].trained["a"]["tensors"] == 2
    assert records[0].trained["a"]["scalars"] == 3


def test_extras_are_audited(tmp_path: Path) -> None:
    federation = Federation(climbing(extras=TWO, after=send_slope), tmp_path)
    federation.run(1)
    entries, _ = audit_entries(tmp_path / "a")
    sent = [[(t.name, t.dtype, t.bytes, t.extra) for t in entry.tensors] for entry in entries]
    assert sent == [[("slope", "float32", 4, False), ("two", "float32", 8, True)], []]


def sends(**tensors: Any) -> Callable[[Session], None]:
    return lambda session: session.sending.update(tensors)


REFUSED: dict[str, tuple[Any, type[RametError], str]] = {
    "undeclared": (
        sends(two=torch.zeros(2), three=torch.zeros(3)),
        NotSharedError,
        "client a refuses to send the extra 'three': climbing does not declare it here",
    ),
    "missing": (
        sends(),
        RametError,
        r"the extra 'two' is missing in session.sending, but climbing declares it with shape \[2\]",
    ),
    "a NumPy array": (
        sends(two=np.zeros(2)),
        RametError,
        r"the extra 'two' in session.sending is of type ndarray. Convert it to a tensor",
    ),
    "wrong shape": (sends(two=torch.zeros(3)), RametError, r"has shape \[3\] in session.sending"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_client_sends_exactly_what_is_declared(kind: str, tmp_path: Path) -> None:
    after, error, message = REFUSED[kind]
    node = Federation(climbing(extras=TWO, after=after), tmp_path).client("a")
    with pytest.raises(error, match=message):
        node.answer(request(1, True, {}))
    assert not node.snapshots.steps()


def test_without_a_declaration_nothing_is_sent(tmp_path: Path) -> None:
    node = Federation(climbing(after=sends(two=torch.zeros(2))), tmp_path).client("a")
    with pytest.raises(NotSharedError, match="refuses to send the extra 'two'"):
        node.answer(request(1, True, {}))


def test_a_client_accepts_only_declared_extras(tmp_path: Path) -> None:
    up_only = Extras(two_zeros, Sum(), down=nothing)
    for extras, name in ((TWO, "three"), (up_only, "two")):
        node = Federation(climbing(extras=extras, after=send_slope), tmp_path).client("a")
        message = request(1, True, {}, extras={name: np.zeros(2, np.float32)})
        with pytest.raises(NotSharedError, match=f"refuses to accept the extra '{name}'"):
            node.answer(message)


@pytest.mark.parametrize("two", [np.zeros(3, np.float32), np.zeros(2)], ids=["shape", "type"])
def test_a_client_accepts_only_extras_of_the_declared_form(two: Array, tmp_path: Path) -> None:
    node = Federation(climbing(extras=TWO, after=send_slope), tmp_path).client("a")
    with pytest.raises(NotSharedError, match=r"refuses to accept the extra 'two' \(float"):
        node.answer(request(2, True, {}, extras={"two": two}))


def test_up_and_down_limit_the_directions(tmp_path: Path) -> None:
    """Nothing is sent down, so clients always see the start value."""
    up_only = Federation(
        climbing(extras=Extras(two_zeros, Sum(), down=nothing), after=send_slope), tmp_path / "up"
    )
    _, records = up_only.run(2)
    assert up_only.saved("server", 2).arrays["extras/training/two"].tolist()[1] == 0
    assert [(r.bytes_up, r.bytes_down) for r in records] == [(3 * 12, 3 * 4), (3 * 12, 3 * 4)]
    down_only = Federation(climbing(extras=Extras(two_zeros, Sum(), up=nothing)), tmp_path / "down")
    _, records = down_only.run(2)
    assert [(r.bytes_up, r.bytes_down) for r in records] == [(3 * 4, 3 * 12), (3 * 4, 3 * 4)]


TAMPERED: dict[str, tuple[dict[str, Any], str]] = {
    "missing": ({}, "lacks two"),
    "undeclared": ({"two": np.zeros(2, np.float32), "x": np.zeros(1)}, "not requested: x"),
    "wrong shape": ({"two": np.zeros(3, np.float32)}, r"two is float32[3] instead of float32[2]"),
    "wrong type": ({"two": np.zeros(2)}, r"two is float64[2] instead of float32[2]"),
    "NaN": ({"two": np.full(2, np.nan, np.float32)}, "two is not finite"),
}


@pytest.mark.parametrize("kind", TAMPERED)
def test_the_server_checks_extras(kind: str, tmp_path: Path) -> None:
    extras, reason = TAMPERED[kind]
    federation = Federation(climbing(extras=TWO, after=send_slope), tmp_path)

    def change(client: str, reply: Payload) -> Payload:
        return replace(reply, extras=extras) if client == "b" and reply.extras else reply

    _, records = federation.run(1, Watched(federation, change=change))
    assert [*records[0].failed] == ["b"]
    assert reason in records[0].failed["b"]
    assert federation.saved("server", 1).arrays["extras/training/two"].tolist() == [5, 0]


def above_3(extras: Arrays) -> str | None:
    return "two is above 3" if extras["two"].max() > 3 else None


def test_a_declaration_can_check_the_values_of_extras(tmp_path: Path) -> None:
    """c sends its slope of 4, and its reply is left out: (1 + 2) / 2."""
    method = climbing(extras=replace(TWO, fault=above_3), after=send_slope)
    federation = Federation(method, tmp_path)
    _, records = federation.run(1)
    assert records[0].failed == {"c": "two is above 3"}
    assert federation.slopes("server", "slope", 1) == [1.5]


@dataclass(frozen=True)
class Answer(Summing):
    """Returns the same from every step."""

    answer: Any

    def term(self, reply: Payload) -> Arrays:
        return reply.extras

    def step(self, state: Payload, total: Arrays, server: Server) -> Payload:
        answer: Payload = self.answer
        return answer


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"two": np.zeros(2)}, r"^Answer\.step returned dict instead of the rule's state"),
        (
            Payload({"two": np.zeros(2)}),
            r"^Answer has 'two' as float64\[2\] for clients.*expects float32\[2\].*astype",
        ),
        (
            Payload({"two": np.zeros((2, 1), np.float32)}),
            r"^Answer has 'two' as float32\[2, 1\] for clients.*expects float32\[2\]",
        ),
    ],
)
def test_a_wrong_answer_of_a_rule_names_the_rule(answer: Any, message: str, tmp_path: Path) -> None:
    extras = Extras(two_zeros, Answer(answer))
    with pytest.raises(RametError, match=message):
        Federation(climbing(extras=extras, after=send_slope), tmp_path).run(2)


def test_no_activation_spares_a_client_its_extras(tmp_path: Path) -> None:
    """The extra has the name of the array that is omitted."""
    own = Extras(lambda model, shared: {"slope": torch.zeros(2)}, Sum())
    method = climbing(
        extras=own, after=sends(slope=torch.ones(2)), activation=RandomTensors(fraction=0.0)
    )
    federation = Federation(method, tmp_path)
    _, records = federation.run(2)
    assert [record.bytes_up for record in records] == [3 * 8, 3 * 8]
    assert federation.saved("server", 2).arrays["extras/training/slope"].tolist() == [6, 6]


def test_extras_are_not_in_the_norm_bound(tmp_path: Path) -> None:
    """Slopes move by at most 4."""
    method = climbing(extras=TWO, after=sends(two=torch.full((2,), 1e6)))
    _, records = Federation(method, tmp_path / "4").run(1, norm_bound=4.0)
    assert records[0].failed == {}
    _, records = Federation(method, tmp_path / "3").run(1, norm_bound=3.0)
    assert records[0].failed == {"c": "moved by 4, but the bound is 3"}


@dataclass(frozen=True)
class MeanOfTwo(WeightedMean):
    """Reports the sum of the extras that it has seen."""

    def merge(self, state: Payload, replies: Iterable[Reply], server: Server) -> Payload:
        seen = list(replies)
        merged = super().merge(state, seen, server)
        return replace(merged, numbers={"sum": sum(float(r.extras["two"][0]) for _, r in seen)})


def test_without_a_rule_the_merging_rule_reads_extras(tmp_path: Path) -> None:
    method = climbing(extras=Extras(two_zeros), after=send_slope, merging=MeanOfTwo())
    _, records = Federation(method, tmp_path).run(2)
    assert [record.merging["sum"] for record in records] == [7, pytest.approx(14)]
    assert [record.bytes_down for record in records] == [3 * 4, 3 * 4]


def test_two_extras_of_the_same_name_are_refused() -> None:
    method = climbing(extras=TWO, stages=(Stage("first", TWO, send_slope),))
    with pytest.raises(RametError, match="climbing declares the extra 'two' twice"):
        start_extras(method, method.task.shape(CLIMBERS["a"]), 0)


def test_sharing_patterns_do_not_cover_extras(tmp_path: Path) -> None:
    """`up` of the method is about parameters, that of the declaration about extras."""
    method = climbing(extras=TWO, after=send_slope, up=only("s*"))
    _, records = Federation(method, tmp_path).run(1)
    assert records[0].failed == {}
    assert records[0].bytes_up == 3 * 12
