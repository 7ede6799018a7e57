"""The commands of docs/operations.md, run by bash in a real consortium, each followed by a run."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomli_w

from consortia import consortium
from http_proxy import TINYPROXY, http_proxy
from operators import PAGE, PATH, Operators, blocks
from ramet.deploy import keys
from ramet.flower.programs import free_ports

PROGRAMS = ("nginx", "sqlite3", "logrotate")
missing = [program for program in PROGRAMS if shutil.which(program, path=PATH) is None]
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.thorough,
    pytest.mark.skipif(bool(missing), reason=f"not installed: {missing}"),
]
RECORDS = ("privacy.json", "answered.json", "told.json")
SITES = {"north": ("mass",), "south": ("mass", "charge")}


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
    operators.send_invitations(SITES)
    operators.type(trust)
    operators.check_run()  # one site trusts both, the other only the old one
    operators.type(trust, site="south")
    operators.type(switch)
    operators.send_invitations(SITES)
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
    operators.send_invitations(SITES)
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
