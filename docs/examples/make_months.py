"""Three banks, month by month, for docs/month-after-month.md."""

from __future__ import annotations

import csv
import random
from collections.abc import Iterable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

Row = list[Any]

SITE = """\
site = "{bank}"
task = "node-classification"
classes = ["honest", "mule"]

[nodes.account]
file = "accounts.csv"
label = "state"
columns = {{ balance = "number", opened = "age", branch = "category" }}

[edges.transfer]
file = "transfers.csv"
"""
MONTHS = ["january", "february", "march", "april", "may", "june"]


def write(folder: Path, accounts: Iterable[Row], transfers: Iterable[Row]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, head, rows in (
        ("accounts.csv", ["id", "balance", "opened", "branch", "state"], accounts),
        ("transfers.csv", ["source", "target"], transfers),
    ):
        with (folder / name).open("w", newline="") as file:
            csv.writer(file).writerows([head, *rows])


def month(bank: str, number: int, count: int) -> tuple[list[Row], list[Row]]:
    """New accounts, and transfers to them: mules get theirs from accounts with high balances."""
    draw = random.Random(f"{bank} {number}")
    accounts: list[Row] = []
    transfers: list[Row] = []
    inflation = 3 if number >= 4 else 1
    branches = ["city", "port", "online"] if number >= 5 else ["city", "port"]
    for n in range(count):
        balance = round(draw.lognormvariate(8, 1) * inflation)
        opened = date(2026, number + 1, 28) - timedelta(days=draw.randrange(700))
        state = draw.choice(["honest", "mule"])
        accounts.append([f"{bank}{number}-{n}", balance, opened, draw.choice(branches), state])
    by_balance = sorted(accounts, key=lambda account: account[1])
    low, high = by_balance[: count // 2], by_balance[count // 2 :]
    for name, _, _, _, state in accounts:
        for _ in range(3):
            usual = high if state == "mule" else low
            transfers.append([draw.choice(usual if draw.random() < 0.8 else accounts)[0], name])
    return accounts, transfers


for bank, size in (("north", 100), ("south", 40), ("east", 40)):
    accounts: list[Row] = []
    transfers: list[Row] = []
    for number, name in enumerate(MONTHS):
        new = month(bank, number, size)
        if number >= 3:
            write(Path(bank, name), *new)
        accounts += new[0]
        transfers += new[1]
        if name in ("march", "may"):
            folder = Path(bank, f"until-{name}")
            write(folder, accounts, transfers)
            (folder / "site.toml").write_text(SITE.format(bank=bank))
