"""A new model against the one in use, on rows that neither has seen."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from scipy.stats import permutation_test
from sklearn import metrics as sk

import ramet
from command_line import ramet as command
from own_sites import link_site, node_site, write_csv, write_toml
from ramet.data.own.kept_parts import KeptParts
from ramet.data.own.site import read_site
from ramet.data.splits import PARTS
from ramet.errors import RametError
from ramet.metrics import bootstrap
from ramet.metrics.bootstrap import swappable
from ramet.metrics.classification import METRICS
from ramet.prediction import Source, Trained, against
from ramet.runs import Result


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "_RESAMPLES", 199)


def trained(toml: Path, out: Path, rounds: int, **options: Any) -> Result:
    return ramet.run(
        "local", "own", sites=str(toml), rounds=rounds, out=out, observe=lambda _: None, **options
    )


def patients(folder: Path, first: int, rows: int, seed: int) -> Path:
    """New patients like those of `node_site`, but harder to tell, with contacts among them."""
    draw = random.Random(seed)
    ids, ill = [f"p{first + n}" for n in range(rows)], [draw.random() < 0.4 for _ in range(rows)]
    table = [
        (name, round(draw.gauss(1 if is_ill else -1, 1.2), 3), 0.5, "ill" if is_ill else "healthy")
        for name, is_ill in zip(ids, ill, strict=True)
    ]
    write_csv(folder / "patients.csv", "id,age,dose,state", table)
    write_csv(folder / "contacts.csv", "source,target", [(one, one) for one in ids])
    return folder


@pytest.fixture(scope="module")
def months(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Result, Path]:
    """A run on ages of the wrong sign, one that goes on with July and the right one, and August."""
    root = tmp_path_factory.mktemp("months")
    june = node_site(root / "north", 1, 120)
    july = root / "july" / "north"
    shutil.copytree(june.parent, july)
    wrong = pd.read_csv(june.parent / "patients.csv")
    wrong["age"] *= -1
    wrong.to_csv(june.parent / "patients.csv", index=False)
    old = trained(june, root / "june-run", 20, lr=0.05)
    new_rows = patients(root / "new", 120, 60, 3)
    for name in ("patients.csv", "contacts.csv"):
        both = pd.concat([pd.read_csv(folder / name) for folder in (july, new_rows)])
        both.to_csv(july / name, index=False)
    new = trained(july / "site.toml", root / "july-run", 20, start_from=old.folder, lr=0.05)
    return old, new, patients(root / "august", 180, 80, 4)


def test_the_better_model_is_told_with_the_numbers_of_scikit_learn(
    months: tuple[Result, Result, Path], tmp_path: Path
) -> None:
    old, new, august = months
    picture = tmp_path / "both.png"
    options = ("--new", august, "--against", old.folder, "--figure", picture)
    facts = json.loads(command("evaluate", new.folder, *options, "--json").stdout)
    truth = pd.read_csv(august / "patients.csv")["state"].to_numpy() == "ill"
    context = new.folder.parent / "july" / "north" / "site.toml"
    chances = [one.predict(new=august, context=context)["p_ill"] for one in (new, old)]
    right = [(one.to_numpy() > 0.5) == truth for one in chances]
    line = facts["lines"][0]
    assert facts["samples"] == 80
    assert (line["new"]["value"], line["other"]["value"]) == (right[0].mean(), right[1].mean())
    found = {one["metric"]: one for one in facts["lines"]}["roc-auc"]
    for name, one in zip(("new", "other"), chances, strict=True):
        assert found[name]["value"] == pytest.approx(sk.roc_auc_score(truth, one))
    gain = right[0].mean() - right[1].mean()
    assert line["difference"]["value"] == pytest.approx(gain)
    assert 0 < line["difference"]["low"] < gain < line["difference"]["high"]
    by_hand = permutation_test(
        [one.astype(float) for one in right],
        lambda a, b: a.mean() - b.mean(),
        permutation_type="samples",
        vectorized=False,
        n_resamples=199,
        rng=np.random.default_rng(0),
    )
    assert line["p_value"] == pytest.approx(by_hand.pvalue, abs=0.01)
    assert facts["verdict"].startswith("july-run is better than june-run on august, by accuracy")
    assert facts["verdict"].endswith("use july-run")
    with Image.open(picture) as drawn:
        assert len(drawn.convert("L").getcolors() or []) > 5
    reversed_ = command("evaluate", old.folder, *options[:2], "--against", new.folder)
    assert "june-run is worse than july-run on august" in reversed_.stdout
    assert "keep july-run." in reversed_.stdout


def test_without_a_difference_the_model_in_use_is_kept(
    months: tuple[Result, Result, Path],
) -> None:
    _, new, august = months
    twin = Trained.open(new.folder)
    found = against(twin, twin, Source.of(None, august))
    assert found.lines[0].p_value == 1
    assert "no more than by chance" in found.verdict
    assert found.runs[0] == str(new.folder)


def test_rows_that_either_run_or_one_before_has_seen_are_left_out(
    months: tuple[Result, Result, Path], tmp_path: Path
) -> None:
    old, new, august = months
    every = tmp_path / "every"
    every.mkdir()
    for name in ("patients.csv", "contacts.csv"):
        home = new.folder.parent / "july" / "north"
        both = pd.concat([pd.read_csv(folder / name) for folder in (august, home)])
        both.to_csv(every / name, index=False)
    found = against(Trained.open(new.folder), Trained.open(old.folder), Source.of(None, every))
    parts = KeptParts.parse(next(new.folder.rglob("parts.json")).read_text())
    tested = sum(part == PARTS.index("test") for part in parts.part_of.values())
    assert len(found.scored[0].predictions.labels) == 80 + tested
    text = f"{180 - tested} rows that one of the models was trained on, or chosen by"
    assert any(one.startswith(text) for one in found.notes)


def test_links_and_what_cannot_be_compared(
    months: tuple[Result, Result, Path], tmp_path: Path
) -> None:
    old, new, _ = months
    assert "with --new" in command("evaluate", new.folder, "--against", old.folder).stderr
    toml = link_site(tmp_path / "north")
    takes = pd.read_csv(toml.parent / "takes.csv")
    august = tmp_path / "august"
    august.mkdir()
    takes[-20:].to_csv(august / "takes.csv", index=False)
    takes[:-20].to_csv(toml.parent / "takes.csv", index=False)
    runs = [trained(toml, tmp_path / name, 2, network="sage") for name in ("one", "two")]
    one, two = (Trained.open(run.folder) for run in runs)
    found = against(one, two, Source.of(None, august))
    assert len(found.scored[0].predictions.labels) == 40
    assert found.lines[0].difference is not None
    with pytest.raises(RametError, match="trained on other columns or classes"):
        against(one, Trained.open(new.folder), Source.of(None, august))


def test_equally_good_models_are_rarely_called_different() -> None:
    draw, told = np.random.default_rng(0), 0
    for _ in range(60):
        labels = (draw.random(60) < 0.4).astype(int)
        both = [np.clip(0.3 * labels + 0.7 * draw.random(60), 0, 1) for _ in range(2)]
        first, second = (np.stack([1 - one, one], axis=1) for one in both)
        told += swappable(labels, (first, second), METRICS["roc-auc"]) < 0.05
    assert told <= 8  # binomial: 9 or more of 60 at 5 % happen in 0.4 % of all cases


def test_in_50_histories_no_test_row_was_trained_on_before(tmp_path: Path) -> None:
    """Rows come, go and return; each run starts from any earlier one, with any seed."""
    for history in range(50):
        draw = random.Random(history)
        population = [f"p{n}" for n in range(80)]
        known, trained_on = [KeptParts()], [set[str]()]
        for _ in range(draw.randint(2, 6)):
            of_month = draw.sample(population, draw.randint(15, len(population)))
            rows = [(name, draw.random(), 1, draw.choice(["ill", "healthy"])) for name in of_month]
            write_csv(tmp_path / "patients.csv", "id,age,dose,state", rows)
            write_csv(tmp_path / "contacts.csv", "source,target", [(of_month[0], of_month[1])])
            seed, parent = draw.randrange(9), draw.randrange(len(known))
            site = known[parent].kept_in(read_site(_toml(tmp_path)), seed)
            parts = dict(zip(of_month, site.sample_parts(seed).tolist(), strict=True))
            tested = {name for name, part in parts.items() if PARTS[part] == "test"}
            assert not tested & trained_on[parent]
            assert set(parts.values()) <= {0, 1, 2}
            known.append(known[parent].followed_by(KeptParts.of(site, seed)))
            trained = {name for name, part in parts.items() if PARTS[part] == "train"}
            trained_on.append(trained_on[parent] | trained)
            now = dict(zip(of_month, known[-1].parts_in(site).tolist(), strict=True))
            assert {n for n, part in now.items() if part == 0} == trained_on[-1] & set(of_month)


def _toml(folder: Path) -> Path:
    return write_toml(
        folder,
        'site = "north"\ntask = "node-classification"\nclasses = ["healthy", "ill"]\n'
        '[nodes.patient]\nfile = "patients.csv"\nfeatures = ["age", "dose"]\nlabel = "state"\n'
        '[edges.contact]\nfile = "contacts.csv"\n',
    )
