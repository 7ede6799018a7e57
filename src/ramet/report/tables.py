"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from ramet.metrics import Standing


def size(count: float) -> str:
    """Bytes as people read them."""
    for unit in ("B", "KB", "MB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.2f} {unit}"
        count /= 1024
    return f"{count:.2f} GB"


def percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.2f}"


def comparison_table(rows: Sequence[Standing], setting: str, target: float | None) -> Table:
    """A row per method, in the order asked for."""
    table = Table(title=f"{setting}: test accuracy %, mean ± std over seeds")
    table.add_column("method")
    heads = ["seeds", "last round", "best validation", "gain", "p", "up per client and round"]
    for head in [*heads, *([f"rounds to {percent(target)}"] if target is not None else [])]:
        table.add_column(head, justify="right")
    for row in rows:
        spread = "" if row.spread is None else f" ± {percent(row.spread)}"
        cells = [
            str(row.seeds),
            percent(row.test) + spread,
            percent(row.test_at_best_val),
            "–" if row.gain is None else f"{100 * row.gain:+.2f}",
            "–" if row.chance is None else f"{row.chance:.3f}",
            size(row.up_per_client_round),
        ]
        if target is not None:
            reached = row.rounds_to_target
            cells.append("not by all" if reached is None else f"{reached:.0f}")
        table.add_row(row.label, *cells)
    return table


def result_table(summary: Mapping[str, Any]) -> Table:
    """A row per client and their mean, with what crossed the wire below."""
    scores, traffic = summary["scores"], summary["traffic"]
    table = Table(title=f"{summary['method']} on {summary['setting']}, seed {summary['seed']}")
    table.add_column("client")
    table.add_column("test accuracy %", justify="right")
    table.add_column("model scalars", justify="right")
    for client, score in scores["clients"].items():
        table.add_row(client, percent(score), f"{summary['model']['scalars'][client]:,}")
    table.add_section()
    table.add_row("mean, last round", percent(scores["test"]), "")
    table.add_row(
        f"mean, round {scores['best_val_round']} (best validation)",
        percent(scores["test_at_best_val"]),
        "",
    )
    table.caption = (
        f"{summary['model']['shared_scalars']:,} scalars shared; "
        f"{size(traffic['up_per_client_round'])} up and "
        f"{size(traffic['down_per_client_round'])} down per client and round, "
        f"{size(traffic['total'])} in all"
    )
    return table
