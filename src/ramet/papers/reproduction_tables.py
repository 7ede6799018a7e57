"""Our numbers next to those of papers, as tables of the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table

from ramet.papers.printed import Printed
from ramet.papers.reproduction import Order, ReproducedCell
from ramet.papers.savings import POINTS_LOST, SHARE_SENT, Saving
from ramet.report.plain_table import plain_table
from ramet.studies.gains import Gain

_COLOURS = {"exact": "green", "holds": "green", "fails": "red"}
_SIZES = {"model_kb": "model KB", "payload_kb": "payload KB"}
_KINDS = {"auc": ("ROC-AUC",), "mrr": ("MRR",), "tensors": ("tensors",)}


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
        yield (
            "holds: with its 95 % interval (over splits, or the seeds of one split; at least five) "
            f"off by at most {' or '.join(f'{off:g}' for off in allowed)}."
        )
    for note in dict.fromkeys(printed.note for printed in compared if printed.note):
        noted = [printed for printed in compared if printed.note == note]
        labels = ", ".join(dict.fromkeys(printed.label for printed in noted))
        yield f"{labels}, allowed {noted[0].allowed:g}: {note}."
    reasons = (cell.printed.not_comparable for cell in cells if cell.printed.not_comparable)
    for reason in dict.fromkeys(reasons):
        yield f"other data: {reason}."


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
        gap = "–" if order.gain is None else _with_interval(order.gain)
        table.add_row(order.group, order.higher, order.lower, gap, _coloured(order.status))
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
    for row in rows:
        verdicts = (_coloured(row.as_good_for_less),) if claim else ()
        table.add_row(
            row.group,
            row.label,
            str(row.seeds),
            _with_interval(row.gain),
            f"{row.worst:+.2f}",
            *(f"{100 * share:.1f} %" for share in (row.tensors_up, row.bytes_up, row.bytes_both)),
            *verdicts,
        )
    if claim:
        table.caption = (
            "points: with the 95 % interval over common seeds; worst seed: its score minus that of "
            f"FedAvg's worst; as good for less: the interval is above −{POINTS_LOST:g} points, and "
            f"at most {100 * SHARE_SENT:g} % of the bytes are sent, both ways"
        )
    return table


def _coloured(word: str) -> str:
    colour = _COLOURS.get(word)
    return f"[{colour}]{word}[/]" if colour else word


def _with_interval(gain: Gain) -> str:
    """A gain in points, with its interval if there is one."""
    known = gain.low is not None and gain.high is not None
    return f"{gain.mean:+.2f}" + (f" [{gain.low:+.2f}, {gain.high:+.2f}]" if known else "")


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
