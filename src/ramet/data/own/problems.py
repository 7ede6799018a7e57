"""Problems with a site's files, each with file, row and column."""

from __future__ import annotations

from dataclasses import dataclass, field

from ramet.errors import RametError

_MAX_LENGTH = 60
_MAX_KEPT = 10_000
"""Further problems are only counted, since they usually repeat the same mistake."""


@dataclass(frozen=True)
class Problem:
    """What is wrong in a file, with the row (numbered as in an editor) and column if known."""

    file: str
    text: str
    row: int | None = None
    column: str | None = None

    def __str__(self) -> str:
        row = f", row {self.row}" if self.row is not None else ""
        column = f", column '{self.column}'" if self.column is not None else ""
        end = "" if self.text.endswith("?") else "."
        return f"{self.file}{row}{column}: {self.text}{end}"


@dataclass
class Problems:
    """Collects problems, so that all of them are reported at once."""

    items: list[Problem] = field(default_factory=list)
    count: int = 0
    unused: dict[str, dict[str, None]] = field(default_factory=dict)
    """No problem, but worth saying: columns that nothing reads, by file."""
    notes: list[str] = field(default_factory=list)
    """No problem either: rows that were joined, added or dropped."""

    def add(self, file: str, text: str, row: int | None = None, column: str | None = None) -> None:
        self.count += 1
        if len(self.items) < _MAX_KEPT:
            self.items.append(Problem(file, text, row, column))

    def sorted(self) -> list[Problem]:
        """Sort by file, in the order in which files were read, and by row."""
        files = list(dict.fromkeys(problem.file for problem in self.items))
        return sorted(self.items, key=lambda problem: (files.index(problem.file), problem.row or 0))

    def __bool__(self) -> bool:
        return self.count > 0


def shown(text: str) -> str:
    """Quote a cell for printing, shortened and without control characters."""
    short = text if len(text) <= _MAX_LENGTH else f"{text[:_MAX_LENGTH]}…"
    return "'" + "".join(char if char.isprintable() else "?" for char in short) + "'"


def counted(count: int, noun: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


class SiteDataError(RametError):
    """A site's files have problems."""
