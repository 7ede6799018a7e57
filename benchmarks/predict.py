"""Predict for 100,000 new rows in one call of `ramet predict`, and measure time and memory.

    python benchmarks/predict.py [--rows 100000]

Writes sites with tables of all three tasks, trains one round on small ones, and predicts for large
ones: nodes with columns of all kinds and five links each, graphs of ten nodes with FedStar's
structure encodings, and the ten likeliest of a thousand drugs for each patient. Each call is a
process of its own. The last line has the worst seconds, CPU-seconds and megabytes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

WARDS = ("surgery", "intensive", "general", "maternity")
NODES = """\
site = "{site}"
task = "node-classification"
classes = ["healthy", "ill"]
[nodes.patient]
file = "patients.csv"
label = "state"
[nodes.patient.columns]
age = "number"
bmi = "number"
ward = "category"
admitted = "date"
smoker = "flag"
[edges.contact]
file = "contacts.csv"
"""
GRAPHS = """\
site = "{site}"
task = "graph-classification"
classes = ["ring", "path"]
[graphs]
file = "graphs.csv"
[nodes.atom]
file = "atoms.csv"
features = ["mass", "charge"]
[edges.bond]
file = "bonds.csv"
"""
LINKS = """\
site = "{site}"
task = "link-prediction"
[nodes.patient]
file = "patients.csv"
features = ["age", "bmi"]
[nodes.drug]
file = "drugs.csv"
features = ["dose"]
[edges.takes]
file = "takes.csv"
from = "patient"
to = "drug"
"""


def write_nodes(folder: Path, rows: int) -> None:
    draw = np.random.default_rng(rows)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(draw.integers(0, 2000, rows), unit="D")
    bmi = draw.normal(25, 4, rows).round(2).astype(object)
    bmi[draw.random(rows) < 0.1] = ""
    table = pd.DataFrame({"id": np.arange(rows), "age": draw.normal(50, 20, rows).round(1)})
    table["bmi"] = bmi
    table["ward"] = draw.choice(WARDS, rows)
    table["admitted"] = days.strftime("%Y-%m-%d")
    table["smoker"] = draw.choice(["yes", "no"], rows)
    table["state"] = draw.choice(["healthy", "ill"], rows)
    table.to_csv(folder / "patients.csv", index=False)
    ends = draw.integers(0, rows, (5 * rows, 2))
    pd.DataFrame(ends, columns=["source", "target"]).to_csv(folder / "contacts.csv", index=False)


def write_graphs(folder: Path, rows: int) -> None:
    draw, size = np.random.default_rng(rows), 10
    graph, atom = np.repeat(np.arange(rows), size), np.tile(np.arange(size), rows)
    atoms = pd.DataFrame({"id": atom, "graph": graph})
    atoms["mass"], atoms["charge"] = draw.random((2, rows * size)).round(3)
    atoms.to_csv(folder / "atoms.csv", index=False)
    bonds = pd.DataFrame({"source": atom, "target": (atom + 1) % size, "graph": graph})
    bonds[(bonds["target"] > 0) | (bonds["graph"] % 2 == 0)].to_csv(
        folder / "bonds.csv", index=False
    )
    labels = np.where(np.arange(rows) % 2, "path", "ring")
    pd.DataFrame({"id": np.arange(rows), "label": labels}).to_csv(
        folder / "graphs.csv", index=False
    )


def write_links(folder: Path, rows: int, drugs: int = 1000) -> None:
    draw = np.random.default_rng(rows)
    patients = pd.DataFrame({"id": np.arange(rows), "age": draw.random(rows).round(3)})
    patients["bmi"] = draw.random(rows).round(3)
    patients.to_csv(folder / "patients.csv", index=False)
    doses = draw.random(drugs).round(3)
    pd.DataFrame({"id": np.arange(drugs), "dose": doses}).to_csv(folder / "drugs.csv", index=False)
    pairs = np.unique(draw.integers(0, rows * drugs, 5 * rows))
    takes = pd.DataFrame({"source": pairs // drugs, "target": pairs % drugs})
    takes.to_csv(folder / "takes.csv", index=False)


TASKS: dict[str, tuple[str, str, Callable[[Path, int], None], list[str]]] = {
    "nodes": ("fed-gcn", NODES, write_nodes, []),
    "nodes, FedLIT": ("fedlit", NODES, write_nodes, []),
    "graphs": ("fedstar", GRAPHS, write_graphs, []),
    "links": ("fed-hgn", LINKS, write_links, ["--relation", "takes", "--top", "10"]),
}


def ramet(*words: str | int | Path) -> tuple[float, float, float]:
    """Run a command; return its seconds, CPU-seconds and megabytes of its largest resident set."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "ramet", *map(str, words)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"ramet {' '.join(map(str, words))} failed")
    computed = usage.ru_utime + usage.ru_stime
    return time.perf_counter() - start, computed, usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    rows, worst = parser.parse_args().rows, [0.0, 0.0, 0.0]
    with tempfile.TemporaryDirectory() as folder:
        for number, (task, (method, toml, write, options)) in enumerate(TASKS.items()):
            files = []
            for site, size in (("north", 200), ("south", 200), ("june", rows)):
                where = Path(folder) / str(number) / site
                where.mkdir(parents=True)
                write(where, size)
                files.append(where / "site.toml")
                files[-1].write_text(toml.format(site="north" if site == "june" else site))
            north, south, june = files
            run = Path(folder) / str(number) / "run"
            ramet("run", method, *("--site", north, "--site", south, "--rounds", 1, "--out", run))
            out = Path(folder) / str(number) / "predictions.parquet"
            measured = ramet("predict", run, "--site", june, "--out", out, *options)
            worst = [max(pair) for pair in zip(worst, measured, strict=True)]
            print(f"{task}: {rows:,} rows in {shown(measured)}", flush=True)
    print(f"at most {shown(worst)}")


def shown(measured: Sequence[float]) -> str:
    seconds, computed, megabytes = measured
    return f"{seconds:.1f} s, {computed:.1f} CPU-seconds and {megabytes:.0f} MB"


if __name__ == "__main__":
    main()
