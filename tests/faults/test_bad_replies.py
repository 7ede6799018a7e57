"""Sixteen kinds of bad reply over every merging rule: refused, named, and as if they never came."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest

from ramet.engine import Answer, Node, Rounds, Snapshots, start_shared
from ramet.methods import MERGES, METHODS, Method
from ramet.methods.activation import Activation, RandomTensors
from ramet.methods.base import with_merging
from ramet.methods.fedda import Explore, Restart
from ramet.payload import Array, Arrays, Payload, digest

CLIENTS = ("rings", "trees", "blocks")
BAD_CLIENT, BAD_ROUND = "trees", 2
Replies: TypeAlias = Mapping[tuple[str, int], Payload]

SHARING = [name for name, factory in METHODS.items() if factory().shared.patterns]
ROBUST = [f"fedstar,{rule}" for rule in MERGES if rule != "mean"]


def _method(name: str) -> Method:
    own, _, rule = name.partition(",")
    method = METHODS[own]()
    return with_merging(method, MERGES[rule](), rule) if rule else method


def _first(arrays: Arrays) -> str:
    """A float array that is no scalar."""
    return next(name for name, array in arrays.items() if array.ndim and array.size > 1)


def _filled(value: float) -> Callable[[Payload], Payload]:
    def spoil(reply: Payload) -> Payload:
        name = _first(reply.arrays)
        array = reply.arrays[name].copy()
        array.flat[-1] = value
        return replace(reply, arrays={**reply.arrays, name: array})

    return spoil


def _reshaped(how: Callable[[Array], Array]) -> Callable[[Payload], Payload]:
    def spoil(reply: Payload) -> Payload:
        name = _first(reply.arrays)
        return replace(reply, arrays={**reply.arrays, name: how(reply.arrays[name])})

    return spoil


def _without_one(reply: Payload) -> Payload:
    name = _first(reply.arrays)
    return replace(reply, arrays={k: array for k, array in reply.arrays.items() if k != name})


def _renamed(reply: Payload) -> Payload:
    name = _first(reply.arrays)
    return replace(
        _without_one(reply), arrays={**_without_one(reply).arrays, f"{name}x": reply.arrays[name]}
    )


def _weighing(weight: float) -> Callable[[Payload], Payload]:
    return lambda reply: replace(reply, numbers={**reply.numbers, "weight": weight})


KINDS: dict[str, tuple[Callable[[Payload], Payload], str]] = {
    "NaN": (_filled(np.nan), "is not finite"),
    "Inf": (_filled(-np.inf), "is not finite"),
    "1e30": (_filled(1e30), "is out of range"),
    "wrong shape": (_reshaped(lambda a: np.concatenate([a, a])), "instead of"),
    "broadcastable": (_reshaped(lambda a: a[:1] if len(a) > 1 else a[..., :1]), "instead of"),
    "scalar": (_reshaped(lambda a: np.asarray(a.flat[0])), "instead of"),
    "float64": (_reshaped(lambda a: a.astype(np.float64)), "float64"),
    "int32": (_reshaped(lambda a: a.astype(np.int32)), "int32"),
    "missing": (_without_one, "lacks"),
    "extra": (
        lambda reply: replace(reply, arrays={**reply.arrays, "more": np.zeros(2, np.float32)}),
        "has more than was asked: more",
    ),
    "renamed": (_renamed, "lacks"),
    "weight 0": (_weighing(0), "weight 0 is not a number of samples"),
    "weight -5": (_weighing(-5), "weight -5 is not a number of samples"),
    "weight NaN": (_weighing(float("nan")), "weight is not finite"),
    "weight 1e18": (_weighing(1e18), "weight 1e\\+18 is not a number of samples"),
    "far away": (_filled(1e6), "moved by 1e\\+06, and the bound is 1000"),
}


@dataclass(frozen=True)
class Replay:
    """Gives recorded replies; the bad client's of the bad round is spoilt, or does not come."""

    replies: Replies
    spoil: Callable[[Payload], Payload] | None

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]:
        for client, asked in requests:
            number = int(asked.numbers["round"])
            reply = self.replies[client, number] if asked.numbers["train"] else Payload()
            if (client, number) != (BAD_CLIENT, BAD_ROUND):
                yield client, reply
            elif self.spoil is None:
                yield client, "is away"
            else:
                yield client, self.spoil(reply)


@pytest.fixture
def recorded(
    tiny_node: Callable[..., Node], tmp_path: Path
) -> Callable[[Method], tuple[Rounds, Replies]]:
    """Two rounds of three real clients, once per method."""

    def record(method: Method) -> tuple[Rounds, Replies]:
        nodes = {client: tiny_node(client, method) for client in CLIENTS}
        replies: dict[tuple[str, int], Payload] = {}

        class Recording:
            def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]:
                for client, asked in requests:
                    reply = nodes[client].answer(asked)
                    replies[client, int(asked.numbers["round"])] = reply
                    yield client, reply

        rounds = Rounds(
            method=method,
            clients=CLIENTS,
            rounds=BAD_ROUND,
            seed=0,
            start=start_shared(method, method.task.shape(nodes["rings"].samples), 0),
            snapshots=Snapshots(tmp_path / "recorded"),
            norm_bound=1000,
        )
        rounds.run(Recording(), lambda record: None)
        return rounds, replies

    return record


def _merge(
    rounds: Rounds, replies: Replies, spoil: Callable[[Payload], Payload] | None, folder: Path
) -> tuple[str, str]:
    """The SHA-256 of the server's whole state after the bad round, and what was said of it."""
    failed: dict[str, str] = {}
    here = replace(rounds, snapshots=Snapshots(folder))
    here.run(Replay(replies, spoil), lambda told: failed.update(told.failed))
    state = here.snapshots.load(BAD_ROUND)
    facts = [state.facts[part] for part in ("numbers", "notes", "activity", "last")]
    assert set(failed) == {BAD_CLIENT}
    return f"{digest(state.arrays)} {facts}", failed[BAD_CLIENT]


@pytest.mark.parametrize("name", [*SHARING, *ROBUST])
def test_a_bad_reply_is_named_and_changes_nothing(
    name: str, recorded: Callable[[Method], tuple[Rounds, Replies]], tmp_path: Path
) -> None:
    rounds, replies = recorded(_method(name))
    whole = digest(rounds.snapshots.load(BAD_ROUND).arrays)
    expected, said = _merge(rounds, replies, None, tmp_path / "away")
    assert said == "is away"
    assert whole not in expected, "the client does not matter, so leaving it out shows nothing"
    for place, (kind, (spoil, reason)) in enumerate(KINDS.items()):
        found, said = _merge(rounds, replies, spoil, tmp_path / str(place))
        assert found == expected, kind
        with pytest.raises(ValueError, match=reason):
            raise ValueError(said)


@pytest.mark.parametrize(
    ("name", "counts"),
    [("fedlit", -1.0), ("fedlit", 0.5), ("fed-mgcn", -1.0), ("fedlit", None)],
)
def test_bad_counts_of_centroids_are_refused(
    name: str,
    counts: float | None,
    recorded: Callable[[Method], tuple[Rounds, Replies]],
    tmp_path: Path,
) -> None:
    """Below zero, not whole, and one centroid too many."""

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
    found, said = _merge(rounds, replies, spoil, tmp_path / "bad")
    assert found == expected
    assert ("numbers of nodes" if counts is not None else "kinds.centres is float32") in said


@pytest.mark.parametrize(
    "rule", [Restart(alpha=0, beta=0), Explore(alpha=0), RandomTensors()], ids=repr
)
def test_an_array_that_was_not_asked_for_is_refused(
    rule: Activation, recorded: Callable[[Method], tuple[Rounds, Replies]], tmp_path: Path
) -> None:
    """The mask of a request holds: a reply that has more, or less, than was asked is left out."""
    rounds, replies = recorded(replace(METHODS["fedavg"](), activation=rule))
    came = replies[BAD_CLIENT, BAD_ROUND].arrays
    spared = {name: rounds.start[name] for name in rounds.start if name not in came}
    assert spared
    expected, _ = _merge(rounds, replies, None, tmp_path / "away")
    bad: dict[str, Callable[[Payload], Payload]] = {
        "has more than was asked": lambda r: replace(r, arrays={**r.arrays, **spared}),
        "lacks": _without_one,
    }
    for place, (reason, spoil) in enumerate(bad.items()):
        found, said = _merge(rounds, replies, spoil, tmp_path / str(place))
        assert found == expected
        assert reason in said
