"""Completion of names by the shell."""

from __future__ import annotations

from collections.abc import Callable

from ramet.source_names import dict_keys


def _from(file: str, name: str) -> Callable[[str], list[str]]:
    """A completion for Typer: the names that start with what was typed."""

    def complete(incomplete: str) -> list[str]:
        return [word for word in dict_keys(file, name) if word.startswith(incomplete)]

    return complete


method = _from("methods/__init__.py", "METHODS")
activation = _from("methods/__init__.py", "ACTIVATIONS")
merge = _from("methods/__init__.py", "MERGES")
setting = _from("partition/__init__.py", "SETTINGS")
tracker = _from("tracking/trackers.py", "TRACKERS")
