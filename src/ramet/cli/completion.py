"""Shell completion of names."""

from __future__ import annotations

from collections.abc import Callable

from ramet.source_names import dict_keys


def _keys_of(file: str, name: str) -> Callable[[str], list[str]]:
    """Complete the keys of a dict in a source file, which is parsed and not imported."""

    def complete(incomplete: str) -> list[str]:
        return [word for word in dict_keys(file, name) if word.startswith(incomplete)]

    return complete


method = _keys_of("methods/__init__.py", "METHODS")
activation = _keys_of("methods/__init__.py", "ACTIVATIONS")
merge = _keys_of("methods/__init__.py", "MERGES")
setting = _keys_of("partition/__init__.py", "SETTINGS")
tracker = _keys_of("tracking/trackers.py", "TRACKERS")
