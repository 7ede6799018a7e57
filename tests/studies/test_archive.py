"""Finished runs: kept on disk, read again and reported."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ramet
from ramet.errors import RametError
from ramet.experiment import RunFolder
from ramet.metrics import Round
from ramet.metrics.summary import common_metric
from ramet.papers.board import board
from ramet.report import drawing, figures
from ramet.report.page import write_report
from ramet.studies.archive import finished_runs, keep, kept
from ramet.studies.comparison import standings
from ramet.studies.finished_run import Draw, FinishedRun


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sweep")
    for seed in (1, 2):
        ramet.run("local", rounds=2, seed=seed, out=folder / f"local{seed}")
        ramet.run("feddense", rounds=2, seed=seed, out=folder / f"feddense{seed}", width=10)
    (folder / "stopped").mkdir()
    for name in ("settings.json", "versions.json"):
        (folder / "stopped" / name).write_text((folder / "local1" / name).read_text())
    return folder


def test_a_finished_run_has_its_command_and_result(sweep: Path) -> None:
    run = FinishedRun.of(RunFolder(sweep / "feddense2"))
    assert run is not None
    assert run.label == "feddense,width=10"
    assert run.command == ("ramet run feddense --setting tiny --rounds 2 --seed 2 --set width=10")
    assert run.summary == RunFolder(sweep / "feddense2").summary()
    assert [one.number for one in run.rounds] == [1, 2]
    assert run.rounds[-1].test == pytest.approx(run.summary.scores.test, abs=1e-6)
    assert "run" not in run.versions
    assert str(sweep) not in run.text()
    assert FinishedRun.parse(run.text()) == run


def test_two_files_of_the_same_name_are_kept_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("a", "b"):
        file = tmp_path / folder / "mine.py"
        file.parent.mkdir()
        file.write_text(f"from ramet.methods import fedavg as mine  # of {folder}\n")
        ramet.run(f"{folder}/mine.py:mine", rounds=1, out=tmp_path / "runs" / folder)
    runs = finished_runs([tmp_path / "runs"])
    assert [*runs] == ["a/mine.py:mine", "b/mine.py:mine"]
    keep((run for by_draw in runs.values() for run in by_draw.values()), tmp_path / "kept")
    again = kept(tmp_path / "kept")
    assert {run.label for run in again} == {*runs}
    assert again[0].command.startswith("ramet run a/mine.py:mine --setting tiny")
    (panel,) = board([tmp_path / "kept"])
    assert all(entry.leaving for entry in panel.entries)  # both files are found
    with pytest.raises(RametError, match=r"already has a run of a/mine\.py:mine"):
        keep([replace(again[0], label="a_mine.py:mine")], tmp_path / "kept")


def test_runs_are_read_from_folders_and_kept_files(sweep: Path, tmp_path: Path) -> None:
    runs = finished_runs([sweep])
    assert {label: list(by_seed) for label, by_seed in runs.items()} == {
        "local": [(123, 1), (123, 2)],
        "feddense,width=10": [(123, 1), (123, 2)],
    }
    keep((run for by_seed in runs.values() for run in by_seed.values()), tmp_path / "kept")
    assert finished_runs([tmp_path / "kept"]) == runs
    (tmp_path / "kept" / "other.json").write_text("{}")
    with pytest.raises(RametError, match=r"other\.json is not a kept result"):
        finished_runs([tmp_path / "kept"])
    with pytest.raises(RametError, match="does not exist"):
        finished_runs([tmp_path / "nowhere"])
    with pytest.raises(RametError, match="no finished run was found"):
        finished_runs([sweep / "stopped"])


def test_results_are_a_data_frame_of_run_folders_and_kept_files(
    sweep: Path, tmp_path: Path
) -> None:
    table = ramet.results(sweep)
    assert len(table) == 4
    scores = table.groupby("method")["test"].mean()
    folders = (RunFolder(sweep / f"feddense{seed}") for seed in (1, 2))
    wide = [summary for folder in folders if (summary := folder.summary())]
    assert scores["feddense,width=10"] == pytest.approx(sum(s.scores.test for s in wide) / 2)
    assert set(table["sha256"]) >= {summary.sha256 for summary in wide}
    keep(
        (run for runs in finished_runs([sweep]).values() for run in runs.values()),
        tmp_path / "kept",
    )
    again = ramet.results(str(tmp_path / "kept"))
    assert (
        again.sort_values("sha256").values.tolist() == table.sort_values("sha256").values.tolist()
    )
    with pytest.raises(RametError, match="does not exist"):
        ramet.results(tmp_path / "nowhere")


def test_the_page_is_self_contained_and_escapes_text(sweep: Path, tmp_path: Path) -> None:
    page = write_report(finished_runs([sweep]), tmp_path, target=0.5, left_out=["<b>bold</b>"])
    text = page.read_text()
    assert text.count("<svg") == 3
    assert "src=" not in text
    assert "feddense,width=10" in text
    assert "&lt;b&gt;bold" in text
    for name in ("score_over_rounds", "score_over_flops", "payload"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (tmp_path / f"{name}.svg").read_text()


def test_runs_of_different_lengths_are_not_put_on_one_page(sweep: Path, tmp_path: Path) -> None:
    ramet.run("local", rounds=1, seed=3, out=tmp_path / "short")
    with pytest.raises(RametError, match="tiny with 1 rounds, tiny with 2 rounds"):
        write_report(finished_runs([sweep, tmp_path / "short"]), tmp_path)


def test_drawing_twice_gives_the_same_figure(sweep: Path) -> None:
    runs = finished_runs([sweep])
    first, second = (drawing.inline(figures.score_over_rounds(runs)) for _ in range(2))
    assert first == second


def test_the_metric_is_that_of_all_runs() -> None:
    root = Path(__file__).parents[2] / "results"
    for folder, name in (("acm-hetero-4", "ROC-AUC"), ("single", "accuracy"), ("cora", "accuracy")):
        by_label = finished_runs([root / folder])
        assert figures.metric_of(by_label) == name
    assert common_metric(["accuracy", "ROC-AUC"]) == "score"


def test_every_kept_result_of_this_repository_can_be_read() -> None:
    runs = kept(Path(__file__).parents[2] / "results")
    assert len(runs) > 400
    for run in runs:
        assert str(run.spec) == run.label
        assert FinishedRun.parse(run.text()) == run


def test_the_band_has_the_standard_deviation_of_the_table(sweep: Path) -> None:
    one, other = finished_runs([sweep])["local"].values()
    two = [
        replace(one, rounds=[Round(1, 0.5, 0.50)]),
        replace(other, rounds=[Round(1, 0.5, 0.56)]),
    ]
    drawn = figures.score_over_rounds(
        {"local": {Draw(123, seed): run for seed, run in enumerate(two)}}
    )
    heights = np.asarray(drawn.axes[0].collections[0].get_paths()[0].vertices)[:, 1]
    # of 50 and 56: mean 53, sample standard deviation 3 · sqrt 2
    assert (heights.min(), heights.max()) == pytest.approx((53 - 18**0.5, 53 + 18**0.5))


def test_methods_with_the_same_flops_do_not_overlap(sweep: Path) -> None:
    row = standings(finished_runs([sweep]))[0]
    drawn = figures.score_over_flops([row, replace(row, label="its twin")])
    marks = [line for line in drawn.axes[0].lines if not str(line.get_label()).startswith("_")]
    assert [line.get_label() for line in marks] == ["local", "its twin"]
    first, second = (float(np.asarray(line.get_xdata())[0]) for line in marks)
    assert second == pytest.approx(1.02 * first)


def test_kept_files_are_json(sweep: Path, tmp_path: Path) -> None:
    keep(finished_runs([sweep])["local"].values(), tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["local-seed1.json", "local-seed2.json"]
    assert json.loads((tmp_path / names[0]).read_text())["result"]["seed"] == 1


@pytest.mark.thorough
def test_tensors_per_client_are_kept_and_drawn(tmp_path: Path) -> None:
    for rule in (None, "restart", "explore"):
        ramet.run("feddense", rounds=3, activation=rule, out=tmp_path / "runs" / f"{rule}")
    by_label = finished_runs([tmp_path / "runs"])
    keep((run for runs in by_label.values() for run in runs.values()), tmp_path / "kept")
    assert finished_runs([tmp_path / "kept"]) == by_label
    plain, explore, restart = (run for runs in by_label.values() for run in runs.values())
    assert (plain.label, plain.tensors) == ("feddense", ())
    for run in (explore, restart):
        assert run.summary.sent is not None
        assert sum(map(sum, run.tensors)) == run.summary.sent.tensors.up
        assert len(run.tensors[0]) == len(run.summary.scores.clients)
    assert figures.pairs(by_label, {}) == {"feddense": [explore.label, restart.label]}
    page = write_report(by_label, tmp_path)
    assert "Score over bytes" in page.read_text()
    assert (tmp_path / "score_over_bytes.png").exists()


def test_runs_of_two_splits_are_kept_in_separate_files_and_compared_by_split(
    tmp_path: Path,
) -> None:
    runs = []
    for split in (123, 7):
        folder = ramet.run("local", rounds=1, split_seed=split, out=tmp_path / str(split)).folder
        run = FinishedRun.of(RunFolder(folder))
        assert run is not None
        runs.append(run)
    keep(runs, tmp_path / "kept")
    names = sorted(path.name for path in (tmp_path / "kept").iterdir())
    assert names == ["local-seed0-split7.json", "local-seed0.json"]
    assert sorted(kept(tmp_path / "kept"), key=lambda run: -run.split_seed) == runs
    assert set(ramet.results(tmp_path / "kept")["split_seed"]) == {7, 123}
    assert {*finished_runs([tmp_path / "kept"])["local"]} == {(123, 0), (7, 0)}
    assert "--split-seed 7" in runs[1].command


def test_runs_that_differ_in_more_than_split_and_seed_are_not_mixed(tmp_path: Path) -> None:
    for rounds in (1, 2):
        ramet.run("local", rounds=rounds, out=tmp_path / str(rounds))
    with pytest.raises(RametError, match="two different runs are called local, seed 0") as refused:
        finished_runs([tmp_path])
    assert "--rounds 1" in str(refused.value)
    assert "--rounds 2" in str(refused.value)


def test_a_kept_file_is_rewritten_only_if_it_contains_another_run(tmp_path: Path) -> None:
    run = FinishedRun.of(RunFolder(ramet.run("local", rounds=1, out=tmp_path / "r").folder))
    assert run is not None
    other_format = json.dumps(json.loads(run.text()))
    file = tmp_path / "kept" / "local-seed0.json"
    file.parent.mkdir()
    file.write_text(other_format)
    keep([run], file.parent)
    assert file.read_text() == other_format
    keep([replace(run, date="2020-02-20")], file.parent)
    assert json.loads(file.read_text())["date"] == "2020-02-20"
