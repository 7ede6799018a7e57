"""Runs in a notebook: progress while they run, the result as a table, and its curves."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ramet.errors import RametError
from ramet.metrics import Record, Summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CELL = "text-align: right; padding: 0.1em 0.8em"


def shell() -> Any | None:
    """The running IPython shell, in a notebook or in a terminal; None outside of IPython."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


@contextmanager
def progress(observe: Callable[[Record], None] | None) -> Iterator[Callable[[Record], None]]:
    """The given observer of rounds. Without one, IPython shows rounds and scores in one line."""
    running = shell()
    if observe is not None or running is None:
        yield observe or _ignore
    elif hasattr(running, "kernel"):
        display: Any = import_module("IPython.display")
        line = display.display(display.HTML("starting"), display_id=True)
        yield lambda record: line.update(display.HTML(_bar(record)))
    else:
        yield lambda record: _overwrite(_text(record))
        sys.stdout.write("\n")


def _ignore(record: Record) -> None:
    """The observer outside of IPython."""


def _bar(record: Record) -> str:
    bar = f'<progress value="{record.round}" max="{record.rounds}"></progress>'
    return f"{bar} {escape(_text(record))}"


def _text(record: Record) -> str:
    missing = f", without {', '.join(record.failed)}" if record.failed else ""
    return (
        f"round {record.round} of {record.rounds}: test {record.shown('test')}, "
        f"validation {record.shown('val')}{missing}"
    )


def _overwrite(text: str) -> None:
    sys.stdout.write(f"\r{text}")
    sys.stdout.flush()


def _rows(summary: Summary) -> list[tuple[str, str]]:
    scores = summary.scores

    def shown(score: float | None) -> str:
        return f"{summary.scale.shown(score)}{summary.scale.suffix}"

    best = f"mean, round {scores.best_val_round} (best validation)"
    return [
        *((client, shown(score)) for client, score in scores.clients.items()),
        ("mean, last round", shown(scores.test)),
        (best, shown(scores.test_at_best_val)),
    ]


def _title(summary: Summary) -> str:
    return f"{summary.method} on {summary.setting}, {summary.rounds} rounds, seed {summary.seed}"


def text_table(summary: Summary) -> str:
    """The test score of each client, and their mean, as text."""
    rows = [("client", f"test {summary.metric}"), *_rows(summary)]
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    return "\n".join(
        [_title(summary), *(f"{name:<{first}}  {value:>{second}}" for name, value in rows)]
    )


def html_table(summary: Summary) -> str:
    """The same table as HTML."""
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td style='{_CELL}'>{value}</td></tr>"
        for name, value in _rows(summary)
    )
    heads = f"<tr><th>client</th><th style='{_CELL}'>test {escape(summary.metric)}</th></tr>"
    return f"<table><caption>{escape(_title(summary))}</caption>{heads}{rows}</table>"


def curves(records: Sequence[Record], summary: Summary) -> Figure:
    """The test score after each round: a thin line per client, and a thick one for their mean."""
    try:
        from matplotlib import pyplot
        from matplotlib.ticker import MaxNLocator
    except ImportError as error:
        raise RametError(
            "figures need matplotlib. Install it: pip install 'ramet[report]'."
        ) from error
    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    pyplot.close(figure)  # a notebook shows the returned figure, and open ones a second time
    factor = summary.scale.factor
    for client in summary.scores.clients:
        own = [one for one in records if "test" in one.evaluated.get(client, {})]
        scores = [factor * record.evaluated[client]["test"] for record in own]
        axes.plot([record.round for record in own], scores, linewidth=0.9, alpha=0.8, label=client)
    evaluated = [record for record in records if record.evaluated]
    axes.plot(
        [record.round for record in evaluated],
        [factor * record.mean("test") for record in evaluated],
        color="black",
        linewidth=2.2,
        label="mean",
    )
    label = summary.scale.label(f"test {summary.metric}")
    axes.set(xlabel="round", ylabel=label, title=_title(summary))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure
