"""The import rules of docs/decisions/05-house.md, checked against the code."""

from __future__ import annotations

import ast
from pathlib import Path

import ramet

ROOT = Path(ramet.__file__).parent
IMPORTS: dict[str, set[str]] = {  # from the lowest layer up
    "version": set(),
    "errors": set(),
    "disk": set(),
    "source_names": set(),
    "randomness": set(),
    "metrics": set(),
    "events": {"errors"},
    "payload": {"errors"},
    "secure": {"errors", "payload"},
    "user_code": {"errors"},
    "options": {"errors", "user_code"},
    "privacy": {"errors", "options"},
    "policy": {"errors", "payload", "privacy"},
    "data/graphs": {"errors"},
    "data": {"data/graphs", "errors"},
    "data/sources": {"data", "data/graphs", "errors"},
    "data/own": {"data", "data/graphs", "errors", "version"},
    "partition": {"data", "data/graphs", "data/own", "data/sources", "errors", "options"},
    "models": {"data", "data/graphs", "errors"},
    "tasks": {"data", "data/graphs", "data/own", "errors", "metrics", "models"},
    "methods": {"errors", "models", "options", "payload", "privacy", "randomness", "tasks"},
    "engine": {"disk", "errors", "events", "methods", "metrics", "models", "payload", "policy"}
    | {"privacy", "randomness", "secure", "tasks"},
    "experiment": {"data", "data/own", "disk", "engine", "errors", "events", "methods", "metrics"}
    | {"models", "options", "partition", "payload", "privacy", "randomness", "secure", "tasks"}
    | {"user_code", "version"},
    "prediction": {"data", "data/graphs", "data/own", "disk", "engine", "errors", "experiment"}
    | {"models", "payload"},
    "flower": {"data/own", "disk", "engine", "errors", "events", "experiment", "methods", "metrics"}
    | {"options", "payload", "policy", "privacy", "randomness"},
    "tracking": {"engine", "errors", "experiment", "metrics"},
    "leak": {"data", "engine", "errors", "experiment", "methods", "payload", "randomness", "tasks"},
    "export": {"data", "data/graphs", "data/own", "errors", "experiment", "leak", "methods"}
    | {"metrics", "models", "options", "prediction", "privacy", "tasks", "version"},
    "notebook": {"errors", "metrics"},
    "runs": {"engine", "errors", "experiment", "export", "flower", "methods", "metrics", "notebook"}
    | {"options", "prediction", "tracking"},
    "deploy": {"data/own", "disk", "engine", "errors", "events", "experiment", "flower", "methods"}
    | {"metrics", "policy", "secure", "tasks"},
    "studies": {"disk", "engine", "errors", "events", "experiment", "methods", "metrics", "models"}
    | {"options", "partition", "payload", "randomness", "runs", "tasks", "tracking"},
    "report": {"data/own", "disk", "engine", "errors", "experiment", "leak", "metrics", "partition"}
    | {"prediction", "studies"},
    "cli": {"data/own", "deploy", "disk", "engine", "errors", "experiment", "export", "flower"}
    | {"leak", "methods", "metrics", "options", "partition", "payload", "policy", "prediction"}
    | {"report", "runs", "source_names", "studies", "tracking", "version"},
    "__main__": {"cli"},
    "__init__": {"errors", "methods", "partition", "runs", "source_names", "studies", "version"},
}
"""Exactly what each unit of the package imports; `__init__` is what users import."""


def _unit(parts: tuple[str, ...]) -> str:
    """A unit is a file or folder of the package; the folders in `data` are separate units."""
    first = parts[0].removesuffix(".py")
    if first == "data" and len(parts) > 1 and (ROOT / "data" / parts[1]).is_dir():
        return f"data/{parts[1]}"
    return first


def _modules(path: Path) -> set[str]:
    """All modules that a file imports, at its top or inside functions."""
    modules = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return modules


def _exists(parts: tuple[str, ...]) -> bool:
    return bool(parts) and (
        (ROOT / parts[0]).is_dir() or (ROOT / parts[0]).with_suffix(".py").exists()
    )


def _actual_imports() -> dict[str, set[str]]:
    imports: dict[str, set[str]] = {}
    for path in ROOT.rglob("*.py"):
        unit = _unit(path.relative_to(ROOT).parts)
        imported = imports.setdefault(unit, set())
        for module in _modules(path):
            package, *parts = module.split(".")
            if package == "ramet" and _exists(tuple(parts)):
                imported |= {_unit(tuple(parts))} - {unit}
    return imports


def test_every_unit_imports_exactly_what_is_listed() -> None:
    assert _actual_imports() == IMPORTS


def test_units_import_only_lower_units() -> None:
    layers = list(IMPORTS)
    violations = [
        f"{unit} imports {other}"
        for unit, imported in IMPORTS.items()
        for other in imported
        if layers.index(other) >= layers.index(unit)
    ]
    assert not violations


def test_no_unit_imports_the_public_interface() -> None:
    violations = [
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("*.py")
        if "ramet" in _modules(path) and path != ROOT / "__init__.py"
    ]
    assert not violations


def test_only_the_flower_unit_imports_flower() -> None:
    outside = [
        path
        for path in ROOT.rglob("*.py")
        if _unit(path.relative_to(ROOT).parts) != "flower"
        and any(module.split(".")[0] == "flwr" for module in _modules(path))
    ]
    assert not outside
