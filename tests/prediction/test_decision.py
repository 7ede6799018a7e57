"""Thresholds and temperatures, chosen on validation, saved, and used by predictions."""

from __future__ import annotations

import json
import subprocess
import sys
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import ramet
from command_line import ramet as command
from planted_rare import rare_site
from planted_targets import person_site
from ramet.errors import RametError
from ramet.experiment import RunFolder
from ramet.prediction.decision import Wanted, best_temperature, best_threshold, decision
from ramet.tasks import Predictions
from ramet.tasks.targets import CLASSES

LABELS = np.array([0, 0, 1, 0, 1, 1])
CHANCES = np.array([0.1, 0.2, 0.3, 0.4, 0.8, 0.9])
BOTH = np.stack([1 - CHANCES, CHANCES], axis=1)


def given(labels: np.ndarray, both: np.ndarray) -> Predictions:
    return Predictions(CLASSES, labels, both, np.array([1.0, 0.0]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("decision")
    sites = [rare_site(root / name, seed) for seed, name in enumerate("ab")]
    result = ramet.run(
        "fedavg", setting="own", sites=sites, network="sage", rounds=40, out=root / "run",
        observe=lambda record: None,
    )  # fmt: skip
    return result.folder


@pytest.mark.parametrize(
    ("wanted", "threshold"),
    [
        (Wanted(recall=1.0), 0.3),
        (Wanted(recall=0.6), 0.8),
        (Wanted(precision=1.0), 0.8),
        (Wanted(precision=0.7), 0.3),
        (Wanted(cost_of_miss=3), 0.3),
        (Wanted(cost_of_miss=0.5), 0.8),
    ],
)
def test_a_threshold_by_hand(wanted: Wanted, threshold: float) -> None:
    """At 0.3, recall 3/3 and one false alarm of 4; at 0.8, recall 2/3, one miss and no alarm."""
    assert best_threshold(LABELS, BOTH, wanted) == pytest.approx(threshold)


def test_no_alarm_is_raised_if_that_is_cheapest() -> None:
    cheapest = best_threshold(np.array([0, 1, 0, 0, 0, 0]), BOTH, Wanted(cost_of_miss=2))
    assert 0.9 < cheapest < 0.9 + 1e-9


def test_a_temperature_lowers_the_loss_and_finds_the_one_that_was_planted() -> None:
    draw = np.random.default_rng(0)
    logit = draw.normal(size=20_000)
    labels = (draw.random(logit.size) < 1 / (1 + np.exp(-logit))).astype(int)
    chance = 1 / (1 + np.exp(-3 * logit))
    too_sure = given(labels, np.stack([1 - chance, chance], axis=1))
    assert best_temperature(too_sure) == pytest.approx(3, rel=0.1)
    found = decision({"val": too_sure}, Wanted(calibrate=True), "a")
    assert found.scores["val"]["loss"] < too_sure.loss - 0.1
    assert (found.calibrated(BOTH).argmax(axis=1) == BOTH.argmax(axis=1)).all()


def test_a_temperature_of_separable_samples_is_bounded() -> None:
    separable = given(np.array([0, 1]), np.array([[0.9, 0.1], [0.1, 0.9]]))
    assert 0.05 <= best_temperature(separable) < 0.2


def test_the_threshold_of_a_run_reaches_its_recall_and_is_used(folder: Path) -> None:
    plain = command("predict", folder, "--client", "a")
    done = command("evaluate", folder, "--recall", "0.9", "--json")
    assert done.code == 0, done.stderr
    chosen = json.loads(done.stdout)["a"]["decision"]
    assert chosen["scores"]["val"]["recall"] >= 0.9
    out = folder / "a.csv"
    used = command("predict", folder, "--client", "a", "--out", out)
    assert "chosen on validation for recall 0.9" in used.stderr
    table = pd.read_csv(out)
    assert ((table["p_fraud"] >= chosen["threshold"]) == (table["class"] == "fraud")).all()
    assert (table["class"] == "fraud").sum() > plain.stdout.count(",fraud,")
    assert "threshold" in ramet.resume(folder).predict("a").attrs["decision"]


def test_calibration_lowers_the_loss_and_replaces_the_threshold(folder: Path) -> None:
    before = ramet.resume(folder).predict("a")
    picture = folder / "curves.png"
    done = command("evaluate", folder, "--calibrate", "--figure", picture)
    assert done.code == 0, done.stderr
    assert "temperature" in done.stdout
    assert Image.open(picture).size[0] > 500
    saved = json.loads((RunFolder(folder).clients / "a" / "decision.json").read_text())
    assert saved["threshold"] is None
    assert saved["temperature"] != 1
    after = ramet.resume(folder).predict("a")
    assert (after["p_fraud"].rank() == before["p_fraud"].rank()).all()


def test_explanations_and_exports_use_what_was_chosen(folder: Path, tmp_path: Path) -> None:
    words = ("--cost-of-miss", "30", "--calibrate", "--json")
    done = command("evaluate", folder, *words)
    assert done.code == 0, done.stderr
    chosen = json.loads(done.stdout)["a"]["decision"]
    assert chosen["wanted"] == "a miss that costs 30 false alarms"
    table = pd.read_csv(StringIO(command("predict", folder, "--client", "a").stdout))
    differs = (table["class"] == "fraud") != (table["p_fraud"] > 0.5)
    row = table[differs].iloc[0]
    explained = command("explain", folder, "--client", "a", "--id", row["id"], "--json")
    assert explained.code == 0, explained.stderr
    assert "a miss that costs 30 false alarms" in explained.stderr
    shown = json.loads(explained.stdout)
    assert shown["output"] == row["class"] == "fraud"
    assert shown["value"] == pytest.approx(row["p_fraud"], abs=1e-5)
    assert shown["decision"] == chosen
    model = tmp_path / "model"
    assert command("export", folder, model, "--site", "a", "--no-programs").code == 0
    config = json.loads((model / "config.json").read_text())
    kept = ("temperature", "threshold", "wanted")
    assert config["decision"] == {name: chosen[name] for name in kept}
    assert "a miss that costs 30 false alarms" in (model / "README.md").read_text()
    code = "import json, predict as p\nmodel, (given, _) = p.load(), p.example()\n"
    code += "print(json.dumps([p.probabilities(model, **given)[:, 1].tolist(), "
    code += "p.predicted(model, **given)]))"
    done_there = subprocess.run(
        [sys.executable, "-c", code], cwd=model, capture_output=True, text=True, check=True
    )
    chances, classes = json.loads(done_there.stdout)
    raw = np.array(chances)
    odds = (raw / (1 - raw)) ** (1 / chosen["temperature"])
    expected = odds / (1 + odds) >= chosen["threshold"]
    assert classes == ["fraud" if one else "honest" for one in expected]


def test_a_threshold_of_an_earlier_model_is_not_used(folder: Path) -> None:
    assert command("evaluate", folder, "--recall", "0.5").code == 0
    assert command("resume", folder, "--rounds", "42").code == 0
    shown = command("predict", folder, "--client", "a")
    assert shown.code == 0
    assert "were chosen for another model" in shown.stderr
    assert "classes by" not in shown.stderr


@pytest.mark.parametrize(
    ("words", "detail"),
    [
        (("--recall", "0.9", "--precision", "0.9"), "Give one of them"),
        (("--cost-of-miss", "3", "--precision", "0.9"), "Give one of them"),
        (("--cost-of-miss", "0"), "Give a number above 0"),
        (("--recall", "90"), "is not a share"),
        (("--precision", "0"), "is not a share"),
        (("--recall", "0.9", "--figure", "curves.pdf"), "ends neither in .png nor in .svg"),
    ],
)
def test_a_mistake_says_what_to_do(folder: Path, words: tuple[str, ...], detail: str) -> None:
    done = command("evaluate", folder, *words)
    assert done.code == 2
    assert detail in done.stderr


def test_what_cannot_be_chosen() -> None:
    with pytest.raises(RametError, match="no validation sample of north has the last class"):
        best_threshold(LABELS * 0, BOTH, Wanted(recall=0.9), "north")
    with pytest.raises(RametError, match=r"no threshold reaches a precision 0.9 .* is 0.667"):
        best_threshold(np.array([1, 1, 0]), BOTH[1:4], Wanted(precision=0.9))
    with pytest.raises(RametError, match="for two classes, but there are 3"):
        best_threshold(LABELS, np.full((6, 3), 1 / 3), Wanted(recall=0.9))
    with pytest.raises(RametError, match="north has no validation samples"):
        decision({"val": given(LABELS[:0], BOTH[:0])}, Wanted(calibrate=True), "north")


def test_numbers_have_no_threshold(tmp_path: Path) -> None:
    result = ramet.run(
        "fedavg", setting="own", sites=[person_site(tmp_path / "a", 0)], rounds=1,
        out=tmp_path / "run", observe=lambda record: None,
    )  # fmt: skip
    done = command("evaluate", result.folder, "--recall", "0.9")
    assert done.code == 2
    assert "not for node-regression" in done.stderr
