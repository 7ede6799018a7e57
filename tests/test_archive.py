"""Finished runs in short: kept, found again, and shown."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ramet
from ramet.archive import found, keep, story
from ramet.errors import RametError
from ramet.metrics import Story, common_measure, measure, standings
from ramet.report import figures
from ramet.report.page import write_report
from ramet.run_folder import RunFolder


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


def test_a_story_tells_what_to_type_and_what_came_out(sweep: Path) -> None:
    told = story(RunFolder(sweep / "feddense2"))
    assert told is not None
    assert told.label == "feddense,width=10"
    assert told.command == ("ramet run feddense --setting tiny --rounds 2 --seed 2 --set width=10")
    assert told.result == RunFolder(sweep / "feddense2").result()
    assert [number for number, *_ in told.rounds] == [1, 2]
    assert told.rounds[-1][2] == pytest.approx(told.result["scores"]["test"], abs=1e-6)
    assert "run" not in told.versions
    assert str(sweep) not in told.text()
    assert Story.parse(told.text()) == told


def test_stories_are_found_in_folders_and_in_kept_files(sweep: Path, tmp_path: Path) -> None:
    stories = found([sweep])
    assert {label: list(runs) for label, runs in stories.items()} == {
        "local": [1, 2],
        "feddense,width=10": [1, 2],
    }
    keep((one for runs in stories.values() for one in runs.values()), tmp_path / "kept")
    assert found([tmp_path / "kept"]) == stories
    (tmp_path / "kept" / "other.json").write_text("{}")
    with pytest.raises(RametError, match=r"other\.json holds no kept result"):
        found([tmp_path / "kept"])
    with pytest.raises(RametError, match="not there"):
        found([tmp_path / "nowhere"])
    with pytest.raises(RametError, match="no finished run"):
        found([sweep / "stopped"])


def test_finished_runs_and_kept_files_as_a_table(sweep: Path, tmp_path: Path) -> None:
    table = ramet.results(sweep)
    assert len(table) == 4
    scores = table.groupby("method")["test"].mean()
    wide = [RunFolder(sweep / f"feddense{seed}").result() or {} for seed in (1, 2)]
    assert scores["feddense,width=10"] == pytest.approx(sum(r["scores"]["test"] for r in wide) / 2)
    assert set(table["sha256"]) >= {result["sha256"] for result in wide}
    keep((one for runs in found([sweep]).values() for one in runs.values()), tmp_path / "kept")
    again = ramet.results(str(tmp_path / "kept"))
    assert (
        again.sort_values("sha256").values.tolist() == table.sort_values("sha256").values.tolist()
    )
    with pytest.raises(RametError, match="not there"):
        ramet.results(tmp_path / "nowhere")


def test_the_page_stands_alone_and_holds_the_figures(sweep: Path, tmp_path: Path) -> None:
    page = write_report(found([sweep]), tmp_path, target=0.5, left_out=["<b>bold</b>"])
    text = page.read_text()
    assert text.count("<svg") == 3
    assert "src=" not in text
    assert "feddense,width=10" in text
    assert "&lt;b&gt;bold" in text
    for name in ("score_over_rounds", "score_over_flops", "payload"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (tmp_path / f"{name}.svg").read_text()


def test_runs_of_other_settings_are_not_put_on_one_page(sweep: Path, tmp_path: Path) -> None:
    ramet.run("local", rounds=1, seed=3, out=tmp_path / "short")
    with pytest.raises(RametError, match="tiny with 1 rounds, tiny with 2 rounds"):
        write_report(found([sweep, tmp_path / "short"]), tmp_path)


def test_drawing_twice_gives_the_same_picture(sweep: Path) -> None:
    stories = found([sweep])
    once, twice = (figures.inline(figures.score_over_rounds(stories)) for _ in range(2))
    assert once == twice


def test_older_results_are_told_apart_by_what_they_hold() -> None:
    root = Path(__file__).parents[1] / "results"
    for folder, name in (("acm-hetero-4", "ROC-AUC"), ("single", "accuracy"), ("cora", "accuracy")):
        stories = found([root / folder])
        for told in (one for runs in stories.values() for one in runs.values()):
            older = {key: value for key, value in told.result.items() if key != "measure"}
            assert measure(older) == name
        assert figures.measured(stories) == name
    assert common_measure(["accuracy", "ROC-AUC"]) == "score"


def test_a_band_is_as_wide_as_the_spread_in_the_table(sweep: Path) -> None:
    one, other = found([sweep])["local"].values()
    ends = [replace(one, rounds=[(1, 0.5, 0.50)]), replace(other, rounds=[(1, 0.5, 0.56)])]
    drawn = figures.score_over_rounds({"local": dict(enumerate(ends))})
    heights = np.asarray(drawn.axes[0].collections[0].get_paths()[0].vertices)[:, 1]
    # of 50 and 56: mean 53, sample standard deviation 3 · sqrt 2
    assert (heights.min(), heights.max()) == pytest.approx((53 - 18**0.5, 53 + 18**0.5))


def test_methods_with_the_same_work_do_not_hide_each_other(sweep: Path) -> None:
    row = standings(found([sweep]))[0]
    drawn = figures.score_over_work([row, replace(row, label="its twin")])
    marks = [line for line in drawn.axes[0].lines if not str(line.get_label()).startswith("_")]
    assert [line.get_label() for line in marks] == ["local", "its twin"]
    first, second = (float(np.asarray(line.get_xdata())[0]) for line in marks)
    assert second == pytest.approx(1.02 * first)


def test_kept_files_are_json(sweep: Path, tmp_path: Path) -> None:
    keep(found([sweep])["local"].values(), tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["local-seed1.json", "local-seed2.json"]
    assert json.loads((tmp_path / names[0]).read_text())["result"]["seed"] == 1


def test_what_was_asked_of_whom_is_kept_and_drawn(tmp_path: Path) -> None:
    for rule in (None, "restart", "explore"):
        ramet.run("feddense", rounds=3, activation=rule, out=tmp_path / "runs" / f"{rule}")
    stories = found([tmp_path / "runs"])
    keep((one for runs in stories.values() for one in runs.values()), tmp_path / "kept")
    assert found([tmp_path / "kept"]) == stories
    plain, explore, restart = (stories[label][0] for label in stories)
    assert (plain.label, plain.tensors) == ("feddense", ())
    for told in (explore, restart):
        assert sum(map(sum, told.tensors)) == told.result["sent"]["tensors"]["up"]
        assert len(told.tensors[0]) == len(told.result["scores"]["clients"])
    assert figures.pairs(stories) == {"feddense": [explore.label, restart.label]}
    page = write_report(stories, tmp_path)
    assert "Score over bytes" in page.read_text()
    assert (tmp_path / "score_over_bytes.png").exists()
