"""Scores on new data beside those of the test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table

from ramet.metrics.bootstrap import Score
from ramet.prediction import Against, BesideTest
from ramet.prediction.lines import Line
from ramet.report.plain_table import plain_table
from ramet.scale import Scale

INTERVALS = "intervals: of other samples for the same model"


def beside_table(found: BesideTest) -> Table:
    """A row per metric: the test, the new data, and their difference, with 95 % intervals."""
    if found.test is None:
        heads = {found.name: len(found.new.labels)}
        return _table(f"{found.client}: {found.name}", heads, found.lines)
    heads = {"test": len(found.test.labels), found.name: len(found.new.labels)}
    table = _table(f"{found.client}: {found.name} beside the test", heads, found.lines)
    table.caption = f"{INTERVALS}; p: a permutation test that both have samples of the same kind"
    return table


def against_table(found: Against) -> Table:
    """A row per metric: the model in use, the new one, and their difference, with intervals."""
    new, other = found.runs
    samples = len(found.scored[0].predictions.labels)
    table = _table(
        f"{found.client}: {new} against {other} on {found.name}",
        {other: samples, new: samples},
        found.lines,
    )
    table.caption = f"{INTERVALS}; p: a paired permutation test that the models are equally good"
    return table


def _table(title: str, heads: Mapping[str, int], lines: Sequence[Line]) -> Table:
    """A row per metric, with 95 % intervals; two heads with their numbers of samples, or one."""
    table, are_two = plain_table(title), len(heads) == 2
    table.add_column("metric", overflow="fold")
    for head in (*heads, *(["difference"] if are_two else [])):
        table.add_column(head, justify="right")
        table.add_column("95 % interval", justify="right", no_wrap=True)
    counts = (cell for samples in heads.values() for cell in (f"{samples:,}", ""))
    table.add_row("samples", *counts, *(["", ""] if are_two else []))
    for line in lines:
        scores = [line.other, line.new, line.difference] if are_two else [line.new]
        row = [cell for score in scores for cell in cells(score, line.scale)]
        if line.difference is not None and are_two:
            row[4] = line.scale.change(line.difference.value)
        table.add_row(f"{line.metric}{line.scale.suffix}", *row)
    table.caption = INTERVALS
    return table


def cells(score: Score | None, scale: Scale) -> tuple[str, str]:
    if score is None:
        return "", ""
    if score.low is None or score.high is None:
        return scale.shown(score.value, 1), ""
    return scale.shown(
        score.value, 1
    ), f"[{scale.shown(score.low, 1)}, {scale.shown(score.high, 1)}]"
