"""Setting up both sides on disk: keys, files, reruns, and what is refused."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import stat
import subprocess
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from own_sites import CONSORTIUM_TOML as SETTINGS
from own_sites import graph_site
from ramet.deploy.coordinator import Coordinator, init
from ramet.deploy.opening import open_side
from ramet.deploy.services import Service
from ramet.deploy.site import Site, join
from ramet.errors import RametError

yaml = pytest.importorskip("yaml")
NGINX = "/usr/sbin/nginx"


@dataclass
class Workspace:
    """A working folder, and what the commands printed."""

    root: Path
    output: list[str] = field(default_factory=list)

    def init(self, settings: str = SETTINGS) -> Coordinator:
        (self.root / "consortium.toml").write_text(settings)
        return init(self.root / "consortium.toml", self.root / "three", self.output.append)

    def join(self, site: str = "rings") -> tuple[Site, Path]:
        invitation = self.root / "three" / "invitations" / f"{site}.toml"
        return join(invitation, self.root / "data", self.root / site, 9094, self.output.append)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def test_init_creates_keys_once_and_says_so(workspace: Workspace) -> None:
    folder = workspace.init().folder
    secret = ("authority.key", "server.key", "superexec.secret")
    before = {name: (folder / name).read_bytes() for name in (*secret, "authority.pem")}
    assert all(stat.S_IMODE((folder / name).stat().st_mode) == 0o600 for name in secret)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert "server.key: created" in workspace.output
    workspace.init()
    assert {name: (folder / name).read_bytes() for name in before} == before
    assert "server.key: exists, kept" in workspace.output


def test_the_server_certificate_is_for_the_address_and_loopback(workspace: Workspace) -> None:
    workspace.init()
    folder = workspace.init(SETTINGS.replace("fl.example.org", "192.0.2.7")).folder
    server = x509.load_pem_x509_certificate((folder / "server.pem").read_bytes())
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert list(map(str, names.get_values_for_type(x509.IPAddress))) == ["192.0.2.7", "127.0.0.1"]
    authority = x509.load_pem_x509_certificate((folder / "authority.pem").read_bytes())
    server.verify_directly_issued_by(authority)
    ssl.create_default_context(cafile=folder / "authority.pem")


def test_a_site_sends_back_only_its_public_key(workspace: Workspace) -> None:
    workspace.init()
    site, application = workspace.join()
    given = tomllib.loads(application.read_text())
    assert given.keys() == {"consortium", "site", "public_key"}
    assert given["public_key"].startswith("ecdsa-sha2-nistp384 ")
    key = site.folder / "node.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    before = key.read_bytes()
    assert workspace.join()[1].read_text() == application.read_text()
    assert key.read_bytes() == before
    invitation = (workspace.root / "three" / "invitations" / "rings.toml").read_text()
    assert "PRIVATE" not in invitation


def test_a_site_does_not_change_the_authority_it_trusts(
    workspace: Workspace, tmp_path: Path
) -> None:
    workspace.init()
    workspace.join()
    for name in ("authority.key", "authority.pem"):
        (workspace.root / "three" / name).unlink()
    workspace.init()
    with pytest.raises(RametError, match="trusts a different authority"):
        workspace.join()


def test_only_members_with_one_valid_key_are_admitted(workspace: Workspace, tmp_path: Path) -> None:
    coordinator = workspace.init()
    _, application = workspace.join()
    coordinator.admit(application, workspace.output.append)
    text = application.read_text()
    assert (coordinator.admitted / "rings.pub").read_text() in text
    coordinator.admit(application, workspace.output.append)

    def refused(changed: str, reason: str) -> None:
        (tmp_path / "changed.toml").write_text(changed)
        with pytest.raises(RametError, match=reason):
            coordinator.admit(tmp_path / "changed.toml", workspace.output.append)

    other = workspace.join("trees")[1].read_text()
    refused(text.replace('"three"', '"four"'), "for the consortium four")
    refused(text.replace('"rings"', '"nobody"'), "unknown site 'nobody'")
    refused(text.replace('"rings"', '"../rings"'), "site: String should match")
    refused(text.replace("nistp384 AAAA", "nistp384 BBBB"), "not a public key")
    refused(other.replace('"trees"', '"rings"'), "admitted with another key")
    other_curve = ec.generate_private_key(ec.SECP256R1()).public_key()
    public = other_curve.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    refused(f'consortium = "three"\nsite = "blocks"\npublic_key = "{public}"', "P-384")
    coordinator.revoke("rings", workspace.output.append)
    assert not (coordinator.admitted / "rings.pub").exists()


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ('"three"', '"three; rm"', "name: String should match"),
        ("fl.example.org", "fl.example.org;", "address: String should match"),
        ('["rings", "trees", "blocks"]', '["rings", "rings"]', "named twice"),
        ('"fedstar"', '"mine.py:mine"', "sites do not have the method's file"),
        ('"fedstar"', '"fedstar"\nmerge = "mine.py:Mine"', "the file of a network or rule"),
        ('"fedstar"', '"fedavg"\nnetwork = "net.py:Net"', "the file of a network or rule"),
        ('setting = "tiny"', "quorum = 4", "a quorum of 4 exceeds the number of sites, 3"),
        ('setting = "tiny"', "quorum = 0", "quorum: Input should be greater"),
        ('setting = "tiny"', 'setting = "tiny"\ncolour = 1', "colour: Extra inputs"),
        ('setting = "tiny"', "setting = ", "cannot read"),
    ],
)
def test_settings_are_checked(workspace: Workspace, before: str, after: str, reason: str) -> None:
    with pytest.raises(RametError, match=reason):
        workspace.init(SETTINGS.replace(before, after))


def test_the_error_for_a_wrong_file_says_what_it_is(workspace: Workspace) -> None:
    coordinator = workspace.init()
    site, application = workspace.join()
    invitation = coordinator.folder / "invitations" / "rings.toml"
    with pytest.raises(RametError, match=r"rings.toml is an invitation.*Expected a site's app"):
        coordinator.admit(invitation, workspace.output.append)
    with pytest.raises(RametError, match=r"is a site's application.*Expected an invitation"):
        join(application, workspace.root, workspace.root / "new", 9094, workspace.output.append)
    graphs = graph_site(workspace.root / "graphs", ["a"])
    with pytest.raises(RametError, match=r"is a description of a site's graphs.*Expected a cons"):
        init(graphs, workspace.root / "new", workspace.output.append)
    with pytest.raises(RametError, match=r"is the settings of a site that has joined"):
        init(site.folder / "site.toml", workspace.root / "new", workspace.output.append)


def test_a_site_joins_only_with_its_own_graphs(workspace: Workspace) -> None:
    workspace.init(SETTINGS.replace('setting = "tiny"', ""))
    graphs = graph_site(workspace.root / "trees", ["a"])
    invitations = workspace.root / "three" / "invitations"
    with pytest.raises(RametError, match=r"describes the graphs of trees, but .* invites rings"):
        join(
            invitations / "rings.toml", graphs, workspace.root / "r", 9094, workspace.output.append
        )
    assert not (workspace.root / "r").exists()
    join(invitations / "trees.toml", graphs, workspace.root / "t", 9094, workspace.output.append)


def test_a_consortium_takes_the_options_of_ramet_run(workspace: Workspace) -> None:
    more = """
        deadline = 90.0
        norm_bound = 50.0
        merge = "median"
        activation = "random-clients,count=2"
        share = ["structure.*"]
        """
    settings = workspace.init(more + SETTINGS).consortium.settings(workspace.root)
    assert (settings.deadline, settings.norm_bound, settings.merge) == (90.0, 50.0, "median")
    assert settings.activation == "random-clients,count=2"
    assert settings.share == ("structure.*",)


def test_sites_must_be_the_settings_clients(workspace: Workspace) -> None:
    coordinator = workspace.init(SETTINGS.replace('"blocks"', '"stars"'))
    with pytest.raises(RametError, match="has the clients rings, trees, blocks"):
        coordinator.consortium.settings(workspace.root)


def test_start_scripts_use_production_options(workspace: Workspace) -> None:
    link, executor, proxy = workspace.init().services()
    text = link.script.read_text()
    for words in (
        "--host 127.0.0.1",
        "--isolation process",
        "--database superlink.db",
        "--enable-supernode-auth",
        "--superexec-auth-secret-file superexec.secret",
        "--disable-runtime-dependency-installation",
        "export FLWR_TELEMETRY_ENABLED=0",
        "export FLWR_DISABLE_UPDATE_CHECK=1",
    ):
        assert words in text
    assert "--insecure" not in text + executor.script.read_text() + proxy.script.read_text()
    site_scripts = [service.script.read_text() for service in workspace.join()[0].services()]
    assert "--superlink fl.example.org:8443" in site_scripts[0]
    assert "--insecure" not in site_scripts[0]
    assert "--runtime-api-address 127.0.0.1:9094" in site_scripts[1]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_units(workspace: Workspace) -> None:
    units = [
        unit
        for side in (workspace.init(), workspace.join()[0])
        for unit in side.folder.glob("*.service")
    ]
    assert len(units) == 5
    done = subprocess.run(
        ["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_units_and_compose_start_the_same_scripts(workspace: Workspace) -> None:
    workspace.init()
    site, _ = workspace.join()
    composed = yaml.safe_load((site.folder / "compose.yaml").read_text())["services"]
    assert composed.keys() == {"supernode", "superexec"}
    for service in site.services():
        unit = (site.folder / f"ramet-rings-{service.name}.service").read_text()
        assert f'ExecStart=/bin/sh "{service.script}"\n' in unit
        assert composed[service.name]["command"][1] == str(service.script)
        assert composed[service.name]["network_mode"] == "host"
        assert f"{site.folder}:{site.folder}" in composed[service.name]["volumes"]
        assert (
            f"{workspace.root / 'data'}:{workspace.root / 'data'}:ro"
            in composed[service.name]["volumes"]
        )


def test_compose_checks_the_ports_on_which_services_listen(workspace: Workspace) -> None:
    folder = workspace.init(SETTINGS + "metrics_port = 9464\n").folder
    composed = yaml.safe_load((folder / "compose.yaml").read_text())["services"]
    checks = {
        name: service["healthcheck"]["test"][-1]
        for name, service in composed.items()
        if "healthcheck" in service
    }
    assert {name: text.split("((")[1] for name, text in checks.items()} == {
        "superlink": "'127.0.0.1', 8000), 5)",
        "proxy": "'127.0.0.1', 8443), 5)",
        "metrics": "'127.0.0.1', 9464), 5)",
    }
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        check = ["python3", "-c", checks["metrics"].replace("9464", str(port))]
        assert subprocess.run(check, check=False).returncode == 0
    assert subprocess.run(check, check=False, capture_output=True).returncode == 1


def test_low_ports_need_a_capability(workspace: Workspace) -> None:
    folder = workspace.init(SETTINGS + "port = 443\n").folder
    assert "CAP_NET_BIND_SERVICE" in (folder / "ramet-three-proxy.service").read_text()
    assert "CAP_NET_BIND_SERVICE" not in (folder / "ramet-three-superlink.service").read_text()
    composed = yaml.safe_load((folder / "compose.yaml").read_text())["services"]
    assert composed["proxy"]["cap_add"] == ["NET_BIND_SERVICE"]
    assert not any(composed["superlink"]["cap_add"])


def test_a_folder_without_a_side_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RametError, match="is not a side of a consortium"):
        open_side(tmp_path)


def test_a_service_starts_once_and_stops_with_its_children(tmp_path: Path) -> None:
    command = "sleep 300 & echo $! > child; wait"
    service = Service(tmp_path, "sleeper", "A test", ("/bin/sh", "-c", command))
    service.script.write_text(service.script_text())
    assert service.process() is None
    assert not service.stop()
    assert service.start()
    assert not service.start()
    running = service.process()
    assert running is not None
    pid_file, end = tmp_path / "child", time.monotonic() + 60
    while not (pid_file.exists() and pid_file.read_text().endswith("\n")):
        assert time.monotonic() < end
        time.sleep(0.05)
    assert psutil.pid_exists(int(pid_file.read_text()))
    assert service.stop()
    assert service.process() is None
    assert not psutil.pid_exists(int(pid_file.read_text()))


def test_a_process_that_reuses_the_id_is_not_ours(tmp_path: Path) -> None:
    service = Service(tmp_path, "sleeper", "A test", ("true",))
    (tmp_path / "sleeper.pid").write_text(f"{os.getpid()} 12345.0")
    assert service.process() is None
    assert not service.stop()


@pytest.mark.skipif(not os.access(NGINX, os.X_OK), reason="nginx is not installed")
def test_nginx_accepts_its_configuration(workspace: Workspace) -> None:
    *_, proxy = workspace.init().services()
    done = subprocess.run(
        [NGINX, *proxy.command[1:], "-t"],
        cwd=proxy.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    created = {path.name for path in (proxy.folder / "nginx").iterdir()}
    assert created == {"client_body", "proxy", "fastcgi", "uwsgi", "scgi"}
