"""Sites whose labels depend only on what links carry: amounts, directions or weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from own_sites import write_csv, write_toml

TOML = """\
site = "{site}"
task = "node-classification"
classes = ["sender", "receiver"]

[nodes.account]
file = "accounts.csv"
columns = {{ age = "number" }}
label = "state"

[edges.transfer]
file = "transfers.csv"
{links}
"""
AMOUNTS = 'columns = { amount = "number" }\ndirected = true'


def net_amounts(
    folder: Path, links: str = AMOUNTS, seed: int = 0, accounts: int = 300, transfers: int = 900
) -> Path:
    """Accounts that get more than they send, or the other way round; nobody's net is near zero."""
    draw = np.random.default_rng(seed)
    source = draw.integers(accounts, size=transfers)
    target = (source + draw.integers(1, accounts, size=transfers)) % accounts
    amount = draw.exponential(100.0, size=transfers).round(2) + 1
    net = np.bincount(target, amount, accounts) - np.bincount(source, amount, accounts)
    return _written(folder, links, source, target, amount, net > 0, draw)


def directions(
    folder: Path, links: str = "directed = true", seed: int = 0, accounts: int = 300
) -> Path:
    """Each account has three links, all of which arrive or all of which leave."""
    draw = np.random.default_rng(seed)
    half = accounts // 2
    receives = np.arange(accounts) >= half
    pairs = [(n, half + (n + k) % half) for n in range(half) for k in (0, 7, 19)]
    source, target = np.array(pairs).T
    names = draw.permutation(accounts)
    ones = np.ones(source.size)
    return _written(
        folder, links, names[source], names[target], ones, receives[names.argsort()], draw
    )


def weights(folder: Path, links: str = 'weight = "amount"', seed: int = 0) -> Path:
    """Each of 200 accounts is linked to a young one and an old one; the heavier link decides."""
    draw = np.random.default_rng(seed)
    accounts, heavy = 200, draw.random(200) < 0.5
    young, old = np.arange(accounts, accounts + 20), np.arange(accounts + 20, accounts + 40)
    source = np.tile(np.arange(accounts), 2)
    target = np.concatenate([draw.choice(young, accounts), draw.choice(old, accounts)])
    amount = np.concatenate([np.where(heavy, 0.1, 3.0), np.where(heavy, 3.0, 0.1)])
    ages = np.zeros(accounts + 40)
    ages[young], ages[old] = -5.0, 5.0
    label = np.concatenate([heavy, np.zeros(20, bool), np.ones(20, bool)])
    return _written(folder, links, source, target, amount, label, draw, ages)


def _written(
    folder: Path,
    links: str,
    source: np.ndarray,
    target: np.ndarray,
    amount: np.ndarray,
    label: np.ndarray,
    draw: np.random.Generator,
    ages: np.ndarray | None = None,
) -> Path:
    ages = draw.normal(size=label.size) if ages is None else ages
    states = ["receiver" if one else "sender" for one in label]
    rows = zip((f"a{n}" for n in range(label.size)), ages.round(3), states, strict=True)
    write_csv(folder / "accounts.csv", "id,age,state", rows)
    ends = ([f"a{n}" for n in end] for end in (source, target))
    write_csv(folder / "transfers.csv", "source,target,amount", zip(*ends, amount, strict=True))
    return write_toml(folder, TOML.format(site=folder.name, links=links))
