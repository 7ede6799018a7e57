"""Formatting of numbers, and of tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isnan

_OPERATIONS = (("G", 1e9), ("M", 1e6), ("k", 1e3))


def size(count: float) -> str:
    """Format a number of bytes with the largest unit that fits."""
    for unit in ("B", "KB", "MB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.2f} {unit}"
        count /= 1024
    return f"{count:.2f} GB"


def plural(count: int, noun: str) -> str:
    """`1 seed`, `2 seeds`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def percent(share: float | None) -> str:
    return "–" if share is None or isnan(share) else f"{100 * share:.2f}"


def operations_unit(counts: Iterable[float | None]) -> tuple[str, float]:
    """The largest unit of operations, and its size, of which the smallest count is a tenth."""
    smallest = min((count for count in counts if count), default=0.0)
    fitting = [unit for unit in _OPERATIONS if unit[1] <= 10 * smallest]
    return (fitting or _OPERATIONS)[0]


def operations(count: float | None) -> str:
    """Format floating-point operations. A multiply-add counts as two."""
    unit, factor = operations_unit([count])
    return "–" if count is None else f"{count / factor:.2f} {unit}"


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"| {head} " if head else "| " for head in heads) + "|"
    return "\n".join([head, "|---" * len(heads) + "|", *(f"| {' | '.join(row)} |" for row in rows)])


def short_names(labels: Sequence[str]) -> list[str]:
    """The labels without options that all of them give, if they then still differ."""
    parts = [label.split(",") for label in labels]
    common = set.intersection(*({word.partition("=")[0] for word in words[1:]} for words in parts))
    short = [
        ",".join(word for word in words if word.partition("=")[0] not in common) for words in parts
    ]
    return short if len(set(short)) == len(short) else [*labels]
