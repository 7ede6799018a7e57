"""Drift: rarely told where there is none, and found where it is planted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from scipy.stats import chi2_contingency, ks_2samp

from command_line import ramet as command
from own_sites import graph_site, link_site, write_toml
from planted_times import DATES, first_transfers
from ramet.data.own.new_data import read_new_data
from ramet.data.own.preparation import agreed
from ramet.data.own.site import read_site
from ramet.errors import RametError
from ramet.prediction import Source
from ramet.studies.drift import Drift, _contingency, _frequent, drift, drift_of

TOML = """\
site = "{site}"
task = "node-classification"
classes = ["honest", "mule"]
[nodes.account]
file = "accounts.csv"
label = "class"
[nodes.account.columns]
balance = "number"
risk = {{ kind = "number", missing_values = ["?"] }}
branch = "category"
abroad = "flag"
[edges.transfer]
file = "transfers.csv"
directed = true
[edges.transfer.columns]
amount = "number"
"""
COLUMNS = 4 + 2 + 1
"""Of accounts, counts of links in and out, and of transfers."""


def month(folder: Path, seed: int, first: int, rows: int, planted: Sequence[str] = ()) -> Path:
    """Accounts with transfers among them; ``planted`` names what differs from other months."""
    draw, names = np.random.default_rng(seed), np.arange(first, first + rows)
    folder.mkdir(parents=True)
    missing = draw.random(rows) < (0.4 if "risk" in planted else 0.1)
    accounts = {
        "id": [f"a{n}" for n in names],
        "balance": draw.lognormal(7, 1, rows) * (1.6 if "balance" in planted else 1),
        "risk": np.where(missing, "?", draw.normal(size=rows).round(3).astype(str)),
        "branch": draw.choice(["x", "y", "z", "rare"], rows, p=[0.5, 0.3, 0.19, 0.01]),
        "abroad": draw.random(rows) < 0.05,
        "class": draw.choice(["honest", "mule"], rows),
    }
    if "branch" in planted:
        opened = ["opened in July"] * (rows // 4)
        accounts["branch"] = [*opened, *draw.choice(["x", "y", "z"], rows - len(opened))]
    links = rows * (5 if "links" in planted else 2)
    transfers = {
        "source": [f"a{n}" for n in draw.choice(names, links)],
        "target": [f"a{n}" for n in draw.choice(names, links)],
        "amount": draw.lognormal(3, 1, links),
    }
    pd.DataFrame(accounts).to_csv(folder / "accounts.csv", index=False)
    pd.DataFrame(transfers).to_csv(folder / "transfers.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = month(tmp_path_factory.mktemp("bank") / "north", 1, 0, 600)
    return write_toml(folder, TOML.format(site="north"))


def test_of_100_months_without_drift_at_most_5_are_told(tmp_path: Path) -> None:
    alarms = 0
    for seed in range(100):
        toml = write_toml(month(tmp_path / f"{seed}", seed, 0, 300), TOML.format(site="north"))
        before = read_site(toml)
        new = month(tmp_path / f"new-{seed}", 1000 + seed, 300, 100)
        found = drift(before, read_new_data(new, before.schema, agreed({"": before.sums}), toml))
        assert len(found.columns) == COLUMNS
        assert (found.columns[0].before, found.columns[0].now) in {(300, 100), (600, 200)}
        alarms += bool(found.changed)
    assert alarms <= 5


@pytest.mark.parametrize(
    ("planted", "column", "verdict"),
    [
        ("balance", "account.balance", "has changed"),
        ("risk", "account.risk", "is missing more often"),
        ("branch", "account.branch", "has changed much"),
        ("links", "account.transfer in", "has changed much"),
    ],
)
def test_planted_drift_is_found(
    bank: Path, tmp_path: Path, planted: str, column: str, verdict: str
) -> None:
    new = month(tmp_path / "july", 7, 600, 150, [planted])
    found = drift_of(bank, Source.of(None, new))
    changed = {one.name: one.verdict for one in found.changed}
    assert changed[column].startswith(verdict)
    assert set(changed) <= {column, "account.transfer out"}
    if planted == "branch":
        by_name = {one.name: one for one in found.columns}
        assert by_name[column].categories == ("opened in July",)
        assert by_name[column].outside == pytest.approx(37 / 150)


def test_numbers_are_those_of_scipy_and_of_the_definition(bank: Path, tmp_path: Path) -> None:
    new = month(tmp_path / "july", 7, 600, 150, ["balance", "risk"])
    found = {one.name: one for one in drift_of(bank, Source.of(None, new)).columns}
    old, now = (pd.read_csv(folder / "accounts.csv") for folder in (bank.parent, new))
    edges = [-np.inf, *np.quantile(old["balance"], np.arange(1, 10) / 10), np.inf]
    shares = [(np.histogram(one["balance"], edges)[0] + 0.5) / (len(one) + 5) for one in (old, now)]
    psi = ((shares[1] - shares[0]) * np.log(shares[1] / shares[0])).sum()
    balance = found["account.balance"]
    assert balance.values.psi == pytest.approx(psi, rel=1e-6)
    assert balance.spans[0] == pytest.approx((old["balance"].min(), old["balance"].max()))
    p_values = [ks_2samp(old["balance"], now["balance"]).pvalue]
    gone = [(one["risk"] == "?").sum() for one in (old, now)]
    table = [[gone[0], 600 - gone[0]], [gone[1], 150 - gone[1]]]
    p_values.append(chi2_contingency(table).pvalue)
    smallest, next_one = sorted(p_values)
    adjusted = sorted((balance.values.p_value, found["account.risk"].gaps.p_value))
    assert adjusted == pytest.approx([2 * COLUMNS * smallest, (2 * COLUMNS - 1) * next_one])


@pytest.mark.parametrize("shares", [[0.5, 0.3, 0.15, 0.03, 0.01, 0.01], [1 / 30] * 30])
def test_categories_are_called_different_as_often_as_they_should_be(shares: list[float]) -> None:
    draw, told = np.random.default_rng(0), 0
    for _ in range(600):
        counts = np.stack([draw.multinomial(rows, shares) for rows in (180, 60)])
        told += _contingency(_frequent(counts[:, counts.any(axis=0)]))[0] < 0.05
    assert 10 < told < 48  # of 30 expected; binomial: 49 or more happen in 0.04 % of all cases


def test_the_command_tells_draws_and_writes(bank: Path, tmp_path: Path) -> None:
    new = month(tmp_path / "july", 7, 600, 150, ["branch"])
    done = command("data", "drift", bank, "--new", new, "--figure", tmp_path / "drift.png")
    assert done.code == 0, done.stderr
    assert "1 of 7 columns has changed: account.branch." in done.stdout
    assert "150 new rows" in done.stderr
    with Image.open(tmp_path / "drift.png") as picture:
        assert len(picture.convert("L").getcolors() or []) > 5
    facts = json.loads(command("data", "drift", bank, "--new", new, "--json").stdout)
    assert facts["changed"]
    assert facts["columns"][0]["categories"] == ["opened in July"]
    assert "there is no nowhere" in command("data", "drift", "nowhere", "--new", new).stderr
    assert "with --new" in command("data", "drift", bank).stderr


def test_a_run_compares_with_what_its_client_was_trained_on(bank: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    trained = command("run", "local", "--site", bank, "--rounds", "1", "--out", run)
    assert trained.code == 0, trained.stderr
    new = month(tmp_path / "july", 7, 600, 150, ["branch"])
    of_run, of_site = (drift_of(place, Source.of(None, new)) for place in (run, bank))
    assert of_run == of_site


def test_a_column_that_is_not_there_is_missing_in_all_rows(bank: Path, tmp_path: Path) -> None:
    new = month(tmp_path / "july", 7, 600, 150)
    table = pd.read_csv(new / "accounts.csv").drop(columns="risk")
    table.to_csv(new / "accounts.csv", index=False)
    (changed,) = drift_of(bank, Source.of(None, new)).changed
    assert (changed.name, changed.verdict) == ("account.risk", "is missing in all rows")


def test_a_date_moves_on_and_training_is_what_counts(tmp_path: Path) -> None:
    columns = 'cash = "number", opened = "date"'
    toml = first_transfers(tmp_path / "bank", split=DATES, columns=columns)
    table = pd.read_csv(toml.parent / "accounts.csv")
    table["opened"] = table["date"]
    table.to_csv(toml.parent / "accounts.csv", index=False)
    found: Drift = drift_of(toml, Source.of(toml, None))
    opened = next(one for one in found.columns if one.name == "account.opened")
    assert opened.before < opened.now == len(table)
    assert opened.changed
    assert "Dates move on: declare account.opened as" in found.verdict


def test_graphs_and_links_have_their_counts(tmp_path: Path) -> None:
    graphs = graph_site(tmp_path / "graphs")
    found = drift_of(graphs, Source.of(graphs, None))
    assert {one.name for one in found.columns} == {"atom.mass", "atom.bond links", "graphs.nodes"}
    links = link_site(tmp_path / "links")
    new = tmp_path / "july"
    new.mkdir()
    (new / "patients.csv").write_text("id,age\nn1,5\nn2,6\n")
    (new / "takes.csv").write_text("source,target\nn1,d1\n")
    by_name = {one.name: one for one in drift_of(links, Source.of(None, new)).columns}
    assert (by_name["patient.takes out"].before, by_name["patient.takes out"].now) == (30, 2)
    assert by_name["patient.takes out"].spans[1] == (0, 1)
    assert not any(one.changed for one in by_name.values())
    with pytest.raises(RametError, match="Leave out"):
        drift_of(links, Source.of(links, new))
