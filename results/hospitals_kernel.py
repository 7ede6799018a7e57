"""What to compare the study of ABIDE's hospitals with: scikit-learn trains, not Ramet.

`python results/hospitals_kernel.py` uses the splits and the centred correlations of the setting
`abide` for kernel ridge regression. The penalty is the one of PENALTIES with the highest validation
accuracy on the split, the mean over hospitals. Logistic regression on the motion of people's
heads, centred in the same way, says how much of the answer motion alone gives. For a hospital that
nobody trained with, nineteen train, the penalty is chosen on five groups of them, and the new one
subtracts the mean of its own people. Writes `results/hospitals/kernel.jsonl`, a line per split.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from statistics import fmean, stdev
from typing import Any, Literal, TypeAlias

import numpy as np
from hospitals import KEPT, MORE, SPLITS
from hospitals_people import name_of, people_table
from numpy.typing import NDArray

from ramet.experiment import default_data
from ramet.partition import Reading
from ramet.partition.by_hospital import abide
from ramet.report.site_tables import interval
from ramet.report.text import markdown_table
from ramet.scale import SHARE
from ramet.studies.finished_run import Draw
from ramet.studies.gains import Gain, paired_gain
from ramet.version import provenance, versions

FILE = KEPT / "kernel.jsonl"
PENALTIES = (0.01, 0.1, 1.0, 10.0)
"""Relative to the mean of the kernel's diagonal over the training people."""
STILL = 0.2
"""Mean framewise displacement in mm; 0.2 is a usual bound for people who lay still."""
Rows: TypeAlias = NDArray[np.int64]
Numbers: TypeAlias = NDArray[np.float64]
Parts: TypeAlias = Mapping[str, Mapping[str, Rows]]
"""The rows of the kernel matrix, by hospital and part."""


def main() -> None:
    lines = [json.dumps(_split(seed)) for seed in (*SPLITS, *MORE)]
    facts: dict[str, Any] = {"command": f"python {sys.argv[0]}"}
    facts |= {"date": datetime.now(UTC).date().isoformat(), "new_hospital": _new_hospitals()}
    about = json.dumps(facts | versions() | provenance())
    FILE.write_text("\n".join([about, *lines]) + "\n")
    print(table())


def _split(seed: int) -> dict[str, float]:
    """How all test people are classified, alone and in one place."""
    features, labels, parts = _read(seed)
    kernel, motion = (features @ features.T).astype(np.float64), _motion(parts)
    everybody = np.concatenate([own["train"] for own in parts.values()])
    test = np.concatenate([own["test"] for own in parts.values()])
    sick, still = labels[test] > 0, motion[test] < STILL
    train_all = sum(len(own["train"]) for own in parts.values())
    found = {"split": float(seed), "test_to_train": len(test) / train_all}
    for where in ("alone", "pooled"):
        train = {s: own["train"] if where == "alone" else everybody for s, own in parts.items()}
        tried = {
            penalty: {s: _outputs(kernel, labels, train[s], parts[s], penalty) for s in parts}
            for penalty in PENALTIES
        }
        best = max(tried, key=lambda p: fmean(_right(tried[p][s]["val"]).mean() for s in parts))
        right = np.concatenate([_right(one["test"]) for one in tried[best].values()])
        found[where] = float(right.mean())
        found[f"{where} sensitivity"] = float(right[sick].mean())
        found[f"{where} specificity"] = float(right[~sick].mean())
        found[f"{where} still"] = float(right[still].mean())
    found["auc"] = _auc(tried[best])
    found["motion"] = _by_motion(motion, labels, parts)
    return found


def _auc(outputs: Mapping[str, Mapping[str, Numbers]]) -> float:
    """ROC-AUC over all test people, by one model."""
    from sklearn.metrics import roc_auc_score

    of_all = np.concatenate([one["test"] for one in outputs.values()], axis=1)
    return float(roc_auc_score(of_all[1] > 0, of_all[0]))


def _new_hospitals() -> dict[str, float]:
    """The share of people classified correctly whose hospital did not train."""
    from sklearn.model_selection import GroupKFold

    features, labels, parts = _read(SPLITS[0], centre="none")
    site = np.empty(len(labels), dtype=object)
    for name, own in parts.items():
        rows = np.concatenate([*own.values()])
        site[rows] = name
        features[rows] -= features[rows].mean(axis=0)
    kernel = (features @ features.T).astype(np.float64)
    right = np.zeros(len(labels), dtype=bool)
    for name in parts:
        (train,), (test,) = (site != name).nonzero(), (site == name).nonzero()
        folds = [
            (train[a], {"val": train[b]})
            for a, b in GroupKFold(5).split(train, groups=site[train].astype(str))
        ]
        best = max(
            PENALTIES,
            key=lambda p: fmean(
                _right(_outputs(kernel, labels, a, b, p)["val"]).mean() for a, b in folds
            ),
        )
        right[test] = _right(_outputs(kernel, labels, train, {"val": test}, best)["val"])
    return {"all": float(right.mean())} | {s: float(right[site == s].mean()) for s in parts}


def _motion(parts: Parts) -> Numbers:
    """Mean framewise displacement; one person without has the median of the hospital."""
    table = people_table().sort_values("FILE_ID")
    by_site = {name_of(str(site)): own for site, own in table.groupby("SITE_ID")["func_mean_fd"]}
    return np.concatenate([by_site[s].fillna(by_site[s].median()) for s in parts])


def _by_motion(motion: Numbers, labels: Numbers, parts: Parts) -> float:
    """The share that is classified correctly by motion alone, in one place."""
    from sklearn.linear_model import LogisticRegression

    logs = np.log(motion + 0.01)
    for own in parts.values():
        rows = np.concatenate([*own.values()])
        logs[rows] -= logs[own["train"]].mean()
    train, test = (np.concatenate([own[p] for own in parts.values()]) for p in ("train", "test"))
    scale = logs[train].std()
    model = LogisticRegression().fit(logs[train, None] / scale, labels[train])
    return float((model.predict(logs[test, None] / scale) == labels[test]).mean())


def _read(seed: int, centre: Literal["site", "none"] = "site") -> tuple[Numbers, Numbers, Parts]:
    """The correlations of all people, labels of 1 and -1, and who is in which part."""
    setting, start = abide(density=1e-4, centre=centre), 0
    features, labels, parts = [], [], {}
    for site in setting.clients:
        data = setting.client_data(site, Reading(default_data(), seed))
        people = data.content.graphs
        features.append(data.content.features.view(people, -1).numpy())
        labels.append(2.0 * data.content.labels.numpy() - 1.0)
        split = {part: getattr(data.split, part).numpy() for part in ("train", "val", "test")}
        parts[site] = {part: start + rows for part, rows in split.items()}
        start += people
    return np.concatenate(features), np.concatenate(labels), parts


def _outputs(
    kernel: Numbers, labels: Numbers, train: Rows, parts: Mapping[str, Rows], penalty: float
) -> dict[str, Numbers]:  # [2, people] outputs and labels
    """What the model says of the held-out parts."""
    from sklearn.kernel_ridge import KernelRidge

    own, mean = kernel[np.ix_(train, train)], labels[train].mean()
    model = KernelRidge(kernel="precomputed", alpha=penalty * own.trace() / len(train))
    model.fit(own, labels[train] - mean)
    return {
        part: np.stack([model.predict(kernel[np.ix_(rows, train)]) + mean, labels[rows]])
        for part, rows in parts.items()
        if part != "train"
    }


def _right(outputs: Numbers) -> NDArray[np.bool_]:
    right: NDArray[np.bool_] = (outputs[0] > 0) == (outputs[1] > 0)
    return right


_ROWS = {
    "alone": "kernel ridge regression on correlations, each hospital alone",
    "pooled": "the same, in one place",
    "motion": "logistic regression on motion alone, in one place",
}


def table() -> str:
    """Over all test people, mean ± standard deviation over splits."""
    _, *lines = map(json.loads, FILE.read_text().splitlines())
    rows = [
        (
            words,
            *(_spread(lines, f"{where}{what}") for what in ("", " sensitivity", " specificity")),
        )
        for where, words in _ROWS.items()
    ]
    heads = (f"outside Ramet, {len(lines)} splits", "accuracy %", "sensitivity %", "specificity %")
    return markdown_table(heads, rows)


def findings() -> str:
    """What these models tell beyond accuracy."""
    about, *lines = map(json.loads, FILE.read_text().splitlines())
    gains = {key: _gain(lines, key) for key in ("", " sensitivity", " specificity", " still")}
    told = {key: f"{SHARE.change(g.mean)} {interval(g, SHARE)}" for key, g in gains.items()}
    return (
        f"One place instead of alone gains {told['']} points: {told[' sensitivity']} of people "
        f"with autism, {told[' specificity']} of controls, and {told[' still']} of people with "
        f"less motion than {STILL} mm. The ROC-AUC in one place is "
        f"{fmean(line['auc'] for line in lines):.2f}. **A hospital that did not train**: "
        f"{100 * about['new_hospital']['all']:.1f} % of its people are classified correctly by the "
        f"other nineteen, where more people train than in the splits."
    )


def _gain(lines: list[dict[str, float]], key: str) -> Gain:
    found = {Draw(int(one["split"]), 0): one[f"pooled{key}"] - one[f"alone{key}"] for one in lines}
    return paired_gain(found, lines[0]["test_to_train"])


def _spread(lines: list[dict[str, float]], key: str) -> str:
    if key not in lines[0]:
        return "–"
    values = [100 * line[key] for line in lines]
    return f"{fmean(values):.2f} ± {stdev(values):.2f}"


if __name__ == "__main__":
    main()
