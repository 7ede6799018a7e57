"""Sentences with evidence: the files that show them, each with its SHA-256."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from pathlib import Path
from typing import TypeAlias

from ramet.errors import RametError
from ramet.report.text import markdown_table

_SHOWN = 12
"""Digits of a SHA-256 in a sentence; the table at the end has all of them."""
_STYLE = (
    "body{font:16px/1.5 sans-serif;max-width:50em;margin:2em auto;padding:0 1em}"
    "li{margin:.3em 0}small{color:#666}li,td{overflow-wrap:anywhere}td{vertical-align:top}"
    "table{border-collapse:collapse;margin:1em 0}th{text-align:left;vertical-align:bottom}"
    "th,td{border-bottom:1px solid #ddd;padding:.2em .5em .2em 0;min-width:3em}"
)
_EVIDENCE = "evidence"
_FOLDED = 3
"""How many files are shown unfolded."""
_PREFACE = (
    "After each sentence or row stand the files of the run's folder that show it, with the start "
    "of their SHA-256; the last section has all of it, for `sha256sum`. It shows that a file is "
    "the same, not that whoever wrote it was honest."
)


@dataclass(frozen=True)
class Evidence:
    """A file of the run's folder as it was when the dossier was written."""

    path: str
    sha256: str

    @staticmethod
    def of(folder: Path, path: Path) -> Evidence:
        try:
            content = path.read_bytes()
        except OSError as error:
            raise RametError(f"{path} is no evidence: it cannot be read.") from error
        return Evidence(str(path.relative_to(folder)), hashlib.sha256(content).hexdigest())


@dataclass(frozen=True)
class Sentence:
    """What some files show. There is no sentence without evidence."""

    text: str
    evidence: tuple[Evidence, ...]

    def __post_init__(self) -> None:
        _require(self.evidence, self.text)


def _require(evidence: Sequence[Evidence], text: str) -> None:
    if not evidence:
        raise RametError(f"no file shows this: {text}")


@dataclass(frozen=True)
class Missing:
    """What a reader asks for and the folder does not show, and who or what would."""

    what: str
    how: str


@dataclass(frozen=True)
class Table:
    """Sentences that differ in a name and in numbers: each is a row, with evidence of its own."""

    heads: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], tuple[Evidence, ...]], ...]

    def __post_init__(self) -> None:
        for cells, evidence in self.rows:
            _require(evidence, ", ".join(cells))

    def sentences(self) -> Iterator[Sentence]:
        for cells, evidence in self.rows:
            named = zip(self.heads, cells, strict=True)
            yield Sentence("; ".join(f"{head}: {cell}" for head, cell in named), evidence)

    @staticmethod
    def folded(
        heads: tuple[str, ...], rows: Iterable[tuple[tuple[str, ...], tuple[Evidence, ...]]]
    ) -> Table:
        """With one row for all whose first cells alone differ."""
        same: dict[tuple[str, ...], tuple[list[str], list[Evidence]]] = {}
        for (name, *cells), evidence in rows:
            names, cited = same.setdefault(tuple(cells), ([], []))
            names.append(name)
            cited.extend(evidence)
        return Table(
            heads,
            tuple(
                ((", ".join(names), *cells), tuple(dict.fromkeys(cited)))
                for cells, (names, cited) in same.items()
            ),
        )


Line: TypeAlias = Sentence | Missing | Table


@dataclass(frozen=True)
class Dossier:
    """A document: sections with sentences, and with what is missing."""

    title: str
    sections: tuple[tuple[str, tuple[Line, ...]], ...]

    def sentences(self) -> Iterator[Sentence]:
        for _, lines in self.sections:
            for line in lines:
                if isinstance(line, Table):
                    yield from line.sentences()
                elif isinstance(line, Sentence):
                    yield line

    def missing(self) -> Iterator[Missing]:
        for _, lines in self.sections:
            yield from (line for line in lines if isinstance(line, Missing))

    @property
    def evidence(self) -> dict[str, str]:
        """The SHA-256 of each file that is cited."""
        cited = {one.path: one.sha256 for own in self.sentences() for one in own.evidence}
        return dict(sorted(cited.items()))

    def markdown(self) -> str:
        parts = [f"# {self.title}", _PREFACE]
        for head, lines in self.sections:
            parts += [f"## {head}", "\n".join(map(_markdown, lines))]
        rows = [(f"`{path}`", f"`{sha256}`") for path, sha256 in self.evidence.items()]
        table = markdown_table(("file", "SHA-256"), rows)
        return "\n\n".join([*parts, "## Evidence", table]) + "\n"

    def html(self) -> str:
        parts = [f"<h1>{escape(self.title)}</h1><p>{_with_code(_PREFACE)}</p>"]
        for head, lines in self.sections:
            parts.append(f"<h2>{escape(head)}</h2>")
            for is_table, same in groupby(lines, lambda line: isinstance(line, Table)):
                blocks = "".join(map(_html, same))
                parts.append(blocks if is_table else f"<ul>{blocks}</ul>")
        files = [
            (f"<code>{escape(path)}</code>", f"<code>{sha256}</code>")
            for path, sha256 in self.evidence.items()
        ]
        parts.append(f"<h2>Evidence</h2>{_html_table(('file', 'SHA-256'), files)}")
        head = f'<!doctype html><meta charset="utf-8"><title>{escape(self.title)}</title>'
        return f"{head}<style>{_STYLE}</style>\n" + "\n".join(parts) + "\n"


def _markdown(line: Line) -> str:
    if isinstance(line, Missing):
        return f"- **Missing:** {line.what}. {line.how}"
    if isinstance(line, Table):
        rows = [(*cells, f"[{_cited(evidence, '`')}]") for cells, evidence in line.rows]
        return f"\n{markdown_table((*line.heads, _EVIDENCE), rows)}\n"
    return f"- {line.text} [{_cited(line.evidence, '`')}]"


def _html(line: Line) -> str:
    if isinstance(line, Missing):
        return f"<li><b>Missing:</b> {_with_code(f'{line.what}. {line.how}')}</li>"
    if isinstance(line, Table):
        cells = [(*map(_with_code, own), _html_cited(evidence)) for own, evidence in line.rows]
        return _html_table((*line.heads, _EVIDENCE), cells)
    return f"<li>{escape(line.text)} <small>[{escape(_cited(line.evidence, ''))}]</small></li>"


def _html_cited(evidence: Sequence[Evidence]) -> str:
    cited = f"<small>[{escape(_cited(evidence, ''))}]</small>"
    if len(evidence) <= _FOLDED:
        return cited
    return f"<details><summary>{len(evidence)} files</summary>{cited}</details>"


def _html_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    marked = "".join(f"<th>{escape(head)}</th>" for head in heads)
    lines = ("".join(f"<td>{cell}</td>" for cell in row) for row in rows)
    return f"<table><tr>{marked}</tr>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _with_code(text: str) -> str:
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def _cited(evidence: Sequence[Evidence], quote: str) -> str:
    return ", ".join(f"{quote}{one.path}{quote} {one.sha256[:_SHOWN]}" for one in evidence)
