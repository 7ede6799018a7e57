"""What training together gives each site, compared with training alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.table import Table

from ramet.report.plain_table import plain_table
from ramet.report.text import plural
from ramet.scale import PERCENT, Scale
from ramet.studies.gains import Gain
from ramet.studies.sites import NOT_FINAL, Basis, SiteStanding, SiteStandings

HOW_TO_CONVERGE = "train longer, with more --rounds and --patience."
MOST_SITES = 12
"""With more sites, the terminal shows a sentence of counts instead of a table."""
_VERDICTS = {
    "helps": "helps",
    "hurts": "hurts",
    "undecided": "undecided for",
    NOT_FINAL: "not final for",
}


@dataclass(frozen=True)
class Question:
    """What two columns of a table are, and what their difference answers."""

    title: str
    heads: tuple[str, str]
    legend: str
    nothing: str = ""
    """Why there is no answer."""


JOINING = Question("Does joining help?", ("alone", "together"), "alone: local")
QUESTIONS = {
    "links": Question(
        "Does the graph help? Each method, compared with itself without links:",
        ("without links", "with links"),
        "without links: the network mlp",
        "no method takes another network",
    ),
    "trees": Question(
        "Is a table enough? Each method, compared with gradient boosting at the site alone:",
        ("trees", "network"),
        "trees: scikit-learn's histogram gradient boosting with its defaults, on the site's rows",
        "links to predict have no rows, and runs from elsewhere no data",
    ),
}


def sites_table(standings: Sequence[SiteStandings], asked: Question = JOINING) -> Table:
    """A row per method and site."""
    scale = standings[0].scale
    name = f"{standings[0].metric}{scale.suffix}"
    table = plain_table(f"each site: test {name}, {' and '.join(asked.heads)}")
    for head in ("method", "site"):
        table.add_column(head, overflow="fold")
    for head in ("constant", *asked.heads, "gain", "95 % interval"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for method in standings:
        for row in method.sites:
            table.add_row(method.label, row.site, *site_cells(row, method.scale))
    table.caption = (
        f"constant: always predicting {constant(standings[0].scale)}; {asked.legend}; "
        f"{about(standings[0])}"
    )
    return table


def constant(scale: Scale) -> str:
    """What a site would predict without a model."""
    classes = scale.unit == PERCENT
    return "the most frequent training class" if classes else "the mean of the training samples"


def site_cells(row: SiteStanding, scale: Scale) -> tuple[str, ...]:
    scores = (scale.shown(score) for score in (row.constant, row.alone, row.together))
    return (*scores, scale.change(row.gain.mean), interval(row.gain, scale), row.verdict)


def about(standings: SiteStandings) -> str:
    """What the intervals cover, and what they do not."""
    runs = plural(standings.runs, "pair") + " of runs"
    return {
        Basis.SPLITS: f"interval: over splits ({runs}; corrected resampled t-test), so that it "
        "covers the choice of samples and the randomness of training",
        Basis.SEEDS: f"interval: over the seeds of one split ({runs}; t-test) and over each site's "
        "test samples (paired bootstrap of the predictions), so that it covers the randomness of "
        "training and the choice of test samples; --splits 5 also covers that of training samples",
        Basis.SEEDS_ALONE: f"interval: over the seeds of one split ({runs}; t-test), so that it "
        "covers the randomness of training, which is too little for a verdict; --splits 5 also "
        "covers the choice of samples",
        Basis.TEST_SAMPLES: "interval: over each site's test samples (one pair of runs; paired "
        "bootstrap of its predictions), so that it covers the choice of test samples, which is too "
        "little for a verdict; --seeds 1-5 also covers training, and --splits 5 all samples",
        Basis.NONE: "no interval: one pair of runs; use --splits 5",
    }[standings.basis] + ". Each interval stands for itself"


def sentence(standings: SiteStandings) -> str:
    """What the intervals say: `fedavg helps south: +6.1 [2.0, 10.3]; undecided for north: …`."""
    verdicts = f"{standings.label} {'; '.join(_verdicts(standings))}."
    reason = standings.not_final
    return f"{verdicts} {reason[0].upper()}{reason[1:]}; {HOW_TO_CONVERGE}" if reason else verdicts


def _verdicts(standings: SiteStandings) -> Iterator[str]:
    sites = standings.sites
    for verdict, verb in _VERDICTS.items():
        chosen = [row for row in sites if row.verdict == verdict]
        if chosen and len(sites) > MOST_SITES:
            yield f"{verb} {len(chosen)} of {plural(len(sites), 'site')}"
        elif chosen:
            yield f"{verb} {', '.join(_gain_of(row, standings.scale) for row in chosen)}"


def _gain_of(row: SiteStanding, scale: Scale) -> str:
    given = f" {interval(row.gain, scale)}" if row.gain.low is not None else ""
    return f"{row.site}: {scale.change(row.gain.mean)}{given}"


def interval(gain: Gain, scale: Scale) -> str:
    if gain.low is None or gain.high is None:
        return "–"
    return f"[{scale.shown(gain.low, 1)}, {scale.shown(gain.high, 1)}]"
