"""Tables from kept runs, in Markdown: `python results/tables.py NAME [ARGUMENT …]`.

NAME is a folder here, or one of TABLES; `results/README.md` says what each prints. Scores are test
scores in percent. A folder's tables have a row per method, and the scores by client and on the
whole graph; its ARGUMENT, a test score in percent, adds the rounds until that score. Differences
are on common seeds, with 95 % intervals and, from five pairs on, p-values: of the server's model on
all data if both methods have one; otherwise, or with `--clients`, of means over clients.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from statistics import fmean

import links
import partitions
import printed
from columns import (
    HERE,
    Runs,
    by_label,
    count,
    difference,
    in_words,
    mean,
    megabytes,
    on_all_data,
    on_clients,
    over_clients,
    sent_up,
    spread,
    table,
    worst,
)
from matplotlib.figure import Figure

from ramet.experiment import SPLIT_SEED, default_data
from ramet.experiment.named import setting_named
from ramet.partition import Reading
from ramet.partition.inspection import LinkInspection, inspect
from ramet.report.site_tables import about, sentence, site_cells
from ramet.report.study_tables import standing_columns
from ramet.report.text import markdown_table
from ramet.studies import archive
from ramet.studies.archive import finished_runs
from ramet.studies.choice import Choice
from ramet.studies.comparison import standings
from ramet.studies.finished_run import Draw, FinishedRun, FinishedRuns
from ramet.studies.gains import paired_gain
from ramet.studies.sites import site_standings

_FIELD = (
    ("seeds", count),
    ("test", spread(over_clients)),
    ("KB up", mean(lambda run: run.summary.traffic.up_per_client_round / 1024)),
    ("KB down", mean(lambda run: run.summary.traffic.down_per_client_round / 1024)),
)
_SERVER = (
    ("seeds", count),
    ("all data", spread(on_all_data)),
    ("worst seed", worst(on_all_data)),
    ("MRR", mean(lambda run: 100 * run.mrr)),
    ("clients", mean(over_clients)),
    ("tensors up", mean(sent_up("tensors"), ",.0f")),
    ("MB up", mean(sent_up("bytes", 1e6), ",.1f")),
)
_ROUNDS = (20, 60, 200)
_EPSILONS = {f"epsilon-{epsilon}": f"ε = {epsilon}" for epsilon in (8, 4, 2)}
_LINK_ROWS = {
    "gcn": "`gcn`, all links, no noise",
    "none": "`hops`, all links, no noise",
    **{name: f"`hops`, {words}" for name, words in _EPSILONS.items()},
    "no-links": "`hops` with `hops=0`: no links, no noise",
}


def of_setting(by_method: FinishedRuns, target: float | None) -> Iterator[str]:
    """One row per method, and the scores by client."""
    rows = standings(by_method, target)
    columns = {
        "method": [row.label for row in rows],
        "seeds": [str(row.seeds) for row in rows],
        **standing_columns(rows, target),
    }
    yield markdown_table([*columns], [*zip(*columns.values(), strict=True)])
    first = next(iter(next(iter(by_method.values())).values()))
    clients = [*first.summary.scores.clients]
    same = {
        label: runs
        for label, runs in by_method.items()
        if all([*run.summary.scores.clients] == clients for run in runs.values())
    }
    yield table([""], by_label(same), [(one, mean(on_clients(one))) for one in clients])


def folder(name: str, target: str | None = None) -> Iterator[str]:
    """All tables of a folder."""
    by_method = finished_runs([HERE / name])
    yield from of_setting(by_method, None if target is None else float(target) / 100)
    overviews = [run.summary.scores.overview for own in by_method.values() for run in own.values()]
    whole = {label: _on_whole_graph(runs) for label, runs in by_method.items()}
    if all("mrr" in overview for overview in overviews):
        yield table(["method"], by_label(by_method), _SERVER)
    elif any(whole.values()):
        yield _whole_graph_table({label: scores for label, scores in whole.items() if scores})


def _on_whole_graph(runs: Runs) -> dict[Draw, float]:
    """Last-round scores by draw, of the server's model, or of clients that were evaluated there."""
    every = runs.values()
    seen = all(run.summary.scores.overview for run in every)
    is_whole = all("evaluated_on=whole" in run.command for run in every)
    return {draw: on_all_data(run) for draw, run in runs.items()} if seen or is_whole else {}


def _whole_graph_table(scores: Mapping[str, Mapping[Draw, float]]) -> str:
    """With the gain over FedSage on common seeds, and its paired p-value."""
    rows, baseline = [], scores.get("fedsage-nodes", {})
    for label, own in scores.items():
        gains = {seed: own[seed] - baseline[seed] for seed in own.keys() & baseline.keys()}
        compared = own is not baseline and len(gains) > 1
        p = paired_gain(gains, None).p_value if compared else None
        gain = f"{fmean(gains.values()):+.2f}" if compared else "–"
        cells = (in_words([*own.values()]), gain, "–" if p is None else f"{p:.3f}")
        rows.append((label, str(len(own)), *cells))
    heads = ("on the whole graph", "seeds", "last round", "over fedsage-nodes", "p")
    return markdown_table(heads, rows)


def _differences(*given: str) -> Iterator[str]:
    setting, baseline, *methods = (word for word in given if word != "--clients")
    runs, rows = finished_runs([HERE / setting]), []
    for method in methods:
        own, other = runs[method], runs[baseline]
        both = chain(own.values(), other.values())
        by_server = "--clients" not in given and all(run.summary.scores.overview for run in both)
        cells = [text for choice in Choice for text in difference(own, other, choice, by_server)]
        rows.append((method, baseline, str(len(own.keys() & other.keys())), *cells))
    heads = ("last round", "p", "last ten", "p", "best validation", "p")
    yield markdown_table(("method", "baseline", "seeds", *heads), rows)


def sites(setting: str) -> Iterator[str]:
    heads = ("site", "constant", "alone", "together", "gain", "95 % interval", "verdict")
    for method in site_standings(finished_runs([HERE / setting])):
        yield f"{method.label}, test {method.metric} %; {about(method)}:"
        yield markdown_table(
            heads, [(site.site, *site_cells(site, method.scale)) for site in method.sites]
        )
        yield sentence(method)


def field(*folders: str) -> Iterator[str]:
    for name in folders or sorted(path.name for path in HERE.glob("field-*")):
        runs = by_label(finished_runs([HERE / name]))
        first = next(iter(next(iter(runs.values()))))
        yield f"{name}: {first.setting}, {first.summary.rounds} rounds"
        yield table(["method"], {(f"`{label}`",): own for (label,), own in runs.items()}, _FIELD)


def operations(name: str) -> str:
    """Of a client's training in one round."""
    billions = mean(lambda run: (run.summary.flops.per_client_round or 0) / 1e9)
    return table(["method"], by_label(finished_runs([HERE / name])), [("GFLOPs", billions)])


def networks() -> Iterator[str]:
    """Each split has its own communities."""

    def after(rounds: int) -> Callable[[FinishedRun], float]:
        return lambda run: next(100 * one.test for one in run.rounds if one.number == rounds)

    rows: dict[tuple[str, ...], list[FinishedRun]] = {}
    for folder in sorted(HERE.glob("cora-10-split-*")):
        for run in archive.kept(folder):
            rows.setdefault((run.label,), []).append(run)
    columns = [("splits", count), *((f"{n} rounds", spread(after(n))) for n in _ROUNDS)]
    yield table(["method"], {(f"`{label}`",): rows[label,] for (label,) in sorted(rows)}, columns)


def _dp() -> Iterator[str]:
    """Test accuracy after the last round, mean over seeds."""
    rows: dict[tuple[str, ...], list[FinishedRun]] = {
        (method, words): [run for run in _kept("dp-single", name) if run.label == method]
        for method in ("feddense", "local")
        for name, words in {"none": "no noise", **_EPSILONS}.items()
    }
    done = {first: runs for first, runs in rows.items() if runs}
    clients = next(iter(done.values()))[0].summary.scores.clients
    columns = [(client, mean(on_clients(client), ".1f")) for client in clients]
    columns += [("mean", spread(over_clients, digits=1)), ("seeds", count)]
    yield table(["method", "δ = 1e-5 per graph"], done, columns)


def _dp_links() -> Iterator[str]:
    """The test metric after the last round, and seeds."""

    def only(method: str, column: Callable[[Sequence[FinishedRun]], str]) -> Callable[..., str]:
        return lambda runs: column([run for run in runs if run.summary.method == method])

    for folder in ("dp-links", "dp-links-few-features"):
        rows: dict[tuple[str, ...], tuple[FinishedRun, ...]] = {
            (words,): _kept(folder, name) for name, words in _LINK_ROWS.items()
        }
        scores = spread(over_clients, digits=1)
        columns = [
            pair
            for method in ("fedavg", "local")
            for pair in ((method, only(method, scores)), ("seeds", only(method, count)))
        ]
        yield folder
        yield table(["network, δ = 1e-5"], rows, columns)


def _dp_sites() -> Iterator[str]:
    """ROC-AUC after the last round: noise of each site, and noise shared among sites."""
    kinds = {"whole": "all of the noise", "shared": "a part of the noise, inside secure sums"}
    rows: dict[tuple[str, ...], tuple[FinishedRun, ...]] = {}
    for clients in ("5", "20"):
        rows[clients, "none", "–"] = _kept("dp-sites", f"{clients}-none")
        for epsilon in ("8", "4", "2"):
            for kind, words in kinds.items():
                rows[clients, words, epsilon] = _kept("dp-sites", f"{clients}-{kind}-{epsilon}")
    done = {first: runs for first, runs in rows.items() if runs}
    columns = (("ROC-AUC", spread(over_clients, digits=1)), ("seeds", count))
    yield table(["clients", "each site adds", "ε"], done, columns)


def _secure() -> Iterator[str]:
    """Plain, fixed-point and secure sums, and which runs have the bits of fixed point."""
    kinds = {kind: _kept("secure-single", kind) for kind in ("plain", "fixed-point", "secure")}
    fixed = {(run.spec.method, run.seed): run.summary.sha256 for run in kinds["fixed-point"]}

    def same_bits(runs: Sequence[FinishedRun]) -> str:
        same = [run for run in runs if fixed[run.spec.method, run.seed] == run.summary.sha256]
        return f"{len(same)} of {len(runs)} as in fixed point"

    rows = {
        (method, kind): sorted((r for r in runs if r.spec.method == method), key=lambda r: r.seed)
        for method in ("fedstar", "feddense")
        for kind, runs in kinds.items()
    }
    columns = (
        ("last round, by seed", lambda runs: ", ".join(f"{over_clients(r):.2f}" for r in runs)),
        ("mean", mean(over_clients)),
        (
            "mean of the last ten",
            mean(lambda run: 100 * fmean(one.test for one in run.rounds[-10:])),
        ),
        ("MB", mean(megabytes, ".1f")),
        ("SHA-256", same_bits),
    )
    yield table(["method", "sum"], {first: runs for first, runs in rows.items() if runs}, columns)


def _kept(folder: str, name: str) -> tuple[FinishedRun, ...]:
    return archive.kept(HERE / folder / name)


def _contrast(picture: str | None = None) -> Iterator[str]:
    """NMI after the last round, accuracy at the best validation round; homophily of the graphs."""
    reading, rows = Reading(default_data(), SPLIT_SEED), []
    for runs in finished_runs([HERE / "planted-contrast"]).values():
        scores = [run.summary.scores.overview for run in runs.values()]
        contrast = next(iter(runs.values())).spec.options["contrast"]
        seen = inspect(setting_named("planted", {"contrast": contrast}), reading)
        assert isinstance(seen, LinkInspection)
        edges = [kind.edge_homophily for kind in seen.kinds.values()]
        features = [kind.attribute_homophily for kind in seen.kinds.values()]
        nmi, accuracy = (fmean(one[key] for one in scores) for key in ("nmi", "test_at_best_val"))
        ranges = (max(edges) - min(edges), max(features) - min(features))
        rows.append((float(contrast), *ranges, nmi, 100 * accuracy, len(scores)))
    forms = ("g", ".2f", ".2f", ".2f", ".2f", "d")
    texts = [[format(cell, form) for cell, form in zip(row, forms, strict=True)] for row in rows]
    heads = ("contrast", "EH difference", "AH difference", "NMI", "accuracy", "seeds")
    yield markdown_table(heads, sorted(texts, key=lambda row: float(row[0])))
    if picture is not None:
        figure = Figure(figsize=(6, 3.6), layout="constrained")
        axes = figure.subplots()
        points = sorted((edge, nmi) for _, edge, _, nmi, *_ in rows)
        axes.plot(*zip(*points, strict=True), "o-", color="#0072B2")
        axes.set(
            xlabel="largest difference in edge homophily between two kinds",
            ylabel="NMI of found and true kinds",
            ylim=(-0.03, 1.03),
        )
        axes.grid(alpha=0.25)
        figure.savefig(picture, dpi=150)


def _named(made: Mapping[str, str]) -> Iterator[str]:
    return (text for name, one in made.items() for text in (f"{name}:", one))


TABLES: Mapping[str, Callable[..., Iterator[str]]] = {
    "differences": _differences,
    "sites": sites,
    "printed": lambda name: iter([printed.table(name)]),
    "splits": lambda setting: iter([printed.deviations(setting)]),
    "partitions": lambda setting, *clients: _named(partitions.tables(setting, *clients)),
    "links": lambda: _named(links.tables()),
    "field": field,
    "networks": networks,
    "contrast": _contrast,
    "secure": _secure,
    "dp": _dp,
    "dp-links": _dp_links,
    "dp-sites": _dp_sites,
}


def main() -> None:
    if not sys.argv[1:]:
        sys.exit(__doc__)
    name, *given = sys.argv[1:]
    texts = TABLES[name](*given) if name in TABLES else folder(name, *given)
    print("\n\n".join(texts))


if __name__ == "__main__":
    main()
