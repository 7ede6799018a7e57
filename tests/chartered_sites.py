"""A consortium without its programs, and runs of a simulation under the keys of its sites.

The runs are made in one process. Then their charters and chains are signed anew, with the keys that
sites draw when they join, and each site gets its copy, as if the programs had made them.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_bytes
from typing import Any

import tomli_w

import ramet
from federations import merged_sha256
from own_sites import node_site
from ramet.deploy.consortium import Application, read
from ramet.deploy.coordinator import SIGNING_CERTIFICATE, SIGNING_KEY, Coordinator
from ramet.deploy.init import init
from ramet.deploy.site import NODE_KEY, STATE, Site, join
from ramet.engine.chain import FILE, Answer, Link, read_links, statement
from ramet.engine.site.site_chain import FOLDER
from ramet.engine.store.checkpoint import Snapshots
from ramet.experiment import RunFolder
from ramet.experiment.chain_parts import CHARTER, read_charter
from ramet.experiment.run_facts import DATA_SHA256, SPLIT
from ramet.experiment.run_folder import RESULT
from ramet.flower.site_charters import FOLDER as CHARTERS
from ramet.forget import Certificate, forget
from ramet.secure.charter import SECRET_BYTES, SIMULATED, Charter, Pledge, SignedCharter
from ramet.secure.identity import Identity

SITES = ("north", "south", "east", "west")
GONE = SITES[0]


@dataclass(frozen=True)
class Chartered:
    """A consortium whose run was repeated without one of its sites."""

    coordinator: Coordinator
    sites: dict[str, Site]
    runs: Path

    @property
    def certificate(self) -> Path:
        return self.runs / "again" / "forgotten.json"

    @property
    def remaining(self) -> tuple[str, ...]:
        return tuple(name for name in self.sites if name != GONE)

    @property
    def states(self) -> list[Path]:
        return [self.sites[name].folder / STATE for name in self.remaining]

    def identity(self, site: str) -> Identity:
        return Identity.read(self.sites[site].folder / NODE_KEY)


def chartered_sites(root: Path, name: str = "test") -> Chartered:
    """A consortium in which north was revoked, and the run repeated; nobody has signed yet."""
    settings = {"name": name, "address": "localhost", "sites": [*SITES], "method": "fedavg"}
    (root / "consortium.toml").write_text(
        tomli_w.dumps({**settings, "options": {"task": "node-classification"}, "verified": True})
    )
    coordinator = init(root / "consortium.toml", root / name, lambda _: None)
    sites = {}
    for number, site in enumerate(SITES):
        data = node_site(root / "data" / site, number)
        invitation = coordinator.folder / "invitations" / f"{site}.toml"
        sites[site], application = join(
            invitation, data, root / f"{name}-{site}", 9094 + number, lambda _: None
        )
        coordinator.members.admit(read(application, Application))
    chartered = Chartered(coordinator, sites, root / "runs")
    for folder, members in (("all", SITES), ("again", chartered.remaining)):
        run(chartered, folder, members)
    coordinator.members.revoke(GONE)
    ramet.resume(root / "runs" / "all").export("south", root / "runs" / "exported", programs=False)
    forget(root / "runs" / "all", GONE, repeated=[root / "runs" / "again"])
    return chartered


def signed(chartered: Chartered, certificate: Certificate) -> Certificate:
    """The certificate with the signatures of all who have to sign it."""
    folder = chartered.coordinator.folder
    issued = (folder / SIGNING_CERTIFICATE).read_text()
    key, admitted = Identity.read(folder / SIGNING_KEY), chartered.coordinator.members.keys()
    for site in chartered.remaining:
        certificate = certificate.signed_by(site, chartered.identity(site))
    return certificate.signed_by_coordinator(key, issued, admitted)


def run(chartered: Chartered, name: str, members: tuple[str, ...], **options: Any) -> RunFolder:
    """A run of some sites, with their keys and copies."""
    files = [chartered.sites[site].settings.data for site in members]
    out = chartered.runs / name
    ramet.run("fedavg", "own", sites=files, out=out, **{"rounds": 2, "verified": True, **options})
    folder = RunFolder.open(out)
    signed = _signed_anew(folder, {site: chartered.identity(site) for site in members})
    result = json.loads((out / RESULT).read_text())
    (out / RESULT).write_text(json.dumps({**result, "sha256": merged_sha256(out)}))
    known = json.loads((out / SPLIT).read_text())
    for facts in known["clients"].values():
        del facts[DATA_SHA256]
    (out / SPLIT).write_text(json.dumps(known))
    for site in members:
        state = chartered.sites[site].folder / STATE
        (state / CHARTERS).mkdir(parents=True, exist_ok=True)
        path = state / CHARTERS / f"{signed.charter.identity}.json"
        path.write_text(json.dumps({"signed": signed.text(), "key": "00"}))
        kept = state / "clients" / signed.charter.identity / site
        shutil.copytree(folder.clients / site / FOLDER, kept / FOLDER)
    return folder


def _signed_anew(folder: RunFolder, identities: dict[str, Identity]) -> SignedCharter:
    """Sign the charter and the chain of a simulation with other keys."""
    old = read_charter(folder.path).charter
    pledges = {site: drawn_pledge() for site in identities}
    members = {site: pledges[site].member(site, one.public) for site, one in identities.items()}
    terms = {name: value for name, value in old.terms.items() if name != SIMULATED}
    charter = Charter(terms, old.quorum, members, old.nonce)
    signatures = {s: one.sign(charter.statement).hex() for s, one in identities.items()}
    shares = {site: pledge.share.hex() for site, pledge in pledges.items()}
    signed = SignedCharter(charter, signatures, shares)
    (folder.path / CHARTER).write_text(signed.text())
    server = folder.path / "server" / FILE
    links = signed_chain(charter, read_links(server), pledges)
    write_chain(server, links)
    for site in identities:
        own = folder.clients / site / FOLDER
        write_chain(own / FILE, links)
        _follow(own, links[-1])
    return signed


def drawn_pledge() -> Pledge:
    return Pledge.drawn(lambda _: token_bytes(SECRET_BYTES))


def signed_chain(charter: Charter, links: list[Link], pledges: dict[str, Pledge]) -> list[Link]:
    """The links as replies of sites with these pledges, under a charter."""
    signed: list[Link] = []
    for link in links:
        before = signed[-1].digest if signed else charter.identity
        begun = replace(link, before=before)
        answers = {
            site: Answer(one.reply, one.tag, _signature(charter, begun, one, pledges[site]))
            for site, one in link.answers.items()
        }
        signed.append(replace(begun, answers=answers))
    return signed


def _signature(charter: Charter, link: Link, answer: Answer, pledge: Pledge) -> str:
    said = statement(charter, link, answer.reply, answer.tag)
    return pledge.signing_key.sign(said).hex()


def write_chain(path: Path, links: list[Link]) -> None:
    path.write_text("".join(f"{link.text}\n" for link in links))


def _follow(folder: Path, last: Link) -> None:
    """Let a site's snapshot be that of the last link."""
    snapshots = Snapshots(folder)
    saved = snapshots.latest_valid()
    assert saved is not None
    snapshots.save(replace(saved, facts={**saved.facts, "link": last.text}))
