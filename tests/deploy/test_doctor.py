"""What the doctor sees, and what it says to do."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from typer.testing import CliRunner

from own_sites import node_site
from ramet.cli.main import app
from ramet.deploy.coordinator import init
from ramet.deploy.doctor import examine
from ramet.deploy.probes import Finding, reach
from ramet.deploy.site import Site, join
from ramet.errors import RametError
from ramet.flower import THIN_APP
from ramet.flower.guard import app_hash
from ramet.flower.programs import free_ports


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


def findings(folder: Path) -> dict[str, Finding]:
    return {finding.what: finding for finding in examine(folder)}


def test_a_site_before_its_coordinator_runs(site: Site) -> None:
    seen = findings(site.folder)
    bad = {what for what, finding in seen.items() if not finding.well}
    assert bad == {"coordinator"}
    assert "firewall" in seen["coordinator"].remedy
    assert "graphs" in seen["data"].seen
    assert seen["accepted apps"].seen == f"{site.accepted} has the app of this Ramet"


def test_what_is_wrong_at_a_site(site: Site) -> None:
    (site.folder / "node.key").chmod(0o644)
    (site.folder / "authority.pem").unlink()
    site.accepted.write_text(f"{'0' * 64}  # another\n")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", site.settings.runtime_port))
        taken.listen()
        seen = findings(site.folder)
    assert seen["node.key"].remedy == f"chmod 600 {site.folder / 'node.key'}"
    assert not seen["node.key"].well
    assert not seen["authority"].well
    assert seen["accepted apps"].remedy.endswith(app_hash(THIN_APP))
    assert not seen["accepted apps"].well
    assert not seen[f"port {site.settings.runtime_port}"].well


def test_a_site_does_not_start_where_trying_again_is_in_vain(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(folder: Site, reason: str) -> None:
        with pytest.raises(RametError, match=reason):
            folder.start(lambda _: None)
        assert not folder.services()[0].is_wanted

    with pytest.raises(_TriedAgainError, match=r"^coordinator: .* Trying again in 5 s\.$"):
        site.start(_try_no_more)
    monkeypatch.setattr("ramet.deploy.site._JOINING", 0.0)
    refused(site, r"coordinator: 127\.0\.0\.1.*refused\. Ask the coordinator whether it runs")
    monkeypatch.undo()
    settings = site.settings
    lost = settings.model_copy(update={"address": "no-such-host.invalid"})
    refused(Site(site.folder, lost), "no host is known as no-such-host.invalid")
    with socket.create_server(("127.0.0.1", settings.runtime_port)):
        refused(site, rf"port {settings.runtime_port}: .*in use.*give another --runtime-port")
    other = init(tmp_path / "consortium.toml", tmp_path / "other", lambda _: None).folder
    with _tls_server(settings.port, other):
        refused(site, "coordinator: .*compare fingerprints")
    with _tls_server(settings.port, tmp_path / "three"):
        next(reach(settings.address, settings.port, site.authority)).demand()


def test_a_superlink_is_found_whoever_started_it(site: Site, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    settings = tmp_path / "consortium.toml"
    settings.write_text(f"link_port = {port}\n{settings.read_text()}")
    side = init(settings, tmp_path / "three", lambda _: None)
    other = init(settings, tmp_path / "other", lambda _: None)
    for reached in (nullcontext(), _tls_server(port, other.folder)):
        with reached, pytest.raises(RametError, match="the SuperLink does not run"):
            side.check_running()
    with _tls_server(port, side.folder):
        side.check_running()
    assert f"127.0.0.1:{port}" in (side.flower.home / "config.toml").read_text()


class _TriedAgainError(Exception):
    pass


def _try_no_more(text: str) -> None:
    raise _TriedAgainError(text)


class _Healthy(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()


@contextmanager
def _tls_server(port: int, folder: Path) -> Iterator[None]:
    server = HTTPServer(("127.0.0.1", port), _Healthy)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    serving = Thread(target=server.serve_forever)
    serving.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        serving.join()


def test_a_coordinator_that_does_not_run_yet(site: Site) -> None:
    seen = findings(site.folder.parent / "three")
    assert all(seen[key].seen == "mode 0600" for key in ("authority.key", "server.key"))
    assert seen["server certificate"].seen == "396 days left"
    assert "coordinator" not in seen


def test_settings_alone_are_no_lost_coordinator(site: Site, tmp_path: Path) -> None:
    seen = findings(tmp_path)
    assert "authority.key" not in seen
    assert seen["side"].remedy.startswith("Do `ramet deploy init consortium.toml`, then")


def test_nginx_is_found_where_users_do_not_look(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nginx = tmp_path / "nginx"
    nginx.write_text("#!/bin/sh\necho nginx version: 0 >&2\n")
    nginx.chmod(0o755)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("ramet.deploy.doctor.SYSTEM_PROGRAMS", (str(tmp_path),))
    assert findings(tmp_path / "three")["nginx"].seen == "nginx version: 0"


def test_data_for_another_task_are_not_called_missing(tmp_path: Path) -> None:
    (tmp_path / "consortium.toml").write_text(
        'name = "one"\naddress = "127.0.0.1"\nmethod = "fedstar"\nsites = ["north"]\n'
    )
    init(tmp_path / "consortium.toml", tmp_path / "one", lambda _: None)
    data = node_site(tmp_path / "north")
    invitation = tmp_path / "one" / "invitations" / "north.toml"
    joined, _ = join(invitation, data, tmp_path / "site", 9094, lambda _: None)
    found = findings(joined.folder)["data"]
    assert not found.well
    assert "for graph-classification, and the sites' graphs are for node" in found.seen
    assert found.remedy.endswith("fedstar does not.")
    data.unlink()
    assert findings(joined.folder)["data"].remedy == f"Put the site's data into {data}."


def test_the_documented_consortium_suits_the_documented_graphs(tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "deploy.md"
    (settings,) = re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL)
    (tmp_path / "consortium.toml").write_text(settings)
    init(tmp_path / "consortium.toml", tmp_path / "c", lambda _: None)
    invitation = tmp_path / "c" / "invitations" / "north.toml"
    joined, _ = join(
        invitation, node_site(tmp_path / "north"), tmp_path / "s", 9094, lambda _: None
    )
    data = next(one for one in examine(joined.folder) if one.what == "data")  # calls nobody yet
    assert data.well, data.seen


def test_the_command_ends_with_1_where_something_is_wrong(site: Site) -> None:
    result = CliRunner().invoke(app, ["doctor", str(site.folder)])
    assert result.exit_code == 1
    assert "BAD coordinator" in result.output
    assert "ok  node.key: mode 0600" in result.output
