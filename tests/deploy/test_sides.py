"""Setting up both sides on disk: keys, files, what may be done twice, what is refused."""

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
from ramet.deploy.opening import side_of
from ramet.deploy.services import Service
from ramet.deploy.site import Site, join
from ramet.errors import RametError

yaml = pytest.importorskip("yaml")
NGINX = "/usr/sbin/nginx"


@dataclass
class Desk:
    """A folder to work in, and what the commands said."""

    root: Path
    said: list[str] = field(default_factory=list)

    def init(self, settings: str = SETTINGS) -> Coordinator:
        (self.root / "consortium.toml").write_text(settings)
        return init(self.root / "consortium.toml", self.root / "three", self.said.append)

    def join(self, site: str = "rings") -> tuple[Site, Path]:
        invitation = self.root / "three" / "invitations" / f"{site}.toml"
        return join(invitation, self.root / "data", self.root / site, 9094, self.said.append)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_init_makes_keys_once_and_says_so(desk: Desk) -> None:
    folder = desk.init().folder
    secret = ("authority.key", "server.key", "superexec.secret")
    before = {name: (folder / name).read_bytes() for name in (*secret, "authority.pem")}
    assert all(stat.S_IMODE((folder / name).stat().st_mode) == 0o600 for name in secret)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert "server.key: made" in desk.said
    desk.init()
    assert {name: (folder / name).read_bytes() for name in before} == before
    assert "server.key: kept, it was there" in desk.said


def test_the_server_certificate_is_for_the_address_and_loopback(desk: Desk) -> None:
    desk.init()
    folder = desk.init(SETTINGS.replace("fl.example.org", "192.0.2.7")).folder
    server = x509.load_pem_x509_certificate((folder / "server.pem").read_bytes())
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert list(map(str, names.get_values_for_type(x509.IPAddress))) == ["192.0.2.7", "127.0.0.1"]
    authority = x509.load_pem_x509_certificate((folder / "authority.pem").read_bytes())
    server.verify_directly_issued_by(authority)
    ssl.create_default_context(cafile=folder / "authority.pem")


def test_a_site_hands_back_its_public_key_alone(desk: Desk) -> None:
    desk.init()
    site, application = desk.join()
    given = tomllib.loads(application.read_text())
    assert given.keys() == {"consortium", "site", "public_key"}
    assert given["public_key"].startswith("ecdsa-sha2-nistp384 ")
    key = site.folder / "node.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    before = key.read_bytes()
    assert desk.join()[1].read_text() == application.read_text()
    assert key.read_bytes() == before
    invitation = (desk.root / "three" / "invitations" / "rings.toml").read_text()
    assert "PRIVATE" not in invitation


def test_a_site_does_not_change_the_authority_it_trusts(desk: Desk, tmp_path: Path) -> None:
    desk.init()
    desk.join()
    for name in ("authority.key", "authority.pem"):
        (desk.root / "three" / name).unlink()
    desk.init()
    with pytest.raises(RametError, match="trusts another authority"):
        desk.join()


def test_admitting_takes_members_with_one_good_key(desk: Desk, tmp_path: Path) -> None:
    coordinator = desk.init()
    _, application = desk.join()
    coordinator.admit(application, desk.said.append)
    text = application.read_text()
    assert (coordinator.admitted / "rings.pub").read_text() in text
    coordinator.admit(application, desk.said.append)

    def refused(changed: str, reason: str) -> None:
        (tmp_path / "changed.toml").write_text(changed)
        with pytest.raises(RametError, match=reason):
            coordinator.admit(tmp_path / "changed.toml", desk.said.append)

    other = desk.join("trees")[1].read_text()
    refused(text.replace('"three"', '"four"'), "for the consortium four")
    refused(text.replace('"rings"', '"nobody"'), "unknown site 'nobody'")
    refused(text.replace('"rings"', '"../rings"'), "site: String should match")
    refused(text.replace("nistp384 AAAA", "nistp384 BBBB"), "no public key")
    refused(other.replace('"trees"', '"rings"'), "admitted with another key")
    small = ec.generate_private_key(ec.SECP256R1()).public_key()
    public = small.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    refused(f'consortium = "three"\nsite = "blocks"\npublic_key = "{public}"', "P-384")
    coordinator.revoke("rings", desk.said.append)
    assert not (coordinator.admitted / "rings.pub").exists()


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ('"three"', '"three; rm"', "name: String should match"),
        ("fl.example.org", "fl.example.org;", "address: String should match"),
        ('["rings", "trees", "blocks"]', '["rings", "rings"]', "named twice"),
        ('"fedstar"', '"mine.py:mine"', "a method's file is not on the sites"),
        ('"fedstar"', '"fedstar"\nmerge = "mine.py:Mine"', "a rule's file is not on the sites"),
        ('setting = "tiny"', "quorum = 4", "a quorum of 4 is more than 3 sites"),
        ('setting = "tiny"', "quorum = 0", "quorum: Input should be greater"),
        ('setting = "tiny"', 'setting = "tiny"\ncolour = 1', "colour: Extra inputs"),
        ('setting = "tiny"', "setting = ", "cannot read"),
    ],
)
def test_settings_are_checked(desk: Desk, before: str, after: str, reason: str) -> None:
    with pytest.raises(RametError, match=reason):
        desk.init(SETTINGS.replace(before, after))


def test_the_wrong_file_is_called_by_its_name(desk: Desk) -> None:
    coordinator = desk.init()
    site, application = desk.join()
    invitation = coordinator.folder / "invitations" / "rings.toml"
    with pytest.raises(RametError, match=r"rings.toml is an invitation.*Wanted is a site's app"):
        coordinator.admit(invitation, desk.said.append)
    with pytest.raises(RametError, match=r"is a site's application.*Wanted is an invitation"):
        join(application, desk.root, desk.root / "new", 9094, desk.said.append)
    graphs = graph_site(desk.root / "graphs", ["a"])
    with pytest.raises(RametError, match=r"is a description of a site's graphs.*Wanted is a cons"):
        init(graphs, desk.root / "new", desk.said.append)
    with pytest.raises(RametError, match=r"is the settings of a site that has joined"):
        init(site.folder / "site.toml", desk.root / "new", desk.said.append)


def test_a_site_joins_with_its_own_graphs_and_no_others(desk: Desk) -> None:
    desk.init(SETTINGS.replace('setting = "tiny"', ""))
    graphs = graph_site(desk.root / "trees", ["a"])
    invitations = desk.root / "three" / "invitations"
    with pytest.raises(RametError, match=r"describes the graphs of trees, and .* invites rings"):
        join(invitations / "rings.toml", graphs, desk.root / "r", 9094, desk.said.append)
    assert not (desk.root / "r").exists()
    join(invitations / "trees.toml", graphs, desk.root / "t", 9094, desk.said.append)


def test_what_ramet_run_takes_the_consortium_takes(desk: Desk) -> None:
    more = """
        deadline = 90.0
        norm_bound = 50.0
        merge = "median"
        activation = "random-clients,count=2"
        share = ["structure.*"]
        """
    settings = desk.init(more + SETTINGS).consortium.settings(desk.root)
    assert (settings.deadline, settings.norm_bound, settings.merge) == (90.0, 50.0, "median")
    assert settings.activation == "random-clients,count=2"
    assert settings.share == ("structure.*",)


def test_sites_must_be_the_settings_clients(desk: Desk) -> None:
    coordinator = desk.init(SETTINGS.replace('"blocks"', '"stars"'))
    with pytest.raises(RametError, match="has the clients rings, trees, blocks"):
        coordinator.consortium.settings(desk.root)


def test_the_production_profile(desk: Desk) -> None:
    link, executor, proxy = desk.init().services()
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
    site_scripts = [service.script.read_text() for service in desk.join()[0].services()]
    assert "--superlink fl.example.org:8443" in site_scripts[0]
    assert "--insecure" not in site_scripts[0]
    assert "--runtime-api-address 127.0.0.1:9094" in site_scripts[1]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_takes_the_units(desk: Desk) -> None:
    units = [
        unit for side in (desk.init(), desk.join()[0]) for unit in side.folder.glob("*.service")
    ]
    assert len(units) == 5
    done = subprocess.run(
        ["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_units_and_compose_start_the_same_scripts(desk: Desk) -> None:
    desk.init()
    site, _ = desk.join()
    composed = yaml.safe_load((site.folder / "compose.yaml").read_text())["services"]
    assert composed.keys() == {"supernode", "superexec"}
    for service in site.services():
        unit = (site.folder / f"ramet-rings-{service.name}.service").read_text()
        assert f'ExecStart=/bin/sh "{service.script}"\n' in unit
        assert composed[service.name]["command"][1] == str(service.script)
        assert composed[service.name]["network_mode"] == "host"
        assert f"{site.folder}:{site.folder}" in composed[service.name]["volumes"]
        assert f"{desk.root / 'data'}:{desk.root / 'data'}:ro" in composed[service.name]["volumes"]


def test_compose_knocks_where_a_service_listens(desk: Desk) -> None:
    folder = desk.init(SETTINGS + "metrics_port = 9464\n").folder
    composed = yaml.safe_load((folder / "compose.yaml").read_text())["services"]
    told = {
        name: one["healthcheck"]["test"][-1]
        for name, one in composed.items()
        if "healthcheck" in one
    }
    assert {name: text.split("((")[1] for name, text in told.items()} == {
        "superlink": "'127.0.0.1', 8000), 5)",
        "proxy": "'127.0.0.1', 8443), 5)",
        "metrics": "'127.0.0.1', 9464), 5)",
    }
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        knock = ["python3", "-c", told["metrics"].replace("9464", str(port))]
        assert subprocess.run(knock, check=False).returncode == 0
    assert subprocess.run(knock, check=False, capture_output=True).returncode == 1


def test_low_ports_need_a_capability(desk: Desk) -> None:
    folder = desk.init(SETTINGS + "port = 443\n").folder
    assert "CAP_NET_BIND_SERVICE" in (folder / "ramet-three-proxy.service").read_text()
    assert "CAP_NET_BIND_SERVICE" not in (folder / "ramet-three-superlink.service").read_text()
    composed = yaml.safe_load((folder / "compose.yaml").read_text())["services"]
    assert composed["proxy"]["cap_add"] == ["NET_BIND_SERVICE"]
    assert not any(composed["superlink"]["cap_add"])


def test_a_folder_without_a_side_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RametError, match="holds no side"):
        side_of(tmp_path)


def test_a_service_starts_once_and_stops_with_its_children(tmp_path: Path) -> None:
    waits = "sleep 300 & echo $! > child; wait"
    service = Service(tmp_path, "sleeper", "A test", ("/bin/sh", "-c", waits))
    service.script.write_text(service.script_text())
    assert service.process() is None
    assert not service.stop()
    assert service.start()
    assert not service.start()
    running = service.process()
    assert running is not None
    number, end = tmp_path / "child", time.monotonic() + 60
    while not (number.exists() and number.read_text().endswith("\n")):
        assert time.monotonic() < end
        time.sleep(0.05)
    assert psutil.pid_exists(int(number.read_text()))
    assert service.stop()
    assert service.process() is None
    assert not psutil.pid_exists(int(number.read_text()))


def test_another_process_with_the_noted_number_is_not_ours(tmp_path: Path) -> None:
    service = Service(tmp_path, "sleeper", "A test", ("true",))
    (tmp_path / "sleeper.pid").write_text(f"{os.getpid()} 12345.0")
    assert service.process() is None
    assert not service.stop()


@pytest.mark.skipif(not os.access(NGINX, os.X_OK), reason="nginx is not installed")
def test_nginx_takes_its_settings(desk: Desk) -> None:
    *_, proxy = desk.init().services()
    done = subprocess.run(
        [NGINX, *proxy.command[1:], "-t"],
        cwd=proxy.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    made = {path.name for path in (proxy.folder / "nginx").iterdir()}
    assert made == {"client_body", "proxy", "fastcgi", "uwsgi", "scgi"}
