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
from command_line import ramet as command
from own_sites import node_site
from ramet.engine.chain_audit import COORDINATOR
from ramet.errors import RametError
from ramet.flower.chain_copies import chain_copies
from ramet.forget import Certificate, ForgettingError, forget
from ramet.secure.identity import Identity

SEED, FORGERIES = 7, 1000


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> tuple[Certificate, Path]:
    folder = tmp_path_factory.mktemp("certified")
    sites = [
        node_site(folder / name, n) for n, name in enumerate(("north", "south", "east", "west"))
    ]
    options: dict[str, Any] = {"rounds": 2, "seed": SEED, "verified": True, "sites": sites}
    ramet.run("fedavg", "own", out=folder / "runs" / "all", **options)
    certificate, path = forget(folder / "runs" / "all", "north")
    for site in certificate.last.sites:
        certificate = certificate.signed_by(site, Identity.simulated(SEED, site))
    certificate.write(path)
    return certificate, path


def verified(certificate: Certificate, folder: Path) -> None:
    certificate.check_signatures()
    for pair in certificate.runs:
        pair.after.check_chain(chain_copies([folder], pair.after.chain))


def test_it_is_verified_with_the_chains_of_the_other_sites_alone(
    certified: tuple[Certificate, Path], tmp_path: Path
) -> None:
    certificate, path = certified
    verified(Certificate.read(path), path.parent)
    holders = {copy.holder for copy in chain_copies([path.parent], certificate.last.chain)}
    assert holders == {"south", "east", "west", COORDINATOR}
    done = command("certificate", "verify", path, path.parent)
    assert done.code == 0, done.stderr
    assert "north was forgotten: signed by south, east, west." in done.stdout
    alone = command("certificate", "verify", path)
    assert alone.code == 2
    assert "no copy of a chain was compared" in alone.stderr


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


def test_every_forgery_is_refused(certified: tuple[Certificate, Path]) -> None:
    certificate, path = certified
    text, folder = path.read_text(), path.parent
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
            verified(found, folder)
        except (AssertionError, RametError):
            refused += 1
        if tried == FORGERIES:
            break
    assert refused == FORGERIES


def test_chains_of_another_run_are_refused(certified: tuple[Certificate, Path]) -> None:
    certificate, path = certified
    old = path.parent.parent / "all"
    with pytest.raises(RametError, match="no chain"):
        verified(certificate, old)
    end = certificate.last.model_copy(update={"links": certificate.last.links + 1})
    with pytest.raises(ForgettingError, match="ends elsewhere"):
        end.check_chain(chain_copies([path.parent], end.chain))


def test_only_sites_of_the_repeated_run_sign(certified: tuple[Certificate, Path]) -> None:
    certificate, _ = certified
    for site, seed in (("north", SEED), ("south", SEED + 1)):
        with pytest.raises(ForgettingError, match="not a site of the repeated run"):
            certificate.signed_by(site, Identity.simulated(seed, site))


def test_a_run_that_still_has_the_site_is_no_repetition(
    certified: tuple[Certificate, Path],
) -> None:
    certificate, _ = certified
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
