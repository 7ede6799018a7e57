"""Setting up coordinator and sites on disk: keys, files, reruns, and what is refused."""

from __future__ import annotations

import os
import ssl
import stat
import subprocess
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
import tomli_w
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from typer.testing import CliRunner

from own_sites import CONSORTIUM_TOML as SETTINGS
from own_sites import graph_site
from ramet.cli.main import app
from ramet.deploy.coordinator import Coordinator
from ramet.deploy.init import init
from ramet.deploy.opening import open_party
from ramet.deploy.services import Service
from ramet.deploy.site import Site, join
from ramet.errors import RametError

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
    secret = ("authority.key", "server.key", "coordinator.key", "superexec.secret")
    before = {name: (folder / name).read_bytes() for name in (*secret, "authority.pem")}
    assert all(stat.S_IMODE((folder / name).stat().st_mode) == 0o600 for name in secret)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert "server.key: created" in workspace.output
    workspace.init()
    assert {name: (folder / name).read_bytes() for name in before} == before
    assert "server.key: exists, kept" in workspace.output


def test_init_says_which_invitations_have_changed(workspace: Workspace) -> None:
    workspace.init()
    assert "invitations/rings.toml: for rings" in workspace.output
    workspace.output.clear()
    workspace.init()
    assert "invitations/rings.toml: for rings" in workspace.output
    workspace.init(f"rounds = 99\n{SETTINGS}")
    assert workspace.output[-4].startswith("invitations/rings.toml: changed; until rings joins")


def test_a_run_on_own_data_begins_with_all_sites(workspace: Workspace) -> None:
    party = workspace.init(f"quorum = 1\n{SETTINGS}")
    own = party.consortium.model_copy(update={"setting": "own"})
    assert (party.consortium.needed_to_begin, own.needed_to_begin) == (1, len(own.sites))
    with pytest.raises(RametError, match="0 of 3 sites are admitted, but 3 are needed"):
        party.check_admitted(own.needed_to_begin)


def test_a_rerun_of_init_does_not_ask_to_start_what_was_started(workspace: Workspace) -> None:
    (workspace.root / "consortium.toml").write_text(SETTINGS)
    folder = workspace.root / "three"
    words = ["deploy", "init", str(workspace.root / "consortium.toml"), "--out", str(folder)]
    first = CliRunner().invoke(app, words)
    assert f"Then: ramet deploy start {folder}" in first.stdout
    (folder / "superlink.pid").write_text("1 1.0")
    again = CliRunner().invoke(app, words)
    assert "Then: ramet deploy start" not in again.stdout
    assert f"ramet deploy stop {folder}, then start" in again.stdout


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


def test_a_site_sends_back_only_what_is_public(workspace: Workspace) -> None:
    workspace.init()
    site, application = workspace.join()
    given = tomllib.loads(application.read_text())
    assert given.keys() == {"consortium", "site", "public_key", "certificate"}
    assert "PRIVATE" not in application.read_text()
    assert given["public_key"].startswith("ecdsa-sha2-nistp384 ")
    secret = (site.folder / "node.key", site.folder / "client.pem")
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in secret)
    before = [path.read_bytes() for path in secret]
    assert workspace.join()[1].read_text() == application.read_text()
    assert [path.read_bytes() for path in secret] == before
    invitation = (workspace.root / "three" / "invitations" / "rings.toml").read_text()
    assert "PRIVATE" not in invitation


def test_others_can_read_nothing_in_the_folders(workspace: Workspace) -> None:
    before = os.umask(0o022)
    try:
        folders = (workspace.init().folder, workspace.join()[0].folder)
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)
    paths = [path for folder in folders for path in (folder, *folder.rglob("*"))]
    assert len(paths) > 30
    assert not [path for path in paths if path.stat().st_mode & 0o077]
    assert os.access(folders[1] / "guard" / "flwr-clientapp", os.X_OK)


@pytest.mark.parametrize("name", ["a:b", "a\nb", "a\x1bb"])
def test_paths_that_break_a_search_path_or_a_line_are_refused(
    workspace: Workspace, name: str
) -> None:
    workspace.init()
    invitation = workspace.root / "three" / "invitations" / "rings.toml"
    odd, output = workspace.root / name, workspace.output.append
    for data, folder in ((workspace.root / "data", odd), (odd, workspace.root / "rings")):
        with pytest.raises(RametError, match="contains a colon or a character such as a newline"):
            join(invitation, data, folder, 9094, output)
    with pytest.raises(RametError, match="contains a colon"):
        init(workspace.root / "consortium.toml", odd, output)
    assert not odd.exists()


def test_a_site_does_not_change_the_authority_it_trusts(
    workspace: Workspace, tmp_path: Path
) -> None:
    workspace.init()
    workspace.join()
    for name in ("authority.key", "authority.pem"):
        (workspace.root / "three" / name).unlink()
    workspace.init()
    with pytest.raises(RametError, match="has a new authority"):
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
    refused(text.partition("certificate =")[0], "certificate: Field required")
    refused(text.replace("nistp384 AAAA", "nistp384 BBBB"), "not a public key")
    refused(other.replace('"trees"', '"rings"'), "the certificate is not one for rings")
    refused(_with_certificate_of(text, other), "the certificate is not one for rings")
    refused(text.replace("BEGIN CERTIFICATE", "BEGIN ROAD"), "not a site's certificate")
    (workspace.root / "rings" / "node.key").rename(tmp_path / "old.key")
    new = workspace.join()[1].read_text()
    refused(new, "admitted with another key")
    refused(_with_certificate_of(text, new), "the certificate is for another key")
    other_curve = ec.generate_private_key(ec.SECP256R1()).public_key()
    public = other_curve.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    refused(text.replace(tomllib.loads(text)["public_key"], public), "P-384")


def test_a_revoked_site_comes_back_with_a_new_key(workspace: Workspace) -> None:
    coordinator = workspace.init()
    site, application = workspace.join()
    coordinator.admit(application, workspace.output.append)
    certificate = (coordinator.admitted / "rings.pem").read_text()
    assert certificate in (coordinator.folder / "clients.pem").read_text()
    coordinator.revoke("rings", workspace.output.append)
    assert not (coordinator.admitted / "rings.pub").exists()
    assert certificate not in (coordinator.folder / "clients.pem").read_text()
    with pytest.raises(RametError, match=r"was revoked, which is final.*move node.key away, rerun"):
        coordinator.admit(application, workspace.output.append)
    (site.folder / "node.key").unlink()
    coordinator.admit(workspace.join()[1], workspace.output.append)
    renewed = (coordinator.admitted / "rings.pem").read_text()
    assert renewed != certificate
    assert renewed in (coordinator.folder / "clients.pem").read_text()
    workspace.init()
    assert renewed in (coordinator.folder / "clients.pem").read_text()


def _with_certificate_of(application: str, other: str) -> str:
    given = tomllib.loads(application) | {"certificate": tomllib.loads(other)["certificate"]}
    return tomli_w.dumps(given)


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ('"three"', '"three; rm"', "name: String should match"),
        ("fl.example.org", "fl.example.org;", "address: Value error, expected a host name"),
        ("fl.example.org", "[::1]", "address: Value error, .* without brackets"),
        ("fl.example.org", "fe80::1%eth0", "address: .* valid on all machines"),
        ('["rings", "trees", "blocks"]', '["rings", "rings"]', "named twice"),
        ('"fedstar"', '"mine.py:mine"', "sites do not have the method's file"),
        ('"fedstar"', '"fedstar"\nmerge = "mine.py:Mine"', "the file of a network or rule"),
        ('"fedstar"', '"fedavg"\nnetwork = "net.py:Net"', "the file of a network or rule"),
        ('setting = "tiny"', "quorum = 4", "a quorum of 4 exceeds the number of sites, 3"),
        ('setting = "tiny"', "quorum = 0", "quorum: Input should be greater"),
        ('setting = "tiny"', 'setting = "tiny"\ncolour = 1', "colour: Extra inputs"),
        ('setting = "tiny"', "setting = ", "cannot read"),
        ('setting = "tiny"', f"setting = {5000 * '['}", "cannot read .*: it is nested too deeply"),
        ('"tiny"', '"nowhere"', "consortium.toml: unknown setting 'nowhere'"),
        ('"blocks"', '"stars"', "has the clients rings, trees, blocks"),
        ('"fedstar"', '"fedstarr"', "consortium.toml: unknown method 'fedstarr'"),
        ('"fedstar"', '"fedavg"\nnetwork = "gnc"', "unknown network 'gnc'"),
        ('"fedstar"', '"fedavg"\nmerge = "mode"', "unknown .* 'mode'"),
        ('"fedstar"', '"fedavg"\nactivation = "some"', "unknown .* 'some'"),
        ('"fedstar"', '"fedavg"\nrelease = "none-such"', "unknown .* 'none-such'"),
        ('"fedstar"', '"fedstar"\nshare = ["nothing.*"]', "nothing"),
        ('"fedstar"', '"fedstar"\nrounds = -1', "rounds: Input should be greater"),
        ('"fedstar"', '"fedstar"\nseed = -1', "seed: Input should be greater"),
        ('"fedstar"', '"fedstar"\ndeadline = 0', "deadline: Input should be greater"),
        ('"fedstar"', '"fedstar"\ndeadline = inf', "deadline: Input should be a finite"),
        ('"fedstar"', '"fedstar"\noptions = {speed = "1"}', "speed"),
    ],
)
def test_settings_are_checked(workspace: Workspace, before: str, after: str, reason: str) -> None:
    with pytest.raises(RametError, match=reason) as caught:
        workspace.init(SETTINGS.replace(before, after))
    assert "\n" not in str(caught.value)
    assert not (workspace.root / "three").exists()


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


def test_start_scripts_use_production_options(workspace: Workspace) -> None:
    link, executor, proxy = workspace.init().services()
    text = link.script.read_text()
    for words in (
        "--host 127.0.0.1",
        "--isolation process",
        "--database 'sqlite:///superlink.db?timeout=25'",
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


def test_joining_again_keeps_what_the_owner_allows(workspace: Workspace) -> None:
    workspace.init(SETTINGS + 'rounds = 4\n[options]\nclients = "3"\n')
    site, _ = workspace.join()
    assert "methods: fedstar" in workspace.output
    assert "rounds per run: at most 4" in workspace.output
    assert site.settings.terms.options == {"clients": "3"}
    settings = site.folder / "site.toml"
    edited = settings.read_text().replace("methods = []", 'methods = ["fedprox"]\nrounds = 9')
    settings.write_text(edited)
    workspace.init(SETTINGS.replace("fedstar", "feddense"))
    again, _ = workspace.join()
    assert again.settings.terms.methods == ("feddense", "fedprox")
    assert again.settings.terms.largest_rounds == 9
    assert "methods: feddense, fedprox" in workspace.output
    settings.write_text(edited.replace("rounds = 9", "rounds = 0"))
    with pytest.raises(RametError, match=r"allow.rounds: Input should be greater than or equal"):
        workspace.join()


def test_a_folder_without_a_side_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RametError, match="is not a party of a consortium"):
        open_party(tmp_path)


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
    (child,) = _numbers(tmp_path / "child", count=1)
    assert psutil.pid_exists(child)
    assert service.stop()
    assert service.process() is None
    assert not psutil.pid_exists(child)


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


def test_a_service_that_ends_is_restarted_without_its_old_children(tmp_path: Path) -> None:
    command = "sleep 300 & echo $! >> children; wait"
    service = Service(tmp_path, "sleeper", "A test", ("/bin/sh", "-c", command))
    service.script.write_text(service.script_text())
    assert service.start()
    try:
        first, child = service.process(), _numbers(tmp_path / "children", count=1)[0]
        assert first is not None
        first.kill()
        assert _numbers(tmp_path / "children", count=2)[0] == child
        assert not psutil.pid_exists(child)
        second = service.process()
        assert second is not None
        assert second.pid != first.pid
    finally:
        assert service.stop()
    assert "ended with status -9; restarting in 5 s" in service.log.read_text()


def _numbers(path: Path, count: int) -> list[int]:
    """The numbers in a file, once it has this many lines."""
    end = time.monotonic() + 60
    while not path.exists() or path.read_text().count("\n") < count:
        assert time.monotonic() < end
        time.sleep(0.05)
    return [int(line) for line in path.read_text().split()]
