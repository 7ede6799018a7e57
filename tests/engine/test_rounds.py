"""What the server sends, compares and merges, for user-defined merging rules too.

Clients add a fixed step to the arrays that they have, so that all numbers can be derived by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ramet.engine.processes.local import LocalWire
from ramet.engine.server.rounds import Rounds
from ramet.engine.server.rules import ServerRules
from ramet.engine.server.state import MERGING, RunState
from ramet.engine.server.wire import Answer
from ramet.engine.site.client import Client
from ramet.engine.start import start_shared
from ramet.engine.store.checkpoint import Snapshots
from ramet.errors import RametError
from ramet.methods import fedavg, fedstar
from ramet.metrics import Record
from ramet.payload import Arrays, Payload, only, under
from ramet.rules.activation import Asked, WithoutMemory
from ramet.rules.merging import Merging, Reply, WeightedMean
from ramet.rules.method import AssembledMethod, assembled
from ramet.rules.server import Server

START = {"w": np.zeros(2, np.float32), "v": np.full(1, 7, np.float32)}
STEPS = {"w": np.array([3, 4], np.float32), "v": np.array([1000], np.float32)}  # w moves by 5
CLIENTS = ("a", "b", "c")


@dataclass
class Steppers:
    """Clients that load what they receive, add ``STEPS``, and send the arrays of ``names``."""

    names: tuple[str, ...] = tuple(START)
    away: Mapping[str, set[int]] = field(default_factory=dict)
    change: Callable[[str, int, Payload], Payload] = lambda client, number, reply: reply
    received: dict[tuple[str, int], Arrays] = field(default_factory=dict)
    own: dict[str, dict[str, Any]] = field(default_factory=dict)

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]:
        for client, message in requests:
            number = int(message.numbers["round"])
            self.received[client, number] = message.arrays
            if number in self.away.get(client, ()):
                yield client, "is away"
                continue
            own = self.own.setdefault(client, dict(START))
            own |= message.arrays
            numbers = {"val": 0.5, "test": 0.25} if number > 1 else {}
            arrays: Arrays = {}
            if message.numbers["train"]:
                own |= {name: own[name] + STEPS[name] for name in own}
                arrays = {name: own[name] for name in self.names}
                numbers |= {"weight": 1, "loss": 1.0}
            yield client, self.change(client, number, Payload(arrays, numbers))


def method_with(merging: Merging, **parts: Any) -> AssembledMethod:
    return assembled(replace(fedavg(), merging=merging, **parts))


def run(
    folder: Path, method: AssembledMethod, wire: Steppers, rounds: int = 3, **settings: Any
) -> tuple[Payload, list[Record]]:
    """The server's last state, and the records."""
    records: list[Record] = []
    snapshots = Snapshots(folder / "server")
    Rounds(method, CLIENTS, rounds, 0, START, snapshots, **settings).run(wire, records.append)
    last = snapshots.load(rounds)
    return RunState.restored(last)[MERGING], records


@dataclass(frozen=True)
class Personal:
    """Keep ``CLIENT/NAME`` for every client: the last reply of each."""

    answers_new_clients: bool

    def start(self, shared: Arrays) -> Payload:
        return Payload({f"initial/{name}": array for name, array in shared.items()})

    def send(self, state: Payload, client: str) -> Arrays:
        initial = under("initial/", state.arrays)
        if self.answers_new_clients and f"{client}/w" not in state.arrays:
            return initial
        return {name: state.arrays[f"{client}/{name}"] for name in initial}

    def merge(self, state: Payload, replies: Iterable[Reply], server: Server) -> Payload:
        replied = {f"{c}/{name}": a for c, reply in replies for name, a in reply.arrays.items()}
        return Payload({**state.arrays, **replied})


@dataclass(frozen=True)
class Learnt(Personal):
    """Like ``Personal``, but answers new clients only until the first merge."""

    def send(self, state: Payload, client: str) -> Arrays:
        if all(name.startswith("initial/") for name in state.arrays):
            return under("initial/", state.arrays)
        return super().send(state, client)


def test_a_rule_that_fails_for_new_clients_fails_before_any_client_is_asked(
    tmp_path: Path,
) -> None:
    wire = Steppers()
    with pytest.raises(
        RametError,
        match=r"Personal\.send failed for a new client .*not replied yet: return what such a",
    ):
        run(tmp_path, method_with(Personal(answers_new_clients=False)), wire)
    assert not wire.received


def test_a_rule_that_fails_for_a_client_without_a_reply_is_named(tmp_path: Path) -> None:
    wire = Steppers(away={"b": {1}})
    with pytest.raises(RametError, match=r"Learnt\.send failed for client b \(KeyError\('b/w'\)\)"):
        run(tmp_path, method_with(Learnt(answers_new_clients=False)), wire)
    assert Snapshots(tmp_path / "server").steps() == [1]


def test_a_client_that_missed_round_1_starts_from_what_the_rule_returns(tmp_path: Path) -> None:
    wire = Steppers(away={"b": {1}})
    state, records = run(tmp_path, method_with(Personal(answers_new_clients=True)), wire)
    assert wire.received["b", 2]["w"].tolist() == [0, 0]
    assert wire.received["a", 2]["w"].tolist() == [3, 4]
    assert state.arrays["b/w"].tolist() == [6, 8]  # two steps
    assert state.arrays["a/w"].tolist() == [9, 12]  # three
    assert records[0].failed == {"b": "is away"}


@dataclass(frozen=True)
class Answers:
    """Merges as usual, and sends something else."""

    answer: Any

    def start(self, shared: Arrays) -> Payload:
        return WeightedMean().start(shared)

    def send(self, state: Payload, client: str) -> Arrays:
        answered: Arrays = self.answer(state.arrays)
        return answered

    def merge(self, state: Payload, replies: Iterable[Reply], server: Server) -> Payload:
        return WeightedMean().merge(state, replies, server)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Payload, "returned Payload. Return a dict of NumPy arrays"),
        (lambda arrays: {"now/w": arrays["w"]}, "returned 'now/w', which is not shared.*: w, v"),
        (lambda arrays: {"w": arrays["w"].tolist()}, "returned list as 'w'"),
    ],
)
def test_a_wrong_answer_is_refused_before_any_client_is_asked(
    answer: Any, message: str, tmp_path: Path
) -> None:
    wire = Steppers()
    with pytest.raises(RametError, match=rf"Answers\.send {message}"):
        run(tmp_path, method_with(Answers(answer)), wire)
    assert not wire.received


def only_w(arrays: Arrays) -> Arrays:
    return {"w": arrays["w"]}


def test_the_servers_model_is_that_of_a_new_client(tmp_path: Path) -> None:
    """``v`` is not sent, so a new client has its initial value."""
    seen: list[Arrays] = []

    def evaluate(arrays: Arrays) -> Mapping[str, float]:
        seen.append(arrays)
        return {"test": float(arrays["w"].sum())}

    _, records = run(tmp_path, method_with(Answers(only_w)), Steppers(), evaluate_server=evaluate)
    assert [record.overview["test"] for record in records] == [7, 14, 21]
    assert [arrays["v"].tolist() for arrays in seen] == [[7], [7], [7]]


UP_ONLY: dict[str, Callable[[], AssembledMethod]] = {
    "the rule does not return it": lambda: method_with(Answers(only_w)),
    "it is not in `down`": lambda: method_with(WeightedMean(), down=only("w")),
}


@pytest.mark.parametrize("kind", UP_ONLY)
def test_arrays_that_are_only_sent_up_have_no_distance(kind: str, tmp_path: Path) -> None:
    """``v`` moves by 1000 per round, ``w`` by 5; only ``w`` counts."""
    method = UP_ONLY[kind]()
    wire = Steppers()
    state, records = run(tmp_path / "5", method, wire, norm_bound=5.0)
    assert all(set(arrays) == {"w"} for (_, number), arrays in wire.received.items() if number > 1)
    assert [record.failed for record in records] == [{}, {}, {}]
    assert (state.arrays["w"].tolist(), state.arrays["v"].tolist()) == ([9, 12], [3007])
    with pytest.raises(RametError, match=r"a: moved by 5, but the bound is 4\.9"):
        run(tmp_path / "4.9", method, Steppers(), norm_bound=4.9)


@dataclass(frozen=True)
class Recorded(WithoutMemory):
    """Spares client ``b`` the array ``v``, and records what is scored."""

    keep_own: bool = False
    scored: list[tuple[dict[str, list[float]], dict[str, list[float]]]] = field(
        default_factory=list
    )

    def ask(self, state: Payload, server: Server) -> Asked:
        return {client: ["v"] if client == "b" else [] for client in server.clients}

    def score(
        self,
        sent: Arrays,
        received: Arrays,
        numbers: Mapping[str, float],
    ) -> Mapping[str, float]:
        lists = [{k: a.tolist() for k, a in arrays.items()} for arrays in (sent, received)]
        self.scored.append((lists[0], lists[1]))
        return {}


def a_hundredth(arrays: Arrays) -> Arrays:
    return {name: array / 100 - 50 for name, array in arrays.items()}


def test_round_1_is_compared_with_the_arrays_that_clients_start_with(tmp_path: Path) -> None:
    """In round 1 nothing is sent, whatever the rule returns."""
    rule = Recorded()
    method = method_with(Answers(a_hundredth), activation=rule)
    wire = _sparing_b(Steppers())
    _, records = run(tmp_path, method, wire, rounds=2, norm_bound=1001.0)
    assert [record.failed for record in records] == [{}, {}]
    assert rule.scored[0] == ({"w": [0, 0], "v": [7]}, {"w": [3, 4], "v": [1007]})
    merged = np.array([3, 4], np.float32) / 100 - 50
    assert wire.received["a", 2]["w"].tolist() == merged.tolist()
    sent, received = rule.scored[3]
    assert sent["w"] == merged.tolist()
    assert received["w"] == (merged + STEPS["w"]).tolist()


def _sparing_b(wire: Steppers) -> Steppers:
    """Client ``b`` leaves out ``v``."""

    def change(client: str, number: int, reply: Payload) -> Payload:
        kept = {name: a for name, a in reply.arrays.items() if client != "b" or name != "v"}
        return replace(reply, arrays=kept)

    wire.change = change
    return wire


def test_with_keep_own_omitted_arrays_are_neither_sent_nor_compared(tmp_path: Path) -> None:
    for keep_own, names in ((True, {"w"}), (False, {"w", "v"})):
        rule, wire = Recorded(keep_own), _sparing_b(Steppers())
        method = method_with(WeightedMean(), activation=rule)
        run(tmp_path / str(keep_own), method, wire, rounds=2, norm_bound=1001.0)
        assert set(wire.received["b", 2]) == names
        assert set(wire.received["a", 2]) == {"w", "v"}
        of_b = [rule.scored[1], rule.scored[4]]
        assert [set(sent) for sent, _ in of_b] == [names, names]
        assert [set(received) for _, received in of_b] == [{"w"}, {"w"}]


def test_clients_send_only_what_up_declares(tmp_path: Path) -> None:
    method = method_with(WeightedMean(), up=only("w"))
    state, _ = run(tmp_path / "w", method, Steppers(names=("w",)))
    assert (state.arrays["w"].tolist(), state.arrays["v"].tolist()) == ([9, 12], [7])
    with pytest.raises(RametError, match="a: has arrays that were not requested: v"):
        run(tmp_path / "all", method, Steppers())


def test_real_clients_with_arrays_of_one_direction(
    tiny_client: Callable[..., Client], tmp_path: Path
) -> None:
    """One layer crosses the wire only upwards, another one only downwards."""
    method = replace(
        assembled(fedstar()),
        up=only("structure.embed.*", "structure.layers.0.*"),
        down=only("structure.embed.*", "structure.layers.1.*"),
    )
    start = start_shared(method, method.task.shape(tiny_client("rings", method).samples), 0)
    sizes = {
        part: sum(a.nbytes for name, a in start.items() if name.startswith(f"structure.{part}"))
        for part in ("embed", "layers.0", "layers.1")
    }
    records: list[Record] = []
    rounds = Rounds(method, ("rings", "trees"), 2, 0, start, Snapshots(tmp_path / "server"))
    rounds.run(LocalWire(lambda client: tiny_client(client, method)), records.append)
    assert all(sizes.values())
    for record in records:
        assert not record.failed
        assert record.bytes_up == 2 * (sizes["embed"] + sizes["layers.0"])
        assert record.bytes_down == 2 * (sizes["embed"] + sizes["layers.1"])


@dataclass(frozen=True)
class First:
    """Merges the first ``count`` replies."""

    count: int
    wrapped: bool = False

    def start(self, shared: Arrays) -> Payload:
        return WeightedMean().start(shared)

    def send(self, state: Payload, client: str) -> Arrays:
        return WeightedMean().send(state, client)

    def merge(self, state: Payload, replies: Iterable[Reply], server: Server) -> Payload:
        read = _wrapped(replies) if self.wrapped else replies
        return WeightedMean().merge(state, islice(read, self.count), server)


def _wrapped(replies: Iterable[Reply]) -> Iterator[Reply]:
    """A generator, which closes the generator that it wraps when it is discarded."""
    yield from replies


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("count", [0, 2])
def test_a_rule_must_read_all_replies(count: int, wrapped: bool, tmp_path: Path) -> None:
    message = r"First\.merge returned before it had read all replies.*differs between engines"
    with pytest.raises(RametError, match=message):
        run(tmp_path, method_with(First(count, wrapped)), Steppers())
    assert Snapshots(tmp_path / "server").steps() == []


def test_a_rule_may_know_how_many_replies_there_are(tmp_path: Path) -> None:
    """After the last reply it need not ask for another."""
    state, _ = run(tmp_path, method_with(First(3)), Steppers())
    assert state.arrays["w"].tolist() == [9, 12]


@dataclass(frozen=True)
class Stacked(Answers):
    """Fails if there are no replies."""

    def merge(self, state: Payload, replies: Iterable[Reply], server: Server) -> Payload:
        received = [reply.arrays for _, reply in replies]
        return Payload({name: np.stack([a[name] for a in received])[0] for name in state.arrays})


def test_a_rule_never_merges_fewer_replies_than_the_quorum(tmp_path: Path) -> None:
    wire = Steppers(away={client: {2} for client in CLIENTS})
    with pytest.raises(RametError, match=r"0 of 3 clients sent a valid reply in exchange 2"):
        run(tmp_path, method_with(Stacked(dict)), wire)
    assert Snapshots(tmp_path / "server").steps() == [1]


@pytest.mark.parametrize("lacking", ["test", "val", "loss"])
def test_a_reply_without_a_due_number_is_left_out(lacking: str, tmp_path: Path) -> None:
    def change(client: str, number: int, reply: Payload) -> Payload:
        lacks = client == "b" and number == 2
        return replace(
            reply, numbers={k: n for k, n in reply.numbers.items() if not lacks or k != lacking}
        )

    wire = Steppers(change=change)
    state, records = run(tmp_path, method_with(Personal(answers_new_clients=True)), wire)
    assert [record.failed for record in records] == [{}, {"b": f"lacks the numbers {lacking}"}, {}]
    assert [record.mean("test") for record in records] == [0.25, 0.25, 0.25]
    assert sorted(records[0].evaluated) == ["a", "c"]
    assert (state.arrays["a/w"].tolist(), state.arrays["b/w"].tolist()) == ([9, 12], [6, 8])


def test_if_all_replies_lack_a_number_the_quorum_is_missed(tmp_path: Path) -> None:
    def change(client: str, number: int, reply: Payload) -> Payload:
        return replace(reply, numbers={k: n for k, n in reply.numbers.items() if k != "test"})

    with pytest.raises(RametError, match=r"0 of 3 clients .*exchange 2.*c: lacks the numbers test"):
        run(tmp_path, method_with(WeightedMean()), Steppers(change=change))


def test_the_server_counts_the_bytes_of_replies_itself(tmp_path: Path) -> None:
    def change(client: str, number: int, reply: Payload) -> Payload:
        return replace(reply, numbers={**reply.numbers, "up": -1}) if client == "b" else reply

    _, records = run(tmp_path, method_with(WeightedMean()), Steppers(change=change))
    assert [record.bytes_up for record in records] == [3 * 12, 3 * 12, 3 * 12]


class WithExtras(WeightedMean):
    """Keeps something where it is not saved."""

    def start(self, shared: Arrays) -> Payload:
        return Payload(shared, extras={"moments": np.zeros(1, np.float32)})


def test_a_rules_state_has_no_extras() -> None:
    method = assembled(replace(fedavg(), merging=WithExtras()))
    with pytest.raises(RametError, match="returned the extra 'moments' in its state"):
        ServerRules(method, {"w": np.zeros(1, np.float32)}).first_state()
