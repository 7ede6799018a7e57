"""The study of synthetic banks: `python results/banks.py [SCRATCH]` runs what is missing.

Design, written down before these runs were made. What had been seen, on another split (split seed
1000): validation scores of `local`, `fedavg` and `pooled` at level medium, by which options were
set; and at level high test scores of boosted trees, and of networks after two short rounds. Rounds,
width and the trees' size were then made smaller for time, and were not set by test scores.

*Question.* Does it help banks to train together to find accounts and transfers of laundering?

*Data.* `banks_data.py`: a published generator's payment system, cut into five banks by its regions,
at its three levels of difficulty, which were taken as they are. One drawing per level.

*Splits.* Five (split seeds 123 to 127), 6:2:2, stratified by bank and class; the same rows are
tested in all rows of the tables. One seed of training: splits vary more.

*Rows.* The same network (GINE: amounts, times and directions of transfers) alone, by FedAvg,
FedProx, FedPer, and with all data in one place; all have eight rounds of six local epochs. Boosted
trees on the columns that the network gets, without links, alone and in one place; small ones
with few bins, since they are many times faster here, and all else by default.

*Scores.* After the last round, each bank ranks its own test rows: average precision, and the share
of laundering among the 5 % that rank highest. Means over banks, unweighted.

*Statistics.* Differences on the same splits, with 95 % intervals of the corrected resampled t-test.
CLAIMS lists what is asked: an interval above zero says *holds*, one below *fails*, others
*undecided*. P-values of banks are adjusted for their number by Holm.
"""

from __future__ import annotations

import gc
import json
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from banks_data import LEVELS, POOLED, TASKS, banks, generated, write
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import average_precision_score

import ramet
from ramet.experiment import SPLIT_SEED, RunFolder
from ramet.runs import Result
from ramet.studies.archive import keep
from ramet.studies.finished_run import FinishedRun

KEPT = Path(__file__).parent / "banks"
SCORES = "scores.jsonl"
SPLITS = range(SPLIT_SEED, SPLIT_SEED + 5)
SEED, ROUNDS = 1, 8
ALERTS = 0.05
"""The share of a bank's test rows that it looks at."""
OPTIONS: Mapping[str, Any] = {
    "network": "gine",
    "metric": "average-precision",
    "weights": "balanced",
    "epochs": 6,
    "lr": 0.01,
    "hidden": 16,
}


@dataclass(frozen=True)
class Row:
    """A method, at every bank or on all data in one place."""

    name: str
    method: str
    pooled: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


ROWS = (
    Row("local", "local"),
    Row("fedavg", "fedavg"),
    Row("pooled", "local", pooled=True),
    Row("fedprox", "fedprox", options={"mu": 0.1}),
    Row("fedper", "fedper"),
)
BOOSTED = {"boosting alone": False, "boosting pooled": True}
MARKS = ("across banks", "before 6 a.m.", "round hundreds")
"""Of laundering transfers, more often than of others."""
ORDER = ("medium", "high", "low")
TOGETHER = ("fedavg", "fedprox", "fedper")


@dataclass(frozen=True)
class Claim:
    """``better`` is above ``than``, at every task and level."""

    says: str
    better: str
    than: str


CLAIMS = (
    *(Claim("training together beats training alone", one, "local") for one in TOGETHER),
    Claim("one place beats training alone", "pooled", "local"),
    Claim("one place is ahead of federated averaging", "pooled", "fedavg"),
    Claim("federated averaging beats boosted trees alone", "fedavg", "boosting alone"),
    Claim("in one place, the network beats boosted trees", "pooled", "boosting pooled"),
)


def main(scratch: Path) -> None:
    """One table of the page after the other, so that what is there can be compared."""
    KEPT.mkdir(exist_ok=True)
    _describe(scratch)
    done = {key for key, _ in scored()}
    for rows in (ROWS[:3], ROWS[3:]):
        for level, task, split, row in product(ORDER, TASKS, SPLITS, rows):
            if (task, level, row.name, split) not in done:
                _run(task, level, row, split, write(level, split, scratch), scratch)


def _run(task: str, level: str, row: Row, split: int, folder: Path, scratch: Path) -> None:
    """Train, keep the run and its scores; with the first row, boosted trees on the same columns."""
    out = scratch / "runs" / f"{task}-{level}-{row.name}-{split}"
    result = trained(task, row, split, folder, out)
    finished = FinishedRun.of(RunFolder(out))
    assert finished is not None
    name = f"{task}-{level}"
    keep([finished], KEPT / (f"{name}-{POOLED}" if row.pooled else name))
    if row.method == "local":
        trees = next(name for name, pooled in BOOSTED.items() if pooled == row.pooled)
        _add(task, level, trees, split, scores(boosted(task, result, folder), task, folder))
    _add(task, level, row.name, split, scores(predicted(result), task, folder))
    shutil.rmtree(out)
    gc.collect()


def trained(task: str, row: Row, split: int, folder: Path, out: Path, **more: Any) -> Result:
    """The finished run, resumed if it was stopped."""
    if RunFolder(out).started:
        return ramet.resume(out)
    shutil.rmtree(out, ignore_errors=True)
    sites = [POOLED] if row.pooled else banks(folder)
    files = shlex.join(str(folder / site / f"{task}.toml") for site in sites)
    options = {"rounds": ROUNDS, "seed": SEED, "split_seed": split, **OPTIONS, **row.options}
    return ramet.run(row.method, "own", sites=files, out=out, **{**options, **more})


def predicted(result: Result) -> pd.Series:
    """The probability of each row, by the model of each bank, by bank and id."""
    clients = result.summary.scores.clients
    tables = {one: result.predict(one).set_index("id") for one in clients}
    found: pd.Series = pd.concat({one: table["p_fraud"] for one, table in tables.items()})
    return found


def boosted(task: str, result: Result, folder: Path) -> pd.Series:
    """As `predicted`, by boosted trees on the columns that networks get."""
    found = {}
    for client in result.summary.scores.clients:
        columns = _columns(result.samples(client).graph, task)
        table = _table(folder / client, task)
        known = (table["split"] == "train").to_numpy()
        trees = HistGradientBoostingClassifier(
            max_leaf_nodes=8, max_bins=31, class_weight="balanced", random_state=SEED
        )
        trees.fit(columns[known], table["class"][known] == "fraud")
        chances = trees.predict_proba(columns)[:, 1]
        found[client] = pd.Series(chances, index=table["id"])
    return pd.concat(found)


def _columns(graph: Any, task: str) -> np.ndarray:
    """Of accounts with their sums, or of transfers with those of both ends."""
    accounts: np.ndarray = graph.features.numpy()
    if task == "accounts":
        return accounts
    source, target = graph.asked.ends.numpy()
    return np.hstack([graph.asked.attributes.numpy(), accounts[source], accounts[target]])


def _table(folder: Path, task: str) -> pd.DataFrame:
    return pd.read_csv(folder / f"{task}.csv", keep_default_na=False)


def scores(chances: pd.Series, task: str, folder: Path) -> dict[str, dict[str, float]]:
    """Of each bank on its own test rows."""
    whole = _table(folder / POOLED, task).set_index("id")
    found = {}
    for bank in banks(folder):
        own = whole[(whole["bank"] == bank) & (whole["split"] == "test")]
        client = bank if bank in chances.index.get_level_values(0) else POOLED
        ranked = chances[client][own.index]
        is_fraud = own["class"] == "fraud"
        looked_at = ranked.nlargest(ceil(ALERTS * len(own))).index
        found[bank] = {
            "ap": float(average_precision_score(is_fraud, ranked)),
            "recall": float(is_fraud[looked_at].sum() / is_fraud.sum()),
            "train": int(((whole["bank"] == bank) & (whole["split"] == "train")).sum()),
            "test": len(own),
            "fraud": int(is_fraud.sum()),
        }
    return found


def _add(task: str, level: str, row: str, split: int, found: Mapping[str, Any]) -> None:
    line = {"task": task, "level": level, "row": row, "split": split, "banks": found}
    with (KEPT / SCORES).open("a") as file:
        file.write(json.dumps(line) + "\n")


def scored() -> Iterator[tuple[tuple[str, str, str, int], Mapping[str, Mapping[str, float]]]]:
    """Each bank's scores by task, level, row and split."""
    path = KEPT / SCORES
    for line in path.read_text().splitlines() if path.exists() else ():
        one = json.loads(line)
        yield (one["task"], one["level"], one["row"], one["split"]), one["banks"]


def _describe(scratch: Path) -> None:
    """What was drawn, to be recognised when it is drawn again."""
    lines = []
    for level in LEVELS:
        whole = generated(level, scratch)
        counts = {
            name: {"rows": len(table), "fraud": int((table["class"] == "fraud").sum())}
            for name, table in whole._asdict().items()
        }
        homes = whole.accounts.set_index("id")["bank"]
        source, target = (whole.transfers[end].map(homes) for end in ("source", "target"))
        signs = (source != target, whole.transfers["hour"] < 6, whole.transfers["round"] == "yes")
        marks = {
            mark: sign.groupby(whole.transfers["class"]).mean().round(5).to_dict()
            for mark, sign in zip(MARKS, signs, strict=True)
        }
        facts = {"level": level, **counts, **marks}
        lines.append(json.dumps({**facts, "sha256": whole.sha256()}))
    (KEPT / "data.jsonl").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "sweeps/banks"))
