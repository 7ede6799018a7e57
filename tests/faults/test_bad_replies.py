"""Many kinds of bad reply under every merging rule: refused, reported, and without effect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest

from ramet.engine.messages import TRAINING, kind_of
from ramet.engine.server.journal import JOURNAL, Entries
from ramet.engine.server.rounds import Rounds
from ramet.engine.server.state import RunState
from ramet.engine.server.wire import Answer
from ramet.engine.site.client import Client
from ramet.engine.start import start_extras, start_model, start_shared
from ramet.engine.store.checkpoint import Snapshot, Snapshots
from ramet.methods import MERGES, METHODS
from ramet.methods.fedda import Explore, Restart
from ramet.payload import Array, Arrays, Payload, digest, nothing
from ramet.rules.activation import Activation, RandomTensors
from ramet.rules.method import Method, assembled

CLIENTS = ("rings", "trees", "blocks")
BAD_CLIENT, BAD_ROUND = "trees", 2
Replies: TypeAlias = Mapping[tuple[str, int, str], Payload]
"""By client, round, and kind of message: a stage and the training may be in one round."""

SHARING = [name for name, factory in METHODS.items() if factory().shared != nothing]
SLOW = ("fedtad", "fedssp", "fed-mgcn")
ROBUST = [f"fedstar,{rule}" for rule in MERGES if rule != "mean"]


def _method(name: str) -> Method:
    own, _, rule = name.partition(",")
    method = METHODS[own]()
    return replace(method, merging=MERGES[rule]()) if rule else method


def _first_array(arrays: Arrays) -> str:
    """The name of the first array with more than one element."""
    return next(name for name, array in arrays.items() if array.ndim and array.size > 1)


def _with_value(value: float) -> Callable[[Payload], Payload]:
    def spoil(reply: Payload) -> Payload:
        name = _first_array(reply.arrays)
        array = reply.arrays[name].copy()
        array.flat[-1] = value
        return replace(reply, arrays={**reply.arrays, name: array})

    return spoil


def _with_array(change: Callable[[Array], Array]) -> Callable[[Payload], Payload]:
    def spoil(reply: Payload) -> Payload:
        name = _first_array(reply.arrays)
        return replace(reply, arrays={**reply.arrays, name: change(reply.arrays[name])})

    return spoil


def _without_one(reply: Payload) -> Payload:
    name = _first_array(reply.arrays)
    return replace(reply, arrays={k: array for k, array in reply.arrays.items() if k != name})


def _renamed(reply: Payload) -> Payload:
    name = _first_array(reply.arrays)
    return replace(
        _without_one(reply), arrays={**_without_one(reply).arrays, f"{name}x": reply.arrays[name]}
    )


def _without_number(name: str) -> Callable[[Payload], Payload]:
    return lambda reply: replace(
        reply, numbers={k: number for k, number in reply.numbers.items() if k != name}
    )


def _with_number(name: str, value: float) -> Callable[[Payload], Payload]:
    return lambda reply: replace(reply, numbers={**reply.numbers, name: value})


def _with_weight(weight: float) -> Callable[[Payload], Payload]:
    return _with_number("weight", weight)


KINDS: dict[str, tuple[Callable[[Payload], Payload], str]] = {
    "NaN": (_with_value(np.nan), "is not finite"),
    "Inf": (_with_value(-np.inf), "is not finite"),
    "1e30": (_with_value(1e30), "is out of range"),
    "wrong shape": (_with_array(lambda a: np.concatenate([a, a])), "instead of"),
    "broadcastable": (_with_array(lambda a: a[:1] if len(a) > 1 else a[..., :1]), "instead of"),
    "scalar": (_with_array(lambda a: np.asarray(a.flat[0])), "instead of"),
    "float64": (_with_array(lambda a: a.astype(np.float64)), "float64"),
    "int32": (_with_array(lambda a: a.astype(np.int32)), "int32"),
    "missing": (_without_one, "lacks"),
    "extra": (
        lambda reply: replace(reply, arrays={**reply.arrays, "more": np.zeros(2, np.float32)}),
        "has arrays that were not requested: more",
    ),
    "renamed": (_renamed, "lacks"),
    "weight 0": (_with_weight(0), "weight 0 is not a number of samples"),
    "weight -5": (_with_weight(-5), "weight -5 is not a number of samples"),
    "weight NaN": (_with_weight(float("nan")), "weight is not finite"),
    "weight 1e18": (_with_weight(1e18), "weight 1e\\+18 is not a number of samples"),
    "no loss": (_without_number("loss"), "lacks the numbers loss"),
    "no val": (_without_number("val"), "lacks the numbers val"),
    "no test": (_without_number("test"), "lacks the numbers test"),
    "val -1e300": (_with_number("val", -1e300), "val -1e\\+300 is not from 0 to 1"),
    "test 1.1": (_with_number("test", 1.1), "test 1.1 is not from 0 to 1"),
    "loss 1e300": (_with_number("loss", 1e300), "loss 1e\\+300 is not from -1e\\+09 to 1e\\+09"),
    "memory -1": (_with_number("memory", -1), "memory -1 is not from 0 to 1e\\+18"),
    "far away": (_with_value(1e6), "moved by 1e\\+06, but the bound is 1000"),
}


@dataclass(frozen=True)
class Replay:
    """Replays recorded replies; the bad client's reply in the bad round is spoilt or missing."""

    replies: Replies
    spoil: Callable[[Payload], Payload] | None

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]:
        for client, payload in requests:
            number = int(payload.numbers["round"])
            reply = self.replies[client, number, kind_of(payload)]
            if (client, number) != (BAD_CLIENT, BAD_ROUND):
                yield client, reply
            elif self.spoil is None:
                yield client, "is away"
            else:
                yield client, self.spoil(reply)


@pytest.fixture
def recorded(
    tiny_client: Callable[..., Client], tmp_path: Path
) -> Callable[[Method], tuple[Rounds, Replies]]:
    """Record two rounds of three real clients."""

    def record(open_method: Method) -> tuple[Rounds, Replies]:
        method = assembled(open_method)
        nodes = {client: tiny_client(client, method) for client in CLIENTS}
        replies: dict[tuple[str, int, str], Payload] = {}

        class Recording:
            def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]:
                for client, payload in requests:
                    reply = nodes[client].answer(payload)
                    replies[client, int(payload.numbers["round"]), kind_of(payload)] = reply
                    yield client, reply

        shape = method.task.shape(nodes["rings"].samples)
        rounds = Rounds(
            method=method,
            clients=CLIENTS,
            rounds=BAD_ROUND,
            seed=0,
            start=start_shared(method, shape, 0),
            extras=start_extras(method, shape, 0),
            network=lambda: start_model(method, shape, 0, ""),
            shape=shape,
            snapshots=Snapshots(tmp_path / "recorded"),
            norm_bound=1000,
        )
        rounds.run(Recording(), lambda record: None)
        return rounds, replies

    return record


def _newest(folder: Path) -> Snapshot:
    saved = Snapshots(folder).latest_valid()
    assert saved is not None
    return saved


def _merge(
    rounds: Rounds, replies: Replies, spoil: Callable[[Payload], Payload] | None, folder: Path
) -> tuple[str, str]:
    """The server's state after the bad round, with its SHA-256, and why the reply is missing."""
    failed: dict[str, str] = {}
    replayed = replace(rounds, snapshots=Snapshots(folder))
    replayed.run(Replay(replies, spoil), lambda record: failed.update(record.failed))
    saved = _newest(folder)
    state = RunState.restored(saved)
    rules = {n: (own.numbers, own.notes) for n, own in state.slices.items() if n != JOURNAL}
    assert set(failed) == {BAD_CLIENT}
    return f"{digest(saved.arrays)} {rules} {Entries.of(state).last}", failed[BAD_CLIENT]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.thorough] if name in SLOW else ())
        for name in (*SHARING, *ROBUST)
    ],
)
def test_a_bad_reply_is_reported_and_changes_nothing(
    name: str, recorded: Callable[[Method], tuple[Rounds, Replies]], tmp_path: Path
) -> None:
    rounds, replies = recorded(_method(name))
    with_all_clients = digest(_newest(rounds.snapshots.folder).arrays)
    expected, reason_given = _merge(rounds, replies, None, tmp_path / "away")
    assert reason_given == "is away"
    assert with_all_clients not in expected, "leaving the client out makes no difference"
    for number, (kind, (spoil, reason)) in enumerate(KINDS.items()):
        state, reason_given = _merge(rounds, replies, spoil, tmp_path / str(number))
        assert state == expected, kind
        with pytest.raises(ValueError, match=reason):
            raise ValueError(reason_given)


@pytest.mark.parametrize(
    ("name", "counts"),
    [("fedlit", -1.0), ("fedlit", 0.5), ("fed-mgcn", -1.0), ("fedlit", None)],
)
def test_invalid_centroids_and_counts_are_refused(
    name: str,
    counts: float | None,
    recorded: Callable[[Method], tuple[Rounds, Replies]],
    tmp_path: Path,
) -> None:
    """Negative and fractional counts, and one centroid too many."""

    def spoil(reply: Payload) -> Payload:
        nodes, centres = reply.arrays["kinds.nodes"].copy(), reply.arrays["kinds.centres"]
        if counts is None:
            centres = np.concatenate([centres, centres[:1]])
        else:
            nodes[0] = counts
        changed = {"kinds.nodes": nodes, "kinds.centres": centres}
        return replace(reply, arrays={**reply.arrays, **changed})

    rounds, replies = recorded(_method(name))
    expected, _ = _merge(rounds, replies, None, tmp_path / "away")
    state, reason_given = _merge(rounds, replies, spoil, tmp_path / "bad")
    assert state == expected
    assert ("not node counts" if counts is not None else "kinds.centres is float32") in reason_given


@pytest.mark.parametrize(
    "rule", [Restart(alpha=0, beta=0), Explore(alpha=0), RandomTensors()], ids=repr
)
def test_an_array_that_was_not_asked_for_is_refused(
    rule: Activation, recorded: Callable[[Method], tuple[Rounds, Replies]], tmp_path: Path
) -> None:
    """A reply with more or fewer arrays than were requested is left out."""
    rounds, replies = recorded(replace(METHODS["fedavg"](), activation=rule))
    received = replies[BAD_CLIENT, BAD_ROUND, TRAINING].arrays
    omitted = {name: rounds.start[name] for name in rounds.start if name not in received}
    assert omitted
    expected, _ = _merge(rounds, replies, None, tmp_path / "away")
    bad: dict[str, Callable[[Payload], Payload]] = {
        "has arrays that were not requested": lambda r: replace(r, arrays={**r.arrays, **omitted}),
        "lacks": _without_one,
    }
    for number, (reason, spoil) in enumerate(bad.items()):
        state, reason_given = _merge(rounds, replies, spoil, tmp_path / str(number))
        assert state == expected
        assert reason in reason_given
