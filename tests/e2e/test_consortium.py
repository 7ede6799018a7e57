"""A consortium of three sites behind a real nginx, from the settings to the final model."""

from __future__ import annotations

import shlex
import shutil
import socket
import ssl
import stat
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import HTTPSConnection
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ramet
from command_line import ramet as command
from consortia import Members, children, consortium
from federations import merged_sha256
from ramet.deploy import keys
from ramet.deploy.doctor import examine
from ramet.deploy.run import run_consortium
from ramet.deploy.site import Site
from ramet.deploy.snapshot import Monitor
from ramet.engine.site.audit import audit_entries
from ramet.events import read_lines
from ramet.flower.programs import free_ports

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed"),
]
SITES = {"north": ("mass",), "south": ("mass", "charge"), "east": ("spin", "mass", "charge")}
ROUNDS, SEED = 2, 3


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Members]:
    root = tmp_path_factory.mktemp("consortium")
    with consortium(root, SITES, method="fedstar", rounds=ROUNDS, seed=SEED, quorum=3) as found:
        yield found


def test_the_final_model_is_the_local_engines(members: Members, tmp_path: Path) -> None:
    files = shlex.join(str(site.settings.data) for site in members.sites)
    expected = ramet.run(
        "fedstar", "own", rounds=ROUNDS, seed=SEED, out=tmp_path / "local", sites=files
    )
    command_lines: list[list[str]] = []
    assert members.coordinator.site_statuses() == dict.fromkeys(SITES, "online")
    run = run_consortium(
        members.coordinator,
        tmp_path / "together",
        tmp_path,
        300.0,
        lambda record: command_lines.extend(_command_lines(members)),
        members.output.append,
    )
    _check_no_secret_in(command_lines, members)
    assert f"run submitted; folder: {run.path}" in members.output
    summary = run.summary()
    assert summary is not None
    for fact in ("scores", "traffic", "model"):
        assert getattr(summary, fact) == getattr(expected.summary, fact)
    assert summary.sha256 == merged_sha256(expected.folder)
    for site in members.sites:
        (states,) = (site.folder / "state" / "clients").iterdir()
        assert [state.name for state in states.iterdir()] == [site.settings.site]
        assert list(states.rglob("final/*.safetensors"))
        sent, truncated = audit_entries(site.folder / "state")
        assert truncated == 0
        assert {reply.round for reply in sent} == {1, 2, 3}
        assert {t.name.partition(".")[0] for reply in sent for t in reply.tensors} == {"structure"}
        _check_predictions(site, expected, tmp_path / "predictions.csv")
    assert not list((run.path / "clients").rglob("*.safetensors")), "a site's state left the site"
    assert not list(run.path.rglob("site.json")), "a site's ranges left the site"
    _check_traffic_at_the_proxy(members)
    _check_monitoring(members)


def _command_lines(members: Members) -> list[list[str]]:
    """The command lines of all programs of the consortium, which every account can read."""
    parties = (members.coordinator, *members.sites)
    return [
        process.cmdline()
        for party in parties
        for service in party.services()
        for process in children(service, "")
    ]


def _check_no_secret_in(command_lines: list[list[str]], members: Members) -> None:
    assert any("flwr-serverapp" in word for words in command_lines for word in words)
    parties = (members.coordinator, *members.sites)
    secrets = [(party.folder / "superexec.secret").read_text() for party in parties]
    for words in command_lines:
        assert "--token" not in words
        assert not any(secret in word for secret in secrets for word in words)


def _check_predictions(site: Site, expected: ramet.Result, out: Path) -> None:
    """The site predicts from its own folder, as the same run does in one process."""
    done = command("predict", site.folder, "--site", site.settings.data, "--out", out)
    assert done.code == 0, done.stderr
    ours, theirs = pd.read_csv(out), expected.predict(site=site.settings.data)
    assert ours["id"].tolist() == theirs["id"].tolist()
    np.testing.assert_allclose(ours["p_ring"], theirs["p_ring"], rtol=0, atol=1e-6)


def _check_monitoring(members: Members) -> None:
    monitor = Monitor(members.coordinator)
    monitor.query_superlink()
    facts = monitor.facts()
    assert facts.run is not None
    assert (facts.run.state, facts.run.committed) == ("finished", ROUNDS)
    assert facts.run.replied == sorted(SITES)
    assert facts.sites == dict.fromkeys(SITES, "online")
    for site in members.sites:
        events = [event["event"] for event in read_lines(site.events)]
        assert events == ["message answered"] * (ROUNDS + 2)  # introduction and closing message too
        sent = Monitor(site).facts().sent
        assert sent is not None
        assert sent.replies == ROUNDS + 1


def _check_traffic_at_the_proxy(members: Members) -> None:
    """nginx receives the bytes that the sites' audit logs list, plus overhead: request headers with
    the node's signature, Flower's object ids, and NumPy's array headers.
    """
    logged = sum(
        tensor.bytes
        for site in members.sites
        for reply in audit_entries(site.folder / "state")[0]
        for tensor in reply.tensors
    )
    received = [
        int(line.split()[-2])
        for line in (members.coordinator.folder / "logs" / "access.log").read_text().splitlines()
        if " /v1/fleet/push" in line and line.split()[-3] == "200"
    ]
    assert logged < sum(received) < logged + 1500 * len(received)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/control/list-runs",
        "/v1/control/register-node",
        "/v1/control/start-run",
        "/v1/runtime/acquire-task",
        "/v1/runtime/pull-messages",
        "/v1/fleet/../control/list-runs",
        "/v1/fleet/%2e%2e/control/list-runs",
        "/v1/fleet/..%2fcontrol/list-runs",
        "//v1/control/list-runs",
        "/v1/control/..%2ffleet/list-runs/../../control/list-runs",
        "/V1/CONTROL/list-runs",
        "/health",
        "/docs",
        "/openapi.json",
        "/",
    ],
)
def test_sites_reach_only_the_fleet_api_and_outsiders_nothing(members: Members, path: str) -> None:
    for method in ("GET", "POST"):
        assert _status(members, method, path, certificate=_certificate(members)) == 403
        assert _status(members, method, path) == 400


def test_flower_refuses_unsigned_calls_of_the_fleet_api(members: Members) -> None:
    headers, own = {"Content-Type": "application/protobuf"}, _certificate(members)
    assert _status(members, "POST", "/v1/fleet/pull-messages", headers, own) == 401
    assert _status(members, "GET", "/v1/fleet/pull-messages", headers, own) == 403
    assert _status(members, "POST", "/v1/fleet/pull-messages", headers) == 400


def test_the_superlink_listens_on_loopback_only(members: Members) -> None:
    """Linux lists listening sockets with hexadecimal addresses: 127.0.0.1 is 0100007F."""
    ports = {f"{members.coordinator.consortium.link_port:04X}"}
    ports |= {f"{site.settings.runtime_port:04X}" for site in members.sites}
    listening = [
        line.split()[1].split(":")
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
        if line.split()[3] == "0A"
    ]
    ours = [(address, port) for address, port in listening if port in ports]
    assert sorted(ours) == sorted(("0100007F", port) for port in ports)


def test_unknown_supernodes_are_refused(members: Members, tmp_path: Path) -> None:
    """Real SuperNodes with a key that was never admitted, no key, a wrong authority, or no TLS.

    The SuperLink sees none of them: nginx answers, because they have no certificate.
    """
    keys.ensure_signing_key(tmp_path / "rogue.key")
    keys.ensure_key(tmp_path / "other.key")
    other = keys.make_authority("test", tmp_path / "other.key")
    (tmp_path / "other.pem").write_text(other)
    honest = members.sites[0].folder
    trust = ["--root-certificates", str(members.coordinator.authority)]
    own_key = ["--auth-supernode-private-key", str(honest / "node.key")]
    rogue_key = ["--auth-supernode-private-key", str(tmp_path / "rogue.key")]
    attempts = {
        "rogue key": [*trust, *rogue_key],
        "no key": trust,
        "wrong authority": ["--root-certificates", str(tmp_path / "other.pem"), *own_key],
        "plaintext": ["--insecure"],
    }
    calls = members.service("coordinator", "superlink").log
    before = calls.read_text().count("activate-node")
    started = {
        name: _supernode(members, port, options)
        for (name, options), port in zip(attempts.items(), free_ports(4), strict=True)
    }
    output = {name: process.communicate(timeout=300)[0] for name, process in started.items()}
    for name, process in started.items():
        assert process.returncode not in (0, None), name
        assert "SuperNode ID" not in output[name], name
    assert "400" in output["rogue key"]
    assert calls.read_text().count("activate-node") == before
    assert len(members.coordinator.flower.flwr("supernode", "list")["nodes"]) == len(SITES)


def test_connections_with_plaintext_or_a_wrong_authority_fail(
    members: Members, tmp_path: Path
) -> None:
    with pytest.raises(urllib.error.HTTPError, match="400"):
        urllib.request.urlopen(f"http://{members.proxy_address}/v1/fleet/pull-messages", timeout=60)
    keys.ensure_key(tmp_path / "other.key")
    (tmp_path / "other.pem").write_text(keys.make_authority("test", tmp_path / "other.key"))
    context = ssl.create_default_context(cafile=tmp_path / "other.pem")
    with (
        socket.create_connection(("127.0.0.1", members.coordinator.consortium.port)) as plain,
        pytest.raises(ssl.SSLCertVerificationError),
    ):
        context.wrap_socket(plain, server_hostname="localhost")


def test_the_doctor_reports_no_problems_on_either_side(members: Members) -> None:
    for party in (members.coordinator, members.sites[0]):
        checks = {check.name: check for check in examine(party.folder)}
        assert not [check for check in checks.values() if not check.ok]
        expected = "400" if party is members.coordinator else "403"
        assert checks["Control API from outside"].detail == f"status {expected}"
        assert checks["clock"].ok


def test_private_keys_are_private_and_stay_where_they_were_created(members: Members) -> None:
    parties = (members.coordinator, *members.sites)
    secrets = {
        party.folder: [path for path in party.folder.rglob("*") if _is_secret(path)]
        for party in parties
    }
    assert sorted(path.name for path in secrets[members.coordinator.folder]) == [
        "authority.key",
        "coordinator.key",
        "server.key",
        "superexec.secret",
    ]
    for party in members.sites:
        names = sorted(path.name for path in secrets[party.folder])
        assert names == ["client.pem", "node.key", "superexec.secret"]
    files = [path for paths in secrets.values() for path in paths]
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in files)
    assert len({path.read_bytes() for path in files}) == len(files)


def _is_secret(path: Path) -> bool:
    return path.is_file() and (path.suffix == ".secret" or b"PRIVATE KEY" in path.read_bytes())


def _certificate(members: Members) -> Path:
    return members.sites[0].folder / "client.pem"


def _status(
    members: Members,
    method: str,
    path: str,
    headers: dict[str, str] | None = None,
    certificate: Path | None = None,
) -> int:
    """The proxy's status; the path is sent as it is."""
    context = ssl.create_default_context(cafile=members.coordinator.authority)
    if certificate:
        context.load_cert_chain(certificate)
    port = members.coordinator.consortium.port
    connection = HTTPSConnection("localhost", port, timeout=60, context=context)
    try:
        connection.request(method, path, body=b"", headers=headers or {})
        return connection.getresponse().status
    finally:
        connection.close()


def _supernode(members: Members, port: int, options: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            *(
                "flower-supernode",
                "--superlink",
                f"localhost:{members.coordinator.consortium.port}",
            ),
            *("--host", "127.0.0.1", "--port", str(port)),
            *("--isolation", "process", "--max-retries", "1", "--max-wait-time", "5", *options),
        ],
        env=members.sites[0].flower.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
