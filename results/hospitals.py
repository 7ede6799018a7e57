"""The study of ABIDE's hospitals: `python results/hospitals.py [SCRATCH]` runs what is missing.

Design, written down before any of these runs was made. (Test scores of `local` and `fedavg` on two
splits, with other options, had been seen when the setting was tried.)

*Question.* Does it help hospitals to train together what tells autism from control, and whom?

*Data and splits.* Setting `abide`: 1,035 people at 20 hospitals. Ten splits (split seeds 123 to
132), 6:2:2, stratified by hospital and class. One seed of training: splits vary more.

*Rows.* A method with a network (ROWS, most important first). The linear model on the correlations
comes first, since it is hard to beat. `local` is each hospital alone, `pooled` everybody in one
place. FedPer shares all but the last layers, so that a linear model leaves it nothing to share; it
has a row with a graph network.

*Tuning.* Each row has two configurations, which differ in optimiser or learning rate, and trains
both on each split. The one with the higher validation accuracy on that split, averaged over
hospitals and the last five rounds, is the one whose test score counts there. So nobody's label is
used to choose what is tested on them. All have 20 rounds of two local epochs in batches of 32.
Learning rates were set by validation scores of another split (split seed 1000).

*Score.* The share of all test people who are classified correctly after the last round: the mean
over hospitals, weighted by their test people. There is no choice of a best round.

*Added later.* After the results on these ten splits had been seen and published, the rows EXTENDED
get more splits (up to 152), because the intervals of ten are wide, and AGES predict ages. Tables
and claims of the design have the ten splits alone.

*Statistics.* Differences on the same splits, with 95 % intervals and p-values of the corrected
resampled t-test. The p-values of hospitals are adjusted for the number of hospitals by Holm, those
of methods with the linear model against `local` for the number of methods. CLAIMS lists what is
asked: an interval above the bound says *holds*, one below it *fails*, others *undecided*.

*The chosen method* trains the linear model over sites, and of these has the highest mean validation
accuracy. It is run again with secure sums: in fixed point on all splits, which has the same bits,
and with masks on one. FedAvg is run again with differential privacy per person on five splits.
`ramet leak` audits the run on the first split, without and with privacy.
"""

from __future__ import annotations

import gc
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import ramet
from ramet.experiment import SPLIT_SEED, RunFolder
from ramet.leak import Effort, audit
from ramet.studies.archive import keep, kept
from ramet.studies.finished_run import FinishedRun

KEPT = Path(__file__).parent / "hospitals"
TUNED = "tuned.jsonl"
SPLITS = range(SPLIT_SEED, SPLIT_SEED + 10)
MORE = range(SPLIT_SEED + 10, SPLIT_SEED + 30)
EXTENDED = ("local, linear", "fedavg, linear", "scaffold, linear", "pooled, linear")
SEED, ROUNDS, LAST = 1, 20, 5
Options = Mapping[str, Any]
COMMON: Options = {"epochs": 2, "batch_size": 32}


@dataclass(frozen=True)
class Row:
    """A method with a network, and its configurations."""

    name: str
    method: str
    network: str | None
    configurations: tuple[Options, ...]
    options: Options = field(default_factory=dict)

    def of(self, configuration: Options) -> dict[str, Any]:
        named = {} if self.network is None else {"network": self.network}
        return {**COMMON, **named, **self.options, **configuration}


def _adam(lr: float, **more: Any) -> Options:
    return {"lr": lr, "weight_decay": 0.01, **more}


def _sgd(lr: float, **more: Any) -> Options:
    return {"algorithm": "sgd", **_adam(lr, **more)}


def _linear(**more: float) -> tuple[Options, ...]:
    """Two optimisers, with the method's own options."""
    return (_adam(3e-4, **more), _sgd(1e-2, **more))


GRAPH: tuple[Options, ...] = (
    {"lr": 3e-3, "weight_decay": 5e-4},
    {"lr": 1e-3, "weight_decay": 0.01},
)
LINKS: Options = {"density": 0.05}
"""For graph networks: the most correlated twentieth of the pairs of regions are linked."""
PLAIN: Options = {**LINKS, "hidden": 32, "layers": 2}
TOGETHER: Options = {"together": True}
SPLIT_CLUSTERS = {"settled": 100.0, "moving": 0.001, "quiet_rounds": 10}
"""From the eleventh round on, GCFL+ splits every cluster of more than two in each round."""
ROWS = (
    Row("local, linear", "local", "linear", _linear()),
    Row("fedavg, linear", "fedavg", "linear", _linear()),
    Row("pooled, linear", "local", "linear", _linear(), TOGETHER),
    Row("scaffold, linear", "scaffold", "linear", (_sgd(3e-3), _sgd(1e-2))),
    Row("fedprox, linear", "fedprox", "linear", _linear(mu=1.0)),
    Row("ditto, linear", "ditto", "linear", _linear(strength=1.0)),
    Row("gcfl+, linear", "gcfl+", "linear", _linear(**SPLIT_CLUSTERS)),
    Row("local, aligned-gcn", "local", "aligned-gcn", GRAPH, LINKS),
    Row("fedavg, aligned-gcn", "fedavg", "aligned-gcn", GRAPH, LINKS),
    Row("pooled, aligned-gcn", "local", "aligned-gcn", GRAPH, {**LINKS, **TOGETHER}),
    Row("fedper, aligned-gcn", "fedper", "aligned-gcn", GRAPH, {**LINKS, "personal": 0}),
    Row("local, gcn", "local", "gcn", GRAPH, PLAIN),
    Row("fedavg, gcn", "fedavg", "gcn", GRAPH, PLAIN),
    Row("pooled, gcn", "local", "gcn", GRAPH, {**PLAIN, **TOGETHER}),
    Row("fedstar", "fedstar", None, GRAPH, PLAIN),
    Row("feddense", "feddense", None, GRAPH, PLAIN),
)


@dataclass(frozen=True)
class Claim:
    """``better`` is above ``than`` by at least this many points."""

    says: str
    better: str
    than: str
    at_least: float = 0.0


CLAIMS = (
    *(
        Claim("training together beats training alone", f"{method}, linear", "local, linear")
        for method in ("fedavg", "fedprox", "scaffold", "ditto", "gcfl+")
    ),
    Claim("one place beats training alone", "pooled, linear", "local, linear"),
    Claim("one place is ahead of federated averaging", "pooled, linear", "fedavg, linear"),
    Claim(
        "federated averaging is at most two points behind one place",
        "fedavg, linear",
        "pooled, linear",
        at_least=-2.0,
    ),
    *(
        Claim("training together beats training alone with a graph network", better, than)
        for better, than in (
            ("fedavg, aligned-gcn", "local, aligned-gcn"),
            ("fedper, aligned-gcn", "local, aligned-gcn"),
            ("fedavg, gcn", "local, gcn"),
            ("fedstar", "local, gcn"),
            ("feddense", "local, gcn"),
        )
    ),
    *(
        Claim("a graph network beats a linear model", f"{where}, {network}", f"{where}, linear")
        for network in ("aligned-gcn", "gcn")
        for where in ("fedavg", "pooled")
    ),
)


@dataclass(frozen=True)
class Protection:
    """A row that is run again in another way."""

    row: str
    options: Options
    splits: Sequence[int]
    configuration: Options | None = None
    """Instead of those that validation chose on the splits."""


PRIVATE = "fedavg, linear"
"""The row that is run with differential privacy: SCAFFOLD, FedProx and Ditto do not allow it."""
LARGER_STEPS = _sgd(0.1)
"""A person's gradient is clipped to norm 1, and is about 30 otherwise; by validation accuracy of
another split."""


EFFORT = Effort(references=2, canaries=20)
"""Of the audits, whose shadow runs take as long as the run."""


NOT_CENTRED: dict[str, str] = {"centre": "none"}
"""The mean that a hospital subtracts depends on all of its people, and noise does not cover it."""

AGES = tuple(
    Row(f"{name}, age", method, "linear", (_adam(1e-4, **more), _adam(3e-4, **more)), options)
    for name, method, more, options in (
        ("local", "local", {}, {"predict": "age", **NOT_CENTRED}),
        ("fedavg", "fedavg", {}, {"predict": "age", **NOT_CENTRED}),
        ("ditto", "ditto", {"strength": 1.0}, {"predict": "age", **NOT_CENTRED}),
        ("pooled", "local", {}, {"predict": "age", **NOT_CENTRED, **TOGETHER}),
    )
)
"""A person's age as a number, tuned by the mean absolute error. Added later, too. Learning rates
were set on split 1000, where FedAvg's error had been above that of training alone."""


def protections() -> dict[str, Protection]:
    """By the folder of their runs."""
    found = {
        "fixed-point": Protection(chosen(), {"merge": "fixed-point"}, SPLITS),
        "secure": Protection(chosen(), {"secure": True}, SPLITS[:1]),
    }
    found["not-centred"] = Protection(PRIVATE, NOT_CENTRED, SPLITS[:5])
    for epsilon in (8, 2):
        options = {"dp": f"unit=graph,epsilon={epsilon},delta=1e-4,clip=1", **NOT_CENTRED}
        found[f"epsilon-{epsilon}"] = Protection(PRIVATE, options, SPLITS[:5], LARGER_STEPS)
    return found


def main(scratch: Path) -> None:
    """The most important runs first."""
    linear = [row for row in ROWS if row.network == "linear"]
    aligned = [row for row in ROWS if row.network == "aligned-gcn"]
    _tune_all(linear, scratch)
    _protect("fixed-point", scratch)
    _audit("plain", scratch)
    _tune_all(aligned[:2], scratch)
    for name in protections():
        _protect(name, scratch)
    _audit("epsilon-8", scratch)
    _tune_all(AGES, scratch)
    _tune_all(ROWS, scratch)
    for split in MORE:
        _tune_all([row for row in linear if row.name in EXTENDED], scratch, [split])


def chosen() -> str:
    """The row with the linear model that trains over sites and is best by validation accuracy."""
    found: dict[str, list[float]] = {}
    for (name, split), line in tuned().items():
        if split in SPLITS:
            found.setdefault(name, []).append(line["trials"][line["best"]]["val"])
    apart = {row.name for row in ROWS if row.network == "linear" and row.method != "local"}
    complete = [name for name in apart & found.keys() if len(found[name]) == len(SPLITS)]
    return max(sorted(complete), key=lambda name: fmean(found[name]))


def _tune_all(rows: Sequence[Row], scratch: Path, splits: Sequence[int] = SPLITS) -> None:
    for row in rows:
        for split in splits:
            if (row.name, split) not in tuned():
                _tune(row, split, scratch / row.name.replace(", ", "-"))


def _protect(name: str, scratch: Path) -> None:
    """Run a row again on its splits, and keep the runs in a folder of their own."""
    protection = protections()[name]
    there = {run.split_seed for run in kept(KEPT / name)}
    for split in protection.splits:
        if split not in there:
            folder = scratch / name
            keep([_again(protection, split, folder / str(split))], KEPT / name)
            shutil.rmtree(folder)
            gc.collect()


def _again(protection: Protection, split: int, folder: Path) -> FinishedRun:
    row = next(one for one in ROWS if one.name == protection.row)
    line = tuned()[row.name, split]
    best = protection.configuration or line["trials"][line["best"]]["options"]
    return done(row.method, {**row.of(best), **protection.options}, split, folder)


def _audit(name: str, scratch: Path) -> None:
    """What the run on the first split gives away, as `ramet leak` finds it."""
    path = KEPT / f"leak-{name}.jsonl"
    if path.exists():
        return
    plain = Protection(chosen(), {}, SPLITS[:1])
    folder = scratch / f"leak-{name}"
    _again(plain if name == "plain" else protections()[name], SPLITS[0], folder)
    found = audit(RunFolder(folder), EFFORT)
    path.write_text(json.dumps(found.to_json()) + "\n")
    shutil.rmtree(folder)


def tuned() -> dict[tuple[str, int], dict[str, Any]]:
    """By row and split: all configurations with their validation accuracy, and the best of them."""
    path = KEPT / TUNED
    lines = path.read_text().splitlines() if path.exists() else []
    return {(one["row"], one["split"]): one for one in map(json.loads, lines)}


def _tune(row: Row, split: int, scratch: Path) -> None:
    """Train all configurations on a split, and keep the run of the best."""
    runs = []
    for number, configuration in enumerate(row.configurations):
        folder = scratch / f"{split}-{number}"
        runs.append(done(row.method, row.of(configuration), split, folder))
    vals = [fmean(one.val for one in run.rounds[-LAST:]) for run in runs]
    best = vals.index((min if row in AGES else max)(vals))
    KEPT.mkdir(exist_ok=True)
    keep([runs[best]], KEPT)
    trials = [{"options": c, "val": v} for c, v in zip(row.configurations, vals, strict=True)]
    line = {"row": row.name, "split": split, "best": best, "run": runs[best].label}
    with (KEPT / TUNED).open("a") as file:
        file.write(json.dumps({**line, "trials": trials}) + "\n")
    shutil.rmtree(scratch)
    gc.collect()  # graphs of finished runs are in reference cycles


def done(method: str, options: Options, split: int, folder: Path) -> FinishedRun:
    """The finished run, resumed if it was stopped."""
    given = {"rounds": ROUNDS, "seed": SEED, "split_seed": split, **options}
    if RunFolder(folder).started:
        ramet.resume(folder)
    else:
        shutil.rmtree(folder, ignore_errors=True)
        ramet.run(method, "abide", out=folder, **given)
    finished = FinishedRun.of(RunFolder(folder))
    assert finished is not None
    return finished


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "sweeps/hospitals"))
