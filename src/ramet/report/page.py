"""The HTML page of a comparison, self-contained with inline figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from ramet.disk import write_atomically
from ramet.errors import RametError
from ramet.experiment import MethodSpec
from ramet.partition.inspection import GraphInspection
from ramet.report import drawing, figures, site_tables
from ramet.report.paper import write_for_paper
from ramet.report.text import operations, plural
from ramet.studies.comparison import Standing, standings
from ramet.studies.finished_run import FinishedRun, FinishedRuns
from ramet.studies.sites import site_standings

if TYPE_CHECKING:
    from jinja2 import Template
    from matplotlib.figure import Figure

_ENDS = ("first", "last")
_SHOWN_VERSIONS = ("ramet", "python", "torch", "torch_geometric")


@dataclass(frozen=True)
class _Picture:
    name: str
    title: str
    note: str
    figure: Figure


def write_report(
    by_label: FinishedRuns,
    folder: Path,
    target: float | None = None,
    inspection: GraphInspection | None = None,
    left_out: Sequence[str] = (),
    baselines: Mapping[str, str] | None = None,
) -> Path:
    """Write `report.html`, each figure as PNG and SVG, and what a paper can use into the folder.

    ``baselines`` are the methods that others match with fewer bytes, by the name of the other.
    """
    every = _every(by_label)
    _check_comparable(every)
    rows = standings(by_label, target)
    pictures = _pictures(by_label, rows, inspection, baselines or {})
    metric = figures.metric_of(by_label)
    for picture in pictures:
        drawing.save(picture.figure, folder, picture.name)
    write_for_paper(rows, folder)
    common = _with_common_clients(by_label)
    page = folder / "report.html"
    write_atomically(
        page,
        template("page.html.j2").render(
            setting=every[0].setting,
            rows=rows,
            metric=metric,
            baseline=next((row.label for row in rows if row.gain is None), rows[0].label),
            target=target,
            all_data=any(row.overview is not None for row in rows),
            figures=[
                {"title": p.title, "note": p.note, "svg": drawing.inline(p.figure)}
                for p in pictures
            ],
            clients=_client_scores(by_label, common),
            common=common,
            together=site_standings(by_label),
            site_tables=site_tables,
            runs=len(every),
            rounds=every[0].summary.rounds,
            dates=_span([run.date for run in every]),
            versions=_versions(every),
            commands=[run.command for run in every],
            left_out=left_out,
            privacy=_privacy(by_label),
            scale=figures.scale_of(by_label),
            plural=plural,
            operations=operations,
        ),
    )
    return page


def _privacy(by_label: FinishedRuns) -> dict[str, str]:
    """The differential privacy of each method's runs, where there is any."""
    first = {label: next(iter(runs.values())) for label, runs in by_label.items()}
    return {
        label: run.summary.privacy.sentence
        for label, run in first.items()
        if run.summary.privacy is not None
    }


def _over_whom(by_label: FinishedRuns) -> str:
    if not figures.leave_out_clients(by_label):
        return ""
    return (
        " A round's mean is over the clients that took part in it; methods that leave out clients "
        "have means over different clients in different rounds."
    )


def _pictures(
    by_label: FinishedRuns,
    rows: Sequence[Standing],
    inspection: GraphInspection | None,
    baselines: Mapping[str, str],
) -> list[_Picture]:
    metric = figures.metric_of(by_label)
    pictures = [
        _Picture(
            "score_over_rounds",
            f"{_capitalised(metric)} over rounds",
            f"Mean test {metric} over clients and seeds. The band is one sample standard deviation "
            "over seeds, as in the table. Both are running means over a twentieth of the rounds."
            + _over_whom(by_label),
            figures.score_over_rounds(by_label),
        ),
        _Picture(
            "payload",
            "Upload per client",
            "Bytes of arrays that a client sends in a round.",
            figures.payload(rows),
        ),
    ]
    if any(row.flops_per_client_round is not None for row in rows):
        pictures.insert(
            1,
            _Picture(
                "score_over_flops",
                f"{_capitalised(metric)} over FLOPs",
                "Mean over seeds, with a line down to the worst seed, against the floating-point "
                "operations of a client's training in one round. A method that needs as many as "
                "another one is shifted to its right.",
                figures.score_over_flops(rows),
            ),
        )
    if figures.pairs(by_label, baselines):
        pictures.append(
            _Picture(
                "score_over_bytes",
                "Score over bytes",
                "Methods with and without an activation: mean ± one sample standard deviation over "
                "seeds, against all bytes of a run.",
                figures.score_over_bytes(by_label, baselines),
            )
        )
    pictures += _pictures_of_all_data(by_label) + _pictures_of_kinds(by_label)
    if inspection is not None:
        pictures.append(
            _Picture(
                "heterogeneity",
                "Divergence between clients",
                "Jensen–Shannon divergence between clients: of the similarity of linked nodes' "
                "features, and of degrees and clustering coefficients.",
                figures.heterogeneity(list(inspection.clients), inspection.divergences),
            )
        )
    return pictures


def _pictures_of_all_data(by_label: FinishedRuns) -> list[_Picture]:
    """Score and loss of the server's model, if it was evaluated on all data."""
    if not any(run.rounds[0].overview is not None for run in _every(by_label)):
        return []
    return [
        _Picture(
            "score_on_all_data",
            "The server's model on all data",
            f"Test {figures.metric_of(by_label)} on all clients' data, smoothed as above.",
            figures.score_on_all_data(by_label),
        ),
        _Picture(
            "loss_over_rounds",
            "Training loss",
            "Mean over clients and seeds, smoothed as above.",
            figures.loss_over_rounds(by_label),
        ),
    ]


def _pictures_of_kinds(by_label: FinishedRuns) -> list[_Picture]:
    """Pictures of the link kinds that methods learned, and of their channels."""
    pictures = []
    metric = figures.metric_of(by_label)
    by_kinds = _by_kinds(by_label)
    if any(len(scores) > 2 for scores in by_kinds.values()):
        pictures.append(
            _Picture(
                "score_over_kinds",
                f"{_capitalised(metric)} over the number of link kinds",
                f"Test {metric} on all data at the round with the best validation score. Bars are "
                "one sample standard deviation over seeds.",
                figures.score_over_kinds(
                    {label: scores for label, scores in by_kinds.items() if len(scores) > 2},
                    metric,
                ),
            )
        )
    for label, runs in by_label.items():
        run = next(iter(runs.values()))
        reported = run.summary.merging
        if not any(name.startswith("agreement/") for name in reported.get("last", {})):
            continue
        name = label.replace(",", "_").replace("=", "-")
        silhouettes = " and ".join(f"{reported[when].get('silhouette', 0):.2f}" for when in _ENDS)
        pictures += [
            _Picture(
                f"agreement_{name}",
                f"{label}: agreement of the clients on link kinds",
                f"Cosine of the clients' centres of a group, mean over pairs, seed {run.seed}. "
                f"The silhouette of all centres is {silhouettes} in the first and last round.",
                figures.agreement(*(_under("agreement/", reported[when]) for when in _ENDS)),
            ),
            _Picture(
                f"channels_{name}",
                f"{label}: updates per client and channel",
                "Norm of a client's update to a channel in a round, and its cosine distance to the "
                f"server's update; mean over rounds, seed {run.seed}. Grey: the client never had "
                "this kind of link.",
                figures.by_client_and_channel(
                    {
                        title: {
                            _client_and_channel(key): value
                            for key, value in _under(prefix, reported["mean"]).items()
                        }
                        for title, prefix in (("change", "change/"), ("distance", "distance/"))
                    }
                ),
            ),
        ]
    return pictures


def _capitalised(metric: str) -> str:
    return metric[0].upper() + metric[1:]


def _every(by_label: FinishedRuns) -> list[FinishedRun]:
    return [run for runs in by_label.values() for run in runs.values()]


def _under(prefix: str, numbers: Mapping[str, float]) -> dict[str, float]:
    return {
        name.removeprefix(prefix): value
        for name, value in numbers.items()
        if name.startswith(prefix)
    }


def _client_and_channel(key: str) -> tuple[str, str]:
    client, _, channel = key.rpartition("/")
    return client, channel


def _by_kinds(by_label: FinishedRuns) -> dict[str, dict[int, list[float]]]:
    """Scores on all data by number of link kinds, for labels that differ only in that number."""
    by_rest: dict[str, dict[int, list[float]]] = {}
    for label, runs in by_label.items():
        spec = MethodSpec.parse(label)
        options = dict(spec.options)
        kinds = options.pop("kinds", None)
        scores = [run.on_all_data for run in runs.values() if run.on_all_data is not None]
        if kinds and scores:
            rest = str(replace(spec, options=options))
            by_rest.setdefault(rest, {})[int(kinds)] = scores
    return by_rest


def _with_common_clients(by_label: FinishedRuns) -> list[str]:
    """The labels whose runs all have the same clients as the first run."""
    labels = [label for label, runs in by_label.items() if runs]
    clients = [
        [list(run.summary.scores.clients) for run in by_label[label].values()] for label in labels
    ]
    return [
        label
        for label, each in zip(labels, clients, strict=True)
        if all(names == clients[0][0] for names in each)
    ]


def _client_scores(by_label: FinishedRuns, labels: Sequence[str]) -> dict[str, list[float | None]]:
    """Each client's mean score with each method."""
    first = next(iter(by_label[labels[0]].values()))
    return {
        client: [
            _mean([run.summary.scores.clients[client] for run in by_label[label].values()])
            for label in labels
        ]
        for client in first.summary.scores.clients
    }


def _mean(scores: Sequence[float | None]) -> float | None:
    """The mean; None if the client did not reply in the last round of one of the runs."""
    known = [score for score in scores if score is not None]
    return fmean(known) if len(known) == len(scores) else None


def _check_comparable(every: Sequence[FinishedRun]) -> None:
    """Raise an error unless all runs have the same setting and number of rounds."""
    kinds = {(run.setting, run.summary.rounds) for run in every}
    if len(kinds) > 1:
        given = ", ".join(f"{setting} with {rounds} rounds" for setting, rounds in sorted(kinds))
        raise RametError(
            f"these runs cannot be compared: {given}. Give runs of one setting and number of "
            "rounds."
        )


def _span(dates: Sequence[str]) -> str:
    first, last = min(dates), max(dates)
    return first if first == last else f"{first} to {last}"


def _versions(every: Sequence[FinishedRun]) -> str:
    return ", ".join(
        f"{name} {' / '.join(sorted({run.versions[name] for run in every}))}"
        for name in _SHOWN_VERSIONS
    )


def template(name: str) -> Template:
    try:
        import jinja2
    except ImportError as error:
        raise RametError("reports need Jinja. Install it: pip install 'ramet[report]'.") from error
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined
    )
    return environment.get_template(name)
