"""One renderer of tables over kept runs: a row is a list of runs, a column makes a text of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Literal, TypeAlias

from ramet.report.text import markdown_table
from ramet.studies.archive import finished_runs
from ramet.studies.choice import Choice
from ramet.studies.comparison import gain_of
from ramet.studies.finished_run import Draw, FinishedRun, FinishedRuns

HERE = Path(__file__).parent
NBSP = "\u00a0"
Runs: TypeAlias = Mapping[Draw, FinishedRun]
Score: TypeAlias = Callable[[FinishedRun], float]
Column: TypeAlias = Callable[[Sequence[FinishedRun]], str]


def table(
    heads: Sequence[str],
    rows: Mapping[tuple[str, ...], Iterable[FinishedRun]],
    columns: Sequence[tuple[str, Column]],
) -> str:
    """A row for each list of runs, which begins with the cells that it is given by."""
    every = [*heads, *(head for head, _ in columns)]
    listed = {first: [*runs] for first, runs in rows.items()}
    return markdown_table(
        every, [(*first, *(cell(runs) for _, cell in columns)) for first, runs in listed.items()]
    )


def by_label(runs: FinishedRuns) -> dict[tuple[str, ...], Iterable[FinishedRun]]:
    return {(label,): own.values() for label, own in runs.items()}


def count(runs: Sequence[FinishedRun]) -> str:
    return str(len(runs))


def mean(value: Score, form: str = ".2f") -> Column:
    return lambda runs: format(fmean(map(value, runs)), form)


def worst(value: Score) -> Column:
    return lambda runs: f"{min(map(value, runs)):.2f}"


def spread(value: Score, digits: int = 2, space: str = " ") -> Column:
    """Mean ± standard deviation."""
    return lambda runs: in_words([*map(value, runs)], digits, space)


def in_words(values: Sequence[float], digits: int = 2, space: str = " ") -> str:
    if not values:
        return "–"
    around = f"{space}±{space}{stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{fmean(values):.{digits}f}{around}"


def over_clients(run: FinishedRun) -> float:
    """The mean test score over clients after the last round, in percent."""
    return 100 * run.summary.scores.test


def on_all_data(run: FinishedRun) -> float:
    """The server's model on all data after the last round; over clients without one."""
    return 100 * run.score


def at_best_validation(run: FinishedRun) -> float:
    """Like :func:`on_all_data`, at the round with the best validation score."""
    seen = run.on_all_data
    return 100 * (run.summary.scores.test_at_best_val if seen is None else seen)


def on_clients(*clients: str) -> Score:
    """The mean over these clients after the last round, in percent."""

    def score(run: FinishedRun) -> float:
        scores = (run.summary.scores.clients[client] for client in clients)
        return 100 * fmean(one for one in scores if one is not None)

    return score


def sent_up(kind: Literal["tensors", "bytes"], unit: float = 1) -> Score:
    def amount(run: FinishedRun) -> float:
        assert run.summary.sent is not None
        return float(getattr(run.summary.sent, kind).up) / unit

    return amount


def megabytes(run: FinishedRun) -> float:
    """Sent in the whole run, both ways."""
    return run.summary.traffic.total / 1e6


def kept(folder: str) -> FinishedRuns:
    """The kept runs of a folder here; empty if it has none yet."""
    path = HERE / folder
    return finished_runs([path]) if path.exists() and any(path.iterdir()) else {}


def difference(own: Runs, other: Runs, choice: Choice, by_server: bool) -> tuple[str, str]:
    """The mean difference on common draws with its 95 % interval, and the p-value."""
    gain = gain_of(own, other, choice, by_server)
    if gain is None:
        return "–", "–"
    mean, p = f"{100 * gain.mean:+.2f}", gain.p_value
    if gain.low is None or gain.high is None:
        return mean, "–"
    interval = f"[{100 * gain.low:+.2f},{NBSP}{100 * gain.high:+.2f}]"
    return f"{mean}{NBSP}{interval}", "–" if p is None else f"{p:.3f}"
