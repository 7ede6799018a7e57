"""Who tampers with a certificate by hand gets it neither verified nor signed."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from chartered_sites import (
    Chartered,
    chartered_sites,
    drawn_pledge,
    signed,
    signed_chain,
    write_chain,
)
from command_line import ramet as command
from ramet.deploy.coordinator import SERVER_KEY, SIGNING_CERTIFICATE
from ramet.deploy.keys import make_server_certificate
from ramet.deploy.site import CLIENT_CERTIFICATE, STATE
from ramet.engine.chain import FILE, read_links
from ramet.engine.site.site_chain import FOLDER
from ramet.errors import RametError
from ramet.experiment import RunFolder
from ramet.experiment.chain_parts import CHARTER, read_charter
from ramet.experiment.superseded import FILE as SUPERSEDED
from ramet.forget import Certificate, ForgettingError

Facts: TypeAlias = dict[str, Any]
Change: TypeAlias = Callable[[Facts, Chartered], object]


@pytest.fixture(scope="session")
def other(tmp_path_factory: pytest.TempPathFactory) -> Chartered:
    """Another consortium, whose sites have the same names."""
    made = chartered_sites(tmp_path_factory.mktemp("other"))
    signed(made, Certificate.read(made.certificate)).write(made.certificate)
    return made


def after(facts: Facts) -> Facts:
    found: Facts = facts["runs"][-1]["after"]
    return found


def before(facts: Facts) -> Facts:
    found: Facts = facts["runs"][-1]["before"]
    return found


def charter_changed(change: Callable[[Facts, Facts], object]) -> Change:
    """With a change to the charter of the new run, whose name and signatures do not follow."""

    def changed(facts: Facts, _: Chartered) -> None:
        whole = json.loads(after(facts)["charter"])
        charter = json.loads(whole["charter"])
        change(charter, whole)
        whole["charter"] = json.dumps(charter, sort_keys=True, separators=(",", ":"))
        after(facts)["charter"] = json.dumps(whole, sort_keys=True, separators=(",", ":"))

    return changed


def swap_signatures(facts: Facts, _: Chartered) -> None:
    own = facts["signatures"]
    own["south"], own["east"] = own["east"], own["south"]


def drop(site: str) -> Change:
    """Without a site, wherever it is named outside the charter."""

    def changed(facts: Facts, _: Chartered) -> None:
        del facts["signatures"][site]
        del after(facts)["sites"][site]

    return changed


def drop_everywhere(charter: Facts, whole: Facts) -> None:
    for own in (charter["sites"], whole["signatures"], whole["shares"]):
        del own["west"]
    charter["quorum"] = 1


def swap_runs(facts: Facts, _: Chartered) -> None:
    pair = facts["runs"][0]
    pair["before"], pair["after"] = pair["after"], pair["before"]


def sign_again_as(site: str) -> Change:
    """A site signs for another one, after a change to what was signed."""

    def changed(facts: Facts, chartered: Chartered) -> None:
        facts["descendants"] = []
        statement = Certificate.model_validate(facts).statement
        forged = chartered.identity(site).sign(statement).hex()
        facts["signatures"] = dict.fromkeys(facts["signatures"], forged)

    return changed


def sign_for_the_coordinator(certificate: str) -> Change:
    """A site, or whoever has the server's key, signs as the coordinator."""

    def changed(facts: Facts, chartered: Chartered) -> None:
        statement = Certificate.model_validate(facts).statement
        site, folder = chartered.sites["south"].folder, chartered.coordinator.folder
        issued = {
            "own": (site / CLIENT_CERTIFICATE).read_text(),
            "server": make_server_certificate(
                "test", "localhost", folder / SERVER_KEY, folder / "authority.key"
            ),
            "coordinator": (folder / SIGNING_CERTIFICATE).read_text(),
        }
        signature = chartered.identity("south").sign(statement).hex()
        facts["coordinator"] = {"certificate": issued[certificate], "signature": signature}

    return changed


AFTERWARDS: Mapping[str, tuple[Change, str]] = {
    "another site": (lambda f, _: f.update(site="south"), "in other terms|without south"),
    "swapped signatures": (swap_signatures, "signature of .* is not"),
    "no signature of a site": (lambda f, _: f["signatures"].pop("west"), "not signed by west"),
    "a site less": (drop("west"), "is not .* without north"),
    "a lower quorum in the charter": (
        charter_changed(lambda charter, _: charter.update(quorum=1)),
        "not signed by",
    ),
    "a site less in the charter": (charter_changed(drop_everywhere), "not signed by"),
    "a swapped key in the charter": (
        charter_changed(
            lambda c, _: c["sites"]["south"].update(key=c["sites"]["east"]["key"]),
        ),
        "not signed by",
    ),
    "swapped keys of two sites": (
        charter_changed(
            lambda c, _: c["sites"].update(south=c["sites"]["east"], east=c["sites"]["south"])
        ),
        "not signed by",
    ),
    "a seed of the attacker": (
        charter_changed(lambda _, whole: whole["shares"].update(south="00" * 32)),
        "has not opened its commitment",
    ),
    "another nonce": (charter_changed(lambda c, _: c.update(nonce="x")), "not signed by"),
    "a charter of nonsense": (charter_changed(lambda c, _: c.update(terms=[])), "not a charter"),
    "keys that are numbers": (
        charter_changed(lambda c, _: c["sites"]["south"].update(key=3)),
        "not a charter",
    ),
    "no descendants": (lambda f, _: f.update(descendants=[]), "signature of .* is not"),
    "a descendant elsewhere": (
        lambda f, _: f["descendants"][0].update(folder="nowhere"),
        "signature of .* is not",
    ),
    "the old model's digest": (
        lambda f, _: after(f).update(learnt=before(f)["learnt"]),
        "signature of .* is not",
    ),
    "runs the other way round": (swap_runs, "was in no run"),
    "no runs": (lambda f, _: f.update(runs=[]), "has no runs"),
    "a run twice": (lambda f, _: f.update(runs=f["runs"] * 2), "start from no others"),
    "the whole site as people": (lambda f, _: f.update(people=3), "with less of north"),
    "another date": (lambda f, _: f.update(date="2020-01-01"), "signature of .* is not"),
    "another Ramet": (lambda f, _: f.update(ramet="9.9.9"), "signature of .* is not"),
    "all sites signed by one": (sign_again_as("west"), "signature of .* is not"),
    "north signs instead": (sign_again_as("north"), "signature of .* is not"),
    "no coordinator": (lambda f, _: f.update(coordinator=None), "not signed by the coordinator"),
    "a site as the coordinator": (sign_for_the_coordinator("own"), "not that of the coordinator"),
    "a site with the coordinator's certificate": (
        sign_for_the_coordinator("coordinator"),
        "not that of the coordinator",
    ),
    "the server as the coordinator": (
        sign_for_the_coordinator("server"),
        "not that of the coordinator",
    ),
}
"""Changes to a certificate that all have signed, by whoever has the file."""


@pytest.mark.parametrize("change", AFTERWARDS)
def test_what_was_signed_is_not_changed(chartered: Chartered, tmp_path: Path, change: str) -> None:
    facts = json.loads(chartered.certificate.read_text())
    changed, message = AFTERWARDS[change]
    changed(facts, chartered)
    path = tmp_path / "forgotten.json"
    Certificate.model_validate(facts).write(path)
    assert _verified(path, chartered.states, chartered.sites["south"].authority, message)


def _verified(path: Path, states: list[Path], authority: Path, message: str) -> bool:
    """Whether the certificate is refused with this message."""

    def read_and_checked() -> None:
        certificate = Certificate.read(path)
        certificate.check_signatures()
        certificate.check_coordinator(authority)

    with pytest.raises(RametError, match=message):
        read_and_checked()
    done = command("certificate", "verify", path, *states, "--authority", authority)
    return done.code == 2 and not done.stdout


FORMS: Mapping[str, Callable[[str], str]] = {
    "a name before the name": lambda text: text.replace(
        '"site": "north"', '"site": "east",\n "site": "north"'
    ),
    "indented otherwise": lambda text: json.dumps(json.loads(text), indent=4),
    "a number as a text": lambda text: text.replace('"rounds": 2', '"rounds": "2"'),
    "something beside": lambda text: text.replace('"site"', '"note": "void", "site"', 1),
    "another format": lambda text: text.replace('"format": 1', '"format": 2'),
    "two certificates": lambda text: text + text,
}


@pytest.mark.parametrize("form", FORMS)
def test_people_read_what_programs_read(chartered: Chartered, form: str) -> None:
    text = chartered.certificate.read_text()
    assert Certificate.parse(text.rstrip()) == Certificate.parse(text)
    with pytest.raises(ForgettingError, match="not a certificate of forgetting"):
        Certificate.parse(FORMS[form](text))


def test_certificates_of_others_are_not_of_this_consortium(
    chartered: Chartered, other: Chartered, tmp_path: Path
) -> None:
    own, theirs = chartered.sites["south"].authority, other.sites["south"].authority
    assert command("certificate", "verify", other.certificate, *other.states).code == 0
    replayed = command("certificate", "verify", other.certificate, *chartered.states)
    assert "there is no chain" in replayed.stderr
    for path, states, authority in (
        (other.certificate, other.states, own),
        (chartered.certificate, chartered.states, theirs),
    ):
        assert _verified(path, states, authority, "not that of the coordinator")
    mine, foreign = map(Certificate.read, (chartered.certificate, other.certificate))
    for field, message in (("signatures", "signature of"), ("coordinator", "not that of the coor")):
        taken = mine.model_copy(update={field: getattr(foreign, field)})
        taken.write(tmp_path / "forgotten.json")
        assert _verified(tmp_path / "forgotten.json", chartered.states, own, message)


def test_a_mark_that_is_deleted_changes_nothing(chartered: Chartered, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    shutil.copytree(chartered.runs, runs)
    for mark in runs.rglob(SUPERSEDED):
        mark.unlink()
    assert (
        command("certificate", "verify", runs / "again" / "forgotten.json", runs / "again").code
        == 0
    )


def _shorter(_: Chartered, state: Path, site: str) -> None:
    for path in state.glob(f"clients/*/{site}/{FOLDER}/{FILE}"):
        write_chain(path, read_links(path)[:-1])


def _other_total(_: Chartered, state: Path, site: str) -> None:
    for path in state.glob(f"clients/*/{site}/{FOLDER}/{FILE}"):
        *links, last = read_links(path)
        write_chain(path, [*links, replace(last, total="0" * 64)])


def _without_an_answer(_: Chartered, state: Path, site: str) -> None:
    for path in state.glob(f"clients/*/{site}/{FOLDER}/{FILE}"):
        first, *links = read_links(path)
        answers = {name: one for name, one in first.answers.items() if name != "west"}
        write_chain(path, [replace(first, answers=answers), *links])


def _of_the_old_run(chartered: Chartered, state: Path, site: str) -> None:
    old = RunFolder(chartered.runs / "all").path / "server" / FILE
    for path in state.glob(f"clients/*/{site}/{FOLDER}/{FILE}"):
        shutil.copyfile(old, path)


def _signed_by_others(chartered: Chartered, state: Path, site: str) -> None:
    charter = read_charter(chartered.runs / "again").charter
    drawn = {name: drawn_pledge() for name in charter.sites}
    for path in state.glob(f"clients/{charter.identity}/{site}/{FOLDER}/{FILE}"):
        write_chain(path, signed_chain(charter, read_links(path), drawn))


CHAINS: Mapping[str, tuple[Callable[[Chartered, Path, str], None], str]] = {
    "shorter": (_shorter, "ends elsewhere"),
    "another total": (_other_total, "ends elsewhere|is broken"),
    "without an answer": (_without_an_answer, "is broken"),
    "of the old run": (_of_the_old_run, "is broken"),
    "signed by others": (_signed_by_others, "is broken"),
}


@pytest.mark.parametrize("chain", CHAINS)
def test_chains_are_not_changed(chartered: Chartered, tmp_path: Path, chain: str) -> None:
    states, (change, message) = [], CHAINS[chain]
    for site in chartered.remaining:
        states.append(tmp_path / site)
        shutil.copytree(chartered.sites[site].folder / STATE, states[-1])
        change(chartered, states[-1], site)
    done = command("certificate", "verify", chartered.certificate, *states)
    assert done.code == 2
    assert re.search(message, done.stderr), done.stderr


def test_a_charter_in_a_folder_is_not_changed(chartered: Chartered, tmp_path: Path) -> None:
    shutil.copytree(chartered.runs / "again", tmp_path / "again")
    shutil.copyfile(chartered.runs / "all" / CHARTER, tmp_path / "again" / CHARTER)
    done = command("certificate", "verify", chartered.certificate, tmp_path / "again")
    assert "there is no chain" in done.stderr
