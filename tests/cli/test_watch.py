"""`ramet watch` shows a run while it goes on, and ends with it."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from logging import ERROR, INFO
from pathlib import Path
from typing import Any

import ramet
from command_line import ramet as command
from ramet.events import NAME, events_written_to, log_event
from ramet.experiment import RunFolder
from ramet.metrics import Record
from ramet.report.run_tables import missed_rounds
from ramet.report.watching import sparkline


def test_a_run_is_watched_to_its_end(tmp_path: Path) -> None:
    folder, page, watching = tmp_path / "run", tmp_path / "run.html", list[subprocess.Popen[str]]()

    def begin(record: Record) -> None:
        if record.round == 2:
            words = [sys.executable, "-m", "ramet", "watch", str(folder), "--every", "0.1"]
            watching.append(subprocess.Popen([*words, "--html", str(page)], text=True))
            while not page.exists():
                assert watching[0].poll() is None
        if record.round == 3:
            assert "round 2 of 4" in page.read_text()
            assert 'http-equiv="refresh"' in page.read_text()

    ramet.run("fedavg", "tiny", rounds=4, out=folder, observe=begin)
    assert watching[0].wait(timeout=60) == 0
    shown = page.read_text()
    assert "round 4 of 4" in shown
    assert "finished after" in shown
    assert "refresh" not in shown


def test_each_client_has_its_scores_and_its_curve(tmp_path: Path) -> None:
    result = ramet.run("fedavg", "tiny", rounds=3, out=tmp_path / "run")
    shown = command("watch", tmp_path / "run")
    assert shown.code == 0, shown.stderr
    last = result.frame[result.frame["round"] == 3].set_index("client")
    for client, row in last.iterrows():
        (line,) = (one for one in shown.stdout.splitlines() if one.startswith(str(client)))
        assert f"{100 * row['val']:.2f}" in line
        assert f"{100 * row['test']:.2f}" in line
        assert "round 3" in line


def test_a_coordinators_last_submission_is_watched(tmp_path: Path) -> None:
    """Also before its folder exists, and if it failed; never the run before."""
    log, old, new = (tmp_path / part for part in ("logs/events.jsonl", "runs/1", "runs/2"))
    ramet.run("fedavg", "tiny", rounds=2, out=old)
    log.parent.mkdir()
    refused = command("watch", tmp_path)
    assert refused.code == 2
    assert "no run was submitted" in refused.stderr
    with events_written_to(log):
        log_event(INFO, "run submitted", folder=str(old))
        log_event(INFO, "submission ended")
        assert "round 2 of 2" in command("watch", tmp_path).stdout
        log_event(INFO, "run submitted", folder=str(new))
        waiting = command("watch", "--once", tmp_path).stdout
        assert waiting.splitlines() == ["run 2: submitted", "waiting for its sites"]
        log_event(ERROR, "submission failed", reason="rome is not connected.")
    failed = command("watch", tmp_path, "--html", tmp_path / "page.html")
    assert failed.code == 0
    page = (tmp_path / "page.html").read_text()
    assert "rome is not connected." in page
    assert "<table>" not in page
    assert "refresh" not in page


def test_a_round_that_takes_long_and_clients_that_are_missing_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    ramet.run("fedavg", "tiny", rounds=3, out=folder)
    (folder / "result.json").unlink()
    lines = (folder / "rounds.jsonl").read_text().splitlines()
    last = json.loads(lines[-1])
    for part in ("trained", "evaluated"):
        del last[part]["trees"]
    last["failed"]["trees"] = "its SuperNode is away"
    (folder / "rounds.jsonl").write_text("\n".join([*lines[:-1], json.dumps(last)]) + "\n")
    began = datetime.now(UTC) - timedelta(seconds=45)
    begun = {"run": "r", "method": "fedavg", "round": 1, "rounds": 3}
    done = {"round": 3, "seconds": 0.2, "answered": ["rings", "blocks"]}
    log: dict[str, dict[str, Any]] = {
        "run begun": begun,
        "round committed": done,
        "round begun": {"round": 4, "asked": 3},
    }
    with (folder / NAME).open("w") as events:
        for event, facts in log.items():
            told = {"time": began.isoformat(), "level": "info", "event": event, **facts}
            events.write(json.dumps(told) + "\n")
    shown = command("watch", "--once", folder).stdout
    assert "round 4 has lasted 0:00:45 so far; the last ones took 0:00:00" in shown
    assert "(2 of 3 clients)" in shown
    (line,) = (one for one in shown.splitlines() if one.startswith("trees"))
    assert "round 2" in line
    assert "missed 1 round; its" in line
    assert line.split()[1].startswith("(")  # a score of an earlier round
    assert missed_rounds(RunFolder(folder).records()) == ["trees: no valid reply in 1 of 3 rounds"]
    with events_written_to(folder / NAME):
        log_event(INFO, "run stopped")
    stopped = command("watch", folder)
    assert "stopped after" in stopped.stdout
    assert "has lasted" not in stopped.stdout
    assert command("watch", "--once", folder, "--html", tmp_path / "page.html").code == 0
    page = (tmp_path / "page.html").read_text()
    assert '<tr class="missing"><td>trees</td>' in page
    assert "missed 1 round; its SuperNode is away" in page


def test_a_curve_goes_from_its_smallest_to_its_largest_value_with_gaps() -> None:
    assert sparkline([0.0, 0.5, 1.0]) == "▁▅█"
    assert sparkline([0.0, None, 1.0]) == "▁·█"
    assert sparkline([0.3, 0.3]) == "▄▄"
    assert sparkline([]) == ""
