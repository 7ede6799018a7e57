"""Read names from Ramet's source files without importing them.

Shell completion and `dir(ramet)` must be fast, but importing the modules that define these names
also imports PyTorch, which takes seconds.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

_HERE = Path(__file__).parent


def dict_keys(file: str, name: str) -> list[str]:
    """The keys of a module-level dict."""
    for statement in _statements(file):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.value, ast.Dict):
            target, keys = statement.target, statement.value.keys
            if isinstance(target, ast.Name) and target.id == name:
                return [str(ast.literal_eval(key)) for key in keys if key is not None]
    raise LookupError(f"{file} has no dict {name}")


@cache
def imported_names(file: str) -> dict[str, str]:
    """The module of each name that a file imports for type checkers."""
    checked = [s for s in _statements(file) if isinstance(s, ast.If)]
    imports = [one for s in checked for one in s.body if isinstance(one, ast.ImportFrom)]
    modules: dict[str, str] = {}
    for one in imports:
        module = one.module or ""
        for alias in one.names:
            own = module.replace(".", "/").removeprefix("ramet/") + "/__init__.py"
            names = _exported(own) if alias.name == "*" else [alias.name]
            modules |= dict.fromkeys(names, module)
    return modules


def _exported(file: str) -> list[str]:
    """What a module lists in `__all__`."""
    for statement in _statements(file):
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            return list(ast.literal_eval(statement.value))
    raise LookupError(f"{file} has no __all__")


def _statements(file: str) -> list[ast.stmt]:
    return ast.parse((_HERE / file).read_text()).body
