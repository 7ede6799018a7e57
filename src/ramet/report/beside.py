"""Scores on new data beside those of the test."""

from __future__ import annotations

from rich.table import Table

from ramet.metrics.bootstrap import Score
from ramet.prediction import BesideTest
from ramet.report.plain_table import plain_table
from ramet.scale import Scale


def beside_table(found: BesideTest) -> Table:
    """A row per metric: the test, the new data, and their difference, with 95 % intervals."""
    has_test = found.test is not None
    table = plain_table(f"{found.client}: {found.name}{' beside the test' if has_test else ''}")
    table.add_column("metric", overflow="fold")
    heads = ["test", found.name, "difference"] if has_test else [found.name]
    for head in heads:
        table.add_column(head, justify="right")
        table.add_column("95 % interval", justify="right", no_wrap=True)
    if found.test is not None:
        samples = [f"{len(one.labels):,}" for one in (found.test, found.new)]
        table.add_row("samples", samples[0], "", samples[1], "", "", "")
    else:
        table.add_row("samples", f"{len(found.new.labels):,}", "")
    for line in found.lines:
        scores = [line.test, line.new, line.difference] if has_test else [line.new]
        cells = [cell for score in scores for cell in _cells(score, line.scale)]
        if line.difference is not None and has_test:
            cells[4] = line.scale.change(line.difference.value)
        table.add_row(f"{line.metric}{line.scale.suffix}", *cells)
    table.caption = "intervals: of other samples for the same model"
    if found.test is not None:
        table.caption += "; p: a permutation test that both have samples of the same kind"
    return table


def _cells(score: Score | None, scale: Scale) -> tuple[str, str]:
    if score is None:
        return "", ""
    if score.low is None or score.high is None:
        return scale.shown(score.value, 1), ""
    return scale.shown(
        score.value, 1
    ), f"[{scale.shown(score.low, 1)}, {scale.shown(score.high, 1)}]"
