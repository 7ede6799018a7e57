"""The HTML page of `ramet report`, parsed."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

import ramet
from command_line import ramet as command
from own_sites import node_site
from ramet.cli.report import _divergences
from ramet.errors import RametError
from ramet.experiment import RunFolder
from ramet.experiment.run_facts import manifest
from ramet.report.page import write_report
from ramet.studies.archive import finished_runs
from ramet.studies.finished_run import Draw, FinishedRun, FinishedRuns


class Reader(HTMLParser):
    """Collects the text of a page, and the cells of its tables."""

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


def test_the_page_has_the_published_results(single_runs: FinishedRuns, tmp_path: Path) -> None:
    wanted = {label: single_runs[label] for label in ("local", "fedstar", "gcfl")}
    read = Reader(write_report(wanted, tmp_path, target=0.75).read_text())
    standings, clients, *_ = read.tables
    assert standings == [
        [
            *("method", "runs", "test accuracy, %", "at best validation", "gain", "p"),
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


def test_the_page_has_the_commands_to_reproduce_it(tiny_runs: FinishedRuns, tmp_path: Path) -> None:
    text = Reader(write_report(tiny_runs, tmp_path, left_out=["the weather"]).read_text()).text
    for method in ("local", "fedstar"):
        for seed in (1, 2):
            assert f"ramet run {method} --setting tiny --rounds 2 --seed {seed}" in text
    assert f"ramet {ramet.__version__}, python 3." in text
    assert "Gain: over local, on common splits and seeds." in text
    assert "Left out: the weather" in text


def test_the_page_is_self_contained_and_its_figures_are_also_files(
    tiny_runs: FinishedRuns, tmp_path: Path
) -> None:
    page = write_report(tiny_runs, tmp_path)
    text = page.read_text()
    names = ("score_over_rounds", "score_over_flops", "payload")
    assert {path.name for path in tmp_path.iterdir()} == {
        *("report.html", "table.tex", "gains.pdf"),
        *(f"{name}.{kind}" for name in names for kind in ("png", "svg")),
    }
    assert text.count("<svg") == len(names)
    assert re.findall(r"<h2>(.*?)</h2>", text) == [
        *("Results", "Accuracy over rounds", "Accuracy over FLOPs", "Upload per client"),
        "Results by client",
        "fedstar: each site alone and together",
        "Commands to reproduce this",
    ]
    assert not re.search(r"<(script|link|img|iframe)\b", text)


@pytest.mark.thorough
def test_scores_on_all_data_and_saved_bytes_are_shown_for_runs_that_have_them(
    acm_runs: FinishedRuns, tmp_path: Path
) -> None:
    page = write_report(acm_runs, tmp_path, baselines={"fedda": "fed-hgn"})
    read = Reader(page.read_text())
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
    assert "Test ROC-AUC on all clients' data, smoothed as above." in read.text


@pytest.mark.thorough
def test_the_learned_kinds_of_links_are_drawn(tmp_path: Path) -> None:
    kept = Path(__file__).parents[2] / "results" / "planted-kinds"
    runs = finished_runs([kept])
    text = write_report(runs, tmp_path).read_text()
    assert (tmp_path / "score_over_kinds.svg").exists()
    assert list(tmp_path.glob("agreement_*.svg"))
    assert "agreement of the clients on link kinds" in text


def test_a_client_without_a_last_reply_has_no_mean(tiny_runs: FinishedRuns, tmp_path: Path) -> None:
    run = tiny_runs["fedstar"][Draw(123, 1)]
    clients = {**run.summary.scores.clients, "trees": None}
    scores = run.summary.scores.model_copy(update={"clients": clients})
    changed = replace(run, summary=run.summary.model_copy(update={"scores": scores}))
    runs = {"local": tiny_runs["local"], "fedstar": {**tiny_runs["fedstar"], run.draw: changed}}
    _, table, *_ = Reader(write_report(runs, tmp_path).read_text()).tables
    assert [row[0] for row in table] == ["client", "rings", "trees", "blocks"]
    assert [row[2] == "–" for row in table[1:]] == [False, True, False]
    assert all(row[1] != "–" for row in table[1:])


def test_runs_of_different_settings_or_lengths_are_refused(
    tiny_runs: FinishedRuns, single_runs: FinishedRuns, tmp_path: Path
) -> None:
    mixed = {"local": tiny_runs["local"], "fedstar": single_runs["fedstar"]}
    with pytest.raises(
        RametError, match="cannot be compared: single with 200 rounds, tiny with 2 rounds"
    ):
        write_report(mixed, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.data
def test_a_report_describes_the_clients_of_the_run(data_root: Path, tmp_path: Path) -> None:
    """Four, as in the run, and not the setting's default of ten."""
    ramet.run(
        *("fedavg", "by-label"),
        rounds=1,
        data=data_root,
        out=tmp_path / "run",
        dataset="MUTAG",
        clients=4,
    )
    run = only_run(tmp_path / "run")
    inspection, left_out = _divergences(run, data_root)
    assert inspection is not None
    assert left_out == []
    names = [f"MUTAG-0000{part}" for part in range(4)]
    assert list(inspection.clients) == list(run.summary.scores.clients) == names
    assert sum(held.graphs for held in inspection.clients.values()) == 188  # all of MUTAG
    assert inspection.divergences["structure"].shape == (4, 4)

    done = command("report", tmp_path / "run", "--out", tmp_path / "report", "--data", data_root)
    assert done.code == 0, done.stderr
    text = Reader((tmp_path / "report" / "report.html").read_text()).text
    assert "by-label: 1 method, 4 clients" in text
    assert "Divergence between clients" in text
    drawn = (tmp_path / "report" / "heterogeneity.svg").read_text()
    assert "MUTAG-00003" in drawn
    assert "MUTAG-00004" not in drawn


@pytest.mark.data
def test_a_report_uses_the_split_of_the_run(data_root: Path, tmp_path: Path) -> None:
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
    clients = manifest(RunFolder(tmp_path / "run").experiment())["clients"]
    assert [held.graphs for held in own.clients.values()] == [
        sum(len(client[part]) for part in ("train", "val", "test")) for client in clients.values()
    ]
    assert own.clients != other.clients


def test_divergences_are_left_out_for_own_sites_and_other_tasks(tmp_path: Path) -> None:
    site = node_site(tmp_path / "north")
    ramet.run("fed-gcn", "own", rounds=1, out=tmp_path / "own", sites=str(site))
    inspection, left_out = _divergences(only_run(tmp_path / "own"), tmp_path)
    assert inspection is None
    assert left_out == ["the sites' data. Use `ramet data inspect --site FILE …` to see them."]
    ramet.run(*("fed-gcn", "planted"), rounds=1, out=tmp_path / "p", nodes=200, links=60)
    assert _divergences(only_run(tmp_path / "p"), tmp_path) == (None, [])


def test_the_reason_for_leaving_out_divergences_is_reported(
    single_runs: FinishedRuns, tmp_path: Path
) -> None:
    many = replace(single_runs["local"][Draw(123, 1)], command="ramet run local --set clients=60")
    summary = many.summary.model_copy(update={"setting": "at-random"})
    inspection, left_out = _divergences(replace(many, summary=summary), tmp_path)
    assert inspection is None
    assert left_out == [
        "the divergences between clients: 60 clients are too many to compare all pairs. "
        "Use at most 50."
    ]


def test_the_page_shows_each_site_alone_and_together(
    tiny_runs: FinishedRuns, tmp_path: Path
) -> None:
    text = write_report(tiny_runs, tmp_path).read_text()
    assert "fedstar: each site alone and together" in text
    assert "Interval: over the seeds of one split (2 pairs of runs; t-test) and over each" in text
    table = Reader(text).tables[-1]
    assert table[0] == ["site", "constant", "alone", "together", "gain", "95 % interval", "verdict"]
    assert [row[0] for row in table[1:]] == ["rings", "trees", "blocks"]


def test_a_paper_gets_a_table_and_a_figure(single_runs: FinishedRuns, tmp_path: Path) -> None:
    wanted = {label: single_runs[label] for label in ("local", "fedstar", "feddense,width=16")}
    write_report(wanted, tmp_path)
    table = (tmp_path / "table.tex").read_text()
    rows = [line.split(" & ") for line in table.splitlines() if " & " in line]
    assert [row[0] for row in rows] == ["method", "local", "fedstar", "feddense,width=16"]
    assert rows[0][3] == r"95 \% interval"
    assert r"\toprule" in table
    assert (tmp_path / "gains.pdf").read_bytes().startswith(b"%PDF")
    (tmp_path / "one").mkdir()
    write_report({"local": single_runs["local"]}, tmp_path / "one")
    assert not (tmp_path / "one" / "gains.pdf").exists()
