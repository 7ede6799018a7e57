"""Private set intersection: its result, and what each message holds."""

from __future__ import annotations

import base64
import hashlib
import random
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from nacl import bindings as sodium

from ramet.errors import RametError
from ramet.secure import linking
from ramet.secure.blinding import POINT_BYTES, blinded, new_secret, point_of, separated
from ramet.secure.identity import Identity, simulated_peers
from ramet.secure.link_messages import LinkMessage
from ramet.secure.linking import Side, linked

TAG = 16
"""Bytes that encryption adds."""
A, B = (Identity.simulated(0, site) for site in ("a", "b"))
PEERS = simulated_peers(0, ("a", "b"))


def exchange(
    at_a: list[str], at_b: list[str]
) -> tuple[list[LinkMessage], tuple[str, ...], tuple[str, ...]]:
    """The three messages of an exchange that a begins, and what each site finds."""
    first, side_a = linking.start("a", "b", at_a, A)
    second, side_b = linking.answer(first, at_b, B)
    third, found_a = linking.finish(side_a, second, A)
    return [first, second, third], found_a, linking.close(side_b, third)


@pytest.mark.parametrize("seed", range(10))
def test_both_sites_find_the_intersection(seed: int) -> None:
    draw = random.Random(seed)
    everybody = [f"DE{draw.randrange(10**8):08d}" for _ in range(60)]
    at_a, at_b = (draw.sample(everybody, draw.randrange(1, 40)) for _ in range(2))
    _, found_a, found_b = exchange(at_a, at_b)
    assert found_a == found_b == tuple(sorted({*at_a} & {*at_b}))


@pytest.mark.parametrize("seed", range(10))
def test_three_sites_know_with_whom_they_share_an_id(seed: int) -> None:
    draw = random.Random(seed)
    lists = {site: [f"c{draw.randrange(30)}" for _ in range(15)] for site in "abc"}
    tables = linked(lists)
    for site, table in tables.items():
        others = [other for other in lists if other != site]
        expected = {name: [o for o in others if name in lists[o]] for name in lists[site]}
        assert table == {name: sites for name, sites in expected.items() if sites}
    in_all = {*lists["a"]} & {*lists["b"]} & {*lists["c"]}
    assert {name for name, sites in tables["a"].items() if len(sites) == 2} == in_all


def test_messages_have_the_stated_lengths_and_neither_ids_nor_their_hashes() -> None:
    at_a = [f"customer-{number}" for number in range(12)]
    at_b = [f"customer-{number}" for number in range(5, 35)]
    messages, found, _ = exchange(at_a, at_b)
    assert len(found) == 7
    lengths = [12 * POINT_BYTES, (30 + 12) * POINT_BYTES + TAG, 30 * POINT_BYTES + TAG]
    assert [len(message.content) for message in messages] == lengths
    for message in messages:
        sent = message.text.encode() + message.content
        for name in {*at_a, *at_b}:
            point = point_of(name, message.exchange)
            plain = [name.encode(), point]
            plain += [hashlib.new(kind, name.encode()).digest() for kind in ("md5", "sha1")]
            plain += [hashlib.new(kind, name.encode()).digest() for kind in ("sha256", "sha512")]
            for value in plain:
                assert value not in sent
                assert value.hex().encode() not in sent
                assert base64.b64encode(value).rstrip(b"=") not in sent


def test_whoever_passes_messages_on_sees_no_point_twice() -> None:
    """Also not if both lists are the same: the bodies after the first look random to others."""
    ids = [f"customer-{number}" for number in range(20)]
    messages, found, _ = exchange(ids, ids)
    assert len(found) == 20
    pieces = [
        message.content[start : start + POINT_BYTES]
        for message in messages
        for start in range(0, len(message.content) - TAG, POINT_BYTES)
    ]
    assert len({*pieces}) == len(pieces)


def test_the_same_list_gives_other_points_and_another_order_each_time() -> None:
    ids = [f"customer-{number}" for number in range(20)]
    (first, one), (second, other) = (linking.start("a", "b", ids, A) for _ in range(2))
    assert not {*separated(first.content)} & {*separated(second.content)}
    assert one.ids != other.ids


def test_points_are_equal_after_two_secrets_in_either_order() -> None:
    one, other, point = new_secret(), new_secret(), point_of("x", "exchange")
    assert blinded(blinded([point], one), other) == blinded(blinded([point], other), one)
    assert blinded([point], one) != blinded([point], other) != [point]
    assert point_of("x", "another exchange") != point


def test_ids_are_compared_in_one_spelling() -> None:
    _, found, _ = exchange(["Mu\u0308ller ", "x"], ["M\u00fcller", "y"])
    assert found == ("M\u00fcller",)


SMALL_ORDER = [b"\x01" + bytes(31), b"\xec" + b"\xff" * 30 + b"\x7f", bytes(32)]
"""Encodings of points of order 1, 2 and 4."""


@pytest.mark.parametrize("value", [*SMALL_ORDER, b"\xff" * 32, b"\x02" + bytes(31)])
def test_values_that_are_no_points_of_the_group_are_refused(value: bytes) -> None:
    first, _ = linking.start("a", "b", ["x"], A)
    forged = replace(first, body=base64.b64encode(value).decode()).signed(A)
    with pytest.raises(RametError, match="not points of the group"):
        linking.answer(forged, ["y"], B)


def test_a_point_with_a_part_of_small_order_is_refused() -> None:
    """Such a part survives the secret, so that it would mark the point."""
    marked = sodium.crypto_core_ed25519_add(point_of("x", "exchange"), SMALL_ORDER[1])
    with pytest.raises(RametError, match="not points of the group"):
        blinded([marked], new_secret())


def test_repeated_points_and_broken_lists_are_refused() -> None:
    first, _ = linking.start("a", "b", ["x"], A)
    for content in (first.content * 2, first.content[:-1]):
        forged = replace(first, body=base64.b64encode(content).decode()).signed(A)
        with pytest.raises(RametError, match="not one of different points"):
            linking.answer(forged, ["y"], B)


def test_long_lists_are_refused() -> None:
    first, side = linking.start("a", "b", ["x", "y", "z"], A)
    with pytest.raises(RametError, match="asks about 3 ids, but at most 2"):
        linking.answer(first, ["x"], B, most=2)
    second, _ = linking.answer(first, ["x", "u", "v"], B)
    with pytest.raises(RametError, match="has 3 ids of its own, but 1 to 2"):
        linking.finish(side, second, A, most=2)


def test_a_message_of_another_exchange_is_refused() -> None:
    (old, _), (new, side) = (linking.start("a", "b", ["x"], A) for _ in range(2))
    answered, _ = linking.answer(old, ["x"], B)
    with pytest.raises(RametError, match="does not follow the last message of a"):
        linking.finish(side, answered, A)
    second, side_b = linking.answer(new, ["x"], B)
    with pytest.raises(RametError, match="does not follow the last message of b"):
        linking.close(side_b, second)


def test_a_body_of_another_exchange_is_refused() -> None:
    first, side = linking.start("a", "b", ["x"], A)
    second, _ = linking.answer(first, ["x"], B)
    other, _ = linking.answer(first, ["x"], B)
    with pytest.raises(RametError, match="cannot be decrypted"):
        linking.finish(side, replace(second, body=other.body), A)


CHANGES: list[tuple[Callable[[LinkMessage], LinkMessage], str]] = [
    (lambda m: replace(m, body=m.body[:-44] + m.body[:44]), "changed on its way"),
    (lambda m: replace(m, exchange="0" * 32), "changed on its way"),
    (lambda m: replace(m, channel="0" * 64), "changed on its way"),
    (lambda m: m.signed(B), "changed on its way"),
    (lambda m: replace(m, key=B.public).signed(B), "is not among this site's members"),
    (lambda m: replace(m, sender="c"), "c with the key .* is not among this site's members"),
    (lambda m: replace(m, receiver="c"), "is for c, but this site is b"),
]


@pytest.mark.parametrize(("change", "refusal"), CHANGES)
def test_changed_messages_are_refused(
    change: Callable[[LinkMessage], LinkMessage], refusal: str
) -> None:
    first, _ = linking.start("a", "b", ["x", "y", "z"], A)
    first.check("b", PEERS)
    with pytest.raises(RametError, match=refusal):
        change(first).check("b", PEERS)


@pytest.mark.parametrize(
    ("old", "new", "refusal"),
    [
        ('"format":1', '"format":2', "has format 2, but this version of Ramet reads 1"),
        ('"kind":"start"', '"kind":"begin"', "not in its one form"),
        ('"kind"', '"sort"', "not a message of `ramet link`"),
        ('"sender":"a"', '"sender":7', "not in its one form"),
        ('"follows":""', '"follows": ""', "not in its one form"),
        ('"body":"', '"body":"*', "not a message of `ramet link`"),
        ('"channel":"', '"channel":"z', "not a message of `ramet link`"),
        ('"channel":"', '"channel":"00', "not in its one form"),
        ("{", "", "not a message of `ramet link`"),
        ("{", "[" * 100_000, "not a message of `ramet link`"),
    ],
)
def test_malformed_files_are_refused(old: str, new: str, refusal: str) -> None:
    first, _ = linking.start("a", "b", ["x"], A)
    assert LinkMessage.parse(first.text) == first
    with pytest.raises(RametError, match=refusal):
        LinkMessage.parse(first.text.replace(old, new))


def test_a_list_needs_ids_and_another_site() -> None:
    for ids in ([], ["x", " "]):
        with pytest.raises(RametError, match="list of ids is empty, or has an empty id"):
            Side.drawn("a", "b", ids, "")
    with pytest.raises(RametError, match="cannot be linked with itself"):
        Side.drawn("a", "a", ["x"], "")


@pytest.mark.thorough
def test_an_exchange_of_banks_takes_about_a_minute() -> None:
    at_a = [f"account-{number}" for number in range(20_000)]
    at_b = [f"account-{number}" for number in range(15_000, 45_000)]
    before = time.process_time()
    _, found, _ = exchange(at_a, at_b)
    assert time.process_time() - before < 180
    assert {*found} == {*at_a} & {*at_b}


def test_the_site_that_begins_can_name_ids_that_it_does_not_have() -> None:
    """Nothing proves its last message, which is in docs/decisions/32-linking.md."""
    first, side_a = linking.start("a", "b", ["x1", "x2"], A)
    second, side_b = linking.answer(first, ["y1", "y2"], B)
    doubled = separated(side_a.opened(second, "answer"))[2:]
    third = side_a.message("finish", doubled, A, second)
    assert linking.close(side_b, third) == ("y1", "y2")
