"""Sites whose numbers and labels follow from their links and features."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

NODES = """site = "{name}"
task = "{task}"
{more}
[nodes.person]
file = "people.csv"
label = {label}
features = ["a", "b"]

[edges.knows]
file = "links.csv"
"""
GRAPHS = """site = "{name}"
task = "{task}"
{more}
[graphs]
file = "graphs.csv"
label = {label}

[nodes.atom]
file = "atoms.csv"
features = ["a", "b"]

[edges.bond]
file = "bonds.csv"
"""
UNIT = 'unit = "years"'


def people(folder: Path, seed: int, nodes: int = 240, degree: int = 3) -> tuple[pd.DataFrame, ...]:
    """Nodes with an age of 40 years plus 12 times the neighbours' mean of `a`, and their links.

    The findings `near` and `own` say whether that mean, and the node's own `b`, are above 0.
    """
    draw = np.random.default_rng(seed)
    a, b = draw.normal(size=(2, nodes))
    ring = np.arange(nodes)
    pairs = np.concatenate(
        [np.stack([ring, (ring + step) % nodes]) for step in range(1, degree)], 1
    )
    sums, counts = np.zeros(nodes), np.zeros(nodes)
    for one, other in (pairs, pairs[::-1]):
        np.add.at(sums, one, a[other])
        np.add.at(counts, one, 1)
    near = sums / counts
    table = pd.DataFrame({"id": [f"p{n}" for n in ring], "a": a, "b": b})
    table["age"], table["score"] = 40 + 12 * near, 3 * b - 1
    table["near"], table["own"] = (near > 0).astype(int), (b > 0).astype(int)
    links = pd.DataFrame({"source": table["id"].to_numpy()[pairs[0]]})
    links["target"] = table["id"].to_numpy()[pairs[1]]
    return table, links


def person_site(
    folder: Path, seed: int, task: str = "node-regression", label: str = '"age"', more: str = UNIT
) -> Path:
    """A site whose people have an age, a score and two findings."""
    folder.mkdir(parents=True, exist_ok=True)
    table, links = people(folder, seed)
    table.to_csv(folder / "people.csv", index=False)
    links.to_csv(folder / "links.csv", index=False)
    path = folder / "site.toml"
    path.write_text(NODES.format(name=folder.name, task=task, label=label, more=more))
    return path


def molecule_site(
    folder: Path, seed: int, task: str = "graph-regression", label: str = '"weight"', more: str = ""
) -> Path:
    """A site whose graphs have the mean of `a` over their nodes as weight, and two flags."""
    folder.mkdir(parents=True, exist_ok=True)
    draw, graphs, size = np.random.default_rng(seed), 60, 8
    values = draw.normal(size=(graphs, size, 2)) + draw.normal(size=(graphs, 1, 2))
    means = values.mean(axis=1)
    names = [f"m{n}" for n in range(graphs)]
    listed = pd.DataFrame({"id": names, "weight": 100 + 20 * means[:, 0]})
    listed["light"], listed["polar"] = (means > 0).astype(int).T
    listed.to_csv(folder / "graphs.csv", index=False)
    atoms = pd.DataFrame({"graph": np.repeat(names, size), "id": np.tile(np.arange(size), graphs)})
    atoms["a"], atoms["b"] = values.reshape(-1, 2).T
    atoms.to_csv(folder / "atoms.csv", index=False)
    ring = np.arange(size)
    bonds = pd.DataFrame({"graph": np.repeat(names, size), "source": np.tile(ring, graphs)})
    bonds["target"] = np.tile((ring + 1) % size, graphs)
    bonds.to_csv(folder / "bonds.csv", index=False)
    path = folder / "site.toml"
    path.write_text(GRAPHS.format(name=folder.name, task=task, label=label, more=more))
    return path
