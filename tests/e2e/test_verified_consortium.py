"""A consortium whose sites sign a charter and verify each step, over nginx, TLS and a SuperLink."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from test_secure_consortium import FIVE

import ramet
from consortia import DeployRun, Members, consortium
from federations import merged_sha256
from ramet.deploy.coordinator import Coordinator
from ramet.deploy.run import run_consortium
from ramet.deploy.site import POLICY, add_member
from ramet.engine.chain import FILE, read_links
from ramet.engine.site.site_chain import FOLDER
from ramet.errors import RametError
from ramet.experiment import RunFolder
from ramet.experiment.chain_parts import read_charter
from ramet.flower.site_charters import FOLDER as CHARTERS
from ramet.flower.site_charters import SiteCharters

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed"),
]
THREE = dict([*FIVE.items()][:3])
PATIENCE = 1200.0
"""Seconds without the end of a round; a round of four sites took over 300 at a load of 20."""


def know_each_other(members: Members, policy: str = "") -> None:
    for site in members.sites:
        for other in members.sites:
            name = other.settings.site
            add_member(other.folder / f"{name}.application.toml", site.folder)
        (site.folder / POLICY).write_text(policy)


def local_run(members: Members, seed: int, folder: Path, rounds: int = 2) -> ramet.Result:
    files = shlex.join(str(site.settings.data) for site in members.sites)
    return ramet.run(
        "fedstar", "own", rounds=rounds, seed=seed, out=folder, sites=files, merge="fixed-point"
    )


def run(members: Members, folder: Path) -> RunFolder:
    side = Coordinator.open(members.coordinator.folder)
    return run_consortium(side, folder, folder.parent, PATIENCE, lambda _: None, lambda _: None)


def test_sites_sign_a_charter_and_keep_the_chain(tmp_path: Path) -> None:
    with consortium(
        tmp_path, THREE, method="fedstar", rounds=2, seed=3, secure=True, verified=True
    ) as members:
        know_each_other(members, 'secure = "required"\n')
        opened = run(members, tmp_path / "run")
        signed = read_charter(opened.path)
        assert opened.run_name == signed.charter.identity
        assert set(signed.charter.sites) == set(THREE)
        seed = opened.experiment().settings.seed
        assert seed == signed.seed != 3  # no one party has chosen it
        summary = opened.summary()
        expected = local_run(members, seed, tmp_path / "local")
        assert summary is not None
        assert summary.sha256 == merged_sha256(expected.folder)
        chain = read_links(opened.path / "server" / FILE)
        assert [link.exchange for link in chain] == ["training", "training"]
        for site in members.sites:
            name, state = site.settings.site, site.folder / "state"
            own = read_links(state / "clients" / opened.run_name / name / FOLDER / FILE)
            assert own == chain
            assert SiteCharters(state / CHARTERS, name).signed(opened.run_name) == signed


@pytest.mark.thorough
def test_a_site_that_signs_by_hand_is_waited_for(tmp_path: Path) -> None:
    given: Any = {"method": "fedstar", "rounds": 1, "seed": 3, "verified": True, "deadline": 40.0}
    with consortium(tmp_path, THREE, **given) as members:
        know_each_other(members)
        slow = members.sites[0]
        (slow.folder / POLICY).write_text('charters = "by hand"\n')
        with pytest.raises(RametError, match="waits for its owner to sign the charter"):
            run(members, tmp_path / "unsigned")
        charters = SiteCharters(slow.folder / "state" / CHARTERS, slow.settings.site)
        (proposal,) = charters.waiting()
        assert proposal.terms["settings"]["method"] == "fedstar"
        charters.approve(proposal)
        again = DeployRun(members, tmp_path / "signed")
        again.result()
        assert read_charter(tmp_path / "signed").charter.terms == proposal.terms
