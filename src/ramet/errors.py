"""The error shown to users: one line with what was expected, what was received, what to do."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from difflib import get_close_matches


def one_line(text: str) -> str:
    """The text with line breaks, control and direction characters written as escapes.

    For text that may come from another party: otherwise it could look like lines of our own.
    """
    if text.isprintable():
        return text
    return "".join(map(_visible, text))


def _visible(char: str) -> str:
    plain = char.isprintable() or unicodedata.category(char) == "Zs"
    return char if plain else char.encode("unicode_escape").decode()


class RametError(Exception):
    """A mistake that the user can fix; the command line prints it as one line and exits with 2."""

    def __str__(self) -> str:
        return one_line(super().__str__())

    def _render_traceback_(self) -> list[str]:
        """What IPython shows instead of a traceback."""
        return [f"{type(self).__name__}: {self}"]


class RametWarning(UserWarning):
    """Something that the user should know; the command line prints it as one line."""


def unknown(kind: str, name: str, choices: Iterable[str]) -> RametError:
    """The error for an unknown name: suggests the closest match and lists the choices."""
    known = sorted(choices)
    near = get_close_matches(name, known, n=1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    return RametError(f"unknown {kind} '{name}'.{hint} Choose one of: {', '.join(known)}.")
