"""Authors' protocols: what they do differently, as a table of the terminal and of pages."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table

from ramet.papers.deviations import deviations, methods_of_papers, not_followed
from ramet.report.plain_table import list_table
from ramet.report.text import markdown_table

_HEADS = ("--set", "ours", "authors'", "where they say it")


def protocol_table(*methods: str) -> Table:
    """A row per option."""
    rows = [(one.option, one.ours, one.authors, one.where) for one in deviations(*methods)]
    return list_table(_HEADS, rows)


def protocols_markdown() -> str:
    """A table per paper, with what is not followed below it."""
    return "\n\n".join(part for methods in methods_of_papers() for part in _paper(methods))


def _paper(methods: tuple[str, ...]) -> Iterator[str]:
    names = [f"`{name}`" for name in methods]
    yield f"### {names[0] if len(names) == 1 else ', '.join(names[:-1]) + ' and ' + names[-1]}"
    found = deviations(*methods)
    rows = [(f"`{one.option}`", f"`{one.ours}`", one.authors, one.where) for one in found]
    yield markdown_table(("option", *_HEADS[1:]), rows)
    left = not_followed(methods[0])
    if left:
        yield "Not followed:\n\n" + "\n".join(f"- {one}" for one in left)
