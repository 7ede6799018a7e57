"""Shell completion of names."""

from __future__ import annotations

from collections.abc import Callable

from ramet.source_names import dict_keys


def _keys_of(files: str, *names: str) -> Callable[[str], list[str]]:
    """Complete the keys of dicts in source files, which are parsed and not imported."""

    def complete(incomplete: str) -> list[str]:
        words = [word for file in files.split() for name in names for word in dict_keys(file, name)]
        return [word for word in words if word.startswith(incomplete)]

    return complete


method = _keys_of("methods/__init__.py", "METHODS", "PAPER_NAMES")
network = _keys_of("models/networks.py", "NETWORKS")
activation = _keys_of("methods/__init__.py", "ACTIVATIONS")
merge = _keys_of("methods/__init__.py", "MERGES", "SUMMATIONS")
release = _keys_of("methods/__init__.py", "RELEASES")
metric = _keys_of(
    "metrics/classification.py metrics/regression.py metrics/multilabel.py", "METRICS"
)
task = _keys_of("tasks/__init__.py", "TASKS")
setting = _keys_of("partition/__init__.py", "SETTINGS")
track = _keys_of("tracking/trackers.py", "TRACKERS")
