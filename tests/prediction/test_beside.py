"""Scores of new data whose classes are known by now, against scikit-learn by hand."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from scipy.stats import binomtest
from sklearn import metrics as sk

import ramet
from command_line import ramet as command
from own_sites import link_site, node_site
from planted_targets import UNIT, molecule_site, person_site
from planted_times import first_transfers
from ramet.data.own.kept_parts import KeptParts
from ramet.errors import RametError
from ramet.metrics import bootstrap
from ramet.metrics.bootstrap import Resampled, exchangeable
from ramet.metrics.classification import METRICS
from ramet.runs import Result


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "_RESAMPLES", 199)


QUIET: dict[str, Any] = {"observe": lambda record: None}


def trained(folder: Path, toml: Path, rounds: int = 3, **options: Any) -> Result:
    given = {"method": "local", "setting": "own", "sites": str(toml), **QUIET, **options}
    return ramet.run(rounds=rounds, out=folder / "run", **given)


def july(toml: Path, table: str, links: str, out: Path, rows: int) -> Path:
    """Move the last rows of a site's table, and the links that they have, into a folder."""
    out.mkdir()
    nodes, edges = (pd.read_csv(toml.parent / name, dtype=str) for name in (table, links))
    new = nodes["id"].isin(nodes["id"][-rows:])
    of_new = edges["source"].isin(nodes["id"][new]) | edges["target"].isin(nodes["id"][new])
    for frame, chosen, name in ((nodes, new, table), (edges, of_new, links)):
        frame[chosen].to_csv(out / name, index=False)
        frame[~chosen].to_csv(toml.parent / name, index=False)
    return out


@pytest.fixture(scope="module")
def patients(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    root = tmp_path_factory.mktemp("patients")
    toml = node_site(root / "north", 1, 160)
    new = july(toml, "patients.csv", "contacts.csv", root / "july", 60)
    table = pd.read_csv(new / "patients.csv")
    table.loc[:20, "age"] *= -1  # July is not what it was
    table.loc[55:, "state"] = None  # not known yet
    table.to_csv(new / "patients.csv", index=False)
    return trained(root, toml, 20, lr=0.05), new


def test_scores_and_threshold_equal_scikit_learn_by_hand(patients: tuple[Result, Path]) -> None:
    result, new = patients
    chosen = command("evaluate", result.folder, "--new", new, "--recall", "0.9", "--json")
    assert chosen.code == 0, chosen.stderr
    facts = json.loads(chosen.stdout)
    predicted = result.predict(new=new).set_index("id")
    truth = pd.read_csv(new / "patients.csv").set_index("id")["state"].dropna()
    assert len(truth) == 55 == facts["new"]["samples"]
    of_truth = predicted.loc[truth.index]
    ill, chances = (truth == "ill").to_numpy(), of_truth["p_ill"].to_numpy()
    expected = {
        "accuracy": sk.accuracy_score(ill, chances > 0.5),
        "balanced-accuracy": sk.balanced_accuracy_score(ill, chances > 0.5),
        "macro-f1": sk.f1_score(ill, chances > 0.5, average="macro"),
        "roc-auc": sk.roc_auc_score(ill, chances),
        "average-precision": sk.average_precision_score(ill, chances),
        "recall at threshold": sk.recall_score(truth, of_truth["class"], pos_label="ill"),
        "precision at threshold": sk.precision_score(truth, of_truth["class"], pos_label="ill"),
    }
    found = {line["metric"]: line for line in facts["lines"]}
    for name, value in expected.items():
        assert found[name]["new"]["value"] == pytest.approx(value, abs=1e-9), name
    right = int(((chances > 0.5) == ill).sum())
    exact = binomtest(right, 55).proportion_ci()
    assert (found["accuracy"]["new"]["low"], found["accuracy"]["new"]["high"]) == (
        exact.low,
        exact.high,
    )
    test = result.evaluation("north")["test"]
    assert found["roc-auc"]["test"]["value"] == test.metrics["roc-auc"]
    assert found["accuracy"]["p_value"] < 0.05
    assert facts["verdict"].startswith("north does worse on july, by accuracy (p = 0.0")


def test_the_table_and_the_picture(patients: tuple[Result, Path], tmp_path: Path) -> None:
    result, new = patients
    picture = tmp_path / "july.png"
    done = command("evaluate", result.folder, "--new", new, "--figure", picture)
    assert "north: july beside the test" in done.stdout
    assert "patient: 60 new rows." in done.stderr
    assert "5 of 60 rows have no label; they are not scored." in done.stderr
    with Image.open(picture) as drawn:
        assert len(drawn.convert("L").getcolors() or []) > 5
    refused = command("evaluate", result.folder, "--new", new, "--client", "a", "--client", "b")
    assert "the model of one client" in refused.stderr


def test_rows_that_were_trained_on_are_not_scored(
    patients: tuple[Result, Path], tmp_path: Path
) -> None:
    result, new = patients
    both = tmp_path / "both"
    shutil.copytree(new, both)
    old = pd.read_csv(result.folder.parent / "north" / "patients.csv")
    again = pd.concat([pd.read_csv(new / "patients.csv"), old])
    again.to_csv(both / "patients.csv", index=False)
    found = result.beside_test(new=both)
    train = len(result.samples("north").split.train)
    assert f"{train} rows that the model was trained on are not scored" in found.notes
    assert found.evaluation.samples == 55 + len(old) - train
    parts = KeptParts.parse(next(result.folder.rglob("parts.json")).read_text())
    assert sorted(parts.part_of.values()) == [0] * 60 + [1] * 20 + [2] * 20
    (both / "patients.csv").write_text("id,age,dose,state\nz,1,1,\n")
    (both / "contacts.csv").write_text("source,target\nz,p1\n")
    with pytest.raises(RametError, match="has no row to score"):
        result.beside_test(new=both)


def test_a_site_scores_in_its_own_folder_also_after_july_was_added(
    patients: tuple[Result, Path], tmp_path: Path
) -> None:
    result, new = patients
    before = result.beside_test(new=new)
    (state,) = (result.folder / "clients").glob("*/north")
    site = tmp_path / "hospitals-north" / "state" / "clients" / state.parent.name / "north"
    shutil.copytree(state, site)
    folder = tmp_path / "hospitals-north"
    done = command("evaluate", folder, "--new", new, "--json")
    assert json.loads(done.stdout)["lines"] == [line.to_json("test") for line in before.lines]
    plain = command("evaluate", folder, "--recall", "0.8", "--json")
    tests = json.loads(plain.stdout)["north"]["test"]
    assert tests["metrics"] == result.evaluation("north")["test"].metrics
    home = result.folder.parent / "north"
    kept = {path: path.read_text() for path in home.glob("*.csv")}
    for path in kept:
        added = pd.read_csv(new / path.name).fillna("healthy")
        pd.concat([pd.read_csv(path), added]).to_csv(path, index=False)
    try:
        later = json.loads(command("evaluate", folder, "--new", new, "--json").stdout)
    finally:
        for path, text in kept.items():
            path.write_text(text)
    assert later["new"]["samples"] == 55
    line = before.lines[0]
    assert line.other is not None
    assert later["lines"][0]["test"]["value"] == pytest.approx(line.other.value, abs=0.1)


@pytest.mark.parametrize("task", ["regression", "multilabel"])
@pytest.mark.parametrize("level", ["node", "graph"])
def test_numbers_and_labels(level: str, task: str, tmp_path: Path) -> None:
    write: Callable[..., Path] = person_site if level == "node" else molecule_site
    names = {
        ("node", "regression"): ["age", "score"],
        ("graph", "regression"): ["weight"],
        ("node", "multilabel"): ["near", "own"],
        ("graph", "multilabel"): ["light", "polar"],
    }[level, task]
    label = json.dumps(names)
    more = UNIT if task == "regression" else ""
    north, later = (
        write(tmp_path / name, seed, f"{level}-{task}", label, more)
        for seed, name in enumerate(("north", "later"))
    )
    result = trained(tmp_path, north, network="sage")
    for file in later.parent.glob("*.csv"):  # other people and graphs than those of north
        file.write_text(re.sub(r"\b([pm]\d+)\b", r"new-\1", file.read_text()))
    table = later.parent / ("people.csv" if level == "node" else "graphs.csv")
    truth = pd.read_csv(table)
    truth[names] = truth[names].astype(float)
    truth.loc[3, names[0]] = np.nan
    truth.to_csv(table, index=False)
    later.write_text(later.read_text().replace('site = "later"', 'site = "north"'))
    found = result.beside_test(site=later)
    predicted = result.predict(site=later)
    prefix = "" if task == "regression" else "p_"
    known = {name: truth[name].notna() for name in names}
    score = sk.mean_absolute_error if task == "regression" else sk.average_precision_score
    by_name = [score(truth[n][known[n]], predicted[prefix + n][known[n]]) for n in names]
    assert found.lines[0].metric == ("mae" if task == "regression" else "average-precision")
    assert found.lines[0].new.value == pytest.approx(np.mean(by_name), rel=1e-5)
    assert found.lines[0].scale.unit == ("years" if task == "regression" else "%")
    assert found.lines[0].p_value is not None


def test_links_are_scored_in_the_graph_that_they_continue(tmp_path: Path) -> None:
    toml = link_site(tmp_path / "clinic")
    new = tmp_path / "july"
    new.mkdir()
    takes = pd.read_csv(toml.parent / "takes.csv")
    takes[-20:].to_csv(new / "takes.csv", index=False)
    takes[:-20].to_csv(toml.parent / "takes.csv", index=False)
    result = trained(tmp_path, toml, method="fed-hgn")
    found = result.beside_test("clinic", new=new)
    assert (found.new.labels == 1).sum() == 20 == (found.new.labels == 0).sum()
    expected = sk.roc_auc_score(found.new.labels, found.new.predicted[:, 1])
    assert found.lines[0].metric == "roc-auc"
    assert found.lines[0].new.value == pytest.approx(expected)
    with pytest.raises(RametError, match="Name their folder with --new"):
        result.beside_test(site=toml)


def test_with_a_split_by_time_known_rows_are_recognised(tmp_path: Path) -> None:
    toml = first_transfers(tmp_path / "bank", accounts=60)
    result = trained(tmp_path, toml, 2, network="gine", layers=1)
    found = result.beside_test(new=toml)  # the same rows again
    held = result.samples("bank").split
    assert len(found.new.labels) == len(held.val) + len(held.test)
    assert any("trained on are not scored" in note for note in found.notes)


@pytest.mark.thorough
def test_without_a_difference_a_worse_score_is_rarely_called_one() -> None:
    draw, rejected = np.random.default_rng(0), 0
    for _ in range(60):
        labels = (draw.random(90) < 0.3).astype(int)
        chances = np.clip(0.3 * labels + 0.7 * draw.random(90), 0, 1)
        both = np.stack([1 - chances, chances], axis=1)
        halves = [(labels[:40], both[:40]), (labels[40:], both[40:])]
        rejected += exchangeable(halves[0], halves[1], METRICS["roc-auc"]) < 0.05
    assert rejected <= 8  # binomial: 9 or more of 60 at 5 % happen in 0.4 % of all cases


def test_a_perfect_score_has_no_bootstrap_interval() -> None:
    labels = np.arange(40) % 2
    both = np.stack([1 - labels, labels], axis=1).astype(float)
    found = Resampled.of(labels, both, METRICS["roc-auc"])
    assert (found.score.value, found.score.low) == (1.0, None)
    assert found.minus(found).low is None
