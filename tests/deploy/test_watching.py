"""Metrics, status and events of both sides, from real runs on disk and a real scrape."""

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
from logging import ERROR, INFO
from pathlib import Path

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

import ramet
from own_sites import CONSORTIUM_TOML
from ramet.cli.main import app
from ramet.deploy import prometheus
from ramet.deploy.coordinator import Coordinator, init
from ramet.deploy.site import Site, join
from ramet.deploy.snapshot import Facts, Left, Look
from ramet.deploy.status import status_lines
from ramet.errors import RametError
from ramet.events import NAME, ending, read_lines, tell, written_to
from ramet.experiment import RunFolder
from ramet.flower.programs import Flower, answers, free_ports

NOW = "2026-11-15T13:47:41.653+00:00"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "first"
    ramet.run("fedstar", "tiny", rounds=2, out=folder)
    return folder


@pytest.fixture
def coordinator(tmp_path: Path) -> Coordinator:
    (tmp_path / "consortium.toml").write_text(CONSORTIUM_TOML)
    return init(tmp_path / "consortium.toml", tmp_path / "three", lambda _: None)


@pytest.fixture
def site(coordinator: Coordinator, tmp_path: Path) -> Site:
    invitation = coordinator.folder / "invitations" / "rings.toml"
    return join(invitation, tmp_path, tmp_path / "rings", 9094, lambda _: None)[0]


def submit(side: Coordinator, run: Path) -> None:
    with written_to(side.events):
        tell(INFO, "run submitted", folder=str(run))


def scraped(facts: Facts) -> dict[tuple[str, ...], float]:
    """A real scrape over HTTP: (name, values of labels in the labels' order...) -> value."""
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


def test_a_runs_events_agree_with_its_rounds(run: Path) -> None:
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


def test_the_coordinators_metrics_are_the_runs(coordinator: Coordinator, run: Path) -> None:
    submit(coordinator, run)
    with (
        written_to(coordinator.events),
        ending("submission ended", "submission failed", "submission stopped"),
    ):
        pass  # it was finished before, so it ends at once
    found = scraped(Look(coordinator).facts())
    records, name = RunFolder(run).records(), RunFolder(run).run_name
    assert found["ramet_run_info", "fedstar", name] == 1
    states = {key[1]: value for key, value in found.items() if key[0] == "ramet_run_state"}
    assert states == {"submitted": 0, "running": 0, "finished": 1, "stopped": 0, "failed": 0}
    assert found["ramet_run_round",] == found["ramet_run_rounds",] == 2
    assert found["ramet_run_clients_asked",] == 3
    for client in ("rings", "trees", "blocks"):
        assert found["ramet_run_replies_total", client, "sound"] == 2
    # FedStar shares 14,592 float32 numbers: 58,368 bytes, of 3 clients in 2 rounds
    assert found["ramet_run_received_bytes_total",] == 58_368 * 3 * 2
    assert found["ramet_run_sent_bytes_total",] == sum(record.bytes_down for record in records)
    assert found["ramet_run_score_ratio", "test"] == records[-1].mean("test")
    assert found["ramet_run_round_duration_seconds_count",] == 2
    assert found["ramet_run_last_round_duration_seconds",] > 0
    assert abs(found["ramet_run_last_event_timestamp_seconds",] - time.time()) < 3600
    days = (found["ramet_certificate_expiry_timestamp_seconds", "server"] - time.time()) / 86_400
    assert 396 < days < 397.1
    assert found["ramet_disk_free_bytes",] > 0
    assert not [key for key in found if key[0] in ("ramet_service_up", "ramet_site_online")]


def test_the_documented_metrics_are_the_ones_there_are(
    coordinator: Coordinator, site: Site, run: Path
) -> None:
    submit(coordinator, run)
    (coordinator.folder / "proxy.pid").write_text("1 1.0")
    facts = replace(Look(coordinator).facts(), sites={"rings": "online"}, left=Left(1, last=NOW))
    page = Path(__file__).parents[2] / "docs" / "deploy.md"
    documented = set(re.findall(r"\bramet_\w+", page.read_text()))
    assert documented == {key[0] for key in scraped(facts)}


def test_a_broken_run_tells_who_was_missing_and_why(
    coordinator: Coordinator, tmp_path: Path
) -> None:
    submit(coordinator, tmp_path / "broken")
    look = Look(coordinator)
    waiting = look.facts().run
    assert waiting is not None
    assert waiting.state == "submitted"
    with pytest.raises(RametError, match="below the quorum"):
        ramet.run("fedstar", "tiny", rounds=2, out=tmp_path / "broken", quorum=2, norm_bound=1e-6)
    facts = look.facts()
    assert facts.run is not None
    assert facts.run.state == "failed"
    assert facts.run.without["trees"].startswith("moved by")
    found = scraped(facts)
    assert found["ramet_run_replies_total", "trees", "refused"] == 1
    assert found["ramet_run_quorums_missed_total",] == 1
    assert ("ramet_run_last_round_duration_seconds",) not in found
    levels = {e["event"]: e["level"] for e in read_lines(tmp_path / "broken" / NAME)}
    assert levels["reply refused"] == "warning"
    assert levels["run failed"] == levels["quorum missed"] == "error"
    lines = status_lines(facts)
    assert any(line.startswith("without rings: moved by") for line in lines)
    assert any("failed; 0 of 3 clients gave a sound reply" in line for line in lines)


def test_a_stopped_submission_has_not_failed_and_counts_on_when_resumed(
    coordinator: Coordinator, run: Path, tmp_path: Path
) -> None:
    lines = (run / NAME).read_text().splitlines(keepends=True)
    half = tmp_path / "half"
    half.mkdir()
    (half / NAME).write_text("".join(lines[:3]) + lines[3][:40])  # killed within a line
    submit(coordinator, half)
    with (
        pytest.raises(KeyboardInterrupt),
        written_to(coordinator.events),
        ending("submission ended", "submission failed", "submission stopped"),
    ):
        raise KeyboardInterrupt
    facts = Look(coordinator).facts().run
    assert facts is not None
    assert (facts.state, facts.reason, facts.committed) == ("stopped", "", 1)
    submit(coordinator, half)
    facts = Look(coordinator).facts().run
    assert facts is not None
    assert (facts.state, facts.reason, facts.replies["trees", "sound"]) == ("submitted", "", 1)


def test_time_left_is_that_of_the_last_rounds(coordinator: Coordinator, tmp_path: Path) -> None:
    submit(coordinator, tmp_path / "r")
    with written_to(tmp_path / "r" / NAME, run="a" * 32):
        tell(INFO, "run begun", round=1, rounds=5, method="fedstar", clients=["a"])
        for number, seconds in ((1, 2.0), (2, 4.0)):
            tell(INFO, "round begun", round=number, rounds=5, asked=1)
            tell(INFO, "round committed", round=number, seconds=seconds, answered=["a"])
    facts = Look(coordinator).facts()
    assert facts.run is not None
    assert facts.run.seconds_left == 9.0  # three rounds of (2 + 4) / 2 s
    assert "round 2 of 5: 1 clients asked, about 0:00:09 left" in status_lines(facts)


def test_a_sites_metrics_are_its_audit_logs(site: Site, run: Path) -> None:
    (own,) = (run / "clients").glob("*/rings")
    state = site.folder / "state" / "clients" / own.parent.name
    state.mkdir(parents=True)
    own.rename(state / "rings")
    log = state / "rings" / "audit.jsonl"
    with log.open("a") as file:
        file.write('{"time": "2026')  # a crash cut this line
    replies = read_lines(log)
    found = scraped(Look(site).facts())
    # two rounds of training, and the closing message that sends no arrays
    assert found["ramet_site_replies_total",] == 3
    assert found["ramet_site_sent_bytes_total",] == 58_368 * 2
    assert found["ramet_site_sent_tensors_total",] == 2 * len(replies[0]["tensors"])
    assert found["ramet_site_round",] == 3
    assert abs(found["ramet_site_last_reply_timestamp_seconds",] - time.time()) < 3600
    assert not any(key[0].startswith("ramet_run") for key in found)
    (state / "rings").rename(own)


def test_a_site_counts_its_problems(site: Site) -> None:
    from ramet.flower.guard import EVENTS, check_app, site_events

    guard = (site.folder / "guard" / "flwr-clientapp").read_text()
    assert f'{EVENTS}="$here"/../logs/{site.events.name}' in guard
    with written_to(site.events), pytest.raises(RametError):
        check_app(b"another app", site.folder / "guard" / "accepted.txt")
    with site_events():  # without the variable, no file
        tell(INFO, "message answered")
    facts = Look(site).facts()
    assert scraped(facts)["ramet_site_problems_total", "app refused"] == 1
    assert "last problem: app refused at" in status_lines(facts)[-1]


def test_errors_that_may_quote_data_are_told_by_their_kind_alone(tmp_path: Path) -> None:
    with (
        pytest.raises(ValueError, match="4711"),
        written_to(tmp_path / NAME),
        ending("message answered", "message failed", "message stopped"),
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
def test_a_run_that_somebody_stops_has_not_failed(
    tmp_path: Path, error: BaseException, event: str, level: str
) -> None:
    with (
        pytest.raises(type(error)),
        written_to(tmp_path / NAME),
        ending("run finished", "run failed", "run stopped"),
    ):
        raise error
    (told,) = read_lines(tmp_path / NAME)
    assert (told["event"], told["level"]) == (event, level)


def test_the_command_gave_up_is_a_failure_though_its_run_was_stopped(
    coordinator: Coordinator, tmp_path: Path
) -> None:
    submit(coordinator, tmp_path / "r")
    with written_to(coordinator.events):
        tell(ERROR, "submission failed", reason="no round ended for 5 s.")
    with written_to(tmp_path / "r" / NAME):
        tell(INFO, "run stopped")
    facts = Look(coordinator).facts().run
    assert facts is not None
    assert (facts.state, facts.reason) == ("failed", "no round ended for 5 s.")


def test_the_help_names_the_extra_that_is_needed() -> None:
    shown = CliRunner().invoke(app, ["deploy", "metrics", "--help"])
    assert "needs the extra `metrics`." in " ".join(shown.output.split())


def test_ctrl_c_says_how_to_go_on(
    coordinator: Coordinator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Flower, "run", stopped)
    monkeypatch.setattr(Coordinator, "check_running", lambda _: None)
    command = ["deploy", "run", str(coordinator.folder), "--out", str(tmp_path / "r")]
    with pytest.raises(RametError, match=r"0 of 3 sites are admitted.*ramet deploy admit"):
        CliRunner().invoke(app, command, catch_exceptions=False)
    assert not coordinator.events.exists()
    (coordinator.admitted / "rings.pub").write_text("a key")
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 130
    assert done.stderr.splitlines() == [
        f"run submitted; its folder: {tmp_path / 'r'}",
        f"ramet: stopped. Go on with `ramet {' '.join(command)}`.",
    ]
    levels = {event["event"]: event["level"] for event in read_lines(coordinator.events)}
    assert levels == {"run submitted": "info", "submission stopped": "info"}
    assert status_lines(Look(coordinator).facts())[-1] == "run: stopped"


def test_events_go_on_after_logrotate(tmp_path: Path) -> None:
    path = tmp_path / NAME
    with written_to(path, run="r"):
        tell(INFO, "one", client="a")
        path.rename(tmp_path / "old")
        tell(INFO, "two")
    tell(INFO, "three")
    assert [event["event"] for event in read_lines(path)] == ["two"]
    assert json.loads((tmp_path / "old").read_text())["client"] == "a"


def test_a_service_that_died_is_down_and_a_stopped_one_is_silent(coordinator: Coordinator) -> None:
    link = coordinator.services()[0]
    (coordinator.folder / f"{link.name}.pid").write_text("1 1.0")  # not its time of birth
    assert scraped(Look(coordinator).facts())["ramet_service_up", "superlink"] == 0
    (coordinator.folder / f"{link.name}.pid").unlink()
    assert ("ramet_service_up", "superlink") not in scraped(Look(coordinator).facts())


def test_sites_online(coordinator: Coordinator) -> None:
    look = Look(coordinator)
    look.ask()
    facts = look.facts()
    assert "the SuperLink does not run" in facts.trouble
    assert any(line.startswith("sites: unknown; the SuperLink") for line in status_lines(facts))
    seen = {"rings": "online", "trees": "offline"}
    found = scraped(replace(facts, sites=seen))
    assert found["ramet_site_online", "rings"] == 1
    assert found["ramet_site_online", "trees"] == 0


def test_the_textfile_and_status_by_command(coordinator: Coordinator, run: Path) -> None:
    submit(coordinator, run)
    path = coordinator.folder / "ramet.prom"
    command = ["deploy", "metrics", str(coordinator.folder), "--textfile", str(path)]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    names = {family.name for family in text_string_to_metric_families(path.read_text())}
    assert {"ramet_run_round", "ramet_run_replies"} <= names
    shown = CliRunner().invoke(app, ["deploy", "status", str(coordinator.folder)])
    assert shown.exit_code == 1  # nothing runs here
    assert "round 2 of 2: 3 clients asked" in shown.output
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
            prometheus.serve(Look(site).facts, port)


def test_watching_tells_what_is_new_and_ends_by_ctrl_c(site: Site) -> None:
    with ramet_program("deploy", "status", str(site.folder), "--watch") as program:
        assert program.stdout is not None
        first = [program.stdout.readline() for _ in range(3)]
        assert first[0] == "supernode: does not run\n"
        assert first[2] == "left this site: 0 replies, 0 bytes\n"
        with written_to(site.events):
            tell(INFO, "data problem", reason="see this site's logs")
        assert program.stdout.readline().startswith("last problem: data problem at ")
        program.send_signal(signal.SIGINT)
        assert program.wait(60) == 0
        assert program.stdout.read() == ""


def test_watching_in_a_terminal_stays_in_place_and_ends_by_ctrl_c(site: Site) -> None:
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "ramet", "deploy", "status", str(site.folder), "--watch"]
    program = subprocess.Popen(
        words, stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm"}
    )
    os.close(theirs)
    seen = b""
    try:
        while seen.count(b"left this site: 0 replies") < 2:  # drawn, and drawn again
            seen += os.read(ours, 4096)
        program.send_signal(signal.SIGINT)
        with suppress(OSError):  # Linux's way to say that the other end is closed
            while more := os.read(ours, 4096):
                seen += more
        assert program.wait(60) == 0
    finally:
        program.kill()
        program.wait()
        os.close(ours)
    assert b"\x1b[1A\x1b[2K" in seen  # up a line, clear it
    assert seen.endswith(b"\x1b[?25h")  # the cursor is back
    assert b"Traceback" not in seen


def test_a_metrics_port_makes_a_service(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    (tmp_path / "consortium.toml").write_text(CONSORTIUM_TOML + f"metrics_port = {port}\n")
    side = init(tmp_path / "consortium.toml", tmp_path / "three", lambda _: None)
    exporter = side.services()[-1]
    assert f"exec ramet deploy metrics . --port {port}" in exporter.script.read_text()
    try:
        assert exporter.start()
        url = f"http://127.0.0.1:{port}/metrics"
        assert answers(url, lambda: exporter.process() is not None)
        with urllib.request.urlopen(url, timeout=30) as answer:
            assert b'ramet_service_up{service="metrics"} 1.0' in answer.read()
    finally:
        assert exporter.stop()
    assert (side.folder / "ramet-three-metrics.service").exists()
    invitation = side.folder / "invitations" / "rings.toml"
    site, _ = join(invitation, tmp_path, tmp_path / "rings", 9094, lambda _: None, 9465)
    assert Site.open(site.folder).settings.metrics_port == 9465
    assert [service.name for service in site.services()] == ["supernode", "superexec", "metrics"]
