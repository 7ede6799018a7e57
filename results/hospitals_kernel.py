"""What to compare the study of ABIDE's hospitals with: scikit-learn trains, not Ramet.

`python results/hospitals_kernel.py` uses the splits and the centred correlations of the setting
`abide` for kernel ridge regression. The penalty is the one of PENALTIES with the highest validation
accuracy on the split, the mean over hospitals. Logistic regression on the motion of people's heads,
centred in the same way, says how much of the answer motion alone gives. Writes
`results/hospitals/kernel.jsonl`, a line per split.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from statistics import fmean, stdev
from typing import TypeAlias

import numpy as np
from hospitals import KEPT, SPLITS
from hospitals_people import name_of, people_table
from numpy.typing import NDArray

from ramet.experiment import default_data
from ramet.partition import Reading
from ramet.partition.by_hospital import abide
from ramet.report.text import markdown_table
from ramet.version import provenance, versions

FILE = KEPT / "kernel.jsonl"
PENALTIES = (0.01, 0.1, 1.0, 10.0)
"""Relative to the mean of the kernel's diagonal over the training people."""
Rows: TypeAlias = NDArray[np.int64]
Parts: TypeAlias = Mapping[str, Mapping[str, Rows]]
"""The rows of the kernel matrix, by hospital and part."""


def main() -> None:
    lines = [json.dumps(_split(seed)) for seed in SPLITS]
    facts = {"command": f"python {sys.argv[0]}", "date": datetime.now(UTC).date().isoformat()}
    about = json.dumps(facts | versions() | provenance())
    FILE.write_text("\n".join([about, *lines]) + "\n")
    print(table())


def _split(seed: int) -> dict[str, float]:
    """The share of all test people that are classified correctly, alone and in one place."""
    kernel, labels, parts = _read(seed)
    everybody = np.concatenate([own["train"] for own in parts.values()])
    found = {"split": float(seed)}
    for where in ("alone", "pooled"):
        train = {s: own["train"] if where == "alone" else everybody for s, own in parts.items()}
        tried = {
            penalty: {s: _right(kernel, labels, train[s], parts[s], penalty) for s in parts}
            for penalty in PENALTIES
        }
        best = max(tried, key=lambda p: fmean(hits["val"].mean() for hits in tried[p].values()))
        found[where] = float(np.concatenate([h["test"] for h in tried[best].values()]).mean())
    found["motion"] = _by_motion(labels, parts)
    return found


def _by_motion(labels: NDArray[np.float64], parts: Parts) -> float:
    """The same with the mean framewise displacement alone, in one place."""
    from sklearn.linear_model import LogisticRegression

    table = people_table().sort_values("FILE_ID")
    by_site = {name_of(str(site)): own for site, own in table.groupby("SITE_ID")["func_mean_fd"]}
    motion = np.concatenate([by_site[s].fillna(by_site[s].median()) for s in parts])
    logs = np.log(motion + 0.01)
    for own in parts.values():
        rows = np.concatenate([*own.values()])
        logs[rows] -= logs[own["train"]].mean()
    train, test = (np.concatenate([own[p] for own in parts.values()]) for p in ("train", "test"))
    scale = logs[train].std()
    model = LogisticRegression().fit(logs[train, None] / scale, labels[train])
    return float((model.predict(logs[test, None] / scale) == labels[test]).mean())


def _read(seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64], Parts]:
    """The kernel of all people, labels of 1 and -1, and who is in which part."""
    setting, start = abide(density=1e-4), 0
    features, labels, parts = [], [], {}
    for site in setting.clients:
        data = setting.client_data(site, Reading(default_data(), seed))
        people = data.content.graphs
        features.append(data.content.features.view(people, -1).numpy())
        labels.append(2.0 * data.content.labels.numpy() - 1.0)
        split = {part: getattr(data.split, part).numpy() for part in ("train", "val", "test")}
        parts[site] = {part: start + rows for part, rows in split.items()}
        start += people
    stacked = np.concatenate(features)
    return (stacked @ stacked.T).astype(np.float64), np.concatenate(labels), parts


def _right(
    kernel: NDArray[np.float64],
    labels: NDArray[np.float64],
    train: Rows,
    parts: Mapping[str, Rows],
    penalty: float,
) -> dict[str, NDArray[np.bool_]]:
    """Which people of the held-out parts are classified correctly."""
    from sklearn.kernel_ridge import KernelRidge

    own, mean = kernel[np.ix_(train, train)], labels[train].mean()
    model = KernelRidge(kernel="precomputed", alpha=penalty * own.trace() / len(train))
    model.fit(own, labels[train] - mean)
    return {
        part: (model.predict(kernel[np.ix_(parts[part], train)]) + mean > 0)
        == (labels[parts[part]] > 0)
        for part in ("val", "test")
    }


_ROWS = {
    "alone": "kernel ridge regression on correlations, each hospital alone",
    "pooled": "the same, in one place",
    "motion": "logistic regression on motion alone, in one place",
}


def table() -> str:
    """Accuracy over all test people, mean ± standard deviation over splits."""
    _, *lines = map(json.loads, FILE.read_text().splitlines())
    rows = []
    for where, words in _ROWS.items():
        values = [100 * line[where] for line in lines]
        rows.append((words, f"{fmean(values):.2f} ± {stdev(values):.2f}"))
    return markdown_table(("outside Ramet", "accuracy %"), rows)


if __name__ == "__main__":
    main()
