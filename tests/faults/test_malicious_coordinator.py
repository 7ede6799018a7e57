"""A coordinator that replays, reorders, swaps or forges messages of a secure sum gets nothing."""

from __future__ import annotations

import json
import os
import random
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chisquare

from ramet.engine.secure_messages import (
    Participants,
    SecureError,
    context_digest,
    step_request,
    to_bytes,
)
from ramet.engine.server.secure_steps import PendingSum, SecureState, sum_of, with_keys
from ramet.engine.site.run_answers import AnsweredError
from ramet.errors import RametError
from ramet.payload import Payload, digest
from ramet.rules.fixed_point import RingTotal
from ramet.secure.adverts import Advert, Batch, Secrets
from ramet.secure.identity import Identity
from secure_sums import TRAIN, Sums, listed, needing, once, sign_message, unmask_message

CASES = 10_000 if os.environ.get("RAMET_FAULTS") == "full" else 300


@pytest.fixture
def sums(tmp_path: Path) -> Sums:
    agreed = Sums(5, tmp_path)
    agreed.agree()
    return agreed


def test_another_message_for_an_answered_round_is_refused(sums: Sums) -> None:
    sums.train("site00", 1)
    other = replace(sums.train_message(1), arrays={"slope": np.zeros(1, np.float32)})
    with pytest.raises(AnsweredError, match=r"has already answered round 1, to another message"):
        sums.train("site00", 1, other)


def test_a_second_list_of_survivors_is_refused(sums: Sums) -> None:
    pending = sums.collect(1)
    site = sums.sites["site00"]
    site.answer(unmask_message(sums, pending, "site00"))
    fewer = replace(pending, survivors=pending.survivors[:4])
    with pytest.raises(SecureError, match=r"has already signed another list for round 1"):
        site.answer(unmask_message(sums, fewer, "site00"))
    site.answer(unmask_message(sums, pending, "site00"))


def test_a_list_below_the_threshold_is_refused(sums: Sums) -> None:
    pending = sums.collect(1)
    few = unmask_message(sums, replace(pending, survivors=pending.survivors[:2]), "site00")
    with pytest.raises(SecureError, match=r"refuses a sum of 2 survivors; it needs 3"):
        sums.sites["site00"].answer(few)


def test_a_sum_below_the_policy_is_refused(sums: Sums) -> None:
    pending = sums.collect(1)
    site = needing(sums.sites["site00"], 5)
    four = unmask_message(sums, replace(pending, survivors=pending.survivors[:4]), "site00")
    with pytest.raises(SecureError, match=r"refuses a sum of 4 survivors; it needs 5"):
        site.answer(four)


def test_a_coordinator_that_swaps_keys_is_refused(tmp_path: Path) -> None:
    """It signs with a key of its own, replays the keys of another batch, or renames them."""
    sums = Sums(3, tmp_path)
    sums.agree()
    assert sums.state.batch is not None
    batch = replace(sums.state.batch, run="run")
    texts = dict(sums.state.adverts)
    new = Batch("run", "ab" * 16, batch.first, batch.last)
    own = {name: site._advert(new) for name, site in sums.sites.items()}
    secrets = Secrets.drawn(new, lambda _, count: bytes(count))
    forged = Advert.of(secrets, new, "site01").text(new, Identity.simulated(9, "coordinator"))
    for other, reason in (
        (forged, "not signed by a key whose fingerprint"),
        (texts["site01"], "not signed for this run"),
        (own["site02"], "not signed by a key whose fingerprint"),
    ):
        keys = {f"keys/{name}": to_bytes(text) for name, text in {**own, "site01": other}.items()}
        message = step_request("shares", (new.id, new.first, new.last), 1, True, keys)
        with pytest.raises(RametError, match=reason):
            sums.sites["site00"].answer(message)


def test_sites_stop_if_they_were_told_two_stories(sums: Sums) -> None:
    pending = sums.collect(1)
    for name in sums.names[:3]:
        sums.sites[name].answer(unmask_message(sums, pending, name))
    other = replace(pending, survivors=pending.survivors[:4])
    signed = sums.sites["site03"].answer(sign_message(sums, other))
    confirmed = {"site03": signed.notes["confirmed"]}
    for told, given in ((pending, {}), (pending, confirmed), (other, confirmed)):
        notes = {"summed": summed(sums, told.survivors), "confirmed": json.dumps(given)}
        with pytest.raises(SecureError, match=r"do not confirm the same survivors of round 1"):
            sums.train("site00", 2, sums.train_message(2, **notes))


def summed(sums: Sums, survivors: tuple[str, ...]) -> str:
    """What a message to train says about the sum before it."""
    assert sums.state.batch is not None
    return Participants(sums.state.batch.id, [*sums.names], [*survivors]).note()


def test_a_skipped_round_is_refused(tmp_path: Path) -> None:
    """Whatever is said of the round that did not take place: nobody has signed for it."""
    sums = Sums(5, tmp_path, last=4)
    sums.run(1)
    with pytest.raises(SecureError, match=r"do not confirm the same survivors of round 2"):
        sums.train("site00", 3)
    notes = {"summed": "", "confirmed": "{}"}
    with pytest.raises(SecureError, match=r"does not name the sum of the round before"):
        sums.train("site00", 3, sums.train_message(3, **notes))
    sums.train("site00", 2)


def test_a_site_that_missed_a_round_goes_on_after_it(tmp_path: Path) -> None:
    """Also if new keys were exchanged meanwhile, and if all it missed was the end of the round."""
    sums = Sums(5, tmp_path, last=4)
    sums.state = with_keys(sums.state, sums.names, 1, 2, sums.ask)
    sums.away = {TRAIN: sums.names[:1], "unmask": sums.names[1:2]}
    sums.run(1)
    sums.away = {TRAIN: sums.names[:2]}
    sums.run(2)
    sums.away = {}
    sums.state = with_keys(sums.state, sums.names, 3, 4, sums.ask)
    total, survivors = sums.run(3)
    assert survivors == sums.names
    assert digest(total) == digest(sums.plain(sums.names, 3))


def test_a_site_that_missed_keys_goes_on_a_round_after_it_returns(tmp_path: Path) -> None:
    """It cannot check the round before its return, so it checks the one of its return."""
    sums = Sums(5, tmp_path, last=4)
    sums.state = with_keys(sums.state, sums.names, 1, 1, sums.ask)
    sums.run(1)
    sums.away = {"keys": sums.names[:1]}
    sums.state = with_keys(sums.state, sums.names, 2, 2, sums.ask)
    assert sums.run(2)[1] == sums.names[1:]
    sums.away = {TRAIN: sums.names[:1]}
    sums.agree(3)
    with pytest.raises(SecureError, match=r"do not confirm the same survivors of round 2"):
        sums.train("site00", 3)
    assert sums.run(3)[1] == sums.names[1:]
    sums.away = {}
    assert sums.run(4)[1] == sums.names


def test_a_site_that_missed_the_first_keys_begins_later(tmp_path: Path) -> None:
    sums = Sums(5, tmp_path, {"keys": ("site00",)}, last=3)
    sums.state = with_keys(sums.state, sums.names, 1, 1, sums.ask)
    assert sums.run(1)[1] == sums.names[1:]
    sums.away = {}
    assert sums.run(2)[1] == sums.names


def test_by_default_no_sum_lacks_a_site_that_has_exchanged_keys(tmp_path: Path) -> None:
    sums = Sums(4, tmp_path, {TRAIN: ("site03",)})
    sums.sites.update({n: needing(site, None) for n, site in sums.sites.items()})
    with pytest.raises(SecureError, match=r"all sites .* and site03 is missing.*`members`.* 3 or"):
        sums.run()


def test_fewer_than_all_of_its_list_are_refused_unless_the_owner_allows_it(tmp_path: Path) -> None:
    """By default, all of a site's list exchange keys and are in each sum."""
    sums = Sums(6, tmp_path)
    by_default = {name: needing(site, None) for name, site in sums.sites.items()}
    sums.sites.update(by_default)
    sums.away = {"keys": sums.names[5:]}
    with pytest.raises(SecureError, match=r"all sites .* and site05 is missing.*`members`.* 5 or"):
        sums.run()
    sums.sites.update({name: needing(site, 5) for name, site in by_default.items()})
    assert sums.run()[1] == sums.names[:5]
    sums.sites.update({name: needing(site, 1) for name, site in by_default.items()})
    sums.state, sums.away = SecureState(), {"keys": sums.names[3:]}
    with pytest.raises(RametError, match=r"3 instead of 4 in keys"):
        sums.run()
    for smallest, reason in ((None, "all sites"), (1, "refuses a sum of 3 members; it needs 4")):
        three = Sums(3, tmp_path)
        three.sites = {n: needing(by_default[n], smallest) for n in three.names}
        with pytest.raises(SecureError, match=reason):
            three.run()


def test_a_list_of_its_own_for_each_site_unmasks_no_pair(sums: Sums) -> None:
    """Shares for five lists of three sites would unmask the sum of the two that all have."""
    pending, lists = sums.collect(1), {0: "012", 1: "013", 2: "012", 3: "013", 4: "014"}
    for asked, members in lists.items():
        survivors = tuple(sums.names[int(member)] for member in members)
        told, site = replace(pending, survivors=survivors), sums.sites[sums.names[asked]]
        signed = {site.site: site.answer(sign_message(sums, told)).notes["confirmed"]}
        message = unmask_message(sums, told, site.site, confirmed=json.dumps(signed))
        with pytest.raises(SecureError, match=r"reveals nothing: too few sites have signed"):
            site.answer(message)


def test_signatures_of_another_list_do_not_count(sums: Sums) -> None:
    pending = sums.collect(1)
    first, second = (replace(pending, survivors=pending.survivors[s : s + 4]) for s in (0, 1))
    signed = {}
    for name, told in zip(sums.names[1:4], (first, first, second), strict=True):
        signed[name] = sums.sites[name].answer(sign_message(sums, told)).notes["confirmed"]
    site = sums.sites["site01"]
    message = unmask_message(sums, first, "site01", confirmed=json.dumps(signed))
    with pytest.raises(SecureError, match=r"reveals nothing: too few sites have signed"):
        site.answer(message)
    signed["site00"] = sums.sites["site00"].answer(sign_message(sums, first)).notes["confirmed"]
    message = unmask_message(sums, first, "site01", confirmed=json.dumps(signed))
    assert site.answer(message).extras["shares"].shape == (5, 16)


def test_shares_made_for_other_sites_cannot_be_opened(sums: Sums) -> None:
    """Otherwise a coordinator could tell each site of few others, for a low threshold."""
    batch = Batch("run", "ab" * 16, 1, 2)
    identifier = (batch.id, batch.first, batch.last)
    adverts = {name: to_bytes(site._advert(batch)) for name, site in sums.sites.items()}

    def shares(client: str, told: tuple[str, ...]) -> Payload:
        keys = {f"keys/{name}": adverts[name] for name in told}
        return sums.sites[client].answer(step_request("shares", identifier, 1, True, keys))

    few = shares("site00", sums.names[:3])
    shares("site01", sums.names)
    notes = {"batch": json.dumps(identifier), "members": listed(*sums.names)}
    sums.train("site01", 1, sums.train_message(1, **notes))
    given = {"shares/site00": few.extras["shares/site01"][:48]}
    notes = {"survivors": listed(*sums.names)}
    with pytest.raises(RametError, match=r"altered on their way, or were made for other sites"):
        sums.sites["site01"].answer(step_request("unmask", identifier, 1, True, given, notes))


@pytest.mark.parametrize("what", ["model", "train", "config"])
def test_something_else_for_one_site_gives_no_sum(what: str, sums: Sums) -> None:
    """Masks cancel out only among sites that have the same model, task and settings."""
    total = RingTotal()
    for name in sums.names:
        message = sums.train_message(1)
        if name == "site02":
            if what == "model":
                message = replace(message, arrays={"slope": np.full(1, 9, np.float32)})
            if what == "train":
                message = replace(message, numbers={**message.numbers, "train": 0})
            if what == "config":
                sums.sites[name] = replace(sums.sites[name], config="lr=1e-300")
        total.add(sums.train(name, 1, message).arrays)
    model = context_digest(sums.train_message(1), "")
    pending = PendingSum(1, sums.names, total.arrays, model, {})
    unmasked, _ = sum_of(sums.state, pending, True, sums.ask)
    plain = sums.plain(sums.names)
    assert not (unmasked["matrix"] == plain["matrix"]).any()


def test_a_part_of_the_arrays_is_refused(sums: Sums) -> None:
    """Sites that are asked for different arrays would have the same masks for different terms."""
    for note in ("spared", "stage"):
        with pytest.raises(SecureError, match="all arrays of a secure sum at once"):
            sums.train("site00", 1, sums.train_message(1, **{note: '["slope"]'}))


def test_masks_depend_on_the_names_and_shapes_of_terms(sums: Sums) -> None:
    total = RingTotal()
    for name in sums.names:
        terms = sums.terms(name, 1)
        if name == "site02":
            terms = {"matrix": terms["matrix"].reshape(2, 3), "number": terms["number"]}
        sent = once(sums.sites[name], sums.train_message(1), partial(Payload, terms))
        total.add(
            {
                key: array.reshape(sums.terms(name, 1)[key].shape)
                for key, array in sent.arrays.items()
            }
        )
    pending = PendingSum(1, sums.names, total.arrays, context_digest(sums.train_message(1), ""), {})
    unmasked, _ = sum_of(sums.state, pending, True, sums.ask)
    assert not (unmasked["matrix"] == sums.plain(sums.names)["matrix"]).any()


def mutated(draw: random.Random, message: Payload, recorded: list[Payload], sums: Sums) -> Payload:
    """A message with another round, list, batch or content, or one of another step."""
    number = draw.choice([0, 1, 1, 2, 3, 21])
    names = draw.sample([*sums.names, "nobody"], draw.randint(0, 5))
    notes = dict(message.notes)
    notes[draw.choice(["survivors", "members", "batch", "secure", "confirmed"])] = draw.choice(
        [listed(*names), json.dumps(names), "", "{}", "unmask", "agree", "keys", "shares", "[]"]
    )
    extras = dict(draw.choice(recorded).extras if draw.random() < 0.3 else message.extras)
    if extras and draw.random() < 0.5:
        name = draw.choice([*extras])
        content = extras[name].copy()
        content[draw.randrange(len(content))] ^= draw.randrange(1, 256)
        extras[name] = content
    return replace(
        message, notes=notes, extras=extras, numbers={**message.numbers, "round": number}
    )


def test_no_mutated_request_reveals_a_second_secret(sums: Sums) -> None:
    """Whatever is asked, a site reveals one kind of share per peer and round, for one list."""
    draw = random.Random(1)
    pending = sums.collect(1)
    recorded = [message for _, _, message in sums.messages]
    genuine = {name: unmask_message(sums, pending, name) for name in sums.names}
    expected = {
        name: sums.sites[name].answer(message).extras["shares"].tobytes()
        for name, message in genuine.items()
    }
    sent = {name: digest(r.arrays) for step, name, r in sums.replies if step == TRAIN}
    refused = 0

    def new() -> Payload:
        raise RametError("a message that is new is not answered here")

    for _ in range(CASES):
        client = draw.choice(sums.names)
        message = mutated(draw, draw.choice([genuine[client], *recorded]), recorded, sums)
        site = sums.sites[client]
        try:
            is_step = "secure" in message.notes
            reply = site.answer(message) if is_step else once(site, message, new)
        except RametError:
            refused += 1
            continue
        if "shares" in reply.extras:
            assert reply.extras["shares"].tobytes() == expected[client]
        if reply.arrays:
            assert digest(reply.arrays) == sent[client]
    assert refused > CASES // 2


def test_what_the_coordinator_sees_is_uniform(tmp_path: Path) -> None:
    """A chi-squared test over the bytes of masked replies, whose terms are all zero."""
    sums = Sums(3, tmp_path)
    sums.agree()
    zeros = Payload({"matrix": np.zeros((256, 64), np.uint64)})
    seen = []
    for name in sums.names:
        sent = once(sums.sites[name], sums.train_message(1), lambda: zeros)
        seen.append(sent.arrays["matrix"])
    pair = seen[0] + seen[1]
    for masked in (*seen, pair):
        counts = np.bincount(np.frombuffer(masked.tobytes(), np.uint8), minlength=256)
        assert chisquare(counts).pvalue > 1e-4
