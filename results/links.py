"""FedDA's tables from kept runs.

A table for each dataset and number of clients, a table that tests FedDA's claim in each of them,
and a table of FedDA's activation rules over FedStar and FedDense.

Unless a column says otherwise, scores are those after the last round: the server's model on the
whole graph, or the mean over the clients for Local and for graph classification. Differences and
shares of bytes are taken on common seeds, against the run that asks all clients for all tensors;
brackets hold 95 % intervals of paired t-tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from statistics import fmean
from typing import TypeAlias

from columns import (
    NBSP,
    Runs,
    at_best_validation,
    count,
    difference,
    kept,
    mean,
    megabytes,
    on_all_data,
    sent_up,
    spread,
    worst,
)

from ramet.experiment import MethodSpec
from ramet.papers.savings import saving
from ramet.report.text import markdown_table
from ramet.studies.choice import Choice
from ramet.studies.finished_run import Draw, FinishedRun, FinishedRuns

CENTRAL = {"amazon": "amazon-central", "acm-hetero": "acm-central"}
DATA = {"amazon": "Amazon", "acm-hetero": "ACM"}
CLIENTS = {"amazon": (8, 16), "acm-hetero": (4, 8, 16)}
NAMES = {
    "local-hgn": "Local",
    "fed-hgn": "FedAvg",
    "fedda": "FedDA, Restart",
    "fedda,activation=explore": "FedDA, Explore",
    "fedda,activation=restart,beta=0.2": "Restart, `beta=0.2`",
    "fedda,activation=restart,keep_own=true": "Restart, `keep_own`",
    "fedda,activation=explore,keep_own=true,train_away=true": "Explore, `keep_own`, `train_away`",
}
Cells: TypeAlias = Mapping[tuple[str, int], FinishedRuns]
OVER = ("fedstar", "feddense,width=32")
HEADS_OVER = (
    *("method", "activation", "seeds", "last round", "difference", "p", "best validation"),
    *("difference", "p", "worst seed", "MB both ways", "share"),
)
HEADS_CLAIM = (
    *("data", "clients", "rule", "seeds", "claim", "last round", "best validation"),
    *("worst seed", "bytes"),
)
AUTHORS = "protocol=authors,epochs=1"
STEPS = {
    "our defaults": "",
    "the authors' split and specialities": "split=fedda,specialities=fedda",
    "and their 2-hop test negatives": "split=fedda,specialities=fedda,negatives=2hop-unlinked",
    "and their rules of activation": f"{AUTHORS},batch_size=8192,fresh_moments=false",
    "and a new Adam in every round": f"{AUTHORS},batch_size=8192",
    "and five local epochs": "protocol=authors,epochs=5,batch_size=8192",
}
"""Steps from our defaults to the authors' protocol, each with all before it."""
RULES = ("fed-hgn", ""), ("fedda", ""), ("fedda", "activation=explore")
HEADS_STEPS = (
    *("protocol", "FedAvg", "MRR", "Restart", "MRR", "tensors"),
    *("Explore", "MRR", "tensors"),
)
SCORES = (
    ("seeds", count),
    ("last round", spread(on_all_data, space=NBSP)),
    ("worst seed", worst(on_all_data)),
    ("last ten rounds", spread(lambda run: _last_ten(run), space=NBSP)),
    ("best validation", mean(at_best_validation)),
    ("MRR", mean(lambda run: 100 * run.mrr)),
)
SENT = (
    ("MB both ways", mean(megabytes, ",.1f")),
    ("MB up", mean(sent_up("bytes", 1e6), ",.1f")),
    ("tensors up", mean(sent_up("tensors"), ",.0f")),
)


def tables() -> dict[str, str]:
    """All tables by the name of their place in the page."""
    cells: Cells = {
        (setting, clients): _named(f"{setting}-{clients}")
        for setting, numbers in CLIENTS.items()
        for clients in numbers
    }
    made = {
        f"{setting}-{clients}": _table(CENTRAL[setting], runs)
        for (setting, clients), runs in cells.items()
    }
    made["amazon-8, steps"] = _steps("amazon-8", 8)
    return {**made, "claim": _claim(cells), "single": _over_methods(kept("single"))}


def _named(folder: str) -> dict[str, Runs]:
    """Kept runs by their name in the table; runs with other options are left out."""
    found = {}
    for label, runs in kept(folder).items():
        spec = MethodSpec.parse(label)
        method = str(MethodSpec(spec.method, activation=spec.activation))
        if spec.options.keys() <= {"clients"} and method in NAMES:
            found[NAMES[method]] = runs
    return found


def _last_ten(run: FinishedRun) -> float:
    last = run.rounds[-10:]
    return 100 * fmean(one.test if one.overview is None else one.overview for one in last)


def _table(central: str, own: FinishedRuns) -> str:
    runs = {"Global": kept(central).get("fed-hgn,partition=central", {}), **own}
    return markdown_table(
        ["method", *(head for head, _ in (*SCORES, *SENT))],
        [
            _row(name, runs[name], runs.get("FedAvg", {}))
            for name in ("Global", *NAMES.values())
            if runs.get(name)
        ],
    )


def _row(name: str, own: Runs, fedavg: Runs) -> tuple[str, ...]:
    every = [*own.values()]
    scores = [name, *(cell(every) for _, cell in SCORES)]
    if name in ("Global", "Local"):
        return *scores, *("–",) * len(SENT)
    saved = None if name == "FedAvg" else saving("", name, own, fedavg)
    shares = (saved.bytes_both, saved.bytes_up, saved.tensors_up) if saved else (None,) * len(SENT)
    sent = [
        cell(every) + ("" if share is None else f"{NBSP}({100 * share:.0f}{NBSP}%)")
        for (_, cell), share in zip(SENT, shares, strict=True)
    ]
    return *scores, *sent


def _steps(folder: str, clients: int) -> str:
    """Seed 1 step by step under the authors' protocol; tensors are shares of what FedAvg sends."""
    runs = {_meaning(label): own for label, own in kept(folder).items()}

    def seed_1(method: str, options: str, activation: str) -> FinishedRun | None:
        label = ",".join(filter(None, (method, f"clients={clients}", options, activation)))
        own = runs.get(_meaning(label), {})
        return next((run for draw, run in own.items() if draw.seed == 1), None)

    whole = seed_1("fed-hgn", "", "")
    rows = []
    for step, options in STEPS.items():
        scores = [
            cell
            for method, activation in RULES
            for cell in _of_step(seed_1(method, options, activation), method == "fedda", whole)
        ]
        if any(cell != "–" for cell in scores):
            rows.append((step, *scores))
    return markdown_table(HEADS_STEPS, rows)


def _meaning(label: str) -> tuple[str, str, frozenset[tuple[str, str]]]:
    """What a label says, whatever the order of its options."""
    spec = MethodSpec.parse(label)
    return spec.method, str(spec.activation), frozenset(spec.options.items())


def _of_step(run: FinishedRun | None, saves: bool, whole: FinishedRun | None) -> list[str]:
    """ROC-AUC, MRR and, if the method saves any, the share of tensors that are sent."""
    if run is None:
        return ["–"] * (3 if saves else 2)
    cells = [f"{on_all_data(run):.2f}", f"{100 * run.mrr:.2f}"]
    if saves and whole:
        tensors = sent_up("tensors")
        cells.append(f"{100 * tensors(run) / tensors(whole):.0f}{NBSP}%")
    return cells


def _claim(cells: Cells) -> str:
    """Each rule compared with FedAvg; the bounds are those of `ramet reproduce`."""
    rows = []
    for (setting, clients), runs in cells.items():
        fedavg = runs.get("FedAvg", {})
        for name in NAMES.values():
            own = {} if name in ("Local", "FedAvg") else runs.get(name, {})
            saved = saving("", name, own, fedavg)
            if saved is not None:
                rows.append(
                    (
                        DATA[setting],
                        str(clients),
                        name.removeprefix("FedDA, "),
                        str(saved.seeds),
                        saved.as_good_for_less,
                        difference(own, fedavg, Choice.LAST, by_server=True)[0],
                        difference(own, fedavg, Choice.BEST_VALIDATION, by_server=True)[0],
                        f"{saved.worst:+.2f}",
                        f"{100 * saved.bytes_both:.1f}{NBSP}%",
                    )
                )
    return markdown_table(HEADS_CLAIM, rows)


def _over_methods(runs: FinishedRuns) -> str:
    """FedDA's rules over methods for graphs, on the seeds that some rule was run with."""
    rows = []
    for whole in OVER:
        asked_less = [label for label in runs if label.startswith(f"{whole},activation=")]
        common = {draw for label in asked_less for draw in runs[label]}
        labels = [whole, *sorted(asked_less)] if asked_less else []
        rows += [_row_over(whole, label, runs, common) for label in labels]
    return markdown_table(HEADS_OVER, rows)


def _row_over(whole: str, label: str, runs: FinishedRuns, common: Set[Draw]) -> tuple[str, ...]:
    """The rule's mean over the common seeds, and its difference from the method without it."""
    seeds = sorted(runs[label].keys() & runs[whole].keys() & common)
    ours, theirs = ({seed: runs[name][seed] for seed in seeds} for name in (label, whole))
    own, others = [*ours.values()], [*theirs.values()]

    def gain(choice: Choice) -> tuple[str, str]:
        return ("–", "–") if label == whole else difference(ours, theirs, choice, by_server=False)

    share = sum(map(megabytes, own)) / sum(map(megabytes, others))
    return (
        f"`{whole}`",
        f"`{label.partition('activation=')[2] or 'everyone'}`",
        str(len(seeds)),
        spread(on_all_data, space=NBSP)(own),
        *gain(Choice.LAST),
        spread(at_best_validation, space=NBSP)(own),
        *gain(Choice.BEST_VALIDATION),
        worst(on_all_data)(own),
        mean(megabytes, ".1f")(own),
        f"{100 * share:.1f} %",
    )
