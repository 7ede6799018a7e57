"""Fills in the table of a run's options, from their declarations."""

from __future__ import annotations

from typing import Any

from ramet.run_options import OPTIONS

MARK = "<!-- options of a run -->"


def table() -> str:
    """One row per option, grouped as in `ramet run --help`."""
    shown = sorted((one for one in OPTIONS.values() if one.flag), key=lambda one: one.option.panel)
    rows = [
        f"| {one.option.panel} | `{one.flag}` | `{one.name}` | {_code(one.shown_default)} | "
        f"{_text(one.option.help)} |"
        for one in shown
    ]
    head = "| | option | keyword | default | |\n|---|---|---|---|---|"
    return "\n".join([head, *rows])


def _text(text: str) -> str:
    """Brackets would be taken for a link."""
    return text.replace("|", "&#124;").replace("[", "&#91;")


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def on_page_markdown(markdown: str, **_: Any) -> str:
    return markdown.replace(MARK, table())
