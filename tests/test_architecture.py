"""Who may import whom: the house plan, held by a test."""

from __future__ import annotations

import ast
from pathlib import Path

import ramet

ROOT = Path(ramet.__file__).parent
GROUND = {"errors", "events", "randomness"}
CORE = GROUND | {"payload", "data", "models", "tasks", "metrics", "methods", "engine"}
MAY_IMPORT = {
    "errors": set(),
    "events": {"errors"},
    "randomness": set(),
    "payload": GROUND,
    "data": GROUND,
    "models": GROUND | {"data"},
    "partition": GROUND | {"data"},
    "tasks": GROUND | {"data", "models"},
    "metrics": GROUND | {"payload"},
    "methods": GROUND | {"payload", "models", "tasks", "metrics"},
    "engine": GROUND | {"payload", "models", "tasks", "methods", "metrics"},
    "options": GROUND,
    "completion": set(),
    "experiment": CORE | {"options", "partition"},
    "run_folder": CORE | {"experiment"},
    "tracking": CORE | {"experiment", "run_folder"},
    "flower": CORE | {"options", "experiment", "run_folder"},
    "deploy": CORE | {"experiment", "run_folder", "flower"},
    "runs": CORE | {"experiment", "run_folder", "flower", "tracking"},
    "archive": CORE | {"experiment", "run_folder"},
    "inspection": CORE | {"experiment"},
    "sweeps": CORE | {"options", "experiment", "run_folder", "runs", "archive"},
    "reproduction": CORE | {"partition", "experiment", "archive", "sweeps"},
    "report": GROUND | {"metrics", "experiment"},
    "cli": CORE
    | {"partition", "experiment", "run_folder", "runs", "report", "flower", "options", "sweeps"}
    | {"reproduction", "archive", "inspection", "deploy", "tracking", "completion"},
    "__main__": {"cli"},
    "__init__": CORE | {"archive", "partition", "runs"},
}


def _room(path: Path) -> str:
    first = path.relative_to(ROOT).parts[0]
    return first.removesuffix(".py")


def _imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_rooms_import_only_what_the_plan_allows() -> None:
    wrong = []
    for path in sorted(ROOT.rglob("*.py")):
        room = _room(path)
        for name in _imports(path):
            parts = name.split(".")
            if parts[0] != "ramet" or len(parts) < 2 or parts[1] == room:
                continue
            is_room = (ROOT / parts[1]).is_dir() or (ROOT / f"{parts[1]}.py").exists()
            if is_room and parts[1] not in MAY_IMPORT[room]:
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert not wrong


def test_every_room_is_in_the_plan() -> None:
    rooms = {_room(path) for path in ROOT.rglob("*.py")}
    assert rooms == set(MAY_IMPORT)


def test_flower_is_imported_in_its_room_only() -> None:
    outside = [
        path
        for path in ROOT.rglob("*.py")
        if _room(path) != "flower" and any(n.split(".")[0] == "flwr" for n in _imports(path))
    ]
    assert not outside
