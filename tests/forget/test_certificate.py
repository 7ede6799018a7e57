"""A certificate of forgetting says what the other sites have signed, and nothing else."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

import ramet
from chartered_sites import SITES, Chartered
from command_line import ramet as command
from own_sites import node_site
from ramet.errors import RametError
from ramet.experiment import RunFolder
from ramet.flower.chain_copies import chain_copies
from ramet.forget import Certificate, ForgettingError, forget
from ramet.secure.identity import Identity, fingerprint

FORGERIES = 1000


def verified(certificate: Certificate, folders: list[Path]) -> None:
    certificate.check_signatures()
    for pair in certificate.runs:
        pair.after.check_chain(chain_copies(folders, pair.after.chain))


def test_it_is_verified_with_the_chains_of_the_other_sites_alone(chartered: Chartered) -> None:
    path, authority = chartered.certificate, chartered.sites["south"].authority
    done = command("certificate", "verify", path, *chartered.states, "--authority", authority)
    assert done.code == 0, done.stderr
    certificate = Certificate.read(path)
    said = f"north was forgotten on {certificate.date}: signed by south, east, west, and the coord"
    assert said in done.stdout
    assert f"  south: {fingerprint(chartered.identity('south').public)}" in done.stdout
    old = RunFolder(chartered.runs / "all").run_name
    assert f"{old} → {certificate.last.name}, sha256 {certificate.last.learnt}" in done.stdout
    assert "its chain: south, east, west agree." in done.stdout
    without = command("certificate", "verify", path, path.parent)
    assert without.code == 0, without.stderr
    assert "Not checked: the coordinator's signature" in without.stderr
    assert "the coordinator, " in without.stdout
    alone = command("certificate", "verify", path)
    assert alone.code == 2
    assert "no copy of a chain was compared" in alone.stderr


def test_the_coordinator_and_the_sites_sign_it_with_their_keys(
    chartered: Chartered, tmp_path: Path
) -> None:
    unsigned = Certificate.read(chartered.certificate).model_copy(
        update={"signatures": {}, "coordinator": None}
    )
    unsigned.write(tmp_path / "forgotten.json")
    for party in (chartered.coordinator, *(chartered.sites[s] for s in chartered.remaining)):
        done = command("certificate", "sign", tmp_path / "forgotten.json", party.folder)
        assert done.code == 0, done.stderr
        assert f"has signed that north was forgotten on {unsigned.date}." in done.stdout
    found = Certificate.read(tmp_path / "forgotten.json")
    verified(found, chartered.states)
    found.check_coordinator(chartered.sites["east"].authority)
    done = command("certificate", "sign", chartered.certificate, chartered.sites["north"].folder)
    assert "north is not a site of the repeated run" in done.stderr


def forged(text: str, draw: random.Random) -> Iterator[str]:
    """The certificate with one character changed, or one of its facts."""
    while True:
        place = draw.randrange(len(text))
        other = draw.choice('0123456789abcdefghijklmnopqrstuvwxyz{}[],:" ')
        if other != text[place]:
            yield text[:place] + other + text[place + 1 :]
        facts: dict[str, Any] = json.loads(text)
        after = facts["runs"][-1]["after"]
        kind = draw.randrange(6)
        if kind == 0:
            facts["site"] = draw.choice(["south", "east", "west", "nobody"])
        elif kind == 1:
            after["learnt"] = f"{draw.getrandbits(256):064x}"
        elif kind == 2:
            after["links"] = draw.choice([n for n in range(9) if n != after["links"]])
        elif kind == 3:
            after["end"] = f"{draw.getrandbits(256):064x}"
        elif kind == 4:
            facts["signatures"].pop(draw.choice([*facts["signatures"]]))
        else:
            facts["descendants"] = [{"kind": "run", "folder": f"x{draw.random()}", "of": "y"}]
        yield json.dumps(facts)


def test_every_forgery_is_refused(chartered: Chartered) -> None:
    text, folder = chartered.certificate.read_text(), chartered.certificate.parent
    certificate, authority = Certificate.parse(text), chartered.sites["south"].authority
    refused = tried = 0
    for changed in forged(text, random.Random(0)):
        try:
            found = Certificate.model_validate_json(changed)
        except ValidationError:
            found = None
        if found == certificate:
            continue  # other spaces, the same certificate
        tried += 1
        try:
            assert found is not None
            found.check_coordinator(authority)
            verified(found, [folder])
        except (AssertionError, RametError):
            refused += 1
        if tried == FORGERIES:
            break
    assert refused == FORGERIES


def test_chains_of_another_run_are_refused(chartered: Chartered) -> None:
    certificate = Certificate.read(chartered.certificate)
    with pytest.raises(RametError, match="no chain"):
        verified(certificate, [chartered.runs / "all"])
    end = certificate.last.model_copy(update={"links": certificate.last.links + 1})
    with pytest.raises(ForgettingError, match="ends elsewhere"):
        end.check_chain(chain_copies(chartered.states, end.chain))


def test_only_sites_of_the_repeated_run_sign(chartered: Chartered) -> None:
    certificate = Certificate.read(chartered.certificate)
    for site, key in (("north", "north"), ("south", "east")):
        with pytest.raises(ForgettingError, match="not a site of the repeated run"):
            certificate.signed_by(site, chartered.identity(key))


def test_of_a_simulation_anybody_could_sign(tmp_path: Path) -> None:
    sites = [node_site(tmp_path / name, n) for n, name in enumerate(SITES)]
    ramet.run("fedavg", "own", rounds=1, verified=True, sites=sites, out=tmp_path / "runs" / "all")
    certificate, path = forget(tmp_path / "runs" / "all", "north")
    with pytest.raises(ForgettingError, match="keys of a simulation follow from its seed"):
        certificate.signed_by("south", Identity.simulated(0, "south"))
    keys = {site: Identity.simulated(0, site) for site in SITES[1:]}
    signatures = {site: key.sign(certificate.statement).hex() for site, key in keys.items()}
    certificate.model_copy(update={"signatures": signatures}).write(path)
    done = command("certificate", "verify", path, path.parent)
    assert done.code == 2
    assert "anybody could sign" in done.stderr


def test_a_run_that_still_has_the_site_is_no_repetition(chartered: Chartered) -> None:
    certificate = Certificate.read(chartered.certificate)
    (pair,) = certificate.runs
    same = pair.model_copy(update={"after": pair.before})
    with pytest.raises(ForgettingError, match="without north"):
        certificate.model_copy(update={"runs": (same,)}).check()


def test_repetitions_that_nobody_verified_cannot_be_signed(tmp_path: Path) -> None:
    sites = [node_site(tmp_path / name, n) for n, name in enumerate(("north", "south"))]
    ramet.run("fedavg", "own", rounds=1, sites=sites, out=tmp_path / "runs" / "all")
    certificate, _ = forget(tmp_path / "runs" / "all", "north")
    with pytest.raises(ForgettingError, match="can repeat this one"):
        certificate.signed_by("south", Identity.simulated(0, "south"))


def test_a_repetition_that_was_made_elsewhere_is_certified(tmp_path: Path) -> None:
    sites = [node_site(tmp_path / name, n) for n, name in enumerate(("north", "south", "east"))]
    ramet.run("fedavg", "own", rounds=1, sites=sites, out=tmp_path / "all")
    ramet.run("fedavg", "own", rounds=1, sites=sites[1:], out=tmp_path / "never")
    ramet.run("fedavg", "own", rounds=1, sites=sites[1:], out=tmp_path / "other", lr=0.5)
    certificate, path = forget(tmp_path / "all", "north", repeated=[tmp_path / "never"])
    assert path.parent == tmp_path / "never"
    assert certificate.last.name != certificate.runs[0].before.name
    for wrong in ("other", "all"):
        with pytest.raises(RametError, match="other settings"):
            forget(tmp_path / "all", "north", repeated=[tmp_path / wrong])
