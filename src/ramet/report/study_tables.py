"""Tables of many runs: comparisons of methods, and of our numbers with those of papers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table

from ramet.metrics.summary import common_metric
from ramet.report.plain_table import plain_table
from ramet.report.text import operations_unit, percent, plural
from ramet.studies.comparison import Standing
from ramet.studies.gains import Gain
from ramet.studies.printed import Printed
from ramet.studies.reproduction import Order, ReproducedCell
from ramet.studies.savings import POINTS_LOST, SHARE_SENT, Saving

_COLOURS = {"exact": "green", "holds": "green", "fails": "red"}
_ALPHA = 0.05
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
        "last ten: mean of the last ten rounds; best val: at the round with the best validation "
        "score; gain: over local, or over the first method, after the last round; p: see below; "
        "scalars: size of a client's model; up, FLOPs: per client and round"
    )
    if "epochs" in columns:
        table.caption += "; epochs: passes of a client over its training samples in all rounds"
    if "all data" in columns:
        table.caption += (
            "; all data: the server's model on all clients' data, at its best validation round"
        )
    if target is not None:
        table.caption += f"; to {100 * target:g}: rounds needed to reach that score"
    return table


def gain_table(rows: Sequence[Standing], margin: float | None) -> Table:
    """The gain of each method that is compared, and what is known about it."""
    compared = [row for row in rows if row.gain is not None]
    over = next((row.label for row in rows if row.gain is None), "")
    table = plain_table(f"gain over {over} in points, after the last round")
    table.add_column("method", overflow="fold")
    columns = {
        "gain": [_points(row.gain) for row in compared],
        "95 % interval": [_interval(row) for row in compared],
        "effect": ["–" if row.effect is None else f"{row.effect:+.2f}" for row in compared],
        "p": [_p(row.p_value) for row in compared],
        "p (Holm)": [_p(row.p_holm) for row in compared],
    }
    if margin is not None:
        columns[f"as good, ±{100 * margin:g}"] = [_equivalence(row, margin) for row in compared]
    for head in columns:
        table.add_column(head, justify="right", no_wrap=True)
    for cells in zip((row.label for row in compared), *columns.values(), strict=True):
        table.add_row(*cells)
    table.caption = (
        "interval and p: paired t-test over splits, corrected for their overlap, or over the seeds "
        "of one split, which covers the randomness of training only; p needs five pairs; effect: "
        "Cohen's d of the pairs; Holm: adjusted for the number of methods"
    )
    if margin is not None:
        table.caption += "; as good: p of two one-sided tests that the gain is within the margin"
    return table


def _points(gain: float | None) -> str:
    return "–" if gain is None else f"{100 * gain:+.2f}"


def _interval(row: Standing) -> str:
    if row.gain_low is None or row.gain_high is None:
        return "–"
    return f"[{_points(row.gain_low)}, {_points(row.gain_high)}]"


def _p(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _equivalence(row: Standing, margin: float) -> str:
    if row.as_good is None or row.gain_low is None or row.gain_high is None:
        return "–"
    if row.as_good < _ALPHA:
        return f"yes, p {row.as_good:.3f}"
    outside = row.gain_low > margin or row.gain_high < -margin
    return "no" if outside else f"undecided, p {row.as_good:.3f}"


def reversal_sentence(pairs: Sequence[tuple[str, str]]) -> str:
    """Which orders depend on the round that the scores are read at."""
    named = "; ".join(f"{first} and {second}" for first, second in pairs)
    return f"the order depends on the choice of the round for: {named}."


def _draws(row: Standing) -> str:
    """`5 seeds`, `3 splits × 5 seeds`."""
    splits = f"{plural(row.splits, 'split')} × " if row.splits > 1 else ""
    return splits + plural(row.seeds, "seed")


def _counts(row: Standing) -> str:
    return f"{row.splits} × {row.seeds}" if row.splits > 1 else str(row.seeds)


def standing_columns(rows: Sequence[Standing], target: float | None) -> dict[str, list[str]]:
    """The cells of each column by its heading.

    The column "all data" is left out if it is empty, and those of rounds and epochs if all methods
    were trained for the same time.
    """
    flops = [row.flops_per_client_round for row in rows]
    unit, factor = operations_unit(flops)
    columns = {
        "last round": [_percent_with_spread(row.test, row.spread) for row in rows],
        "last ten": [percent(row.test_last_ten) for row in rows],
        "best val": [percent(row.test_at_best_val) for row in rows],
        "all data": [_percent_with_spread(row.overview, row.overview_spread) for row in rows],
        "gain": [_points(row.gain) for row in rows],
        "p": [_p(row.p_value) for row in rows],
        "scalars": [f"{row.scalars:,.0f}" for row in rows],
        "up KB": [f"{row.up_per_client_round / 1024:.2f}" for row in rows],
        f"{unit}FLOPs": ["–" if one is None else f"{one / factor:.2f}" for one in flops],
    }
    if len({(row.rounds, row.epochs) for row in rows}) > 1:
        columns["rounds"] = [f"{row.rounds:.0f}" for row in rows]
        columns["epochs"] = ["–" if row.epochs is None else f"{row.epochs:.0f}" for row in rows]
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
            _with_interval(Gain(row.gain, row.gain_low, row.gain_high)),
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
