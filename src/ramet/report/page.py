"""One page that shows a comparison, with its figures inside: nothing else is needed to read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from ramet.errors import RametError
from ramet.experiment import MethodSpec
from ramet.partition.inspection import GraphInspection
from ramet.report import figures
from ramet.report.text import operations, percent, several
from ramet.studies.comparison import Standing, standings
from ramet.studies.finished_run import FinishedRun, FinishedRuns

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
    apart: GraphInspection | None = None,
    left_out: Sequence[str] = (),
) -> Path:
    """Write `report.html`, and each figure as PNG and SVG, into the folder."""
    every = _every(by_label)
    _check_alike(every)
    rows = standings(by_label, target)
    pictures = _pictures(by_label, rows, apart)
    what = figures.metric_of(by_label)
    for picture in pictures:
        figures.save(picture.figure, folder, picture.name)
    common = _with_common_clients(by_label)
    page = folder / "report.html"
    page.write_text(
        _template().render(
            setting=every[0].setting,
            rows=rows,
            metric=what,
            baseline=next((row.label for row in rows if row.gain is None), rows[0].label),
            target=target,
            all_data=any(row.overview is not None for row in rows),
            figures=[
                {"title": p.title, "note": p.note, "svg": figures.inline(p.figure)}
                for p in pictures
            ],
            clients=_client_scores(by_label, common),
            common=common,
            runs=len(every),
            rounds=every[0].summary.rounds,
            dates=_span([run.date for run in every]),
            versions=_versions(every),
            commands=[run.command for run in every],
            left_out=left_out,
            percent=percent,
            several=several,
            operations=operations,
        )
    )
    return page


def _pictures(
    by_label: FinishedRuns, rows: Sequence[Standing], apart: GraphInspection | None
) -> list[_Picture]:
    what = figures.metric_of(by_label)
    drawn = [
        _Picture(
            "score_over_rounds",
            f"{_title(what)} over rounds",
            f"Mean test {what} over clients and seeds; the band is one sample standard deviation "
            "over seeds, as in the table. Both are running means over a twentieth of the rounds.",
            figures.score_over_rounds(by_label),
        ),
        _Picture(
            "payload",
            "What a client sends",
            "Bytes of arrays that leave a client in a round; as many come back.",
            figures.payload(rows),
        ),
    ]
    if any(row.flops_per_client_round is not None for row in rows):
        drawn.insert(
            1,
            _Picture(
                "score_over_flops",
                f"{_title(what)} over work",
                "Mean over seeds, with a line down to the worst seed, against the floating-point "
                "operations of a client's training in one round. Methods with as much work as "
                "another one stand to the right of it.",
                figures.score_over_work(rows),
            ),
        )
    if figures.pairs(by_label):
        drawn.append(
            _Picture(
                "score_over_bytes",
                "Score over bytes",
                "Methods with and without an activation: mean over seeds with one sample "
                "standard deviation, against all bytes of a run.",
                figures.score_over_bytes(by_label),
            )
        )
    drawn += _pictures_of_all_data(by_label) + _pictures_of_kinds(by_label)
    if apart is not None:
        drawn.append(
            _Picture(
                "heterogeneity",
                "How far the clients are apart",
                "Jensen–Shannon divergence between clients: of the similarity of linked nodes' "
                "features, and of degrees and clustering coefficients.",
                figures.heterogeneity(list(apart.clients), apart.divergences),
            )
        )
    return drawn


def _pictures_of_all_data(by_label: FinishedRuns) -> list[_Picture]:
    """How the server's model learns, where it was judged on all data."""
    if not any(run.rounds[0].overview is not None for run in _every(by_label)):
        return []
    return [
        _Picture(
            "score_on_all_data",
            "The server's model on all data",
            f"Test {figures.metric_of(by_label)} on all clients' data at once, smoothed as above.",
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
    """What is known of channels and of the kinds of links that were found."""
    drawn = []
    what = figures.metric_of(by_label)
    by_kinds = _by_kinds(by_label)
    if any(len(scores) > 2 for scores in by_kinds.values()):
        drawn.append(
            _Picture(
                "score_over_kinds",
                f"{_title(what)} over the number of kinds",
                f"Test {what} on all data at the best validation; bars are one sample "
                "standard deviation over seeds.",
                figures.score_over_kinds(
                    {label: scores for label, scores in by_kinds.items() if len(scores) > 2},
                    what,
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
        drawn += [
            _Picture(
                f"agreement_{name}",
                f"{label}: do the clients mean the same kinds?",
                f"Cosine of the clients' centres of a group, mean over pairs, seed {run.seed}. "
                f"The silhouette of all centres is {silhouettes} in the first and last round.",
                figures.agreement(*(_under("agreement/", reported[when]) for when in _ENDS)),
            ),
            _Picture(
                f"channels_{name}",
                f"{label}: what the clients do to their channels",
                "Norm of a client's change to a channel in a round, and its cosine distance to the "
                f"change that the server makes; mean over rounds, seed {run.seed}. Grey: the "
                "client never had this kind.",
                figures.by_client_and_channel(
                    {
                        title: {
                            _client_and_channel(place): value
                            for place, value in _under(prefix, reported["mean"]).items()
                        }
                        for title, prefix in (("change", "change/"), ("distance", "distance/"))
                    }
                ),
            ),
        ]
    return drawn


def _title(what: str) -> str:
    """At the beginning of a heading."""
    return what[0].upper() + what[1:]


def _every(by_label: FinishedRuns) -> list[FinishedRun]:
    return [run for runs in by_label.values() for run in runs.values()]


def _under(prefix: str, numbers: Mapping[str, float]) -> dict[str, float]:
    return {
        name.removeprefix(prefix): value
        for name, value in numbers.items()
        if name.startswith(prefix)
    }


def _client_and_channel(place: str) -> tuple[str, str]:
    client, _, channel = place.rpartition("/")
    return client, channel


def _by_kinds(by_label: FinishedRuns) -> dict[str, dict[int, list[float]]]:
    """Scores on all data by number of kinds, for labels that differ in nothing else."""
    found: dict[str, dict[int, list[float]]] = {}
    for label, runs in by_label.items():
        spec = MethodSpec.parse(label)
        options = dict(spec.options)
        kinds = options.pop("kinds", None)
        scores = [run.on_all_data for run in runs.values() if run.on_all_data is not None]
        if kinds and scores:
            rest = str(replace(spec, options=options))
            found.setdefault(rest, {})[int(kinds)] = scores
    return found


def _with_common_clients(by_label: FinishedRuns) -> list[str]:
    """The methods whose runs had the clients of the first one's."""
    labels = [label for label, runs in by_label.items() if runs]
    clients = [
        [list(run.summary.scores.clients) for run in by_label[label].values()] for label in labels
    ]
    return [
        label
        for label, each in zip(labels, clients, strict=True)
        if all(own == clients[0][0] for own in each)
    ]


def _client_scores(by_label: FinishedRuns, labels: Sequence[str]) -> dict[str, list[float | None]]:
    """For each client its mean score under each method."""
    first = next(iter(by_label[labels[0]].values()))
    return {
        client: [
            _mean([run.summary.scores.clients[client] for run in by_label[label].values()])
            for label in labels
        ]
        for client in first.summary.scores.clients
    }


def _mean(scores: Sequence[float | None]) -> float | None:
    """None if the client did not answer in the last round of one of the runs."""
    known = [score for score in scores if score is not None]
    return fmean(known) if len(known) == len(scores) else None


def _check_alike(every: Sequence[FinishedRun]) -> None:
    """A page compares runs of one setting and length."""
    kinds = {(run.setting, run.summary.rounds) for run in every}
    if len(kinds) > 1:
        found = ", ".join(f"{setting} with {rounds} rounds" for setting, rounds in sorted(kinds))
        raise RametError(f"these runs cannot be compared: {found}. Give runs of one setting.")


def _span(dates: Sequence[str]) -> str:
    first, last = min(dates), max(dates)
    return first if first == last else f"{first} to {last}"


def _versions(every: Sequence[FinishedRun]) -> str:
    return ", ".join(
        f"{name} {' / '.join(sorted({run.versions[name] for run in every}))}"
        for name in _SHOWN_VERSIONS
    )


def _template() -> Template:
    try:
        import jinja2
    except ImportError as error:
        raise RametError("pages need Jinja. Install it: pip install 'ramet[report]'") from error
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    rules = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
    return rules.get_template("page.html.j2")
