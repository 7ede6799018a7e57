"""The study of synthetic banks: who sees and is tested on what, and what its page says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ramet.studies.archive import kept
from result_modules import RESULTS, imported


@dataclass(frozen=True)
class Modules:
    data: Any
    design: Any
    study: Any
    page: Any


@pytest.fixture(scope="module")
def modules() -> Iterator[Modules]:
    with imported("banks_data", "banks", "banks_study", "banks_page") as found:
        yield Modules(*found)


@pytest.fixture(scope="module")
def system(modules: Modules, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Ninety accounts in three regions and 600 transfers, in the generator's files."""
    draw, folder = np.random.default_rng(0), tmp_path_factory.mktemp("generated")
    accounts, transfers = 90, 600
    names = [f"acc_{number}" for number in range(accounts)]
    files = {
        "nodes/Customer": {"id": ["c"], "segment": ["retail"], "log_income": [10.0]},
        "nodes/Account": {
            "id": names,
            "customer": "c",
            "region": np.arange(accounts) % 3,
            "account_type": "checking",
            "status": "active",
            "opened_at": pd.Timestamp("2020-05-01").date(),
            "balance": draw.uniform(1, 1000, accounts),
        },
        "edges/TRANSFERS": {
            "tx_id": [f"tx_{number}" for number in range(transfers)],
            "source": draw.choice(names, transfers),
            "target": draw.choice(names, transfers),
            "timestamp": pd.Timestamp("2024-01-01") + pd.to_timedelta(range(transfers), "h"),
            "amount": draw.uniform(1, 1000, transfers).round(2),
        },
        "truth/accounts": {"account_id": names[:33], "is_fraud": [True] * 30 + [False] * 3},
        "truth/transactions": {
            "tx_id": [f"tx_{number}" for number in range(0, transfers, 5)],
            "is_fraud": True,
        },
    }
    for name, columns in files.items():
        path = folder / f"{name}.parquet"
        path.parent.mkdir(exist_ok=True)
        pd.DataFrame(columns).to_parquet(path)
    return modules.data.labelled(folder)


def test_labels_are_where_the_generator_says(system: Any) -> None:
    """Its look-alikes, here the accounts 30 to 32, are no laundering."""
    accounts, transfers = system
    fraud = accounts.query("`class` == 'fraud'")["id"]
    assert set(fraud) == {f"acc_{number}" for number in range(30)}
    assert set(accounts["class"]) == {"fine", "fraud"}
    fraud = transfers.query("`class` == 'fraud'")["id"]
    assert set(fraud) == {f"tx_{number}" for number in range(0, 600, 5)}


def test_each_row_is_labelled_at_one_bank(modules: Modules, system: Any) -> None:
    whole = modules.data.with_split(system, split=1)
    seen = modules.data.cut(whole)
    assert [*seen] == ["bank-1", "bank-2", "bank-3"]
    for number, name in enumerate(("accounts", "transfers")):
        labelled = pd.concat(
            [tables[number].query("split != 'none'") for tables in seen.values()]
        ).sort_values("id")
        expected = whole[number].sort_values("id")
        for column in ("id", "bank", "class", "split"):
            assert [*labelled[column]] == [*expected[column]], name


def test_a_bank_knows_only_the_number_of_an_account_elsewhere(
    modules: Modules, system: Any
) -> None:
    whole = modules.data.with_split(system, split=1)
    home = whole.accounts.set_index("id")["bank"]
    for bank, (accounts, transfers) in modules.data.cut(whole).items():
        ends = pd.concat([transfers["source"].map(home), transfers["target"].map(home)], axis=1)
        assert (ends == bank).any(axis=1).all()
        elsewhere = accounts[accounts["bank"] != bank]
        assert len(elsewhere)
        assert (elsewhere.drop(columns=["id", "bank", "split"]) == "").all(axis=None)
        received = transfers[transfers["bank"] != bank]
        assert set(received["class"]) == {""}
        assert set(received["split"]) == {"none"}


def test_parts_have_the_same_share_of_laundering(modules: Modules, system: Any) -> None:
    for table in modules.data.with_split(system, split=1):
        parts = table.groupby("split")["class"].agg(["size", lambda own: (own == "fraud").mean()])
        assert parts["size"].to_dict() == {
            part: round(share * len(table))
            for part, share in (("train", 0.6), ("val", 0.2), ("test", 0.2))
        }
        shares = parts.iloc[:, 1]
        assert shares.max() - shares.min() < 0.08


@pytest.mark.parametrize("task", ["accounts", "transfers"])
def test_scores_are_those_of_the_run(
    modules: Modules, system: Any, task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(modules.data, "generated", lambda level, scratch: system)
    folder = modules.data.write("low", 5, tmp_path)
    for row in (modules.design.ROWS[0], modules.design.ROWS[2]):
        result = modules.design.trained(
            task, row, 5, folder, tmp_path / row.name, rounds=1, epochs=1
        )
        found = modules.design.scores(modules.design.predicted(result), task, folder)
        assert [*found] == ["bank-1", "bank-2", "bank-3"]
        for bank, score in result.summary.scores.clients.items():
            if bank in found:
                assert found[bank]["ap"] == pytest.approx(score, abs=1e-6)
                assert found[bank]["test"] == result.summary.baselines[bank].test
        trees = modules.design.boosted(task, result, folder)
        assert trees.between(0, 1).all()
        assert [*modules.design.scores(trees, task, folder)] == [*found]


def test_recall_counts_what_the_alerts_find(modules: Modules, tmp_path: Path) -> None:
    """Of 40 rows two are looked at, of which one is one of two that are laundering."""
    rows = pd.DataFrame({"id": [f"t{n}" for n in range(40)], "bank": "bank-1", "split": "test"})
    rows["class"] = ["fraud", "fraud"] + ["fine"] * 38
    for bank in ("bank-1", "pooled"):
        (tmp_path / bank).mkdir()
        rows.to_csv(tmp_path / bank / "transfers.csv", index=False)
    chances = pd.Series([0.9, 0.1, 0.8] + [0.2] * 37, index=rows["id"])
    found = modules.design.scores(pd.concat({"bank-1": chances}), "transfers", tmp_path)
    assert found["bank-1"]["recall"] == 0.5
    assert found["bank-1"]["ap"] == pytest.approx((1 / 1 + 2 / 40) / 2)


def _case(modules: Modules, alone: float, together: float, trees: float) -> Any:
    """Five splits, which differ a little."""

    def of(ap: float, slope: float) -> dict[int, Any]:
        sizes = {"recall": 0.0, "train": 60, "test": 20, "fraud": 5}
        return {split: {"bank-1": {"ap": ap + slope * split, **sizes}} for split in range(5)}

    rows = {
        "local": of(alone, 0.001),
        "fedavg": of(together, 0.002),
        "boosting alone": of(trees, 0.003),
    }
    return modules.study.Case("accounts", "low", rows)


@pytest.mark.parametrize(
    ("alone", "together", "trees", "says"),
    [
        (0.5, 0.6, 0.4, ("In 1 of", "network in 1 (behind in 0", "links, in 1 (behind in 0")),
        (0.5, 0.6, 0.7, ("In 0 of", "network in 1 (behind in 0", "links, in 0 (behind in 1")),
        (0.5, 0.4, 0.3, ("In 0 of", "network in 0 (behind in 1", "links, in 1 (behind in 0")),
    ],
)
def test_the_answer_says_who_wins(
    modules: Modules, alone: float, together: float, trees: float, says: tuple[str, ...]
) -> None:
    said = modules.page.answer([_case(modules, alone, together, trees)])
    assert all(text in said for text in says)
    assert "1 of 1 gains over the network are decided, and 1 of 1 gains of single banks" in said
    assert ("For accounts (low), banks' own trees are ahead" in said) == (trees > alone)
    assert "little is left to gain" not in said
    assert "| accounts, low | 25.0 |" in said


def test_the_answer_says_where_nothing_is_decided_or_left_to_gain(modules: Modules) -> None:
    said = modules.page.answer([_case(modules, 0.99, 0.988, 0.985)])
    assert "At low, banks' own networks find nearly everything" in said
    assert "network in 0 (behind in 0, undecided in 1)" in said
    assert "0 of 1 gains over the network are decided, and 0 of 1 gains of single banks" in said


def test_the_page_says_how_much_was_still_learned(modules: Modules) -> None:
    """The largest of the comparisons' mean rises of validation scores in the last round."""
    largest = 0.0
    for folder in (RESULTS / "banks").glob("*-[hlm]*"):
        runs = [json.loads(path.read_text()) for path in folder.glob("fedavg,*")]
        rises = [run["rounds"][-1][1] - run["rounds"][-2][1] for run in runs]
        largest = max(largest, fmean(rises) if rises else 0.0)
    assert f"and {100 * largest:.1f} by FedAvg" in modules.page.stopped()


def test_statuses_follow_from_the_intervals(modules: Modules) -> None:
    cases = modules.study.cases()
    table = modules.page.claims_table(cases) + modules.page.methods_table(cases)
    for case in modules.study.cases():
        for claim in modules.design.CLAIMS:
            if not case.has(claim.better, claim.than):
                continue
            gain = case.gain(claim.better, claim.than)
            status = "undecided"
            if gain.pairs >= 5 and gain.low > 0:
                status = "holds"
            elif gain.pairs >= 5 and gain.high < 0:
                status = "fails"
            assert f"{modules.page.words(gain)} **{status}**" in table


def test_kept_scores_are_those_of_kept_runs(modules: Modules) -> None:
    """Each with its seed, command and versions; the mean over banks is the run's score."""
    rows = {row.name: row for row in modules.design.ROWS}
    for (task, level, name, split), banks in modules.design.scored():
        if name in rows and not rows[name].pooled:
            runs = kept(RESULTS / "banks" / f"{task}-{level}")
            (run,) = [r for r in runs if r.split_seed == split and r.spec.method == name]
            assert run.versions["commit"]
            for bank, score in run.summary.scores.clients.items():
                assert banks[bank]["ap"] == pytest.approx(score, abs=1e-3)
    lines = (RESULTS / "banks" / "data.jsonl").read_text().splitlines()
    assert [json.loads(line)["level"] for line in lines] == [*modules.data.LEVELS]
