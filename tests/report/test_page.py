"""The page of `ramet report`, as a browser reads it."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

import ramet
from command_line import ramet as command
from own_sites import node_site
from ramet.cli.study import _divergences
from ramet.errors import RametError
from ramet.experiment import RunFolder
from ramet.report.page import write_report
from ramet.studies.archive import finished_runs
from ramet.studies.finished_run import FinishedRun, FinishedRuns


class Reader(HTMLParser):
    """A page's tables, row by row, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self.text, self._in_cell = "", False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        self._in_cell = tag in ("td", "th")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._in_cell = False

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._in_cell:
            self.tables[-1][-1][-1] += data


def only_run(folder: Path) -> FinishedRun:
    ((run,),) = (runs.values() for runs in finished_runs([folder]).values())
    return run


def test_the_published_standings_are_on_the_page(single_runs: FinishedRuns, tmp_path: Path) -> None:
    wanted = {label: single_runs[label] for label in ("local", "fedstar", "gcfl")}
    read = Reader(write_report(wanted, tmp_path, target=0.75).read_text())
    standings, clients = read.tables
    assert standings == [
        [
            *("method", "seeds", "test accuracy, %", "at best validation", "gain", "p"),
            *("model scalars", "KB up", "FLOPs", "rounds to 75 %"),
        ],
        ["local", "5", "75.51 ± 0.74", "75.41", "–", "–", "31,517", "0.00", "3.92 G", "32"],
        [
            "fedstar",
            "5",
            "78.59 ± 0.90",
            "78.34",
            "+3.08",
            "0.010",
            "66,653",
            "57.00",
            "9.32 G",
            "17",
        ],
        ["gcfl", "1", "75.14", "75.14", "-0.01", "–", "31,517", "97.50", "–", "84"],
    ]
    assert clients[0] == ["client", "local", "fedstar", "gcfl"]
    assert clients[1] == ["MUTAG", "80.00", "86.32", "78.95"]
    assert clients[7] == ["NCI1", "74.21", "80.10", "71.78"]
    assert len(clients) == 8
    assert "single: 3 methods, 7 clients" in read.text
    assert "11 finished runs of 200 rounds" in read.text


def test_the_page_says_how_to_have_it_again(tiny_runs: FinishedRuns, tmp_path: Path) -> None:
    text = Reader(write_report(tiny_runs, tmp_path, left_out=["the weather"]).read_text()).text
    for method in ("local", "fedstar"):
        for seed in (1, 2):
            assert f"ramet run {method} --setting tiny --rounds 2 --seed {seed}" in text
    assert f"ramet {ramet.__version__}, python 3." in text
    assert "The gain is over local" in text
    assert "Left out: the weather" in text


def test_the_page_needs_nothing_else_and_its_figures_are_files_too(
    tiny_runs: FinishedRuns, tmp_path: Path
) -> None:
    page = write_report(tiny_runs, tmp_path)
    text = page.read_text()
    names = ("score_over_rounds", "score_over_flops", "payload")
    assert {path.name for path in tmp_path.iterdir()} == {
        "report.html",
        *(f"{name}.{kind}" for name in names for kind in ("png", "svg")),
    }
    assert text.count("<svg") == len(names)
    assert re.findall(r"<h2>(.*?)</h2>", text) == [
        *("Standings", "Accuracy over rounds", "Accuracy over work", "What a client sends"),
        *("Client by client", "How to have this again"),
    ]
    assert not re.search(r"<(script|link|img|iframe)\b", text)


def test_what_the_server_scores_and_saves_is_drawn_where_it_is_known(
    acm_runs: FinishedRuns, tmp_path: Path
) -> None:
    read = Reader(write_report(acm_runs, tmp_path).read_text())
    assert read.tables[0][0][4] == "on all data"
    assert read.tables[0][2][:5] == [
        "fed-hgn,clients=8",
        "5",
        "76.56 ± 0.31",
        "76.56",
        "76.17 ± 0.31",
    ]
    assert read.tables[0][1][4] == "–"
    for name in ("score_on_all_data", "loss_over_rounds", "score_over_bytes"):
        assert (tmp_path / f"{name}.svg").exists()
    assert "Test ROC-AUC on all clients' data at once" in read.text


def test_the_kinds_of_links_that_were_found_are_drawn(tmp_path: Path) -> None:
    kept = Path(__file__).parents[2] / "results" / "planted-kinds"
    runs = finished_runs([kept])
    text = write_report(runs, tmp_path).read_text()
    assert (tmp_path / "score_over_kinds.svg").exists()
    assert list(tmp_path.glob("agreement_*.svg"))
    assert "do the clients mean the same kinds?" in text


def test_a_client_that_was_away_at_the_end_has_no_mean(
    tiny_runs: FinishedRuns, tmp_path: Path
) -> None:
    run = tiny_runs["fedstar"][1]
    clients = {**run.summary.scores.clients, "trees": None}
    scores = run.summary.scores.model_copy(update={"clients": clients})
    away = replace(run, summary=run.summary.model_copy(update={"scores": scores}))
    runs = {"local": tiny_runs["local"], "fedstar": {**tiny_runs["fedstar"], 1: away}}
    _, table = Reader(write_report(runs, tmp_path).read_text()).tables
    assert [row[0] for row in table] == ["client", "rings", "trees", "blocks"]
    assert [row[2] == "–" for row in table[1:]] == [False, True, False]
    assert all(row[1] != "–" for row in table[1:])


def test_runs_of_several_settings_or_lengths_are_not_compared(
    tiny_runs: FinishedRuns, single_runs: FinishedRuns, tmp_path: Path
) -> None:
    mixed = {"local": tiny_runs["local"], "fedstar": single_runs["fedstar"]}
    with pytest.raises(
        RametError, match="cannot be compared: single with 200 rounds, tiny with 2 rounds"
    ):
        write_report(mixed, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.data
def test_a_report_describes_the_clients_that_the_run_had(data_root: Path, tmp_path: Path) -> None:
    """Four, as the run was given, and not the setting's own ten."""
    ramet.run(
        *("fedavg", "by-label"),
        rounds=1,
        data=data_root,
        out=tmp_path / "run",
        dataset="MUTAG",
        clients=4,
    )
    run = only_run(tmp_path / "run")
    apart, left_out = _divergences(run, data_root)
    assert apart is not None
    assert left_out == []
    names = [f"MUTAG-0000{part}" for part in range(4)]
    assert list(apart.clients) == list(run.summary.scores.clients) == names
    assert sum(held.graphs for held in apart.clients.values()) == 188  # all of MUTAG, once each
    assert apart.divergences["structure"].shape == (4, 4)

    done = command("report", tmp_path / "run", "--out", tmp_path / "report", "--data", data_root)
    assert done.code == 0, done.stderr
    text = Reader((tmp_path / "report" / "report.html").read_text()).text
    assert "by-label: 1 method, 4 clients" in text
    assert "How far the clients are apart" in text
    drawn = (tmp_path / "report" / "heterogeneity.svg").read_text()
    assert "MUTAG-00003" in drawn
    assert "MUTAG-00004" not in drawn


@pytest.mark.data
def test_a_report_describes_the_split_that_the_run_had(data_root: Path, tmp_path: Path) -> None:
    ramet.run(
        *("fedavg", "by-label"),
        rounds=1,
        data=data_root,
        out=tmp_path / "run",
        split_seed=7,
        dataset="MUTAG",
        clients=3,
    )
    run = only_run(tmp_path / "run")
    own, _ = _divergences(run, data_root)
    other, _ = _divergences(
        replace(run, command=run.command.replace("seed 7", "seed 8")), data_root
    )
    assert own is not None
    assert other is not None
    manifest = RunFolder(tmp_path / "run").experiment().manifest()["clients"]
    assert [held.graphs for held in own.clients.values()] == [
        sum(len(client[part]) for part in ("train", "val", "test")) for client in manifest.values()
    ]
    assert own.clients != other.clients


def test_own_sites_and_other_tasks_are_not_described(tmp_path: Path) -> None:
    site = node_site(tmp_path / "north")
    ramet.run("fed-gcn", "own", rounds=1, out=tmp_path / "own", sites=str(site))
    apart, left_out = _divergences(only_run(tmp_path / "own"), tmp_path)
    assert apart is None
    assert left_out == ["what the sites hold; `ramet data inspect --site FILE …` shows it."]
    ramet.run(*("fed-gcn", "planted"), rounds=1, out=tmp_path / "p", nodes=200, links=60)
    assert _divergences(only_run(tmp_path / "p"), tmp_path) == (None, [])


def test_why_clients_are_not_described_is_said(single_runs: FinishedRuns, tmp_path: Path) -> None:
    crowded = replace(single_runs["local"][1], command="ramet run local --set clients=60")
    summary = crowded.summary.model_copy(update={"setting": "at-random"})
    apart, left_out = _divergences(replace(crowded, summary=summary), tmp_path)
    assert apart is None
    assert left_out == [
        "how far the clients are apart; 60 clients are too many to compare all pairs. "
        "Take at most 50."
    ]
