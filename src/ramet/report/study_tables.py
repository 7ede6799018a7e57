"""Tables of many runs: comparisons of methods, and of our numbers with those of papers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table

from ramet.metrics.summary import common_metric
from ramet.report.plain_table import plain_table
from ramet.report.text import operations, percent, plural
from ramet.studies.comparison import Standing
from ramet.studies.printed import Printed
from ramet.studies.reproduction import Order, ReproducedCell
from ramet.studies.savings import POINTS_LOST, SHARE_SENT, Saving

_COLOURS = {"inside": "green", "holds": "green", "outside": "red", "does not": "red"}
_SIZES = {"model_kb": "model KB", "payload_kb": "payload KB"}
_KINDS = {"auc": ("ROC-AUC",), "mrr": ("MRR",), "tensors": ("tensors",)}


def comparison_table(rows: Sequence[Standing], setting: str, target: float | None) -> Table:
    """A row per method, in the given order."""
    draws = {(row.splits, row.seeds) for row in rows}
    same_draws, several_splits = len(draws) == 1, any(row.splits > 1 for row in rows)
    unequal = f"{'splits × ' if several_splits else ''}seeds (number after each method)"
    over = _draws(rows[0]) if same_draws else unequal
    metric = common_metric(row.metric for row in rows)
    table = plain_table(f"{setting}: test {metric} %, mean ± std over {over}")
    table.add_column("method", overflow="fold")
    columns = standing_columns(rows, target)
    for head in columns:
        table.add_column(head, justify="right", no_wrap=True)
    labels = [row.label if same_draws else f"{row.label} ({_counts(row)})" for row in rows]
    for cells in zip(labels, *columns.values(), strict=True):
        table.add_row(*cells)
    table.caption = (
        "best val: at the round with the best validation score; gain: over local, or over the "
        "first method; p: paired t-test over the seeds of one split, or over splits, corrected for "
        "their overlap; scalars: size of a client's model; up, GFLOPs: per client and round"
    )
    if "all data" in columns:
        table.caption += (
            "; all data: the server's model on all clients' data, at its best validation round"
        )
    if target is not None:
        table.caption += f"; to {100 * target:g}: rounds needed to reach that score"
    return table


def _draws(row: Standing) -> str:
    """`5 seeds`, `3 splits × 5 seeds`."""
    splits = f"{plural(row.splits, 'split')} × " if row.splits > 1 else ""
    return splits + plural(row.seeds, "seed")


def _counts(row: Standing) -> str:
    return f"{row.splits} × {row.seeds}" if row.splits > 1 else str(row.seeds)


def standing_columns(rows: Sequence[Standing], target: float | None) -> dict[str, list[str]]:
    """The cells of each column by its heading. The column "all data" is left out if it is empty."""
    columns = {
        "last round": [_percent_with_spread(row.test, row.spread) for row in rows],
        "best val": [percent(row.test_at_best_val) for row in rows],
        "all data": [_percent_with_spread(row.overview, row.overview_spread) for row in rows],
        "gain": ["–" if row.gain is None else f"{100 * row.gain:+.2f}" for row in rows],
        "p": ["–" if row.p_value is None else f"{row.p_value:.3f}" for row in rows],
        "scalars": [f"{row.scalars:,.0f}" for row in rows],
        "up KB": [f"{row.up_per_client_round / 1024:.2f}" for row in rows],
        "GFLOPs": [operations(row.flops_per_client_round).removesuffix(" G") for row in rows],
    }
    if target is not None:
        columns[f"to {100 * target:g}"] = [
            "not by all" if row.rounds_to_target is None else f"{row.rounds_to_target:.0f}"
            for row in rows
        ]
    if all(row.overview is None for row in rows):
        del columns["all data"]
    return columns


def _percent_with_spread(mean: float | None, spread: float | None) -> str:
    return percent(mean) + ("" if spread is None else f" ± {percent(spread)}")


def reproduced_table(cells: Sequence[ReproducedCell], title: str, stated: str = "printed") -> Table:
    """A row per stated number: theirs, ours, and whether the difference is within its tolerance."""
    table = plain_table(title)
    for head in ("method", "number"):
        table.add_column(head, overflow="fold")
    for head in (stated, "ours", "off by"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("")
    for cell in cells:
        printed, off = cell.printed, cell.off
        digits = 0 if printed.kind == "tensors" else 2
        table.add_row(
            printed.name,
            _description(printed),
            _with_spread(printed.value, printed.std, digits),
            _ours(cell, digits),
            "–" if off is None else f"{off:+z,.{digits}f}",
            _coloured(cell.status),
        )
    table.caption = " ".join(_allowances(cells))
    return table


def _description(printed: Printed) -> str:
    """What the number describes: a size, or a group of runs, with the metric if not accuracy."""
    if printed.kind in _SIZES:
        return _SIZES[printed.kind]
    return " ".join([printed.group, *_KINDS.get(printed.kind, ())])


def _allowances(cells: Sequence[ReproducedCell]) -> Iterator[str]:
    compared = [cell.printed for cell in cells if not cell.printed.not_comparable]
    allowed = sorted({printed.allowed for printed in compared if not printed.note})
    if allowed:
        yield f"inside: off by at most {' or '.join(f'{off:g}' for off in allowed)}."
    for note in dict.fromkeys(printed.note for printed in compared if printed.note):
        noted = [printed for printed in compared if printed.note == note]
        labels = ", ".join(dict.fromkeys(printed.label for printed in noted))
        yield f"{labels}, allowed {noted[0].allowed:g}: {note}."
    reasons = (cell.printed.not_comparable for cell in cells if cell.printed.not_comparable)
    for reason in dict.fromkeys(reasons):
        yield f"not comparable: {reason}."


def order_table(orders: Sequence[Order]) -> Table:
    """A row per clear order among printed scores."""
    table = plain_table(
        "printed ROC-AUCs that differ by more than the sum of their standard deviations"
    )
    for head in ("runs", "higher", "lower"):
        table.add_column(head, overflow="fold")
    table.add_column("our difference", justify="right", no_wrap=True)
    table.add_column("")
    for order in orders:
        gap = "–" if order.gap is None else f"{order.gap:+.2f}"
        table.add_row(order.group, order.higher, order.lower, gap, _verdict(order.holds))
    return table


def saving_table(rows: Sequence[Saving], title: str, claim: bool = True) -> Table:
    """A row per method that sends less: points gained, and the share of the baseline's traffic."""
    table = plain_table(title)
    for head in ("runs", "method"):
        table.add_column(head, overflow="fold")
    for head in ("seeds", "points", "worst seed", "tensors up", "bytes up", "both ways"):
        table.add_column(head, justify="right", no_wrap=True)
    if claim:
        table.add_column("as good for less")
        table.add_column("worst seed no lower")
    for row in rows:
        verdicts = (_verdict(row.as_good_for_less), _verdict(row.worst_no_lower)) if claim else ()
        table.add_row(
            row.group,
            row.label,
            str(row.seeds),
            f"{row.gain:+.2f}",
            f"{row.worst:+.2f}",
            *(f"{100 * share:.1f} %" for share in (row.tensors_up, row.bytes_up, row.bytes_both)),
            *verdicts,
        )
    if claim:
        table.caption = (
            f"as good for less: loses at most {POINTS_LOST:g} points and sends at most "
            f"{100 * SHARE_SENT:g} % of the bytes, both ways; worst seed no lower: its worst seed "
            "scores no lower than FedAvg's"
        )
    return table


def _coloured(word: str) -> str:
    colour = _COLOURS.get(word)
    return f"[{colour}]{word}[/]" if colour else word


def _verdict(holds: bool | None) -> str:
    return _coloured({True: "holds", False: "does not", None: "not run"}[holds])


def _ours(cell: ReproducedCell, digits: int) -> str:
    if cell.mean is None:
        return "–"
    if cell.printed.kind in _SIZES:
        return f"{round(cell.mean * 256):,}: {cell.mean:.3f}"
    if cell.printed.shape is not None:
        return f"{cell.mean:,.0f}"
    return f"{_with_spread(cell.mean, cell.spread, digits)} ({len(cell.ours)})"


def _with_spread(mean: float, spread: float | None, digits: int = 2) -> str:
    return f"{mean:,.{digits}f}" + ("" if spread is None else f" ± {spread:,.{digits}f}")
