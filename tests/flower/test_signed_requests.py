"""A site that has joined answers the requests of its coordinator, each once, and no others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from flwr.app import MessageType

from joined_sites import NODE, RUN, Joined, joined_site
from ramet.deploy import keys
from ramet.errors import RametError
from ramet.flower.signing import (
    CERTIFICATE,
    INTRODUCTION,
    NONCE,
    SIGNATURE,
    CoordinatorKey,
    RequestId,
    fresh_nonce,
)
from ramet.payload import Payload

KINDS = (MessageType.QUERY, MessageType.TRAIN)
_DAY_ONE = RequestId(RUN, "north", 1, fresh_nonce())


@pytest.fixture
def joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Joined:
    """A site whose data cannot be read: what is refused must be refused before."""
    made = joined_site(tmp_path, monkeypatch)
    data = made.site.settings.data
    data.rename(data.with_suffix(".hidden"))
    return made


def show_data(joined: Joined) -> None:
    data = joined.site.settings.data
    data.with_suffix(".hidden").rename(data)


def without(request: Payload, note: str) -> Payload:
    return replace(request, notes={n: text for n, text in request.notes.items() if n != note})


def with_note(request: Payload, name: str, text: str) -> Payload:
    return replace(request, notes={**request.notes, name: text})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (lambda request: without(request, SIGNATURE), "is not signed"),
        (lambda request: without(request, NONCE), "is not signed"),
        (lambda request: without(request, CERTIFICATE), "has no certificate"),
        (lambda request: with_note(request, SIGNATURE, "00"), "not signed by the coordinator"),
        (lambda request: with_note(request, "run", "1" * 32), "not signed by the coordinator"),
        (lambda request: with_note(request, NONCE, "a" * 64), "not signed by the coordinator"),
        (lambda request: with_note(request, "other", "text"), "not signed by the coordinator"),
        (
            lambda request: replace(request, numbers={**request.numbers, "round": 2}),
            "not signed by the coordinator",
        ),
    ],
)
def test_a_request_that_the_coordinator_has_not_signed_is_refused_before_data_is_read(
    joined: Joined, kind: str, changed: Callable[[Payload], Payload], reason: str
) -> None:
    with pytest.raises(RametError, match=f"answers only its coordinator.*{reason}"):
        joined.deliver(changed(joined.signed_request(kind)), joined.config(), kind)
    assert not [*(joined.site.folder / "state").iterdir()]


@pytest.mark.parametrize("kind", KINDS)
def test_a_request_is_answered_once(joined: Joined, kind: str) -> None:
    show_data(joined)
    request = joined.signed_request(kind)
    assert joined.deliver(request, joined.config(), kind).notes[SIGNATURE]
    with pytest.raises(RametError, match="this request came before"):
        joined.deliver(request, joined.config(), kind)
    assert joined.deliver(joined.signed_request(kind), joined.config(), kind).notes[SIGNATURE]


@pytest.mark.parametrize(
    ("receiver", "number", "kind"),
    [
        ("south", 1, MessageType.TRAIN),
        (str(NODE), INTRODUCTION, MessageType.TRAIN),
        (str(NODE + 1), INTRODUCTION, MessageType.QUERY),
        ("north", 1, MessageType.QUERY),
    ],
)
def test_a_request_to_another_site_or_for_another_purpose_is_refused(
    joined: Joined, receiver: str, number: int, kind: str
) -> None:
    request_id = RequestId(RUN, receiver, number, fresh_nonce())
    numbers = {"round": number, "train": 1.0} if kind == MessageType.TRAIN else {}
    notes = {"run": RUN, NONCE: request_id.nonce}
    signed = joined.key.signed(Payload(numbers=numbers, notes=notes), request_id)
    with pytest.raises(RametError, match="not signed by the coordinator's key for this site"):
        joined.deliver(signed, joined.config(), kind)


def test_no_key_but_the_coordinators_signs_requests(joined: Joined, tmp_path: Path) -> None:
    """Neither a key that its owner certified, nor the server's, nor a site's."""
    folder, own = joined.coordinator.folder, tmp_path / "own"
    own.mkdir()
    keys.ensure_key(own / "authority.key")
    keys.ensure_signing_key(own / "own.key")
    issued = keys.make_coordinator_certificate("test", own / "own.key", own / "authority.key")
    (own / "issued.pem").write_text(issued)
    node_key = joined.site.folder / "node.key"
    for key, certificate, reason in (
        (own / "own.key", own / "issued.pem", "authority has not issued"),
        (own / "own.key", folder / "server.pem", "authority has not issued"),
        (own / "own.key", folder / "authority.pem", "authority has not issued"),
        (own / "own.key", folder / "coordinator.pem", "not signed by the coordinator"),
        (node_key, joined.site.folder / "client.pem", "authority has not issued"),
    ):
        request_id = replace(_DAY_ONE, nonce=fresh_nonce())
        notes = {"run": RUN, NONCE: request_id.nonce}
        request = Payload(numbers={"round": 1, "train": 1.0}, notes=notes)
        forged = CoordinatorKey(key, certificate).signed(request, request_id)
        with pytest.raises(RametError, match=reason):
            joined.deliver(forged, joined.config())
