"""The one error that people see: a line that says what was expected, what came, what to do."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class RametError(Exception):
    """A mistake the user can mend; the command line prints it as one line and exits with 2."""


def unknown(kind: str, name: str, choices: Iterable[str]) -> RametError:
    """The error for a name that is not in its room's dict: lists the choices, nearest first."""
    known = sorted(choices)
    near = get_close_matches(name, known, n=1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    return RametError(f"unknown {kind} '{name}'.{hint} Choose one of: {', '.join(known)}.")
