"""Sites and the coordinator do not sign what they have not computed or agreed to."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from chartered_sites import GONE, Chartered, drawn_pledge, run
from command_line import ramet as command
from ramet.deploy.site import STATE
from ramet.engine.chain import Link
from ramet.errors import RametError
from ramet.experiment.chain_parts import read_charter
from ramet.flower.chain_copies import chain_copies
from ramet.forget import Certificate, ForgettingError
from ramet.forget.own_copy import check_own_copies
from ramet.forget.pair import Pair, RunFacts
from ramet.secure.charter import Charter, SignedCharter
from ramet.secure.identity import Identity

Facts: TypeAlias = dict[str, Any]


@pytest.fixture(scope="session")
def later(chartered: Chartered) -> dict[str, RunFacts]:
    """Other runs of the same consortium: with north, and repetitions that are none."""
    rest = chartered.remaining
    known = {
        "second": run(chartered, "second", (GONE, *rest), seed=5),
        "more": run(chartered, "more", rest, epochs=2),
        "longer": run(chartered, "longer", rest, rounds=3),
        "seed": run(chartered, "seed", rest, seed=5),
        "few": run(chartered, "few", rest[:2]),
    }
    return {name: RunFacts.of(folder) for name, folder in known.items()}


def lied(chartered: Chartered, **facts: Any) -> Certificate:
    """A certificate whose new run is another one, or has other facts; nobody has signed it."""
    certificate = Certificate.read(chartered.certificate)
    (pair,) = certificate.runs
    told = Pair(before=facts.pop("before", pair.before), after=facts.pop("after", pair.after))
    told = told.model_copy(update={"after": told.after.model_copy(update=facts)})
    unsigned: Facts = {"signatures": {}, "coordinator": None, "runs": (told,)}
    return certificate.model_copy(update=unsigned)


LIES: Mapping[str, tuple[Facts, str]] = {
    "another model": ({"learnt": "0" * 64}, "has computed another model"),
    "no model": ({"learnt": None}, "is not finished"),
    "more rounds": ({"rounds": 30}, "is no repetition"),
    "fewer links": ({"links": 1}, "ends elsewhere"),
    "another end": ({"end": "0" * 64}, "ends elsewhere"),
    "another start": ({"started_from": "elsewhere"}, "the charter is not that"),
    "another name": ({"name": "0" * 64}, "the charter is not that"),
    "a command": ({"command": "ramet run fedavg --dp 0.1"}, "the charter is not that"),
    "digests of data": ({"sites": {"south": "0" * 64, "east": None, "west": None}}, "not that of"),
    "other sites": ({"sites": {"south": None, "east": None}}, "is not .* without north"),
    "no charter": ({"charter": None}, "only one is verified"),
    "nonsense as charter": ({"charter": "{}"}, "not a signed charter"),
}
"""What a coordinator may say of the new run before anybody has signed."""


@pytest.mark.parametrize("lie", LIES)
def test_sites_do_not_sign_lies(chartered: Chartered, tmp_path: Path, lie: str) -> None:
    facts, message = LIES[lie]
    assert _not_signed(chartered, lied(chartered, **facts), tmp_path, message)


def _not_signed(chartered: Chartered, told: Certificate, folder: Path, message: str) -> bool:
    """Whether every site refuses to sign, one with this message."""
    path = folder / "forgotten.json"
    told.write(path)
    done = [
        command("certificate", "sign", path, chartered.sites[site].folder)
        for site in chartered.remaining
    ]
    with pytest.raises(RametError, match=message):
        check_own_copies(told, "south", chartered.sites["south"].folder / STATE)
    return all(one.code == 2 for one in done) and Certificate.read(path) == told


def test_sites_do_not_sign_other_runs(
    chartered: Chartered, later: dict[str, RunFacts], tmp_path: Path
) -> None:
    honest = Certificate.read(chartered.certificate).runs[0]
    other_old = lied(chartered, before=later["second"])
    other_old.check()  # the same terms, but for the seed that sites draw
    for told, message in (
        (lied(chartered, after=later["more"]), "has other terms"),
        (lied(chartered, after=later["longer"]), "is no repetition"),
        (lied(chartered, after=later["few"]), "is not .* without north"),
        (lied(chartered, after=later["second"]), "is not .* without north"),
        (lied(chartered, before=honest.after), "was in no run"),
        (lied(chartered, before=later["second"].model_copy(update={"links": 1})), "ends elsewh"),
        (
            lied(chartered, before=honest.before.model_copy(update={"learnt": "0" * 64})),
            "has computed another model",
        ),
        (
            lied(chartered, before=honest.before.model_copy(update={"links": 1})),
            "ends elsewhere",
        ),
    ):
        assert _not_signed(chartered, told, tmp_path, message)


def _chartered_as(chartered: Chartered, keys: Mapping[str, Identity], **terms: Any) -> RunFacts:
    """The new run under a charter with these keys, and other settings."""
    new = read_charter(chartered.runs / "again").charter
    pledges = {site: drawn_pledge() for site in keys}
    members = {site: pledges[site].member(site, key.public) for site, key in keys.items()}
    settings = {**new.terms["settings"], **terms}
    charter = Charter({**new.terms, "settings": settings}, new.quorum, members, new.nonce)
    agreed = SignedCharter(
        charter,
        {site: key.sign(charter.statement).hex() for site, key in keys.items()},
        {site: pledge.share.hex() for site, pledge in pledges.items()},
    )
    facts = Certificate.read(chartered.certificate).last
    return facts.model_copy(update={"charter": agreed.text(), "name": charter.identity})


def test_nobody_takes_part_under_another_name(chartered: Chartered) -> None:
    """North's key must not come back as that of another site, nor one site be two."""
    keys = {site: chartered.identity(site) for site in chartered.remaining}
    lied(chartered, after=_chartered_as(chartered, keys)).check()
    for stranger in ("north", "east"):
        shared = {**keys, "south": chartered.identity(stranger)}
        told = lied(chartered, after=_chartered_as(chartered, shared))
        with pytest.raises(ForgettingError, match="has the key of another one, or of north"):
            told.check()


@pytest.mark.parametrize("terms", [{"quorum": 3}, {"dp": "eps=9"}, {"epochs": 7}, {"rounds": 1}])
def test_the_terms_are_those_of_the_old_run(chartered: Chartered, terms: Facts) -> None:
    keys = {site: chartered.identity(site) for site in chartered.remaining}
    told = lied(chartered, after=_chartered_as(chartered, keys, **terms))
    with pytest.raises(ForgettingError, match=r"has other terms|is not that of"):
        told.check()


def test_the_coordinator_signs_for_admitted_sites_only(
    chartered: Chartered, tmp_path: Path
) -> None:
    unsigned, folder = lied(chartered), tmp_path / "test"
    shutil.copytree(chartered.coordinator.folder, folder)
    unsigned.write(tmp_path / "forgotten.json")
    key = folder / "admitted" / "south.pub"
    given = key.read_text()
    for name, text, message in (
        ("south.pub", chartered.identity("east").public, "south is not admitted with the key"),
        ("north.pub", chartered.identity("north").public, "north is still admitted"),
    ):
        (folder / "admitted" / name).write_text(text)
        refused = command("certificate", "sign", tmp_path / "forgotten.json", folder)
        assert message in refused.stderr
        key.write_text(given)
    (folder / "admitted" / "north.pub").unlink()
    assert command("certificate", "sign", tmp_path / "forgotten.json", folder).code == 0


def test_a_run_that_was_stopped_is_not_certified(chartered: Chartered) -> None:
    told = lied(chartered)
    copies = [
        replace(one, lines=one.lines[:-1])
        for one in chain_copies(chartered.states, told.last.chain)
    ]
    links = [Link.parse(line) for line in copies[0].lines]
    short = told.last.model_copy(update={"links": len(links), "end": links[-1].digest})
    with pytest.raises(ForgettingError, match="ends in round 1 of 2"):
        short.check_chain(copies)
