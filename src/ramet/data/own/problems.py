"""What is wrong with a site's files, each with its place."""

from __future__ import annotations

from dataclasses import dataclass, field

from ramet.errors import RametError

_LONGEST = 60
MOST = 10_000
"""Further problems are counted, not kept: a file full of them is one mistake made many times."""


@dataclass(frozen=True)
class Problem:
    """A file, if known a row (as an editor numbers lines) and a column, and what is wrong there."""

    file: str
    text: str
    row: int | None = None
    column: str | None = None

    def __str__(self) -> str:
        row = f", row {self.row}" if self.row is not None else ""
        column = f", column '{self.column}'" if self.column is not None else ""
        return f"{self.file}{row}{column}: {self.text}."


@dataclass
class Problems:
    """Collects problems, so that a site hears of all of them at once."""

    found: list[Problem] = field(default_factory=list)
    count: int = 0

    def add(self, file: str, text: str, row: int | None = None, column: str | None = None) -> None:
        self.count += 1
        if len(self.found) < MOST:
            self.found.append(Problem(file, text, row, column))

    def sorted(self) -> list[Problem]:
        """By file, in the order in which files were read, and row."""
        files = list(dict.fromkeys(problem.file for problem in self.found))
        return sorted(self.found, key=lambda one: (files.index(one.file), one.row or 0))

    def __bool__(self) -> bool:
        return self.count > 0


def shown(text: str) -> str:
    """A cell as it may be printed: in quotes, not too long, without signs that move the cursor."""
    short = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return "'" + "".join(sign if sign.isprintable() else "?" for sign in short) + "'"


class UnfitError(RametError):
    """A site's files cannot be used as they are."""
