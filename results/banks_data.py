"""Synthetic banks for `banks.py`: accounts, transfers and laundering from a published generator.

GraphFaker draws one payment system whose customers live in regions, with laundering patterns of the
AMLworld taxonomy (https://arxiv.org/abs/2306.16424). Labels and levels of difficulty are its own.
Each region is made a bank here: it has its customers' accounts, all transfers from or to them, and
of an account elsewhere the number alone. The sender's bank labels a transfer.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

GENERATOR = "graphfaker==1.3.0"
WHEEL_SHA256 = "b01e6b5a65bd2accbd61af62353ed2422c72ae21e882cef0c5f13fdfa177916c"
LEVELS = ("low", "medium", "high")
"""How well laundering hides, in the generator's words: amounts, timing, sizes, look-alikes."""
BANKS, DATA_SEED = 5, 1
POOLED = "pooled"
TYPOLOGIES = (
    *("fan_in", "fan_out", "gather_scatter", "scatter_gather"),
    *("cycle", "stack", "bipartite"),
)
PATTERNS = 15
"""Of each typology."""
GENERATE = f"""
import sys
from graphfaker.domains import fraud
patterns = dict.fromkeys({TYPOLOGIES!r}, {PATTERNS})
run = fraud.generate(
    scale=0.001, hardness=sys.argv[1], seed={DATA_SEED}, regions={BANKS}, patterns=patterns
)
run.write(sys.argv[2])
"""


class Tables(NamedTuple):
    """Of one payment system, or what one bank sees of it."""

    accounts: pd.DataFrame
    transfers: pd.DataFrame

    def sha256(self) -> str:
        text = "".join(table.to_csv(index=False) for table in self)
        return hashlib.sha256(text.encode()).hexdigest()


def generated(level: str, scratch: Path) -> Tables:
    """The payment system of a level, drawn once."""
    folder = scratch / "generated" / level
    if not (folder / "manifest.json").exists():
        python = _python(scratch / "generator")
        subprocess.run([python, "-c", GENERATE, level, str(folder)], check=True)
    return labelled(folder)


def _python(folder: Path) -> Path:
    """The interpreter of an environment with the generator alone."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        wheels = folder / "wheel"
        _pip(python, "download", GENERATOR, "--no-deps", "--dest", str(wheels))
        (wheel,) = wheels.glob("*.whl")
        found = hashlib.sha256(wheel.read_bytes()).hexdigest()
        if found != WHEEL_SHA256:
            raise SystemExit(f"{wheel.name} has SHA-256 {found}, expected {WHEEL_SHA256}.")
        _pip(python, "install", str(wheel))
    return python


def _pip(python: Path, *words: str) -> None:
    subprocess.run([python, "-m", "pip", "--quiet", *words], check=True)


def labelled(folder: Path) -> Tables:
    """What the generator wrote, with its truth as a column `class`."""
    nodes, edges, truth = (folder / name for name in ("nodes", "edges", "truth"))
    customers = pd.read_parquet(nodes / "Customer.parquet").set_index("id")
    account = pd.read_parquet(nodes / "Account.parquet")
    owner = account["customer"].map
    fraud = pd.read_parquet(truth / "accounts.parquet").query("is_fraud")["account_id"]
    accounts = pd.DataFrame(
        {
            "id": account["id"],
            "bank": "bank-" + (account["region"] + 1).astype(str),
            "type": account["account_type"],
            "status": account["status"],
            "opened": account["opened_at"],
            "log_balance": np.log10(account["balance"] + 1).round(4),
            "segment": owner(customers["segment"]),
            "log_income": owner(customers["log_income"]),
            "class": _classes(account["id"].isin(fraud)),
        }
    )
    transfer = pd.read_parquet(edges / "TRANSFERS.parquet").sort_values("timestamp", kind="stable")
    fraud = pd.read_parquet(truth / "transactions.parquet").query("is_fraud")["tx_id"]
    moment = transfer["timestamp"].dt
    transfers = pd.DataFrame(
        {
            "id": transfer["tx_id"],
            "source": transfer["source"],
            "target": transfer["target"],
            "time": moment.strftime("%Y-%m-%dT%H:%M"),
            "amount": transfer["amount"],
            "log_amount": np.log10(transfer["amount"] + 1).round(4),
            "round": _flag(transfer["amount"] % 100 == 0),
            "hour": moment.hour,
            "weekend": _flag(moment.day_of_week >= 5),
            "class": _classes(transfer["tx_id"].isin(fraud)),
        }
    )
    return Tables(accounts, transfers.reset_index(drop=True))


def _classes(is_fraud: pd.Series) -> pd.Series:
    return is_fraud.map({True: "fraud", False: "fine"})


def _flag(holds: pd.Series) -> pd.Series:
    return holds.map({True: "yes", False: "no"})


def with_split(tables: Tables, split: int) -> Tables:
    """Both tables with a column `split`, 6:2:2, stratified by bank and class."""
    accounts, transfers = (table.copy() for table in tables)
    bank = accounts.set_index("id")["bank"]
    transfers["bank"] = transfers["source"].map(bank)
    for table in (accounts, transfers):
        groups = table["bank"] + table["class"]
        train, rest = train_test_split(
            table.index, test_size=0.4, random_state=split, stratify=groups
        )
        val, test = train_test_split(
            rest, test_size=0.5, random_state=split, stratify=groups.loc[rest]
        )
        for part, rows in (("train", train), ("val", val), ("test", test)):
            table.loc[rows, "split"] = part
    return Tables(accounts, transfers)


def cut(whole: Tables) -> Mapping[str, Tables]:
    """What each bank sees; of accounts elsewhere, and of transfers from there, no class."""
    return {bank: _seen(whole, bank) for bank in sorted(whole.accounts["bank"].unique())}


def _seen(whole: Tables, bank: str) -> Tables:
    home = whole.accounts.set_index("id")["bank"]
    ends = [whole.transfers[end].map(home) == bank for end in ("source", "target")]
    transfers = whole.transfers[ends[0] | ends[1]].copy()
    transfers.loc[transfers["bank"] != bank, ["class", "split"]] = ["", "none"]
    met = {*transfers["source"], *transfers["target"]}
    is_own = whole.accounts["bank"] == bank
    accounts = whole.accounts[is_own | whole.accounts["id"].isin(met)].copy().astype(object)
    elsewhere = accounts["bank"] != bank
    accounts.loc[elsewhere, accounts.columns.difference(["id", "bank"])] = ""
    accounts.loc[elsewhere, "split"] = "none"
    return Tables(accounts, transfers)


SITE = """\
site = "{bank}"
task = "{task}"
classes = ["fine", "fraud"]

[nodes.account]
file = "accounts.csv"
{account}

[nodes.account.columns]
type = {{ kind = "category", categories = ["checking", "savings", "business", "credit"] }}
status = {{ kind = "category", categories = ["active", "dormant", "closed"] }}
opened = "date"
log_balance = "number"
segment = {{ kind = "category", categories = ["retail", "affluent", "business"] }}
log_income = "number"

[edges.transfer]
file = "transfers.csv"
directed = true
time = "time"
age = true
aggregate = ["sum", "mean", "count"]
{transfer}

[edges.transfer.columns]
amount = "number"
log_amount = "number"
round = "flag"
hour = "number"
weekend = "flag"
"""
TARGET = 'label = "class"\nsplit = "split"'
TASKS: Mapping[str, Mapping[str, str]] = {
    "accounts": {"task": "node-classification", "account": TARGET, "transfer": ""},
    "transfers": {
        "task": "edge-classification",
        "account": "",
        "transfer": f'id = "id"\n{TARGET}',
    },
}


def write(level: str, split: int, scratch: Path) -> Path:
    """A folder per bank, and one with all data in one place."""
    folder = scratch / "data" / f"{level}-{split}"
    if folder.exists():
        return folder
    partial = folder.with_name(f"{folder.name}.partial")
    whole = with_split(generated(level, scratch), split)
    for bank, tables in {**cut(whole), POOLED: whole}.items():
        own = partial / bank
        own.mkdir(parents=True, exist_ok=True)
        for name, table in tables._asdict().items():
            table.to_csv(own / f"{name}.csv", index=False)
        for name, parts in TASKS.items():
            (own / f"{name}.toml").write_text(SITE.format(bank=bank, **parts))
    partial.rename(folder)
    return folder


def banks(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != POOLED)
