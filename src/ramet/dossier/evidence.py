"""Sentences with evidence: the files that show them, each with its SHA-256."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TypeAlias

from ramet.errors import RametError

_SHOWN = 12
"""Digits of a SHA-256 in a sentence; the table at the end has all of them."""
_STYLE = (
    "body{font:16px/1.5 sans-serif;max-width:50em;margin:2em auto;padding:0 1em}"
    "li{margin:.3em 0}small{color:#666}li,td{overflow-wrap:anywhere}td{vertical-align:top}"
)
_PREFACE = (
    "After each sentence stand the files of the run's folder that show it, with the start of their "
    "SHA-256; the last section has all of it, for `sha256sum`. It shows that a file is the same, "
    "not that whoever wrote it was honest."
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
        if not self.evidence:
            raise RametError(f"no file shows this: {self.text}")


@dataclass(frozen=True)
class Missing:
    """What a reader asks for and the folder does not show, and who or what would."""

    what: str
    how: str


Line: TypeAlias = Sentence | Missing


@dataclass(frozen=True)
class Dossier:
    """A document: sections with sentences, and with what is missing."""

    title: str
    sections: tuple[tuple[str, tuple[Line, ...]], ...]

    def sentences(self) -> Iterator[Sentence]:
        for _, lines in self.sections:
            yield from (line for line in lines if isinstance(line, Sentence))

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
        rows = [f"| `{path}` | `{sha256}` |" for path, sha256 in self.evidence.items()]
        table = "\n".join(["| file | SHA-256 |", "|---|---|", *rows])
        return "\n\n".join([*parts, "## Evidence", table]) + "\n"

    def html(self) -> str:
        parts = [f"<h1>{escape(self.title)}</h1><p>{_with_code(_PREFACE)}</p>"]
        for head, lines in self.sections:
            items = "".join(f"<li>{_html(line)}</li>" for line in lines)
            parts.append(f"<h2>{escape(head)}</h2><ul>{items}</ul>")
        rows = "".join(
            f"<tr><td><code>{escape(path)}</code></td><td><code>{sha256}</code></td></tr>"
            for path, sha256 in self.evidence.items()
        )
        parts.append(f"<h2>Evidence</h2><table>{rows}</table>")
        head = f'<!doctype html><meta charset="utf-8"><title>{escape(self.title)}</title>'
        return f"{head}<style>{_STYLE}</style>\n" + "\n".join(parts) + "\n"


def _markdown(line: Line) -> str:
    if isinstance(line, Missing):
        return f"- **Missing:** {line.what}. {line.how}"
    return f"- {line.text} [{_cited(line.evidence, '`')}]"


def _html(line: Line) -> str:
    if isinstance(line, Missing):
        return f"<b>Missing:</b> {_with_code(f'{line.what}. {line.how}')}"
    return f"{escape(line.text)} <small>[{escape(_cited(line.evidence, ''))}]</small>"


def _with_code(text: str) -> str:
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def _cited(evidence: Sequence[Evidence], quote: str) -> str:
    return ", ".join(f"{quote}{one.path}{quote} {one.sha256[:_SHOWN]}" for one in evidence)
