"""Sites whose transfers have a class that follows from direction, amount, net or time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

TOML = """site = "{name}"
task = "edge-classification"
classes = ["fine", "fraud"]
{more}
[nodes.account]
file = "accounts.csv"

[nodes.account.columns]
wealth = "number"

[edges.transfer]
file = "transfers.csv"
id = "number"
label = "state"
{keys}
[edges.transfer.columns]
{columns}
"""
AMOUNT = 'amount = "number"'
DIRECTED = "directed = true"
BY_TIME = """[split]
by = "time"
train_until = 2026-01-31
validate_until = 2026-02-14
"""


def transfers(seed: int, kind: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Accounts, and transfers of the first 60 days of 2026 with their class."""
    draw, accounts, count = np.random.default_rng(seed), 120, 900
    wealth = draw.normal(size=accounts)
    source = draw.integers(accounts, size=count)
    target = (source + draw.integers(1, accounts, size=count)) % accounts
    amount, day = draw.normal(size=count).round(3), draw.integers(60, size=count)
    net = np.zeros(accounts)
    np.add.at(net, target, amount)
    np.add.at(net, source, -amount)
    fraud = {
        "direction": wealth[source] > wealth[target],
        "amount": amount > 0,
        "net": net[source] > 0,
        "time": day < 30,
    }[kind]
    names = np.array([f"a{n}" for n in range(accounts)])
    table = pd.DataFrame({"number": [f"t{n}" for n in range(count)], "source": names[source]})
    table["target"], table["amount"] = names[target], amount
    table["date"] = (pd.Timestamp("2026-01-01") + pd.to_timedelta(day, "D")).strftime("%Y-%m-%d")
    table["state"] = np.where(fraud, "fraud", "fine")
    return pd.DataFrame({"id": names, "wealth": wealth}), table


def bank(
    folder: Path,
    seed: int,
    kind: str = "amount",
    keys: str = DIRECTED,
    columns: str = AMOUNT,
    more: str = "",
) -> Path:
    """A bank whose transfers have a class."""
    folder.mkdir(parents=True, exist_ok=True)
    accounts, table = transfers(seed, kind)
    accounts.to_csv(folder / "accounts.csv", index=False)
    table.to_csv(folder / "transfers.csv", index=False)
    path = folder / "site.toml"
    path.write_text(TOML.format(name=folder.name, keys=keys, columns=columns, more=more))
    return path
