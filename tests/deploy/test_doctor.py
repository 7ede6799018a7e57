"""The doctor's checks and remedies."""

from __future__ import annotations

import re
import socket
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from own_sites import node_site
from ramet.cli.main import app
from ramet.deploy.coordinator import Coordinator
from ramet.deploy.doctor import examine
from ramet.deploy.init import init
from ramet.deploy.probes import Check, check_connection
from ramet.deploy.site import Site, join
from ramet.engine.site.answered import Answered
from ramet.engine.site.ledger import Ledger, RunEntry
from ramet.errors import RametError
from ramet.flower.guard import app_hash
from ramet.flower.patches import PATCHES
from ramet.flower.programs import free_ports
from ramet.flower.thin_app import thin_app
from ramet.payload import Payload
from ramet.policy import Ceiling
from servers import serving_tls


@pytest.fixture
def site(tmp_path: Path) -> Site:
    port, runtime_port = free_ports(2)
    (tmp_path / "consortium.toml").write_text(
        f'name = "three"\naddress = "127.0.0.1"\nport = {port}\nmethod = "fedstar"\n'
        'setting = "tiny"\nsites = ["rings", "trees", "blocks"]\n'
    )
    coordinator = init(tmp_path / "consortium.toml", tmp_path / "three", lambda text: None)
    invitation = coordinator.folder / "invitations" / "rings.toml"
    return join(invitation, tmp_path, tmp_path / "rings", runtime_port, lambda text: None)[0]


def checks(folder: Path) -> dict[str, Check]:
    return {check.name: check for check in examine(folder)}


def test_a_site_before_its_coordinator_runs(site: Site) -> None:
    found = checks(site.folder)
    bad = {name for name, check in found.items() if not check.ok}
    assert bad == {"coordinator"}
    assert "outgoing connections" in found["coordinator"].remedy
    assert "graphs" in found["data"].detail
    assert found["policy"].detail.startswith("secure sums allowed, sites in a run: any number")
    assert found["accepted apps"].detail == f"{site.accepted} lists the app of the installed Ramet"


def test_a_site_is_told_before_its_policy_ends_the_runs(site: Site) -> None:
    policy, record = site.folder / "policy.toml", site.folder / "state" / "answered.json"
    detail = checks(site.folder)["runs"].detail
    assert detail == "20 left of the 20 that the policy allows"
    for run in range(3):
        message = Payload({}, {"round": 1, "train": 1}, {"run": f"{run}"})
        Answered(record, f"{run}").begin(message, site.policy)
    for limit, left, ok in ((6, 3, True), (5, 2, False), (2, 0, False)):
        policy.write_text(f"runs = {limit}\nnew_rows = 10\n")
        found = checks(site.folder)
        assert found["runs"].detail == f"{left} left of the {limit} that the policy allows"
        assert found["runs"].ok == ok
    assert found["policy"].detail.endswith("new rows: told from 10 on")
    policy.write_text("")
    assert "runs" not in checks(site.folder)


def test_a_site_is_told_how_many_private_runs_its_ceiling_allows(site: Site) -> None:
    entry = RunEntry(unit="graph", terms="a", data="d", noise=40.0, sampling=1.0, steps=2)
    ledger = Ledger(site.folder / "state" / "privacy.json")
    ceiling = Ceiling(unit="graph", epsilon=100.0, delta=1e-5)
    policy = "[privacy]\nunit = 'graph'\ndelta = 1e-5\nepsilon = "
    (site.folder / "policy.toml").write_text(f"{policy}100.0\n")
    assert "privacy budget" not in checks(site.folder)
    ledger.spend("0" * 32, entry, 1, ceiling)
    one = ledger.spent("graph", 1e-5)
    ledger.spend("1" * 32, entry, 1, ceiling)
    two = ledger.spent("graph", 1e-5)
    assert checks(site.folder)["privacy budget"].detail.endswith(
        "allows more than 2 more runs like the last"
    )
    (site.folder / "policy.toml").write_text(f"{policy}{two + (two - one)}\n")
    found = checks(site.folder)["privacy budget"]
    assert not found.ok
    assert found.detail.endswith("allows 1 more runs like the last")


def test_problems_at_a_site(site: Site) -> None:
    (site.folder / "node.key").chmod(0o644)
    (site.folder / "authority.pem").unlink()
    (site.folder / "client.pem").unlink()
    site.accepted.write_text(f"{'0' * 64}  # another\n")
    (site.folder / "policy.toml").write_text("membres = 3\n")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", site.settings.runtime_port))
        taken.listen()
        found = checks(site.folder)
    assert found["node.key"].remedy == f"chmod 600 {site.folder / 'node.key'}"
    assert not found["node.key"].ok
    assert not found["authority"].ok
    assert not found["client certificate"].ok
    assert (
        "rerun `ramet deploy join`, and send the application" in found["client certificate"].remedy
    )
    assert "policy.toml: membres: Extra inputs are not permitted" in found["policy"].detail
    assert not found["policy"].ok
    assert found["accepted apps"].remedy.endswith(app_hash(thin_app()))
    assert not found["accepted apps"].ok
    assert not found[f"port {site.settings.runtime_port}"].ok


def test_a_site_does_not_start_if_retrying_cannot_help(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(folder: Site, reason: str) -> None:
        with pytest.raises(RametError, match=reason):
            folder.start(lambda _: None)
        assert not folder.services()[0].should_run

    with pytest.raises(_RetriedError, match=r"^coordinator: .* Retrying for up to 150 s\.$"):
        site.start(_stop_retrying)
    monkeypatch.setattr("ramet.deploy.site._JOIN_TIMEOUT", 0.0)
    refused(site, r"coordinator: 127\.0\.0\.1.*refused\. Ask the coordinator if it is running")
    monkeypatch.undo()
    settings = site.settings
    unresolvable = settings.model_copy(update={"address": "no-such-host.invalid"})
    refused(Site(site.folder, unresolvable), "cannot resolve no-such-host.invalid")
    with socket.create_server(("127.0.0.1", settings.runtime_port)):
        refused(site, rf"port {settings.runtime_port}: .*in use.*choose another --runtime-port")
    other = init(tmp_path / "consortium.toml", tmp_path / "other", lambda _: None).folder
    with _tls_server(settings.port, other):
        refused(site, "coordinator: .*compare fingerprints")
    with _tls_server(settings.port, tmp_path / "three"):
        next(check_connection(settings.address, settings.port, site.authority)).require_ok()


def test_a_superlink_that_another_program_started_is_found(site: Site, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    settings = tmp_path / "consortium.toml"
    settings.write_text(f"link_port = {port}\n{settings.read_text()}")
    party = init(settings, tmp_path / "three", lambda _: None)
    other = init(settings, tmp_path / "other", lambda _: None)
    for listening in (nullcontext(), _tls_server(port, other.folder)):
        with listening, pytest.raises(RametError, match="the SuperLink is not running"):
            party.check_running()
    with _tls_server(port, party.folder):
        party.check_running()
    assert f"127.0.0.1:{port}" in (party.flower.home / "config.toml").read_text()


class _RetriedError(Exception):
    pass


def _stop_retrying(text: str) -> None:
    raise _RetriedError(text)


class _Healthy(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()


def _tls_server(port: int, folder: Path) -> AbstractContextManager[None]:
    return serving_tls(HTTPServer(("127.0.0.1", port), _Healthy), folder)


def test_a_coordinator_that_is_not_running_yet(site: Site) -> None:
    found = checks(site.folder.parent / "three")
    assert all(found[key].detail == "mode 0600" for key in ("authority.key", "server.key"))
    for name in ("server certificate", "coordinator certificate"):
        assert found[name].detail == "396 days left"
    assert "coordinator" not in found


def test_a_folder_with_only_settings_is_not_a_coordinator_without_keys(
    site: Site, tmp_path: Path
) -> None:
    found = checks(tmp_path)
    assert "authority.key" not in found
    assert found["setup"].remedy.startswith("Run `ramet deploy init consortium.toml`, then")


def _fake_nginx(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program called nginx into a folder of system programs."""
    nginx = folder / "nginx"
    nginx.write_text("#!/bin/sh\necho nginx version: 0 >&2\n")
    nginx.chmod(0o755)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("ramet.deploy.probes.SYSTEM_PROGRAMS", (str(folder),))


def test_nginx_is_found_outside_the_path(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake_nginx(tmp_path, monkeypatch)
    assert checks(tmp_path / "three")["nginx"].detail == "nginx version: 0"


def test_a_coordinator_without_nginx_does_not_begin_to_start(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator = Coordinator.open(tmp_path / "three")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("ramet.deploy.probes.SYSTEM_PROGRAMS", ())
    with pytest.raises(RametError, match=r"nginx: not found\. Install it .*nginx-light"):
        coordinator.start(lambda _: None)
    assert not any(service.should_run for service in coordinator.services())


@pytest.mark.parametrize("option", ["link_port", "port"])
def test_a_coordinator_whose_port_is_taken_does_not_begin_to_start(
    option: str, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake_nginx(tmp_path, monkeypatch)
    given = Coordinator.open(tmp_path / "three")
    link_port, port = free_ports(2)
    consortium = given.consortium.model_copy(update={"link_port": link_port, "port": port})
    taken = getattr(consortium, option)
    coordinator = Coordinator(given.folder, consortium)
    with (
        socket.create_server(("127.0.0.1", taken)),
        pytest.raises(RametError, match=rf"port {taken}: .*in use.*choose another {option}"),
    ):
        coordinator.start(lambda _: None)
    assert not any(service.should_run for service in coordinator.services())


def test_data_for_another_task_is_not_reported_as_missing(tmp_path: Path) -> None:
    (tmp_path / "consortium.toml").write_text(
        'name = "one"\naddress = "127.0.0.1"\nmethod = "fedstar"\nsites = ["north"]\n'
    )
    init(tmp_path / "consortium.toml", tmp_path / "one", lambda _: None)
    data = node_site(tmp_path / "north")
    invitation = tmp_path / "one" / "invitations" / "north.toml"
    joined, _ = join(invitation, data, tmp_path / "site", 9094, lambda _: None)
    found = checks(joined.folder)["data"]
    assert not found.ok
    assert "for graph-classification, but the data of own are for node-class" in found.detail
    assert found.remedy.endswith("fedstar does not.")
    data.unlink()
    assert checks(joined.folder)["data"].remedy == f"Put the site's data at {data}."


def test_the_documented_consortium_suits_the_documented_graphs(tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "deploy.md"
    settings, *_ = re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL)
    (tmp_path / "consortium.toml").write_text(settings)
    init(tmp_path / "consortium.toml", tmp_path / "c", lambda _: None)
    invitation = tmp_path / "c" / "invitations" / "north.toml"
    joined, _ = join(
        invitation, node_site(tmp_path / "north"), tmp_path / "s", 9094, lambda _: None
    )
    checks = examine(joined.folder)
    data = next(check for check in checks if check.name == "data")  # before it connects
    assert data.ok, data.detail


def test_the_command_exits_with_1_if_a_check_fails(site: Site) -> None:
    result = CliRunner().invoke(app, ["doctor", str(site.folder)])
    assert result.exit_code == 1
    assert "BAD coordinator" in result.output
    assert "ok  node.key: mode 0600" in result.output


def test_a_flower_that_some_patches_do_not_fit_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert checks(tmp_path)["Flower"].ok
    moved = replace(PATCHES["quick-replies"], places=("flwr.supernode.start_client_internal:none",))
    monkeypatch.setitem(PATCHES, "quick-replies", moved)
    found = checks(tmp_path)["Flower"]
    assert not found.ok
    assert found.detail.endswith("without the parts for quick-replies")
    assert "pip install 'flwr==1.41.*'" in found.remedy
