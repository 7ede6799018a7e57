"""FedDA's tables from kept runs: `python results/links.py [--from FOLDER]`.

Prints a table for each dataset and number of clients, a table that tests FedDA's claim in each of
them, and a table of FedDA's activation rules over FedStar and FedDense. `make pages` writes them
into `docs/results-links.md`.

Unless a column says otherwise, scores are those after the last round: the server's model on the
whole graph, or the mean over the clients for Local and for graph classification. Differences and
shares of bytes are taken on common seeds, against the run that asks all clients for all tensors;
brackets hold 95 % intervals of paired t-tests.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from statistics import fmean, stdev
from typing import TypeAlias

from differences import difference

from ramet.experiment import MethodSpec
from ramet.papers.savings import POINTS_LOST, SHARE_SENT, saving
from ramet.studies.archive import finished_runs
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
NBSP = "\u00a0"
Cells: TypeAlias = Mapping[tuple[str, int], FinishedRuns]
Score: TypeAlias = Callable[[FinishedRun], float]
OVER = ("fedstar", "feddense,width=32")
HEADS_OVER = (
    *("method", "activation", "seeds", "last round", "difference", "p", "best validation"),
    *("difference", "p", "worst seed", "MB both ways", "share"),
)
HEADS_CLAIM = (
    *("data", "clients", "rule", "seeds", "last round", "p", "best validation", "p"),
    *("worst seed", "bytes both ways"),
    f"within {POINTS_LOST:g} points at no more than {100 * SHARE_SENT:g} % of the bytes",
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
HEADS = (
    *("method", "seeds", "last round", "worst seed", "last ten rounds", "best validation"),
    *("MRR", "MB both ways", "MB up", "tensors up"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--from", dest="folder", type=Path, default=Path(__file__).parent)
    for place, made in tables(parser.parse_args().folder).items():
        print(f"{place}\n\n{made}\n")


def tables(folder: Path) -> dict[str, str]:
    """All tables by the name of their place in the page."""
    cells: Cells = {
        (setting, clients): named(folder / f"{setting}-{clients}")
        for setting, numbers in CLIENTS.items()
        for clients in numbers
    }
    made = {
        f"{setting}-{clients}": table(folder / CENTRAL[setting], runs)
        for (setting, clients), runs in cells.items()
    }
    made |= {f"{place}, steps": steps(folder / place, 8) for place in ("amazon-8",)}
    return {**made, "claim": claim(cells), "single": over_methods(kept(folder / "single"))}


def table(central: Path, own: FinishedRuns) -> str:
    if not own:
        return "Not run yet."
    runs = {"Global": kept(central).get("fed-hgn,partition=central", {}), **own}
    rows = [
        row(name, runs[name], runs.get("FedAvg", {}))
        for name in ("Global", *NAMES.values())
        if runs.get(name)
    ]
    return in_markdown(HEADS, rows)


def steps(folder: Path, clients: int) -> str:
    """Seed 1 step by step under the authors' protocol; tensors are shares of what FedAvg sends."""
    runs = {meaning(label): own for label, own in kept(folder).items()}

    def seed_1(method: str, options: str, activation: str) -> FinishedRun | None:
        label = ",".join(filter(None, (method, f"clients={clients}", options, activation)))
        own = runs.get(meaning(label), {})
        return next((run for draw, run in own.items() if draw.seed == 1), None)

    whole = seed_1("fed-hgn", "", "")
    rows = []
    for step, options in STEPS.items():
        scores = [
            cell
            for method, activation in RULES
            for cell in of_step(seed_1(method, options, activation), method == "fedda", whole)
        ]
        if any(cell != "–" for cell in scores):
            rows.append((step, *scores))
    return in_markdown(HEADS_STEPS, rows)


def meaning(label: str) -> tuple[str, str, frozenset[tuple[str, str]]]:
    """What a label says, whatever the order of its options."""
    spec = MethodSpec.parse(label)
    return spec.method, str(spec.activation), frozenset(spec.options.items())


def of_step(run: FinishedRun | None, saves: bool, whole: FinishedRun | None) -> list[str]:
    """ROC-AUC, MRR and, if the method saves any, the share of tensors that are sent."""
    if run is None:
        return ["–"] * (3 if saves else 2)
    cells = [f"{100 * run.score:.2f}", f"{100 * run.mrr:.2f}"]
    if saves and whole and run.summary.sent and whole.summary.sent:
        share = run.summary.sent.tensors.up / whole.summary.sent.tensors.up
        cells.append(f"{100 * share:.0f}{NBSP}%")
    return cells


def claim(cells: Cells) -> str:
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
                        *difference(own, fedavg, Choice.LAST, by_server=True),
                        *difference(own, fedavg, Choice.BEST_VALIDATION, by_server=True),
                        f"{saved.worst:+.2f}",
                        f"{100 * saved.bytes_both:.1f} %",
                        saved.as_good_for_less,
                    )
                )
    return in_markdown(HEADS_CLAIM, rows)


def over_methods(runs: FinishedRuns) -> str:
    """FedDA's rules over methods for graphs, on the seeds that some rule was run with."""
    rows = []
    for whole in OVER:
        asked_less = [label for label in runs if label.startswith(f"{whole},activation=")]
        if asked_less:
            common = set.union(*(set(runs[label]) for label in asked_less))
            rows += [
                row_over(whole, label, runs[label], runs[whole], common)
                for label in [whole, *sorted(asked_less)]
            ]
    return in_markdown(HEADS_OVER, rows)


def row_over(
    whole: str,
    label: str,
    own: Mapping[Draw, FinishedRun],
    everyone: Mapping[Draw, FinishedRun],
    common: Set[Draw],
) -> tuple[str, ...]:
    """The rule's mean over the common seeds, and its difference from `everyone`."""
    seeds = sorted(own.keys() & everyone.keys() & common)
    ours, theirs = ({seed: runs[seed] for seed in seeds} for runs in (own, everyone))
    last, best = (
        [100 * score(run) for run in ours.values()]
        for score in (after_last_round, at_best_validation)
    )
    sent, all_sent = (
        fmean(run.summary.traffic.total for run in runs.values()) for runs in (ours, theirs)
    )
    itself = own is everyone
    return (
        f"`{whole}`",
        f"`{label.partition('activation=')[2] or 'everyone'}`",
        str(len(seeds)),
        spread(last),
        *(("–", "–") if itself else difference(ours, theirs, Choice.LAST, by_server=False)),
        spread(best),
        *(
            ("–", "–")
            if itself
            else difference(ours, theirs, Choice.BEST_VALIDATION, by_server=False)
        ),
        f"{min(last):.2f}",
        f"{sent / 1e6:.1f}",
        f"{100 * sent / all_sent:.1f} %",
    )


def in_markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(cells) + " |" for cells in (heads, *rows)]
    return "\n".join([lines[0], "|---" * len(heads) + "|", *lines[1:]])


def kept(folder: Path) -> FinishedRuns:
    """The kept runs of a folder; empty if it has none yet."""
    return finished_runs([folder]) if folder.exists() and any(folder.iterdir()) else {}


def named(folder: Path) -> dict[str, Mapping[Draw, FinishedRun]]:
    """Kept runs by their name in the table; runs with other options are left out."""
    found = {}
    for label, runs in kept(folder).items():
        spec = MethodSpec.parse(label)
        method = str(MethodSpec(spec.method, activation=spec.activation))
        if spec.options.keys() <= {"clients"} and method in NAMES:
            found[NAMES[method]] = runs
    return found


def row(
    name: str, own: Mapping[Draw, FinishedRun], fedavg: Mapping[Draw, FinishedRun]
) -> tuple[str, ...]:
    scores = [100 * after_last_round(run) for run in own.values()]
    cells = (
        name,
        str(len(own)),
        spread(scores),
        f"{min(scores):.2f}",
        spread(
            [
                100 * fmean(one.test if one.overview is None else one.overview for one in last)
                for last in (run.rounds[-10:] for run in own.values())
            ]
        ),
        f"{100 * fmean(at_best_validation(run) for run in own.values()):.2f}",
        f"{100 * fmean(run.mrr for run in own.values()):.2f}",
    )
    if name in ("Global", "Local"):
        return *cells, *("–",) * 3
    amounts = [run.summary.sent for run in own.values() if run.summary.sent]
    tensors = fmean(amount.tensors.up for amount in amounts)
    up = fmean(amount.bytes.up for amount in amounts)
    both = fmean(run.summary.traffic.total for run in own.values())
    saved = saving("", name, own, fedavg)
    shares = (
        [
            f"{NBSP}({100 * s:.0f}{NBSP}%)"
            for s in (saved.bytes_both, saved.bytes_up, saved.tensors_up)
        ]
        if saved and name != "FedAvg"
        else [""] * 3
    )
    sent = (f"{both / 1e6:,.1f}", f"{up / 1e6:,.1f}", f"{tensors:,.0f}")
    return *cells, *(amount + share for amount, share in zip(sent, shares, strict=True))


def spread(scores: Sequence[float]) -> str:
    return f"{fmean(scores):.2f}" + (f"{NBSP}±{NBSP}{stdev(scores):.2f}" if len(scores) > 1 else "")


def after_last_round(run: FinishedRun) -> float:
    return run.score


def at_best_validation(run: FinishedRun) -> float:
    on_all_data = run.on_all_data
    return run.summary.scores.test_at_best_val if on_all_data is None else on_all_data


if __name__ == "__main__":
    main()
