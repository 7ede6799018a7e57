"""`ramet new` writes starts that run at once, and `ramet` alone says what to type."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import ramet


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("method", ("{file}:mine",)),
        ("network", ("fedavg", "--network", "{file}:Mine")),
        ("task", ("fedavg", "--task", "{file}:Sizes", "--metric", "{file}:within")),
        ("setting", ("fedavg", "--setting", "{file}:Mine")),
    ],
)
def test_a_start_runs_at_once(tmp_path: Path, kind: str, words: tuple[str, ...]) -> None:
    file = tmp_path / "start.py"
    written = ramet("new", kind, file)
    assert written.code == 0, written.stderr
    assert any(line.startswith("  ramet ") for line in written.stdout.splitlines())
    given = [word.format(file=file) for word in words]
    done = ramet("run", *given, "--rounds", "1", "--out", tmp_path / "run")
    assert done.code == 0, done.stderr
    again = ramet("new", kind, file)
    assert again.code == 2
    assert "exists. Choose another name" in again.stderr


def test_a_site_has_tables_that_fit(tmp_path: Path) -> None:
    for name in ("north", "south"):
        assert ramet("new", "site", tmp_path / name).code == 0
        checked = ramet("data", "check", tmp_path / name / "site.toml")
        assert checked.code == 0, checked.stderr
    sites = [word for n in ("north", "south") for word in ("--site", tmp_path / n / "site.toml")]
    done = ramet("run", "fedavg", *sites, "--rounds", "1", "--out", tmp_path / "run")
    assert done.code == 0, done.stderr


def test_ramet_alone_says_what_to_type() -> None:
    alone = ramet()
    assert alone.code == 0
    commands = [line for line in alone.stdout.splitlines() if line.startswith("  ramet ")]
    assert len(commands) == 3
    shown = ramet("--help").stdout
    assert [shown.index(f" {name} ") for name in ("Run", "Study", "Lists")] == sorted(
        shown.index(f" {name} ") for name in ("Run", "Study", "Lists")
    )


def test_tasks_are_listed_with_their_metrics() -> None:
    listed = ramet("list", "tasks").stdout
    assert "edge-classification" in listed
    assert "average-precision" in listed
