"""A bank where only time decides: an account's class is which of two transfers came first."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import numpy as np

from own_sites import write_csv, write_toml

TOML = """\
site = "{site}"
task = "node-classification"
classes = ["cash", "wire"]
{split}
[nodes.account]
file = "accounts.csv"
columns = {{ {columns} }}
label = "first"
{time}
[edges.transfer]
file = "transfers.csv"
{links}
"""
DATES = """
[split]
by = "time"
train_until = 2025-06-30
validate_until = 2025-08-31
"""
WITH_AGE = 'directed = true\ntime = "date"\nage = true'
FIRST_DAY = date(2025, 1, 1)
DAYS = 300
"""Training has 181 of them, and validation 62."""
CASH, WIRE = 4, 4
"""How many accounts send the one and the other."""


def day(number: float) -> str:
    return (FIRST_DAY + timedelta(days=int(number))).isoformat()


def first_transfers(
    folder: Path,
    links: str = WITH_AGE,
    split: str = DATES,
    seed: int = 0,
    accounts: int = 600,
    days: int = DAYS,
    time: str = 'time = "date"',
    columns: str = 'cash = "number"',
    shift: int = 0,
) -> Path:
    """Each account gets a transfer from a cash desk and one from a bank, 5 to 20 days apart.

    The later one is on the account's own date. ``shift`` moves all dates and numbers of accounts.
    """
    draw = np.random.default_rng(seed)
    senders = [f"s{n}" for n in range(CASH + WIRE)]
    dates = draw.integers(20, days, size=accounts) + shift
    gaps = draw.integers(5, 20, size=accounts)
    wire_first = draw.random(accounts) < 0.5
    rows: list[tuple[object, ...]] = [(one, int(n < CASH), "", "") for n, one in enumerate(senders)]
    transfers = []
    for n in range(accounts):
        name, first = f"a{n + shift * 10}", "wire" if wire_first[n] else "cash"
        rows.append((name, 0.5, day(dates[n]), first))
        cash, wire = draw.integers(CASH), CASH + draw.integers(WIRE)
        early, late = (wire, cash) if wire_first[n] else (cash, wire)
        transfers.append((senders[early], name, day(dates[n] - gaps[n])))
        transfers.append((senders[late], name, day(dates[n])))
    write_csv(folder / "accounts.csv", "id,cash,date,first", rows)
    order = draw.permutation(len(transfers))
    write_csv(folder / "transfers.csv", "source,target,date", [transfers[n] for n in order])
    text = TOML.format(site=folder.name, links=links, split=split, time=time, columns=columns)
    return write_toml(folder, text)
