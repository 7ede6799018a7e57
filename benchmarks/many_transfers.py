"""A site with many accounts and transfers: seconds and peak memory of check, round and prediction.

``python benchmarks/many_transfers.py [accounts] [transfers] [task]``. Each command is a process of
its own and reads the tables again. With ``node-classification`` the label is the sign of a node's
net amount, and with ``edge-classification`` whether a transfer goes to an older person.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

TOML = """\
site = "bank"
task = "{task}"
classes = ["no", "yes"]

[nodes.account]
file = "accounts.csv"
columns = {{ age = "number" }}
{of_nodes}
[edges.transfer]
file = "transfers.csv"
columns = {{ amount = "number", channel = "category" }}
directed = true
{of_edges}
"""
LABEL = 'label = "state"\n'
COMMAND = [sys.executable, "-m", "ramet"]


def written(folder: Path, accounts: int, transfers: int, task: str) -> Path:
    draw = np.random.default_rng(0)
    source = draw.integers(accounts, size=transfers)
    target = (source + draw.integers(1, accounts, size=transfers)) % accounts
    amount = draw.exponential(100.0, size=transfers).round(2)
    net = np.bincount(target, amount, accounts) - np.bincount(source, amount, accounts)
    ids = np.array([f"a{number:07d}" for number in range(accounts)])
    ages = draw.normal(45, 15, accounts).round()
    of_accounts = {"id": ids, "age": ages}
    channel = draw.choice(["card", "wire", "cash"], size=transfers)
    ends = {"source": ids[source], "target": ids[target]}
    of_transfers = {**ends, "amount": amount, "channel": channel}
    of_nodes = task == "node-classification"
    if of_nodes:
        of_accounts["state"] = np.where(net > 0, "yes", "no")
    else:
        of_transfers["state"] = np.where(ages[target] > ages[source], "yes", "no")
    folder.mkdir()
    pd.DataFrame(of_accounts).to_csv(folder / "accounts.csv", index=False)
    pd.DataFrame(of_transfers).to_csv(folder / "transfers.csv", index=False)
    toml = folder / "site.toml"
    labels = (
        {"of_nodes": LABEL, "of_edges": ""} if of_nodes else {"of_nodes": "", "of_edges": LABEL}
    )
    toml.write_text(TOML.format(task=task, **labels))
    return toml


def measured(name: str, *command: object) -> None:
    start = time.monotonic()
    process = os.spawnv(os.P_NOWAIT, COMMAND[0], [*COMMAND, *map(str, command)])
    _, status, usage = os.wait4(process, 0)
    seconds, cpu = time.monotonic() - start, usage.ru_utime + usage.ru_stime
    memory = usage.ru_maxrss / 2**20
    print(f"{name:9} {seconds:7.1f} s, {cpu:7.1f} s of CPU, {memory:5.2f} GiB", flush=True)
    if status:
        raise SystemExit(f"{name} failed")


def main(
    accounts: str = "200000", transfers: str = "2000000", task: str = "node-classification"
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        toml = written(Path(folder) / "bank", int(accounts), int(transfers), task)
        run = Path(folder) / "run"
        measured("check", "data", "check", toml)
        for network in ("gine", "gcn"):
            out = f"{run}-{network}"
            options = ["--site", toml, "--network", network, "--rounds", 1, "--out", out]
            measured(network, "run", "fedavg", *options)
            measured("predict", "predict", out, "--site", toml, "--out", f"{out}.csv")


if __name__ == "__main__":
    main(*sys.argv[1:])
