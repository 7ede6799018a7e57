"""`ramet watch` shows a run while it goes on, and ends with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import ramet
from command_line import ramet as command
from ramet.metrics import Record
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

    ramet.run("fedavg", "tiny", rounds=4, out=folder, observe=begin)
    assert watching[0].wait(timeout=60) == 0
    shown = page.read_text()
    assert "round 4 of 4" in shown
    assert "finished after" in shown
    assert 'http-equiv="refresh"' in shown


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


def test_a_coordinators_newest_run_is_watched(tmp_path: Path) -> None:
    for name, rounds in (("20260101-000000", 1), ("20260201-000000", 2)):
        ramet.run("fedavg", "tiny", rounds=rounds, out=tmp_path / "runs" / name)
    assert "round 2 of 2" in command("watch", tmp_path).stdout


def test_a_curve_goes_from_its_smallest_to_its_largest_value() -> None:
    assert sparkline([0.0, 0.5, 1.0]) == "▁▅█"
    assert sparkline([0.3, 0.3]) == "▁▁"
    assert sparkline([]) == ""
