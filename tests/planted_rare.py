"""Sites with a rare class, which a feature of the neighbours tells only in part."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

TOML = """site = "{name}"
task = "node-classification"
classes = ["honest", "fraud"]
{more}

[nodes.account]
file = "accounts.csv"
label = "state"
features = ["a", "b"]

[edges.pays]
file = "payments.csv"
"""


def rare_site(
    folder: Path, seed: int, nodes: int = 1000, share: float = 0.03, more: str = ""
) -> Path:
    """A site where 3 % of the accounts are fraudulent, and overlap with honest ones."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(seed)
    fraud = np.zeros(nodes, bool)
    fraud[draw.permutation(nodes)[: int(share * nodes)]] = True
    table = pd.DataFrame({"id": [f"p{n}" for n in range(nodes)]})
    table["a"], table["b"] = draw.normal(size=nodes) + 2 * fraud, draw.normal(size=nodes)
    table["state"] = np.where(fraud, "fraud", "honest")
    table.to_csv(folder / "accounts.csv", index=False)
    ends = draw.integers(0, nodes, size=(2, nodes))
    pairs = table["id"].to_numpy()[ends[:, ends[0] != ends[1]]]
    links = pd.DataFrame({"source": pairs[0], "target": pairs[1]}).drop_duplicates()
    links.to_csv(folder / "payments.csv", index=False)
    path = folder / "site.toml"
    path.write_text(TOML.format(name=folder.name, more=more))
    return path
