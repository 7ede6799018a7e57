"""Names that the shell completes.

They are read from the source of each room's dict, since importing the rooms would mean to wait
seconds for PyTorch at every press of the tab key.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

_HERE = Path(__file__).parent


def names_in(file: str, name: str) -> list[str]:
    """The keys of a dict in a file of ours, without importing it."""
    for statement in ast.parse((_HERE / file).read_text()).body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.value, ast.Dict):
            target, keys = statement.target, statement.value.keys
            if isinstance(target, ast.Name) and target.id == name:
                return [str(ast.literal_eval(key)) for key in keys if key is not None]
    raise LookupError(f"{file} has no dict {name}")


def exported(file: str) -> list[str]:
    """What `__all__` of a file of ours lists."""
    for statement in ast.parse((_HERE / file).read_text()).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            return list(ast.literal_eval(statement.value))
    raise LookupError(f"{file} has no __all__")


def _from(file: str, name: str) -> Callable[[str], list[str]]:
    """A completion for typer: the names that begin as the word does."""

    def complete(incomplete: str) -> list[str]:
        return [word for word in names_in(file, name) if word.startswith(incomplete)]

    return complete


method = _from("methods/__init__.py", "METHODS")
activation = _from("methods/__init__.py", "ACTIVATIONS")
merge = _from("methods/__init__.py", "MERGES")
setting = _from("partition/settings.py", "SETTINGS")
tracker = _from("tracking/following.py", "TRACKERS")
