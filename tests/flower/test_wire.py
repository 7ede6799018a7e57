"""Signed replies and deadlines, through the real wire and real keys.

The grid passes messages to functions in this process instead of a SuperLink's nodes, so that a
thousand forged replies take seconds. The e2e tests use real SuperNodes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MessageType, RecordDict
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from ramet.data.own.preparation import Preparation
from ramet.engine.messages import request
from ramet.engine.server.wire import Answer, Refused
from ramet.errors import RametError
from ramet.flower.records import from_records, to_records
from ramet.flower.signed_grid import LOST, NODE_AWAY
from ramet.flower.signing import INTRODUCTION, NONCE, SIGNATURE, Keyring, RequestId, signed
from ramet.flower.wire import IN_FLIGHT, GridWire
from ramet.payload import Payload
from ramet.policy import PolicyError

RUN = "0" * 32
Site = Callable[[Payload, bool], Payload | RecordDict | Error | None]
"""Maps a request, and whether it asks for an introduction, to a reply, or None for no reply."""


@dataclass
class InProcessGrid:
    """The part of Flower's Grid that the wire uses: node ids, push and pull."""

    sites: Mapping[int, Site]
    replies: dict[str, Message] = field(default_factory=dict)
    pushed: int = 0
    refuses: bool = False

    def get_node_ids(self) -> Iterable[int]:
        return self.sites

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        sent = []
        for message in messages:
            if self.refuses or message.metadata.dst_node_id not in self.sites:
                sent.append("")
                continue
            self.pushed += 1
            sent.append(str(self.pushed))
            payload = from_records(message.content)
            introduces = message.metadata.message_type == MessageType.QUERY
            reply = self.sites[message.metadata.dst_node_id](payload, introduces)
            if reply is not None:
                content = to_records(reply) if isinstance(reply, Payload) else reply
                self.replies[sent[-1]] = Message(content, reply_to=message)
        return sent

    def pull_messages(self, ids: Iterable[str]) -> list[Message]:
        return [self.replies.pop(sent) for sent in ids if sent in self.replies]


@pytest.fixture(autouse=True)
def _as_in_a_server_app(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the ids of the current task, which Flower's messages carry."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def make_key(folder: Path, name: str) -> Path:
    """Create a P-384 key in OpenSSH format, and register its public key as NAME.pub."""
    key = ec.generate_private_key(ec.SECP384R1())
    private, public = folder / f"{name}.key", folder / "keys" / f"{name}.pub"
    public.parent.mkdir(exist_ok=True)
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))
    return private


def reply_of(value: float) -> Payload:
    arrays = {"w": np.full(3, value, np.float32), "s": np.array(2.5, np.float32)}
    return Payload(arrays, {"weight": 150, "loss": 0.1 + 0.2}, {"private": "ab"})


def site(client: str, key: Path | None, change: Callable[[Payload], Payload] = lambda p: p) -> Site:
    """A site that answers; ``change`` is applied to its reply after signing."""

    def answer(payload: Payload, introduces: bool) -> Payload:
        number = INTRODUCTION if introduces else int(payload.numbers["round"])
        reply = Payload(notes={"client": client}) if introduces else reply_of(number)
        if key is not None:
            request_id = RequestId(payload.notes["run"], client, number, payload.notes[NONCE])
            reply = signed(reply, request_id, key)
        return reply if introduces else change(reply)

    return answer


def wire(
    sites: Mapping[int, Site],
    clients: list[str],
    keys: Path | None,
    names: Mapping[int, str] | None = None,
) -> GridWire:
    keyring = None if keys is None else Keyring(keys)
    grid = cast(Grid, InProcessGrid(sites))
    new_wire = GridWire(
        grid, clients, deadline=0.3, connect_timeout=0.3, keyring=keyring, names=names
    )
    new_wire.set_run(RUN, {}, Preparation())
    return new_wire


def ask(grid_wire: GridWire, *clients: str, number: int = 1) -> dict[str, Payload | str]:
    answers: Iterable[Answer] = grid_wire.exchange((c, request(number, True, {})) for c in clients)
    return dict(answers)


def test_a_signed_reply_arrives_as_it_was_sent(tmp_path: Path) -> None:
    key = make_key(tmp_path, "rings")
    answer = ask(wire({7: site("rings", key)}, ["rings"], tmp_path / "keys"), "rings")["rings"]
    assert isinstance(answer, Payload)
    assert answer.arrays["w"].tolist() == [1, 1, 1]
    assert answer.numbers == reply_of(1).numbers
    unsigned = ask(wire({7: site("rings", None)}, ["rings"], None), "rings")["rings"]
    assert isinstance(unsigned, Payload)
    assert SIGNATURE not in unsigned.notes


def test_none_of_a_thousand_replies_signed_by_another_key_counts(tmp_path: Path) -> None:
    """A registered node answers in the name of another."""
    own, other = make_key(tmp_path, "rings"), make_key(tmp_path, "trees")
    forged = 0

    def impostor(payload: Payload, introduces: bool) -> Payload:
        nonlocal forged
        forged += not introduces
        return cast(Payload, site("rings", own if introduces else other)(payload, introduces))

    grid_wire = wire({7: impostor}, ["rings"], tmp_path / "keys")
    for number in range(1, 1001):
        answer = ask(grid_wire, "rings", number=number)["rings"]
        assert answer == "is not signed by this client's key for this request"
    assert forged == 1000


def _changed_value(reply: Payload) -> Payload:
    return Payload({**reply.arrays, "w": reply.arrays["w"] + 1}, reply.numbers, reply.notes)


def _changed_weight(reply: Payload) -> Payload:
    return Payload(reply.arrays, {**reply.numbers, "weight": 151}, reply.notes)


def _changed_note(reply: Payload) -> Payload:
    return Payload(reply.arrays, reply.numbers, {**reply.notes, "private": "cd"})


def _not_hex(reply: Payload) -> Payload:
    return Payload(reply.arrays, reply.numbers, {**reply.notes, SIGNATURE: "zz"})


@pytest.mark.parametrize("change", [_changed_value, _changed_weight, _changed_note, _not_hex])
def test_a_reply_that_was_changed_after_signing_is_refused(
    change: Callable[[Payload], Payload], tmp_path: Path
) -> None:
    key = make_key(tmp_path, "rings")
    grid_wire = wire({7: site("rings", key, change)}, ["rings"], tmp_path / "keys")
    answer = ask(grid_wire, "rings")["rings"]
    assert isinstance(answer, Refused)
    assert "is not signed by this client's key" in answer


def test_a_replayed_reply_is_refused_despite_its_valid_signature(tmp_path: Path) -> None:
    key = make_key(tmp_path, "rings")
    recorded: list[Payload] = []

    def replaying(payload: Payload, introduces: bool) -> Payload:
        fresh = cast(Payload, site("rings", key)(payload, introduces))
        if not introduces:
            recorded.append(fresh)
        return fresh if introduces else recorded[0]

    grid_wire = wire({7: replaying}, ["rings"], tmp_path / "keys")
    assert isinstance(ask(grid_wire, "rings")["rings"], Payload)
    assert "for this request" in str(ask(grid_wire, "rings")["rings"])


def test_a_node_that_claims_to_be_another_client_is_refused(tmp_path: Path) -> None:
    right, wrong = make_key(tmp_path, "rings"), make_key(tmp_path, "trees")
    grid_wire = wire(
        {7: site("rings", right), 8: site("rings", wrong)}, ["rings"], tmp_path / "keys"
    )
    assert isinstance(ask(grid_wire, "rings")["rings"], Payload)
    with pytest.raises(
        RametError, match=r"no client takes part: rings: its node's introduction is not"
    ):
        wire({8: site("rings", wrong)}, ["rings"], tmp_path / "keys")


def test_unsigned_and_unknown_clients_are_refused_with_a_keyring(tmp_path: Path) -> None:
    key = make_key(tmp_path, "rings")
    sites = {7: site("rings", key), 8: site("trees", None), 9: site("../rings", key)}
    grid_wire = wire(sites, ["rings", "trees", "../rings"], tmp_path / "keys")
    answers = ask(grid_wire, "rings", "trees", "../rings")
    assert isinstance(answers["rings"], Payload)
    assert answers["trees"] == "its node's introduction has no registered key"
    assert answers["../rings"] == "its node's introduction has no registered key"
    assert isinstance(answers["trees"], Refused)


def test_a_revoked_client_is_missing_not_refused(tmp_path: Path) -> None:
    """Its key is gone, and its node is unregistered: Flower accepts no message for it."""
    rings, trees = make_key(tmp_path, "rings"), make_key(tmp_path, "trees")
    sites = {7: site("rings", rings), 8: site("trees", trees)}
    grid_wire = wire(sites, ["rings", "trees"], tmp_path / "keys")
    assert isinstance(ask(grid_wire, "rings", "trees")["trees"], Payload)
    del sites[8]
    assert ask(grid_wire, "trees")["trees"] == "its node is not connected"
    (tmp_path / "keys" / "trees.pub").unlink()
    answers = ask(grid_wire, "rings", "trees")
    assert isinstance(answers["rings"], Payload)
    assert answers["trees"] == "it has no key at the coordinator: it was revoked, or not admitted"
    assert not isinstance(answers["trees"], Refused)
    sites[9] = site("trees", make_key(tmp_path, "new"))
    (tmp_path / "keys" / "new.pub").rename(tmp_path / "keys" / "trees.pub")
    assert isinstance(ask(grid_wire, "trees")["trees"], Payload)


def test_a_client_that_is_revoked_during_a_round_is_missing(tmp_path: Path) -> None:
    key = make_key(tmp_path, "rings")

    def is_revoked(payload: Payload, introduces: bool) -> Payload | Error:
        if introduces:
            return cast(Payload, site("rings", key)(payload, True))
        (tmp_path / "keys" / "rings.pub").unlink()
        return Error(code=3, reason="Node Unavailable")

    grid_wire = wire({7: is_revoked}, ["rings"], tmp_path / "keys")
    answer = ask(grid_wire, "rings")["rings"]
    assert answer == "it has no key at the coordinator: it was revoked, or not admitted"


def test_a_node_without_heartbeats_is_told_in_plain_words() -> None:
    def is_away(payload: Payload, introduces: bool) -> Payload | Error:
        if introduces:
            return cast(Payload, site("rings", None)(payload, True))
        return Error(code=NODE_AWAY, reason="Error: Node Unavailable")

    answer = ask(wire({7: is_away}, ["rings"], None), "rings")["rings"]
    assert answer == "its SuperNode sends no heartbeats (Flower's code 5)"


def test_a_superlink_that_refuses_a_message_to_a_connected_node_ends_the_run() -> None:
    sites = {7: site("rings", None)}
    grid_wire = wire(sites, ["rings"], None)
    cast(InProcessGrid, grid_wire._grid.grid).refuses = True
    with pytest.raises(RametError, match="did not accept a message"):
        ask(grid_wire, "rings")


def test_an_empty_folder_of_keys_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RametError, match="has no public keys"):
        Keyring(tmp_path)


def test_a_node_that_refuses_the_app_is_not_reported_as_absent() -> None:
    refuses = Error(0, "this site does not accept the app")
    sites: dict[int, Site] = {7: site("rings", None), 8: lambda *_: refuses}
    grid_wire = wire(sites, ["rings", "trees", "blocks"], None, names={7: "rings", 8: "trees"})
    answers = ask(grid_wire, "rings", "trees", "blocks")
    assert isinstance(answers["rings"], Payload)
    why = "its node is connected, but answered: this site does not accept the app (Flower's code 0)"
    assert answers["trees"] == why
    assert answers["blocks"] == "its node is not connected"
    assert (
        grid_wire.sites.reasons(["trees", "blocks"])
        == f"trees: {why}; blocks: its node is not connected"
    )
    with pytest.raises(RametError, match="no client takes part: trees: its node is connected, but"):
        wire({8: sites[8]}, ["trees"], None, names={8: "trees"})


@pytest.mark.parametrize(
    ("raised", "says"),
    [
        (RametError("another\nversion."), "another\\nversion."),
        (PolicyError("20 runs are allowed"), "20 runs are allowed"),
        (ValueError("no rows"), "<class 'ValueError'>:<'no rows'>"),
    ],
)
def test_an_error_of_ours_at_a_node_is_told_in_its_own_words(raised: Exception, says: str) -> None:
    """Flower puts the class around it."""
    error = Error(2, f"{type(raised)}:<'{raised}'>")
    grid_wire = wire(
        {7: site("rings", None), 8: lambda *_: error}, ["rings", "trees"], None, names={8: "trees"}
    )
    assert f"answered: {says} (Flower's code 2)" in grid_wire.sites.reasons(["trees"])


@pytest.mark.parametrize("first", [Error(8, "the client app crashed"), None])
def test_a_node_that_did_not_say_which_client_it_is_is_asked_again(
    first: Error | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ramet.flower.introductions._RETRIES", (0.0, 0.0))
    monkeypatch.setattr("ramet.flower.introductions._ANSWER_TIME", 0.05)
    answers_of_trees, trees = [first], site("trees", None)

    def late(payload: Payload, introduces: bool) -> Payload | RecordDict | Error | None:
        return answers_of_trees.pop() if answers_of_trees else trees(payload, introduces)

    grid_wire = wire({7: site("rings", None), 8: late}, ["rings", "trees"], None)
    assert isinstance(ask(grid_wire, "rings", "trees")["trees"], Payload)


@pytest.mark.parametrize(("code", "questions"), [(8, 3), (2, 1)])
def test_only_a_node_whose_answer_was_lost_is_asked_again(
    code: int, questions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ramet.flower.introductions._RETRIES", (0.0, 0.0))
    asked = []

    def fails(payload: Payload, introduces: bool) -> Error:
        asked.append(introduces)
        return Error(code, "no")

    with pytest.raises(RametError, match="trees: its node is connected, but answered: no"):
        wire({8: fails}, ["trees"], None, names={8: "trees"})
    assert asked == [True] * questions


def test_a_node_that_leaves_while_it_is_asked_is_not_waited_for() -> None:
    sites: dict[int, Site] = {7: site("rings", None)}

    def leaves(payload: Payload, introduces: bool) -> None:
        del sites[8]

    sites[8] = leaves
    grid = cast(Grid, InProcessGrid(sites))
    started = time.monotonic()
    GridWire(grid, ["rings", "trees"], deadline=60.0, connect_timeout=0.3)
    assert time.monotonic() - started < 30.0


def test_waiting_ends_at_the_deadline(tmp_path: Path) -> None:
    def silent(payload: Payload, introduces: bool) -> Payload | None:
        return Payload(notes={"client": "trees"}) if introduces else None

    grid_wire = wire({7: site("rings", None), 8: silent}, ["rings", "trees"], None)
    answers = ask(grid_wire, "rings", "trees")
    assert isinstance(answers["rings"], Payload)
    assert answers["trees"] == "no reply within 0 s"
    assert not isinstance(answers["trees"], Refused), "there was no reply to refuse"


class Clock:
    """Stands for the module `time`; a pause takes no time at all."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in ("wire", "introductions"):
        monkeypatch.setattr(f"ramet.flower.{module}.time", clock)
    return clock


@pytest.mark.parametrize("names", [None, {7: "rings", 8: "trees"}])
def test_a_node_that_never_says_which_client_it_is_is_waited_for_once(
    names: Mapping[int, str] | None, clock: Clock
) -> None:
    sites: dict[int, Site] = {7: site("rings", None), 8: lambda *_: None}
    grid = cast(Grid, InProcessGrid(sites))
    grid_wire = GridWire(grid, ["rings", "trees"], 600.0, connect_timeout=120.0, names=names)
    assert 600 <= clock.now < 601, "connecting takes one deadline"
    for number in (1, 2, 3):
        answers = ask(grid_wire, "rings", "trees", number=number)
        assert isinstance(answers["rings"], Payload)
        why = "a node is connected, but has not said within 600 s which client it is"
        assert answers["trees"] == why
    assert clock.now < 601
    sites[8] = site("trees", None)
    clock.now += 300
    assert isinstance(ask(grid_wire, "trees", number=4)["trees"], Payload), "it may be late"
    assert clock.now < 902


def test_a_silent_node_that_connects_later_delays_one_exchange_only(clock: Clock) -> None:
    sites: dict[int, Site] = {7: site("rings", None)}
    grid_wire = GridWire(cast(Grid, InProcessGrid(sites)), ["rings"], deadline=600.0)
    sites[8] = lambda *_: None
    for number in (1, 2, 3):
        assert isinstance(ask(grid_wire, "rings", number=number)["rings"], Payload)
    assert clock.now < 601


def test_silence_of_all_nodes_is_not_reported_as_absence(clock: Clock) -> None:
    grid = cast(Grid, InProcessGrid({8: lambda *_: None}))
    with pytest.raises(RametError, match="trees: a node is connected, but has not said within 60"):
        GridWire(grid, ["trees"], deadline=60.0)
    assert clock.now < 61


def test_clients_beyond_those_in_flight_are_asked_when_these_time_out(clock: Clock) -> None:
    def silent(client: str) -> Site:
        return lambda _, introduces: Payload(notes={"client": client}) if introduces else None

    names = [f"site{number:03}" for number in range(IN_FLIGHT + 2)]
    sites = {number: silent(name) for number, name in enumerate(names)}
    sites[len(names) - 1] = site(names[-1], None)
    grid_wire = GridWire(cast(Grid, InProcessGrid(sites)), names, deadline=600.0)
    answers = ask(grid_wire, *names)
    assert [*answers][-1] == names[-2], "the last to be given up"
    assert sorted(answers) == names
    assert isinstance(answers[names[-1]], Payload)
    assert answers[names[0]] == answers[names[-2]] == "no reply within 600 s"


def test_invalid_messages_do_not_stop_the_round() -> None:
    nonsense = RecordDict({"x": ConfigRecord({"client": "rings"})})
    broken = RecordDict({"arrays": ArrayRecord({"w": Array("f4", (1,), "numpy.ndarray", b"PK")})})

    def odd(payload: Payload, introduces: bool) -> Payload | RecordDict:
        return Payload(notes={"client": "trees"}) if introduces else broken

    sites: dict[int, Site] = {6: lambda *_: nonsense, 7: site("rings", None), 8: odd}
    answers = ask(wire(sites, ["rings", "trees"], None), "rings", "trees")
    assert isinstance(answers["rings"], Payload)
    assert isinstance(answers["trees"], Refused)
    assert "not a Ramet message" in answers["trees"]


def test_codes_of_lost_messages_are_flowers() -> None:
    assert {code: name for name, code in vars(ErrorCode).items() if code in LOST} == LOST
