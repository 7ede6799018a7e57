"""Columns of ages: dates as the days to the last one, which do not move on from month to month."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest

import ramet
from own_sites import graph_site, write_csv, write_toml
from planted_times import DATES, first_transfers
from ramet.data.own.columns import days_since_1970
from ramet.data.own.leaks import leaks
from ramet.data.own.site import Site, check_site, read_site
from ramet.errors import RametError
from ramet.prediction import Source
from ramet.studies.drift import drift_of

TOML = """\
site = "{site}"
task = "node-classification"
classes = ["a", "b"]
[nodes.account]
file = "accounts.csv"
label = "class"
columns = {{ opened = "{kind}" }}
[edges.transfer]
file = "transfers.csv"
"""
JUNE = date(2026, 6, 30)


def accounts(folder: Path, last: date, first: int = 0, rows: int = 60, kind: str = "age") -> Path:
    """Accounts opened on each day of the last two months or so; the first has no date."""
    ids = [f"a{n}" for n in range(first, first + rows)]
    days = ["", *(last - timedelta(days=n) for n in range(rows - 1))]
    classes = [("a", "b")[n % 2] for n in range(rows)]
    write_csv(folder / "accounts.csv", "id,opened,class", zip(ids, days, classes, strict=True))
    links = [(ids[n], ids[(n + 1) % rows]) for n in range(rows)]
    write_csv(folder / "transfers.csv", "source,target", links)
    return write_toml(folder, TOML.format(site=folder.name, kind=kind))


def values(site: Site, table: str = "account", column: str = "opened") -> list[float]:
    found: list[float] = site.columns[table].values[column].tolist()
    return found


def test_an_age_counts_the_days_to_the_last_date(tmp_path: Path) -> None:
    site = read_site(accounts(tmp_path / "north", JUNE))
    assert np.isnan(values(site)[0])
    assert values(site)[1:] == [*range(59)]
    mean, scale = np.mean(range(59)), np.std(range(59))
    expected = [0, *((n - mean) / scale for n in range(59))]
    assert site.graph.features[:, 0].tolist() == pytest.approx(expected, abs=1e-6)  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", ["age", "date"])
def test_next_month_dates_are_out_of_range_and_ages_are_not(kind: str, tmp_path: Path) -> None:
    north = accounts(tmp_path / "north", JUNE, kind=kind)
    result = ramet.run(
        "local", "own", sites=str(north), rounds=1, out=tmp_path / "run", observe=lambda _: None
    )
    july = accounts(tmp_path / "july", JUNE + timedelta(days=31), 60, 31, kind).parent
    (july / "site.toml").unlink()
    warnings = result.predict(new=july).attrs["warnings"]
    assert any("outside the range" in one for one in warnings) == (kind == "date")
    (opened,) = (
        one
        for one in drift_of(north, Source.of(None, july)).columns
        if one.name == "account.opened"
    )
    assert opened.outside == (1.0 if kind == "date" else 0.0)


def test_each_period_counts_to_its_own_end(tmp_path: Path) -> None:
    columns = 'cash = "number", opened = "age"'
    toml = first_transfers(tmp_path / "bank", split=DATES, columns=columns, accounts=200)
    table = toml.parent / "accounts.csv"
    head, *rows = table.read_text().splitlines()
    days = [row.split(",")[2] for row in rows]
    table.write_text("\n".join([f"{head},opened", *map(",".join, zip(rows, days, strict=True))]))
    site = read_site(toml)
    opened = np.array([days_since_1970(day) if day else np.nan for day in days])
    known = opened[opened < days_since_1970("2025-07-01")]
    ages = known.max() - known
    trained = [one for one in values(site, "account") if not np.isnan(one)]
    assert sorted(trained) == sorted(ages.tolist())
    assert site.by_time is not None
    first, last = site.graph.features, site.later["test"].features  # type: ignore[union-attr]
    shift = (np.nanmax(opened) - known.max()) / ages.std()
    name = 2  # after cash, and its mark
    given = ~np.isnan(opened)
    assert (last - first)[given, name].tolist() == pytest.approx([shift] * given.sum(), rel=1e-4)
    assert not any("opened is after the time" in one for one in leaks(site))
    later = [f"{row},{'2025-10-30' if day else ''}" for row, day in zip(rows, days, strict=True)]
    table.write_text("\n".join([f"{head},opened", *later]))
    assert any("opened is after the time of the row in 2" in one for one in leaks(read_site(toml)))


def with_dates(folder: Path) -> Path:
    """Graphs whose atoms have dates; those of later graphs are later."""
    toml = graph_site(folder)
    head, *rows = (folder / "atoms.csv").read_text().splitlines()
    graphs = [int(row.split(",")[1].removeprefix("g")) for row in rows]
    atoms = [int(row.split(",")[0]) for row in rows]
    days = [JUNE - timedelta(days=1000 - 9 * g + 2 * n) for g, n in zip(graphs, atoms, strict=True)]
    lines = [f"{row},{day}" for row, day in zip(rows, days, strict=True)]
    (folder / "atoms.csv").write_text("\n".join([f"{head},made", *lines]))
    text = toml.read_text().replace('features = ["mass"]', 'columns = { made = "age" }')
    toml.write_text(text)
    return toml


def test_in_many_graphs_ages_count_to_the_last_date_of_each(tmp_path: Path) -> None:
    toml = with_dates(tmp_path / "north")
    rows = (toml.parent / "atoms.csv").read_text().splitlines()[1:]
    site = read_site(toml)
    assert values(site, "atom", "made") == [2.0 * int(row.split(",")[0]) for row in rows]


PREDICTED = """
import json, sys
sys.path.insert(0, ".")
from predict import load, probabilities
from prepare import read_inputs
inputs, _ = read_inputs(sys.argv[1])
print(json.dumps(probabilities(load(), **inputs).tolist()))
"""


@pytest.mark.parametrize("level", ["node", "graph"])
def test_an_exported_model_has_the_same_ages(level: str, tmp_path: Path) -> None:
    home = tmp_path / "north"
    toml = accounts(home, JUNE) if level == "node" else with_dates(home)
    result = ramet.run(
        "local", "own", sites=str(toml), rounds=2, out=tmp_path / "run", observe=lambda _: None
    )
    model = result.export("north", tmp_path / "model", programs=False).folder
    given = [sys.executable, "-c", PREDICTED, str(toml.parent)]
    done = subprocess.run(given, capture_output=True, text=True, cwd=model)
    assert done.returncode == 0, done.stderr
    expected = result.predict("north").filter(like="p_").to_numpy()
    assert np.array(json.loads(done.stdout)) == pytest.approx(expected, abs=1e-6)


def test_mistakes(tmp_path: Path) -> None:
    toml = accounts(tmp_path / "north", date(2199, 1, 1), rows=12)
    found = check_site(toml)
    assert "'2199-01-01' is not a date, or is after today" in str(found.problems[0])
    toml = accounts(tmp_path / "south", JUNE)
    toml.write_text(toml.read_text() + 'columns = { sent = "age" }\n')
    (problem,) = check_site(toml).problems
    assert "is an age, which columns of nodes can be" in str(problem)
    east, west = (accounts(tmp_path / name, JUNE, kind=name) for name in ("age", "date"))
    with pytest.raises(RametError, match=r"declare the column account\.opened differently"):
        ramet.run("fedavg", "own", sites=[east, west], rounds=1, out=tmp_path / "run")
