"""Metrics, status and events of coordinator and sites, from real runs on disk and real scrapes."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from logging import ERROR, INFO
from pathlib import Path

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

import ramet
from federations import with_all_states
from own_sites import CONSORTIUM_TOML
from ramet.cli.main import app
from ramet.deploy import prometheus
from ramet.deploy.coordinator import Coordinator
from ramet.deploy.init import init
from ramet.deploy.releases import Releases
from ramet.deploy.schedule import Schedule
from ramet.deploy.site import Site, join
from ramet.deploy.snapshot import Facts, Monitor, Sent
from ramet.deploy.status import status_lines
from ramet.engine.site.answered import Answered
from ramet.errors import RametError
from ramet.events import NAME, events_written_to, log_event, outcome_logged, read_lines
from ramet.experiment import RunFolder
from ramet.flower.programs import free_ports, wait_until_up
from ramet.flower.submission import Submission
from ramet.payload import Payload

NOW = "2026-11-15T13:47:41.653+00:00"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "first"
    ramet.run("fedstar", "tiny", rounds=2, out=folder)
    return with_all_states(folder, folder.parent / "with-logs").path


@pytest.fixture
def coordinator(tmp_path: Path) -> Coordinator:
    (tmp_path / "consortium.toml").write_text(CONSORTIUM_TOML)
    return init(tmp_path / "consortium.toml", tmp_path / "three", lambda _: None)


@pytest.fixture
def site(coordinator: Coordinator, tmp_path: Path) -> Site:
    invitation = coordinator.folder / "invitations" / "rings.toml"
    return join(invitation, tmp_path, tmp_path / "rings", 9094, lambda _: None)[0]


def submit(party: Coordinator, run: Path) -> None:
    with events_written_to(party.events):
        log_event(INFO, "run submitted", folder=str(run))


def scraped(facts: Facts) -> dict[tuple[str, ...], float]:
    """Scrape over HTTP: (name, label values in the order of the label names...) -> value."""
    (port,) = free_ports(1)
    server, thread = prometheus.serve(lambda: facts, port)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            text = answer.read().decode()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_events_of_a_run_agree_with_its_rounds(run: Path) -> None:
    events, records = read_lines(run / NAME), RunFolder(run).records()
    assert [event["event"] for event in events] == [
        "run begun",
        "round begun",
        "round committed",
        "round begun",
        "round evaluated",
        "round committed",
        "round evaluated",
        "run finished",
    ]
    assert {event["run"] for event in events} == {RunFolder(run).run_name}
    assert {event["level"] for event in events} == {"info"}
    assert all(event["time"].endswith("+00:00") for event in events)
    evaluated = [event for event in events if event["event"] == "round evaluated"]
    assert [event["test"] for event in evaluated] == [record.mean("test") for record in records]
    assert [event["bytes_up"] for event in evaluated] == [record.bytes_up for record in records]


def test_the_coordinators_metrics_are_those_of_the_run(coordinator: Coordinator, run: Path) -> None:
    submit(coordinator, run)
    with (
        events_written_to(coordinator.events),
        outcome_logged("submission ended", "submission failed", "submission stopped"),
    ):
        pass  # the run had finished before, so the submission ends at once
    metrics = scraped(Monitor(coordinator).facts())
    records, name = RunFolder(run).records(), RunFolder(run).run_name
    assert metrics["ramet_run_info", "fedstar", name] == 1
    states = {key[1]: value for key, value in metrics.items() if key[0] == "ramet_run_state"}
    assert states == {"submitted": 0, "running": 0, "finished": 1, "stopped": 0, "failed": 0}
    assert metrics["ramet_run_round",] == metrics["ramet_run_rounds",] == 2
    assert metrics["ramet_run_clients_asked",] == 3
    for client in ("rings", "trees", "blocks"):
        assert metrics["ramet_run_replies_total", client, "sound"] == 2
    # FedStar shares 14,592 float32 parameters: 58,368 bytes, from 3 clients in 2 rounds
    assert metrics["ramet_run_received_bytes_total",] == 58_368 * 3 * 2
    assert metrics["ramet_run_sent_bytes_total",] == sum(record.bytes_down for record in records)
    assert metrics["ramet_run_score_ratio", "test"] == records[-1].mean("test")
    assert metrics["ramet_run_round_duration_seconds_count",] == 2
    assert metrics["ramet_run_last_round_duration_seconds",] > 0
    assert abs(metrics["ramet_run_last_event_timestamp_seconds",] - time.time()) < 3600
    days = (metrics["ramet_certificate_expiry_timestamp_seconds", "server"] - time.time()) / 86_400
    assert 396 < days < 397.1
    assert metrics["ramet_disk_free_bytes",] > 0
    assert not [key for key in metrics if key[0] in ("ramet_service_up", "ramet_site_online")]


def scheduled(party: Coordinator) -> Coordinator:
    consortium = party.consortium.model_copy(update={"schedule": Schedule(every="week")})
    return replace(party, consortium=consortium)


def test_the_time_of_the_last_accepted_run(coordinator: Coordinator) -> None:
    assert Monitor(coordinator).facts().accepted_at is None
    party = scheduled(coordinator)
    settings = (coordinator.folder / "consortium.toml").stat().st_mtime
    metrics = scraped(Monitor(party).facts())
    assert metrics["ramet_release_period_seconds",] == 7 * 86_400
    assert metrics["ramet_release_accepted_timestamp_seconds",] == settings
    week = {"period": "2026-W01", "run": "2026-W01"}
    releases = Releases.read(coordinator.folder).having(event="begun", sites=("rings",), **week)
    started = datetime.fromisoformat(releases.entries[0].time).timestamp()
    assert Monitor(party).facts().accepted_at == started
    log = coordinator.folder / "releases.jsonl"
    log.write_text(log.read_text().replace(releases.entries[0].time, "2026-01-01T00:00:00+00:00"))
    accepted = Releases.read(coordinator.folder).having(event="accepted", **week).last_accepted
    assert accepted is not None
    Releases.read(coordinator.folder).having(event="refused", run="2026-W02", period="2026-W02")
    facts = Monitor(party).facts()
    assert facts.accepted_at == datetime.fromisoformat(accepted.time).timestamp()
    expected = f"the run that counts: 2026-W01; the last was accepted on {accepted.time[:10]}"
    assert expected in status_lines(facts)


def test_how_many_runs_a_sites_policy_still_allows(site: Site) -> None:
    assert Monitor(site).facts().runs_left == 20  # as `join` writes it
    for run in range(3):
        message = Payload({}, {"round": 1, "train": 1}, {"run": f"{run}"})
        Answered(site.folder / "state" / "answered.json", f"{run}").begin(message, site.policy)
    facts = Monitor(site).facts()
    assert scraped(facts)["ramet_site_runs_left",] == 17
    assert "runs that the policy still allows: 17" in status_lines(facts)
    (site.folder / "policy.toml").write_text("")
    assert Monitor(site).facts().runs_left is None


def test_exactly_the_existing_metrics_are_documented(
    coordinator: Coordinator, site: Site, run: Path
) -> None:
    submit(coordinator, run)
    (coordinator.folder / "proxy.pid").write_text("1 1.0")
    facts = replace(
        Monitor(scheduled(coordinator)).facts(),
        sites={"rings": "online"},
        runs_left=20,
        sent=Sent(1, last=NOW),
        heartbeat=1.0,
    )
    page = Path(__file__).parents[2] / "docs" / "monitoring.md"
    documented = set(re.findall(r"\bramet_\w+", page.read_text()))
    assert documented == {key[0] for key in scraped(facts)}


def test_a_failed_run_reports_who_was_missing_and_why(
    coordinator: Coordinator, tmp_path: Path
) -> None:
    submit(coordinator, tmp_path / "broken")
    monitor = Monitor(coordinator)
    submitted = monitor.facts().run
    assert submitted is not None
    assert submitted.state == "submitted"
    with pytest.raises(RametError, match="below the quorum"):
        ramet.run("fedstar", "tiny", rounds=2, out=tmp_path / "broken", quorum=2, norm_bound=1e-6)
    facts = monitor.facts()
    assert facts.run is not None
    assert facts.run.state == "failed"
    assert facts.run.missing["trees"].startswith("moved by")
    metrics = scraped(facts)
    assert metrics["ramet_run_replies_total", "trees", "refused"] == 1
    assert metrics["ramet_run_quorums_missed_total",] == 1
    assert ("ramet_run_last_round_duration_seconds",) not in metrics
    levels = {e["event"]: e["level"] for e in read_lines(tmp_path / "broken" / NAME)}
    assert levels["reply refused"] == "warning"
    assert levels["run failed"] == levels["quorum missed"] == "error"
    lines = status_lines(facts)
    assert any(line.startswith("no valid reply from rings: moved by") for line in lines)
    assert any("failed; 0 of 3 clients sent a valid reply" in line for line in lines)


def test_a_stopped_submission_is_not_failed_and_keeps_its_counts_when_resumed(
    coordinator: Coordinator, run: Path, tmp_path: Path
) -> None:
    lines = (run / NAME).read_text().splitlines(keepends=True)
    half = tmp_path / "half"
    half.mkdir()
    (half / NAME).write_text("".join(lines[:3]) + lines[3][:40])  # killed in the middle of a line
    submit(coordinator, half)
    with (
        pytest.raises(KeyboardInterrupt),
        events_written_to(coordinator.events),
        outcome_logged("submission ended", "submission failed", "submission stopped"),
    ):
        raise KeyboardInterrupt
    facts = Monitor(coordinator).facts().run
    assert facts is not None
    assert (facts.state, facts.reason, facts.committed) == ("stopped", "", 1)
    submit(coordinator, half)
    facts = Monitor(coordinator).facts().run
    assert facts is not None
    assert (facts.state, facts.reason, facts.replies["trees", "sound"]) == ("submitted", "", 1)


def test_the_time_left_is_estimated_from_the_last_rounds(
    coordinator: Coordinator, tmp_path: Path
) -> None:
    submit(coordinator, tmp_path / "r")
    with events_written_to(tmp_path / "r" / NAME, run="a" * 32):
        log_event(INFO, "run begun", round=1, rounds=5, method="fedstar", clients=["a"])
        for number, seconds in ((1, 2.0), (2, 4.0)):
            log_event(INFO, "round begun", round=number, rounds=5, asked=1)
            log_event(INFO, "round committed", round=number, seconds=seconds, answered=["a"])
    facts = Monitor(coordinator).facts()
    assert facts.run is not None
    assert facts.run.seconds_left == 9.0  # three rounds of (2 + 4) / 2 s
    assert "round 2 of 5, clients: 1, about 0:00:09 left" in status_lines(facts)


def test_a_sites_metrics_agree_with_its_audit_log(site: Site, run: Path) -> None:
    (own,) = (run / "clients").glob("*/rings")
    state = site.folder / "state" / "clients" / own.parent.name
    state.mkdir(parents=True)
    own.rename(state / "rings")
    log = state / "rings" / "audit.jsonl"
    with log.open("a") as file:
        file.write('{"time": "2026')  # truncated by a crash
    replies = read_lines(log)
    metrics = scraped(Monitor(site).facts())
    # two rounds of training, and the reply to the closing message, which has no arrays
    assert metrics["ramet_site_replies_total",] == 3
    assert metrics["ramet_site_sent_bytes_total",] == 58_368 * 2
    assert metrics["ramet_site_sent_tensors_total",] == 2 * len(replies[0]["tensors"])
    assert metrics["ramet_site_round",] == 3
    assert abs(metrics["ramet_site_last_reply_timestamp_seconds",] - time.time()) < 3600
    assert not any(key[0].startswith("ramet_run") for key in metrics)
    (state / "rings").rename(own)


def test_a_site_counts_its_problems(site: Site) -> None:
    from ramet.flower.guard import EVENTS_VARIABLE, check_app, site_events

    guard = (site.folder / "guard" / "flwr-clientapp").read_text()
    assert f'{EVENTS_VARIABLE}="$here"/../logs/{site.events.name}' in guard
    with events_written_to(site.events), pytest.raises(RametError):
        check_app(b"another app", site.folder / "guard" / "accepted.txt")
    with site_events():  # writes no file if the variable is not set
        log_event(INFO, "message answered")
    facts = Monitor(site).facts()
    assert scraped(facts)["ramet_site_problems_total", "app refused"] == 1
    assert "last problem: app refused at" in status_lines(facts)[-1]


def test_only_the_type_of_errors_that_may_quote_data_is_logged(tmp_path: Path) -> None:
    with (
        pytest.raises(ValueError, match="4711"),
        events_written_to(tmp_path / NAME),
        outcome_logged("message answered", "message failed", "message stopped"),
    ):
        raise ValueError("patient 4711")
    (event,) = read_lines(tmp_path / NAME)
    assert event["reason"] == "ValueError"
    assert "4711" not in (tmp_path / NAME).read_text()


@pytest.mark.parametrize(
    ("error", "event", "level"),
    [
        (KeyboardInterrupt(), "run stopped", "info"),
        (SystemExit(0), "run stopped", "info"),
        (SystemExit(1), "run failed", "error"),
        (RametError("no"), "run failed", "error"),
    ],
)
def test_an_interrupted_run_is_not_failed(
    tmp_path: Path, error: BaseException, event: str, level: str
) -> None:
    with (
        pytest.raises(type(error)),
        events_written_to(tmp_path / NAME),
        outcome_logged("run finished", "run failed", "run stopped"),
    ):
        raise error
    (logged,) = read_lines(tmp_path / NAME)
    assert (logged["event"], logged["level"]) == (event, level)


def test_a_command_that_gives_up_fails_even_if_its_run_is_stopped(
    coordinator: Coordinator, tmp_path: Path
) -> None:
    submit(coordinator, tmp_path / "r")
    with events_written_to(coordinator.events):
        log_event(ERROR, "submission failed", reason="no round ended for 5 s.")
    with events_written_to(tmp_path / "r" / NAME):
        log_event(INFO, "run stopped")
    facts = Monitor(coordinator).facts().run
    assert facts is not None
    assert (facts.state, facts.reason) == ("failed", "no round ended for 5 s.")


def test_the_help_names_the_required_extra() -> None:
    shown = CliRunner().invoke(app, ["deploy", "metrics", "--help"])
    assert "needs the extra `metrics`." in " ".join(shown.output.split())


def test_ctrl_c_says_how_to_resume(
    coordinator: Coordinator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Submission, "run", interrupted)
    monkeypatch.setattr(Coordinator, "site_statuses", lambda _: {"rings": "offline"})
    command = ["deploy", "run", str(coordinator.folder), "--out", str(tmp_path / "r")]
    with pytest.raises(RametError, match=r"0 of 3 sites are admitted.*ramet deploy admit"):
        CliRunner().invoke(app, command, catch_exceptions=False)
    assert not coordinator.events.exists()
    (coordinator.admitted / "rings.pub").write_text("a key")
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 130
    assert done.stderr.splitlines() == [
        "rings is offline; the run waits up to 120 s for them",
        f"run submitted; folder: {tmp_path / 'r'}",
        f"ramet: stopped. Continue with `ramet {' '.join(command)}`.",
    ]
    levels = {event["event"]: event["level"] for event in read_lines(coordinator.events)}
    assert levels == {"run submitted": "info", "submission stopped": "info"}
    assert status_lines(Monitor(coordinator).facts())[-1] == "run: stopped"


def test_events_continue_after_logrotate(tmp_path: Path) -> None:
    path = tmp_path / NAME
    with events_written_to(path, run="r"):
        log_event(INFO, "one", client="a")
        path.rename(tmp_path / "old")
        log_event(INFO, "two")
    log_event(INFO, "three")
    assert [event["event"] for event in read_lines(path)] == ["two"]
    assert json.loads((tmp_path / "old").read_text())["client"] == "a"


def test_a_dead_service_is_down_and_a_stopped_one_is_not_listed(coordinator: Coordinator) -> None:
    link = coordinator.services()[0]
    (coordinator.folder / f"{link.name}.pid").write_text("1 1.0")  # another creation time
    assert scraped(Monitor(coordinator).facts())["ramet_service_up", "superlink"] == 0
    (coordinator.folder / f"{link.name}.pid").unlink()
    assert ("ramet_service_up", "superlink") not in scraped(Monitor(coordinator).facts())


def test_sites_online(coordinator: Coordinator) -> None:
    monitor = Monitor(coordinator)
    monitor.query_superlink()
    facts = monitor.facts()
    assert "the SuperLink is not running" in facts.superlink_error
    assert any(line.startswith("sites: unknown; the SuperLink") for line in status_lines(facts))
    statuses = {"rings": "online", "trees": "offline"}
    metrics = scraped(replace(facts, sites=statuses))
    assert metrics["ramet_site_online", "rings"] == 1
    assert metrics["ramet_site_online", "trees"] == 0


def test_the_metrics_and_status_commands(coordinator: Coordinator, run: Path) -> None:
    submit(coordinator, run)
    path = coordinator.folder / "ramet.prom"
    command = ["deploy", "metrics", str(coordinator.folder), "--textfile", str(path)]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    names = {family.name for family in text_string_to_metric_families(path.read_text())}
    assert {"ramet_run_round", "ramet_run_replies"} <= names
    shown = CliRunner().invoke(app, ["deploy", "status", str(coordinator.folder)])
    assert shown.exit_code == 1  # nothing runs here
    assert "round 2 of 2, clients: 3" in shown.output
    assert "committed: round 2 in" in shown.output


@contextmanager
def ramet_program(*words: str) -> Iterator[subprocess.Popen[str]]:
    program = subprocess.Popen(
        [sys.executable, "-m", "ramet", *words], stdout=subprocess.PIPE, text=True
    )
    try:
        yield program
    finally:
        program.kill()
        program.wait()


def test_the_exporter_answers_without_pytorch(site: Site) -> None:
    (port,) = free_ports(1)
    with ramet_program("deploy", "metrics", str(site.folder), "--port", str(port)) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == f"http://127.0.0.1:{port}/metrics\n"
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            assert b"ramet_site_replies_total 0.0" in answer.read()
        own = psutil.Process(program.pid)
        assert not [m.path for m in own.memory_maps() if "libtorch" in m.path]
        listening = [c for c in own.net_connections() if c.status == psutil.CONN_LISTEN]
        assert [(c.laddr.ip, c.laddr.port) for c in listening] == [("127.0.0.1", port)]
        with pytest.raises(RametError, match=f"port {port}: Address already in use"):
            prometheus.serve(Monitor(site).facts, port)


def test_watch_prints_changes_and_ends_with_ctrl_c(site: Site) -> None:
    with ramet_program("deploy", "status", str(site.folder), "--watch") as program:
        assert program.stdout is not None
        first = [program.stdout.readline() for _ in range(4)]
        assert first[0] == "supernode: not running\n"
        assert first[2] == "sent by this site: 0 replies, 0 bytes\n"
        assert first[3] == "runs that the policy still allows: 20\n"
        with events_written_to(site.events):
            log_event(INFO, "data problem", reason="see this site's logs")
        assert program.stdout.readline().startswith("last problem: data problem at ")
        program.send_signal(signal.SIGINT)
        assert program.wait(60) == 0
        assert program.stdout.read() == ""


def test_watch_redraws_in_a_terminal_and_ends_with_ctrl_c(site: Site) -> None:
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "ramet", "deploy", "status", str(site.folder), "--watch"]
    program = subprocess.Popen(
        words, stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm"}
    )
    os.close(theirs)
    output = b""
    try:
        while output.count(b"sent by this site: 0 replies") < 2:  # drawn, then redrawn
            output += os.read(ours, 4096)
        program.send_signal(signal.SIGINT)
        with suppress(OSError):  # raised by Linux when the other end is closed
            while more := os.read(ours, 4096):
                output += more
        assert program.wait(60) == 0
    finally:
        program.kill()
        program.wait()
        os.close(ours)
    assert b"\x1b[1A\x1b[2K" in output  # one line up, clear it
    assert output.endswith(b"\x1b[?25h")  # the cursor is shown again
    assert b"Traceback" not in output


def test_a_metrics_port_adds_a_service(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    (tmp_path / "consortium.toml").write_text(CONSORTIUM_TOML + f"metrics_port = {port}\n")
    party = init(tmp_path / "consortium.toml", tmp_path / "three", lambda _: None)
    exporter = party.services()[-1]
    assert f"exec ramet deploy metrics . --port {port}" in exporter.script.read_text()
    try:
        assert exporter.start()
        url = f"http://127.0.0.1:{port}/metrics"
        assert wait_until_up(url, lambda: exporter.process() is not None)
        with urllib.request.urlopen(url, timeout=30) as answer:
            assert b'ramet_service_up{service="metrics"} 1.0' in answer.read()
    finally:
        assert exporter.stop()
    assert (party.folder / "ramet-three-metrics.service").exists()
    invitation = party.folder / "invitations" / "rings.toml"
    site, _ = join(invitation, tmp_path, tmp_path / "rings", 9094, lambda _: None, 9465)
    assert Site.open(site.folder).settings.metrics_port == 9465
    assert [service.name for service in site.services()] == ["supernode", "superexec", "metrics"]
