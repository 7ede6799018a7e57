"""A site without validation or test samples has no score, and is in no mean."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

import ramet
from command_line import ramet as command
from own_sites import node_site, write_csv
from ramet.runs import Result


def without_held_out(site: Path, run: Path) -> None:
    """Drop the patients of a site that a run held out, so that a run from it has none."""
    split = json.loads((run / "split.json").read_text())["clients"][site.parent.name]
    with (site.parent / "patients.csv").open() as file:
        header, *rows = csv.reader(file)
    kept = [rows[index] for index in sorted(split["train"])]
    ids = {row[0] for row in kept}
    write_csv(site.parent / "patients.csv", ",".join(header), kept)
    with (site.parent / "contacts.csv").open() as file:
        _, *contacts = csv.reader(file)
    links = [ends for ends in contacts if {*ends} <= ids]
    write_csv(site.parent / "contacts.csv", "source,target", links)


def run(folder: Path, **options: Any) -> Result:
    """North has only training samples, south and east have all parts."""
    names = ("north", "south", "east")
    sites = {name: node_site(folder / name, n, 40) for n, name in enumerate(names)}
    files = " ".join(map(str, sites.values()))
    ramet.run("local", "own", rounds=1, sites=files, out=folder / "first", hidden=8)
    without_held_out(sites["north"], folder / "first")
    first = folder / "first"
    return ramet.run(
        "fedavg", "own", rounds=3, sites=files, start_from=first, out=folder / "run", **options
    )


@pytest.mark.filterwarnings("ignore::ramet.errors.RametWarning")
def test_it_is_left_out_of_means_tables_and_the_best_round(tmp_path: Path) -> None:
    result = run(tmp_path, metric="balanced-accuracy")
    scores = result.summary.scores
    south, east = scores.clients["south"], scores.clients["east"]
    assert scores.clients["north"] is None
    assert south is not None
    assert east is not None
    assert scores.test == pytest.approx((south + east) / 2)
    assert "accuracy" in scores.besides
    own = result.frame[result.frame["client"] == "north"]
    assert own["val"].isna().all()
    assert own["test"].isna().all()
    by_round = result.frame.groupby("round")["val"].mean()  # of those that have one
    assert scores.best_val_round == by_round.idxmax()
    shown = command("evaluate", result.folder)
    assert shown.code == 0, shown.stderr
    assert "north has no test samples, and so no scores." in shown.stdout
    assert ramet.resume(result.folder, rounds=4).summary.scores.clients["north"] is None


@pytest.mark.filterwarnings("ignore::ramet.errors.RametWarning")
@pytest.mark.parametrize("options", [{"secure": True}, {"release": "8-bit"}])
def test_also_where_replies_are_changed_before_they_leave(
    options: dict[str, Any], tmp_path: Path
) -> None:
    result = run(tmp_path, **options)
    of_sites = [result.evaluation(name)["test"].metrics["accuracy"] for name in ("south", "east")]
    assert result.summary.scores.test == pytest.approx(sum(of_sites) / 2, abs=1e-6)
    assert not [record for record in result.frame["round"] if record > 3]
    assert "test" not in result.evaluation("north")
