"""The commands of docs/operations.md, run by bash in a real consortium, each followed by a run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomli_w

from consortia import DeployRun, Members, consortium
from http_proxy import TINYPROXY, http_proxy
from ramet.deploy import keys
from ramet.deploy.services import SYSTEM_PROGRAMS
from ramet.flower.programs import free_ports

PROGRAMS = ("nginx", "sqlite3", "logrotate")
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"], *SYSTEM_PROGRAMS])
missing = [program for program in PROGRAMS if shutil.which(program, path=PATH) is None]
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.thorough,
    pytest.mark.skipif(bool(missing), reason=f"not installed: {missing}"),
]
PAGE = Path(__file__).parents[2] / "docs" / "operations.md"
RECORDS = ("privacy.json", "answered.json", "told.json")
SITES = {"north": ("mass",), "south": ("mass", "charge")}
NOT_RUN = ("pip", "sudo")
"""Programs that would change this machine."""


def blocks(title: str) -> list[str]:
    """The commands of a section, a text for each block."""
    section = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.M | re.S)
    assert section, title
    return re.findall(r"^```bash\n(.*?)^```$", section[1], re.M | re.S)


class Operators:
    """The people at the coordinator and at the sites, who follow the page literally."""

    def __init__(self, members: Members, root: Path) -> None:
        self.members, self.root = members, root
        self.runs = 0
        self.send_invitations()

    def send_invitations(self) -> None:
        for site in SITES:
            invitation = self.members.coordinator.folder / "invitations" / f"{site}.toml"
            shutil.copy(invitation, self.root / f"{site}.toml")

    def type(self, block: str, site: str = "north", **replaced: str) -> str:
        """Run a block in bash as this site would; return its output."""
        settings = self.members.site(site).settings
        own = f"{settings.data} --runtime-port {settings.runtime_port}"
        text = block.replace("/srv/graphs/site.toml", "DATA").replace("north", site)
        for old, new in {"DATA": own, **replaced}.items():
            text = text.replace(old, new)
        stubs = "".join(f"{program}() {{ :; }}\n" for program in NOT_RUN)
        done = subprocess.run(
            ["bash", "-e", "-c", stubs + text],
            cwd=self.root,
            env={**os.environ, "PATH": PATH},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def check_run(self) -> None:
        """A run with all sites."""
        self.runs += 1
        run = DeployRun(self.members, self.root / f"run-{self.runs}")
        assert run.process.wait(400) == 0, run.output
        result = json.loads((run.out / "result.json").read_text())
        assert len(result["sha256"]) == 64
        assert run.rounds()[-1]["failed"] == {}


@pytest.fixture(scope="module")
def operators(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operators]:
    root = tmp_path_factory.mktemp("operations")
    settings = {"name": "hospitals", "method": "fedstar", "rounds": 1, "quorum": 2}
    with consortium(root, SITES, **settings) as members:
        yield Operators(members, root)


def test_back_up_and_restore(operators: Operators) -> None:
    coordinator, site, online, restore_coordinator, restore_site = blocks("Back up and restore")
    folders = [operators.root / name for name in ("hospitals", "hospitals-north")]
    operators.type(coordinator)
    operators.type(site)
    for folder in folders:
        (folder / "later").touch()
    records = [folders[1] / "state" / name for name in RECORDS]
    for record in records:
        record.parent.mkdir(exist_ok=True)
        record.write_text('{"version": 1, "runs": {}}')
    operators.type(restore_coordinator)
    operators.type(restore_site)
    assert {record.read_text() for record in records} == {'{"version": 1, "runs": {}}'}
    assert not (operators.root / "hospitals-north.before").exists()
    assert not [folder for folder in folders if (folder / "later").exists()]
    operators.check_run()
    operators.type(online)
    (folders[0] / "later").touch()
    operators.type(restore_coordinator)
    assert not (folders[0] / "later").exists()
    assert not (folders[0] / "superlink.backup").exists()
    operators.check_run()


def test_renew_the_servers_certificate(operators: Operators) -> None:
    (block,) = blocks("Renew the server's certificate")
    certificate = operators.root / "hospitals" / "server.pem"
    before = certificate.read_text()
    operators.type(block)
    assert certificate.read_text() != before
    operators.check_run()


def test_renew_a_sites_key(operators: Operators) -> None:
    new_key, admit, start = blocks("Renew a site's key")
    admitted = operators.root / "hospitals" / "admitted" / "north.pub"
    before = admitted.read_text()
    for block in (new_key, admit, start):
        operators.type(block)
    assert admitted.read_text() != before
    assert admitted.read_text() == keys.public_key_of(
        operators.root / "hospitals-north" / "node.key"
    )
    operators.check_run()


def test_replace_the_authority(operators: Operators) -> None:
    new, trust, switch, forget = blocks("Replace the authority")
    old = (operators.root / "hospitals" / "authority.pem").read_text()
    operators.type(new)
    operators.send_invitations()
    operators.type(trust)
    operators.check_run()  # one site trusts both, the other only the old one
    operators.type(trust, site="south")
    operators.type(switch)
    operators.send_invitations()
    operators.check_run()
    for site in SITES:
        operators.type(forget, site=site)
        trusted = (operators.root / f"hospitals-{site}" / "authority.pem").read_text()
        assert trusted == (operators.root / "hospitals" / "authority.pem").read_text()
        assert trusted != old
    operators.check_run()


def test_move_the_coordinator(operators: Operators) -> None:
    move, join = blocks("Move the coordinator")
    backup, _, _, restore, _ = blocks("Back up and restore")
    operators.type(backup)
    operators.type(restore.partition("ramet deploy start")[0])
    settings = operators.root / "consortium.toml"
    port = free_ports(1)[0]
    settings.write_text(tomli_w.dumps({**tomllib.loads(settings.read_text()), "port": port}))
    operators.type(move)
    operators.send_invitations()
    for site in SITES:
        operators.type(join, site=site)
    assert f":{port}" in (operators.root / "hospitals-north" / "supernode.sh").read_text()
    operators.check_run()


def test_upgrade(operators: Operators) -> None:
    coordinator, site = blocks("Upgrade")
    operators.type(coordinator)
    operators.type(site)
    operators.check_run()


@pytest.mark.skipif(TINYPROXY is None, reason="tinyproxy is not installed")
def test_egress_through_an_http_proxy(operators: Operators, tmp_path: Path) -> None:
    (block,) = blocks("Egress through an HTTP proxy")
    port = tomllib.loads((operators.root / "consortium.toml").read_text())["port"]
    with http_proxy(tmp_path, [port]) as proxy:
        operators.type(block, **{"http://proxy.example.org:3128": proxy.url})
        doctor = len(proxy.connections())
        assert set(proxy.connections()) == {f"localhost:{port}"}
        operators.check_run()
        assert doctor >= 2, "the doctor and the SuperNode"
    stop, start = "ramet deploy stop hospitals-north\n", "ramet deploy start hospitals-north\n"
    operators.type(stop + start)


def test_export_the_audit_log(operators: Operators) -> None:
    (block,) = blocks("Export the audit log")
    if not operators.runs:
        operators.check_run()
    entries = [json.loads(line) for line in operators.type(block).splitlines()]
    assert len({entry["id"] for entry in entries}) == len(entries) > 0
    fields = re.findall(r"^\| (`.*?) \|", PAGE.read_text(), re.M)
    documented = set(re.findall(r"`(\w+)`", " ".join(fields)))
    assert documented >= entries[0].keys()
    assert operators.type(block) == ""


def test_rotate_logs(operators: Operators) -> None:
    _, try_it = blocks("Rotate logs")
    operators.type(try_it)
    logs = operators.root / "hospitals-north" / "logs"
    assert (logs / "supernode.log.1.gz").exists()
    operators.check_run()
    assert (logs / "events.jsonl").stat().st_size > 0
