"""Tables of many runs: comparisons of methods."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from ramet.metrics.summary import common_metric
from ramet.report.plain_table import plain_table
from ramet.report.text import operations_unit, plural
from ramet.scale import PERCENT, Scale, common_scale
from ramet.studies.comparison import Standing

_ALPHA = 0.05


def comparison_table(rows: Sequence[Standing], setting: str, target: float | None) -> Table:
    """A row per method, in the given order."""
    draws = {(row.splits, row.seeds) for row in rows}
    same_draws, several_splits = len(draws) == 1, any(row.splits > 1 for row in rows)
    unequal = f"{'splits × ' if several_splits else ''}seeds (number after each method)"
    over = _draws(rows[0]) if same_draws else unequal
    metric, scale = common_metric(row.metric for row in rows), scale_of(rows)
    table = plain_table(f"{setting}: test {metric}{scale.suffix}, mean ± std over {over}")
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
        table.caption += f"; to {scale.factor * target:g}: rounds needed to reach that score"
    return table


def gain_table(rows: Sequence[Standing], margin: float | None) -> Table:
    """The gain of each method that is compared, and what is known about it."""
    compared = [row for row in rows if row.gain is not None]
    over = next((row.label for row in rows if row.gain is None), "")
    scale = scale_of(rows)
    metric = common_metric(row.metric for row in rows)
    unit = "points" if scale.unit == PERCENT else scale.unit or metric
    table = plain_table(f"gain over {over} in {unit}, after the last round")
    table.add_column("method", overflow="fold")
    columns = {
        "gain": [_gain(row.gain, scale) for row in compared],
        "95 % interval": [_interval(row) for row in compared],
        "effect": ["–" if row.effect is None else f"{row.effect:+.2f}" for row in compared],
        "p": [_p(row.p_value) for row in compared],
        "p (Holm)": [_p(row.p_holm) for row in compared],
    }
    if margin is not None:
        columns[f"as good, ±{scale.factor * margin:g}"] = [
            _equivalence(row, margin) for row in compared
        ]
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


def scale_of(rows: Sequence[Standing]) -> Scale:
    return common_scale(row.scale for row in rows)


def _gain(gain: float | None, scale: Scale) -> str:
    return "–" if gain is None else scale.change(gain, 2)


def _interval(row: Standing) -> str:
    if row.gain_low is None or row.gain_high is None:
        return "–"
    return f"[{_gain(row.gain_low, row.scale)}, {_gain(row.gain_high, row.scale)}]"


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
        "last round": [_with_spread(row.test, row.spread, row.scale) for row in rows],
        "last ten": [row.scale.shown(row.test_last_ten) for row in rows],
        "best val": [row.scale.shown(row.test_at_best_val) for row in rows],
        "all data": [_with_spread(row.overview, row.overview_spread, row.scale) for row in rows],
        "gain": [_gain(row.gain, row.scale) for row in rows],
        "p": [_p(row.p_value) for row in rows],
        "scalars": [f"{row.scalars:,.0f}" for row in rows],
        "up KB": [f"{row.up_per_client_round / 1024:.2f}" for row in rows],
        f"{unit}FLOPs": ["–" if one is None else f"{one / factor:.2f}" for one in flops],
    }
    if len({(row.rounds, row.epochs) for row in rows}) > 1:
        columns["rounds"] = [f"{row.rounds:.0f}" for row in rows]
        columns["epochs"] = ["–" if row.epochs is None else f"{row.epochs:.0f}" for row in rows]
    if target is not None:
        columns[f"to {scale_of(rows).factor * target:g}"] = [
            "not by all" if row.rounds_to_target is None else f"{row.rounds_to_target:.0f}"
            for row in rows
        ]
    if all(row.overview is None for row in rows):
        del columns["all data"]
    return columns


def _with_spread(mean: float | None, spread: float | None, scale: Scale) -> str:
    return scale.shown(mean) + ("" if spread is None else f" ± {scale.shown(spread)}")
