"""The replacement of the authority: at every step, sites accept the coordinator's certificate."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from typer.testing import CliRunner

from own_sites import CONSORTIUM_TOML
from ramet.cli.main import app
from ramet.deploy import keys
from ramet.deploy.authority import AuthorityChange
from ramet.deploy.coordinator import Coordinator
from ramet.deploy.init import init
from ramet.deploy.site import Site, join
from ramet.errors import RametError

NEW, SWITCH = AuthorityChange


def initialise(tmp_path: Path, change: AuthorityChange | None = None) -> Coordinator:
    (tmp_path / "consortium.toml").write_text(CONSORTIUM_TOML)
    return init(tmp_path / "consortium.toml", tmp_path / "three", lambda _: None, change)


def rejoin(tmp_path: Path, site: str, trust: bool = False) -> Site:
    invitation = tmp_path / "three" / "invitations" / f"{site}.toml"
    folder = tmp_path / site
    return join(invitation, tmp_path, folder, 9094, lambda _: None, trust_new_authority=trust)[0]


def accepts(site: Site, coordinator: Coordinator) -> bool:
    """Whether an authority that the site trusts has signed the server's certificate."""
    server = x509.load_pem_x509_certificate((coordinator.folder / "server.pem").read_bytes())
    for text in keys.split_certificates(site.authority.read_text()):
        try:
            server.verify_directly_issued_by(x509.load_pem_x509_certificate(text.encode()))
            return True
        except InvalidSignature:
            continue
    return False


def test_sites_rejoin_one_by_one_and_accept_the_coordinator_all_the_time(tmp_path: Path) -> None:
    initialise(tmp_path)
    early, late = rejoin(tmp_path, "rings"), rejoin(tmp_path, "trees")
    old = early.authority.read_text()
    coordinator = initialise(tmp_path, NEW)
    assert accepts(early, coordinator)
    with pytest.raises(RametError, match="--trust-new-authority"):
        rejoin(tmp_path, "rings")
    early = rejoin(tmp_path, "rings", trust=True)
    assert accepts(early, coordinator)
    coordinator = initialise(tmp_path)  # a rerun in between changes nothing
    assert accepts(early, coordinator)
    assert accepts(late, coordinator)
    coordinator = initialise(tmp_path, SWITCH)
    assert accepts(early, coordinator)
    assert not accepts(late, coordinator), "the old authority is no longer used"
    assert old not in coordinator.authority.read_text()
    early = rejoin(tmp_path, "rings")  # the new authority is known here
    assert early.authority.read_text() == coordinator.authority.read_text()
    assert accepts(rejoin(tmp_path, "trees", trust=True), coordinator)


def test_steps_in_the_wrong_order_are_refused_and_change_nothing(tmp_path: Path) -> None:
    with pytest.raises(RametError, match="there is no authority yet"):
        initialise(tmp_path, NEW)
    coordinator = initialise(tmp_path)
    before = coordinator.authority.read_text()
    with pytest.raises(RametError, match="there is no new authority to switch to"):
        initialise(tmp_path, SWITCH)
    assert coordinator.authority.read_text() == before
    initialise(tmp_path, NEW)
    both = coordinator.authority.read_text()
    with pytest.raises(RametError, match="a new authority exists already"):
        initialise(tmp_path, NEW)
    assert coordinator.authority.read_text() == both


def test_an_unknown_step_lists_the_steps(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["deploy", "init", "c.toml", "--authority", "swich"])
    assert isinstance(result.exception, RametError)
    assert "Did you mean 'switch'?" in str(result.exception)
