"""Signed replies and deadlines, through the real wire and real keys.

The grid hands messages to functions in this process instead of a SuperLink's nodes, so that a
thousand forged replies take seconds; the e2e tests do the same over real ones.
"""

from __future__ import annotations

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
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from ramet.engine import Answer, Refused
from ramet.engine.node import request
from ramet.errors import RametError
from ramet.flower.records import from_records, to_records
from ramet.flower.signing import INTRODUCTION, NONCE, SIGNATURE, Keyring, Occasion, signed
from ramet.flower.wire import GridWire
from ramet.payload import Payload

RUN = "0" * 32
Site = Callable[[Payload, bool], Payload | RecordDict | Error | None]
"""From a request, and whether it asks for an introduction, to a reply; None for silence."""


@dataclass
class InProcessGrid:
    """Flower's Grid as the wire uses it: node ids, push and pull."""

    sites: Mapping[int, Site]
    replies: dict[str, Message] = field(default_factory=dict)
    pushed: int = 0

    def get_node_ids(self) -> Iterable[int]:
        return self.sites

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        sent = []
        for message in messages:
            self.pushed += 1
            sent.append(str(self.pushed))
            asked = from_records(message.content)
            asks_who = message.metadata.message_type == MessageType.QUERY
            reply = self.sites[message.metadata.dst_node_id](asked, asks_who)
            if reply is not None:
                content = to_records(reply) if isinstance(reply, Payload) else reply
                self.replies[sent[-1]] = Message(content, reply_to=message)
        return sent

    def pull_messages(self, ids: Iterable[str]) -> list[Message]:
        return [self.replies.pop(sent) for sent in ids if sent in self.replies]


@pytest.fixture(autouse=True)
def _as_in_a_server_app(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flower's messages carry the ids of the task that makes them."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def make_key(folder: Path, name: str) -> Path:
    """A P-384 key in OpenSSH's form, its public part registered as NAME.pub."""
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
    """A site that answers; ``change`` is done to its reply after it was signed."""

    def answer(asked: Payload, asks_who: bool) -> Payload:
        number = INTRODUCTION if asks_who else int(asked.numbers["round"])
        reply = Payload(notes={"client": client}) if asks_who else reply_of(number)
        if key is not None:
            occasion = Occasion(asked.notes["run"], client, number, asked.notes[NONCE])
            reply = signed(reply, occasion, key)
        return reply if asks_who else change(reply)

    return answer


def wire(
    sites: Mapping[int, Site],
    clients: list[str],
    keys: Path | None,
    names: Mapping[int, str] | None = None,
) -> GridWire:
    keyring = None if keys is None else Keyring(keys)
    grid = cast(Grid, InProcessGrid(sites))
    made = GridWire(grid, clients, deadline=0.3, gathering=0.3, keyring=keyring, names=names)
    made.begin(RUN, {})
    return made


def ask(over: GridWire, *clients: str, number: int = 1) -> dict[str, Payload | str]:
    answers: Iterable[Answer] = over.exchange((c, request(number, True, {})) for c in clients)
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
    """A node that is registered itself answers in another's name."""
    own, other = make_key(tmp_path, "rings"), make_key(tmp_path, "trees")
    forged = 0

    def impostor(asked: Payload, asks_who: bool) -> Payload:
        nonlocal forged
        forged += not asks_who
        return cast(Payload, site("rings", own if asks_who else other)(asked, asks_who))

    over = wire({7: impostor}, ["rings"], tmp_path / "keys")
    for number in range(1, 1001):
        answer = ask(over, "rings", number=number)["rings"]
        assert answer == "is not signed by this client's key for this request"
    assert forged == 1000


def _changed_value(reply: Payload) -> Payload:
    return Payload({**reply.arrays, "w": reply.arrays["w"] + 1}, reply.numbers, reply.notes)


def _changed_weight(reply: Payload) -> Payload:
    return Payload(reply.arrays, {**reply.numbers, "weight": 151}, reply.notes)


def _changed_note(reply: Payload) -> Payload:
    return Payload(reply.arrays, reply.numbers, {**reply.notes, "private": "cd"})


def _no_hex(reply: Payload) -> Payload:
    return Payload(reply.arrays, reply.numbers, {**reply.notes, SIGNATURE: "zz"})


@pytest.mark.parametrize("change", [_changed_value, _changed_weight, _changed_note, _no_hex])
def test_what_was_changed_after_signing_is_refused(
    change: Callable[[Payload], Payload], tmp_path: Path
) -> None:
    key = make_key(tmp_path, "rings")
    over = wire({7: site("rings", key, change)}, ["rings"], tmp_path / "keys")
    answer = ask(over, "rings")["rings"]
    assert isinstance(answer, Refused)
    assert "is not signed by this client's key" in answer


def test_an_old_reply_is_refused_though_its_signature_was_good(tmp_path: Path) -> None:
    key = make_key(tmp_path, "rings")
    kept: list[Payload] = []

    def replaying(asked: Payload, asks_who: bool) -> Payload:
        fresh = cast(Payload, site("rings", key)(asked, asks_who))
        if not asks_who:
            kept.append(fresh)
        return fresh if asks_who else kept[0]

    over = wire({7: replaying}, ["rings"], tmp_path / "keys")
    assert isinstance(ask(over, "rings")["rings"], Payload)
    assert "for this request" in str(ask(over, "rings")["rings"])


def test_a_node_that_claims_to_be_another_client_is_not_believed(tmp_path: Path) -> None:
    right, wrong = make_key(tmp_path, "rings"), make_key(tmp_path, "trees")
    over = wire({7: site("rings", right), 8: site("rings", wrong)}, ["rings"], tmp_path / "keys")
    assert isinstance(ask(over, "rings")["rings"], Payload)
    with pytest.raises(
        RametError, match=r"no client takes part: rings: its node's introduction is not"
    ):
        wire({8: site("rings", wrong)}, ["rings"], tmp_path / "keys")


def test_unsigned_and_unknown_clients_are_refused_where_there_are_keys(tmp_path: Path) -> None:
    key = make_key(tmp_path, "rings")
    sites = {7: site("rings", key), 8: site("trees", None), 9: site("../rings", key)}
    over = wire(sites, ["rings", "trees", "../rings"], tmp_path / "keys")
    answers = ask(over, "rings", "trees", "../rings")
    assert isinstance(answers["rings"], Payload)
    assert answers["trees"] == "its node's introduction has no registered key"
    assert answers["../rings"] == "its node's introduction has no registered key"
    assert isinstance(answers["trees"], Refused)
    (tmp_path / "keys" / "rings.pub").unlink()
    assert ask(over, "rings")["rings"] == "has no registered key"


def test_an_empty_folder_of_keys_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RametError, match="holds no public key"):
        Keyring(tmp_path)


def test_a_node_that_refuses_the_app_is_not_called_absent() -> None:
    refuses = Error(0, "this site does not accept the app")
    sites: dict[int, Site] = {7: site("rings", None), 8: lambda *_: refuses}
    over = wire(sites, ["rings", "trees", "blocks"], None, names={7: "rings", 8: "trees"})
    answers = ask(over, "rings", "trees", "blocks")
    assert isinstance(answers["rings"], Payload)
    why = "its node is connected, but answered: this site does not accept the app (Flower's code 0)"
    assert answers["trees"] == why
    assert answers["blocks"] == "its node is not connected"
    assert over.reasons(["trees", "blocks"]) == f"trees: {why}; blocks: its node is not connected"
    with pytest.raises(RametError, match="no client takes part: trees: its node is connected, but"):
        wire({8: sites[8]}, ["trees"], None, names={8: "trees"})


def test_silence_ends_at_the_deadline(tmp_path: Path) -> None:
    def silent(asked: Payload, asks_who: bool) -> Payload | None:
        return Payload(notes={"client": "trees"}) if asks_who else None

    over = wire({7: site("rings", None), 8: silent}, ["rings", "trees"], None)
    answers = ask(over, "rings", "trees")
    assert isinstance(answers["rings"], Payload)
    assert answers["trees"] == "no reply within 0 s"
    assert not isinstance(answers["trees"], Refused), "nothing came that could be refused"


def test_strangers_and_nonsense_do_not_stop_the_round() -> None:
    nonsense = RecordDict({"x": ConfigRecord({"client": "rings"})})
    broken = RecordDict({"arrays": ArrayRecord({"w": Array("f4", (1,), "numpy.ndarray", b"PK")})})

    def odd(asked: Payload, asks_who: bool) -> Payload | RecordDict:
        return Payload(notes={"client": "trees"}) if asks_who else broken

    sites: dict[int, Site] = {6: lambda *_: nonsense, 7: site("rings", None), 8: odd}
    answers = ask(wire(sites, ["rings", "trees"], None), "rings", "trees")
    assert isinstance(answers["rings"], Payload)
    assert isinstance(answers["trees"], Refused)
    assert "a message that is not Ramet's" in answers["trees"]
