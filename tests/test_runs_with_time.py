"""Runs on data with times: what is learned from the past, kept next month, and predicted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import ramet
from command_line import ramet as command
from federations import stopped_and_resumed
from own_sites import write_csv, write_toml
from planted_times import DATES, TOML, WITH_AGE, first_transfers
from ramet.errors import RametError, RametWarning

PARTS = ("train", "val", "test")
OPTIONS: dict[str, Any] = {
    "network": "gine", "layers": 1, "lr": 0.01, "epochs": 8, "dropout": 0.0, "seed": 1
}  # fmt: skip


def trained(tomls: list[Path], out: Path, rounds: int = 20, **more: Any) -> ramet.Result:
    sites = [str(toml) for toml in tomls]
    options = {**OPTIONS, **more}
    return ramet.run("fedavg", "own", sites=sites, rounds=rounds, out=out, **options)


def banks(folder: Path, links: str = WITH_AGE, count: int = 2, **more: Any) -> list[Path]:
    seeds = range(1, count + 1)
    return [first_transfers(folder / f"bank-{n}", links, seed=n, **more) for n in seeds]


@pytest.mark.parametrize(("network", "layers"), [("gine", 1), ("gatv2", 2)])
def test_the_order_of_two_transfers_is_learned(tmp_path: Path, network: str, layers: int) -> None:
    tomls = banks(tmp_path)
    found = trained(tomls, tmp_path / "run", network=network, layers=layers)
    assert found.summary.scores.test is not None
    assert found.summary.scores.test > 0.98


def test_without_times_the_order_is_a_guess(tmp_path: Path) -> None:
    for name, links in {"age": 'directed = true\ntime = "date"', "none": "directed = true"}.items():
        found = trained(banks(tmp_path / name, links), tmp_path / name / "run")
        assert found.summary.scores.test is not None
        assert 0.35 < found.summary.scores.test < 0.65


def leaking(folder: Path, seed: int, edges: str) -> Path:
    """After its date each account moves all its money if it is of class "wire".

    What an account did before tells nothing.
    """
    first_transfers(folder, seed=seed)
    accounts = pd.read_csv(folder / "accounts.csv")
    wire = accounts[accounts["first"] == "wire"]
    dates = (pd.to_datetime(wire["date"]) + pd.Timedelta(days=120)).dt.strftime("%Y-%m-%d")
    rows = [("s0", one, "2025-01-02", 1) for one in accounts["id"] if one.startswith("a")]
    moved = [(one, "s7", when, 1) for one, when in zip(wire["id"], dates, strict=True)]
    write_csv(folder / "transfers.csv", "source,target,date,paid", [*rows, *moved])
    names = {"site": folder.name, "split": DATES, "time": 'time = "date"'}
    return write_toml(folder, TOML.format(**names, columns='cash = "number"', links=edges))


COUNTED = 'directed = true\ncolumns = { paid = "number" }\naggregate = ["count"]'


def test_a_leak_is_found_by_the_check_and_changes_the_score(tmp_path: Path) -> None:
    scores = {}
    for name, edges in {"leak": COUNTED, "clean": f'{COUNTED}\ntime = "date"'}.items():
        tomls = [leaking(tmp_path / name / f"bank-{seed}", seed, edges) for seed in (1, 2)]
        checked = command("data", "check", tomls[0])
        assert checked.code == 0, checked.stdout
        assert ("the edges have no times" in checked.stdout) == (name == "leak")
        run = trained(tomls, tmp_path / name / "run", rounds=5)
        scores[name] = run.summary.scores.test or 0.0
    assert scores["leak"] > 0.98
    assert scores["clean"] < 0.85


def test_all_ways_of_running_give_the_same_model(tmp_path: Path) -> None:
    tomls = banks(tmp_path, accounts=80)
    whole = trained(tomls, tmp_path / "whole", rounds=4)
    workers = trained(tomls, tmp_path / "workers", rounds=4, workers=2)
    assert workers.summary.sha256 == whole.summary.sha256
    assert stopped_and_resumed(whole, tmp_path / "stopped") == whole.summary.sha256
    assert whole.evaluation("bank-1")["test"].samples == whole.summary.baselines["bank-1"].test


def test_secure_sums_give_nearly_the_same_model_and_noise_for_links_is_refused(
    tmp_path: Path,
) -> None:
    tomls = banks(tmp_path, accounts=80, count=3)
    clear = trained(tomls, tmp_path / "clear", rounds=2)
    secure = trained(tomls, tmp_path / "secure", rounds=2, secure=True)
    ours, theirs = (run.model("bank-1").state_dict() for run in (clear, secure))
    assert max(float((ours[n] - theirs[n]).abs().max()) for n in ours) < 1e-4
    plain = banks(tmp_path / "plain", 'directed = true\ntime = "date"', columns="", accounts=80)
    for toml in plain:
        toml.write_text(toml.read_text().replace("columns = {  }", 'features = ["cash"]'))
    noise: dict[str, Any] = {"network": "sage", "dp": "unit=site,epsilon=4,delta=1e-2,clip=1"}
    noisy = ramet.run("fedavg", "own", sites=[*map(str, plain)], rounds=1, out=tmp_path / "site",
                      **noise)  # fmt: skip
    assert noisy.summary.scores.test is not None
    budget = "unit=link,epsilon=4,delta=1e-5"
    with pytest.raises(RametError, match="another graph for validation and for test"):
        ramet.run("fedavg", "own", sites=[*map(str, plain)], rounds=1, network="hops", dp=budget,
                  out=tmp_path / "dp")  # fmt: skip


def test_sites_must_agree_on_the_dates_unless_they_say_that_they_do_not(tmp_path: Path) -> None:
    tomls = banks(tmp_path, accounts=80)
    tomls[1].write_text(tomls[1].read_text().replace("2025-06-30", "2025-05-31"))
    with pytest.raises(RametError, match=r"bank-1: 2025-06-30 and .*; bank-2: 2025-05-31 and"):
        trained(tomls, tmp_path / "refused", rounds=1)
    for toml in tomls:
        toml.write_text(toml.read_text().replace("[split]", "[split]\nown = true"))
    found = trained(tomls, tmp_path / "own", rounds=1)
    trains = [found.summary.baselines[f"bank-{n}"].train for n in (1, 2)]
    dates = [pd.read_csv(toml.parent / "accounts.csv")["date"].dropna() for toml in tomls]
    expected = [int((dates[0] <= "2025-06-30").sum()), int((dates[1] <= "2025-05-31").sum())]
    assert trains == expected


def parts_of_nodes(run: Path, site: Path) -> dict[str, str]:
    """The part of each account, from the split that the run recorded and the site's table."""
    ids = pd.read_csv(site.parent / "accounts.csv")["id"]
    split = json.loads((run / "split.json").read_text())["clients"][site.parent.name]
    return {ids[index]: part for part in PARTS for index in split[part]}


def add_month(site: Path, number: int) -> None:
    """Add accounts of another month, and shuffle the tables."""
    table = site.parent / "accounts.csv"
    rows = pd.read_csv(table, dtype=str)
    new = pd.DataFrame(
        {"id": [f"m{number}-{n}" for n in range(20)], "cash": "0.5",
         "date": f"2025-{number:02}-05", "first": ["cash", "wire"] * 10}
    )  # fmt: skip
    pd.concat([rows, new]).sample(frac=1.0, random_state=number).to_csv(table, index=False)


def test_next_month_known_accounts_keep_their_part(tmp_path: Path) -> None:
    (site,) = banks(tmp_path, count=1, accounts=80)
    first = trained([site], tmp_path / "october", rounds=1)
    before = parts_of_nodes(Path(first.folder), site)
    add_month(site, 11)
    with_more = trained([site], tmp_path / "november", rounds=1, start_from=first.folder)
    now = parts_of_nodes(Path(with_more.folder), site)
    assert {one: now[one] for one in before} == before
    assert {part for one, part in now.items() if one not in before} == {"test"}


def test_when_the_dates_move_tested_accounts_are_trained_on_and_the_reverse_is_said(
    tmp_path: Path,
) -> None:
    (site,) = banks(tmp_path, count=1, accounts=80)
    first = trained([site], tmp_path / "october", rounds=1)
    before = parts_of_nodes(Path(first.folder), site)
    add_month(site, 11)
    later = site.read_text().replace("08-31", "10-31").replace("06-30", "09-30")
    site.write_text(later)
    second = trained([site], tmp_path / "november", rounds=1, start_from=first.folder)
    now = parts_of_nodes(Path(second.folder), site)
    assert {now[one] for one, part in before.items() if part == "train"} == {"train"}
    assert {"train"} < {now[one] for one, part in before.items() if part == "test"}
    told = json.loads((Path(second.folder) / "start.json").read_text())["samples"]["bank-1"]
    changed = sum(now[one] != part for one, part in before.items())
    assert (told["known"] - told["kept"], told["moved"]) == (changed, 0)
    site.write_text(later.replace("09-30", "03-31"))
    with pytest.warns(RametWarning, match="for validation or test were trained on"):
        trained([site], tmp_path / "back", rounds=1, start_from=second.folder)


def next_period(site: Path, folder: Path, **change: Any) -> Path:
    """Accounts of the last month in tables of their own; transfers come from known senders."""
    days = pd.read_csv(site.parent / "accounts.csv", dtype=str)
    cut = "2025-10-01"
    for name, rows in {"accounts": days, "transfers": None}.items():
        table = site.parent / f"{name}.csv"
        rows = pd.read_csv(table, dtype=str)
        new = rows["date"] > cut
        if name == "transfers":
            accounts = pd.read_csv(folder / "accounts.csv", dtype=str)["id"]
            new = rows["target"].isin(accounts)
        folder.mkdir(exist_ok=True)
        kept = rows[new].drop(columns="first") if name == "accounts" else rows[new]
        kept.to_csv(folder / f"{name}.csv", index=False)
        rows[~new].to_csv(table, index=False)
    text = f'site = "{site.parent.name}"\n[nodes.account]\nfile = "accounts.csv"\n'
    return write_toml(folder, text + '[edges.transfer]\nfile = "transfers.csv"\n')


def test_the_next_period_is_predicted_with_the_last_one_as_context(tmp_path: Path) -> None:
    tomls = banks(tmp_path)
    truth = pd.read_csv(tomls[0].parent / "accounts.csv").set_index("id")["first"]
    october = next_period(tomls[0], tmp_path / "october")
    result = trained(tomls, tmp_path / "run")
    found = result.predict(new=october.parent, context=tomls[0])
    ids = pd.read_csv(october.parent / "accounts.csv")["id"]
    assert found["id"].tolist() == ids.tolist()
    right = (found["class"].to_numpy() == truth[found["id"]].to_numpy()).mean()
    assert right > 0.98
    words = ("--new", october, "--context", tomls[0], "--out", tmp_path / "found.csv")
    done = command("predict", result.folder, *words)
    assert done.code == 0, done.stderr
    again = pd.read_csv(tmp_path / "found.csv")
    assert again["class"].tolist() == found["class"].tolist()
    october.write_text(october.read_text() + 'time = "date"\n')
    with pytest.raises(RametError, match="there is no account 's"):  # the senders are in the past
        result.predict(site=october)


def test_a_context_with_all_rows_predicts_as_all_rows_do(tmp_path: Path) -> None:
    tomls = banks(tmp_path, accounts=80)
    result = trained(tomls, tmp_path / "run", rounds=2)
    whole = result.predict("bank-1").set_index("id")
    october = next_period(tomls[0], tmp_path / "october")
    joined = result.predict(new=october).set_index("id")
    assert len(joined) < len(whole)
    expected = whole.loc[joined.index, "p_cash"]
    assert joined["p_cash"].to_numpy() == pytest.approx(expected.to_numpy(), abs=1e-6)


def test_a_context_needs_new_data_and_one_graph_of_tables(tmp_path: Path) -> None:
    (site,) = banks(tmp_path, count=1, accounts=80)
    result = trained([site], tmp_path / "run", rounds=1)
    with pytest.raises(RametError, match="Name their folder with --new"):
        result.predict("bank-1", context=site)
    other = tmp_path / "other"
    other.mkdir()
    text = site.read_text().replace("[edges.transfer]", "[edges.payment]")
    with pytest.raises(RametError, match="not what the model was trained on: its edge types"):
        result.predict(new=site, context=write_toml(other, text))
