"""Formatting of numbers."""

from __future__ import annotations


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
    return "–" if share is None else f"{100 * share:.2f}"


def operations(count: float | None) -> str:
    """Format floating-point operations in billions. A multiply-add counts as two."""
    return "–" if count is None else f"{count / 1e9:.2f} G"
