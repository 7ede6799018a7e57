"""Who imports whom: the house plan of docs/decisions/05-house.md, measured from the code."""

from __future__ import annotations

import ast
from pathlib import Path

import ramet

ROOT = Path(ramet.__file__).parent
IMPORTS: dict[str, set[str]] = {  # from the ground floor up
    "version": set(),
    "errors": set(),
    "source_names": set(),
    "randomness": set(),
    "metrics": set(),
    "events": {"errors"},
    "payload": {"errors"},
    "options": {"errors"},
    "data/graphs": {"errors"},
    "data": {"data/graphs", "errors"},
    "data/sources": {"data", "data/graphs", "errors"},
    "data/own": {"data", "data/graphs", "errors", "version"},
    "partition": {"data", "data/graphs", "data/own", "data/sources", "errors", "options"},
    "models": {"data", "data/graphs"},
    "tasks": {"data", "data/graphs", "data/own", "errors", "models"},
    "methods": {"errors", "models", "options", "payload", "randomness", "tasks"},
    "engine": {"errors", "events", "methods", "metrics", "payload", "randomness", "tasks"},
    "experiment": {"data/own", "engine", "errors", "events", "methods", "metrics", "options"}
    | {"partition", "payload", "tasks"},
    "flower": {"data/own", "engine", "errors", "events", "experiment", "methods", "metrics"}
    | {"options", "payload", "randomness"},
    "tracking": {"engine", "errors", "experiment", "metrics"},
    "runs": {"engine", "errors", "experiment", "flower", "metrics", "tracking"},
    "deploy": {"data/own", "engine", "errors", "events", "experiment", "flower", "metrics"},
    "studies": {"errors", "experiment", "methods", "metrics", "models", "options", "partition"}
    | {"runs"},
    "report": {"engine", "errors", "experiment", "metrics", "partition", "studies"},
    "cli": {"data/own", "deploy", "engine", "errors", "experiment", "flower", "methods", "metrics"}
    | {"options", "partition", "report", "runs", "source_names", "studies", "tracking", "version"},
    "__main__": {"cli"},
    "__init__": {"errors", "methods", "partition", "runs", "source_names", "studies", "version"},
}
"""What each room imports, no more and no less; `__init__` is what users import."""


def _room(parts: tuple[str, ...]) -> str:
    """A room is a file or folder of the package; the folders in `data` are rooms of their own."""
    first = parts[0].removesuffix(".py")
    if first == "data" and len(parts) > 1 and (ROOT / "data" / parts[1]).is_dir():
        return f"data/{parts[1]}"
    return first


def _modules(path: Path) -> set[str]:
    """Every module that a file imports, at its top or inside a function."""
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


def _measured() -> dict[str, set[str]]:
    rooms: dict[str, set[str]] = {}
    for path in ROOT.rglob("*.py"):
        room = _room(path.relative_to(ROOT).parts)
        imported = rooms.setdefault(room, set())
        for module in _modules(path):
            package, *parts = module.split(".")
            if package == "ramet" and _exists(tuple(parts)):
                imported |= {_room(tuple(parts))} - {room}
    return rooms


def test_every_room_imports_exactly_what_the_plan_says() -> None:
    assert _measured() == IMPORTS


def test_rooms_import_only_rooms_below_them() -> None:
    floors = list(IMPORTS)
    upwards = [
        f"{room} imports {other}"
        for room, imported in IMPORTS.items()
        for other in imported
        if floors.index(other) >= floors.index(room)
    ]
    assert not upwards


def test_no_room_imports_the_public_interface() -> None:
    from_inside = [
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("*.py")
        if "ramet" in _modules(path) and path != ROOT / "__init__.py"
    ]
    assert not from_inside


def test_flower_is_imported_in_its_room_only() -> None:
    outside = [
        path
        for path in ROOT.rglob("*.py")
        if _room(path.relative_to(ROOT).parts) != "flower"
        and any(module.split(".")[0] == "flwr" for module in _modules(path))
    ]
    assert not outside
