"""The rules of docs/decisions/05-house.md, checked against the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TypeGuard

import ramet

ROOT = Path(ramet.__file__).parent
_LAYERS = """
version errors disk scale source_names run_options
randomness events run_progress payload secure user_code options privacy
metrics policy data/graphs data data/sources data/own partition models tasks training rules methods
engine/store engine engine/server engine/site engine/processes experiment prediction flower tracking
computing
leak export notebook runs forget deploy studies report dossier papers cli __main__ __init__
"""
LAYERS = _LAYERS.split()
"""The units of the package. Each imports only units before it; `__init__` is what users import."""
APART = {("engine/site", "engine/server"), ("engine", "methods"), ("engine/server", "methods")} | {
    ("engine/site", "methods"),
    ("engine/processes", "methods"),
}
"""Units that do not import others, although these are before them."""
LONGEST_FILE, LONGEST_CLASS, LONGEST_BODY = 400, 200, 60
"""In lines."""


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _files() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _unit(path: Path) -> str:
    """A unit is a file or folder of the package; the folders in some are separate units."""
    parts = path.relative_to(ROOT).parts
    first = parts[0].removesuffix(".py")
    return f"{first}/{parts[1]}" if first in ("data", "engine") and len(parts) > 2 else first


def _modules(path: Path) -> set[str]:
    """All modules that a file imports, at its top or inside functions."""
    modules = set()
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return modules


def _imported(path: Path) -> Iterator[Path]:
    """The files of the package that a file imports."""
    for module in _modules(path):
        package, *parts = module.split(".")
        if package == "ramet" and parts:
            place = ROOT.joinpath(*parts)
            yield from (p for p in (place.with_suffix(".py"), place / "__init__.py") if p.exists())


def _lines(node: ast.stmt) -> int:
    return (node.end_lineno or 0) - node.lineno + 1


def _body_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function without its head and its docstring."""
    body = node.body[1:] if ast.get_docstring(node) else node.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def _is_long(node: ast.AST) -> TypeGuard[ast.ClassDef | ast.FunctionDef]:
    if isinstance(node, ast.ClassDef):
        return _lines(node) > LONGEST_CLASS
    return isinstance(node, ast.FunctionDef) and _body_lines(node) > LONGEST_BODY


def test_units_import_only_units_below() -> None:
    assert {_unit(path) for path in _files()} == {*LAYERS}
    violations = [
        f"{_name(path)} imports {_name(other)}"
        for path in _files()
        for other in _imported(path)
        if LAYERS.index(_unit(other)) > LAYERS.index(_unit(path))
        or (_unit(path), _unit(other)) in APART
    ]
    assert not violations


def test_no_circles() -> None:
    imports = {path: {*_imported(path)} - {path} for path in _files() if path.name != "__init__.py"}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(map(_name, error.args[1]))) from error


def test_no_file_class_or_function_is_long() -> None:
    long = [_name(p) for p in _files() if len(p.read_text().splitlines()) > LONGEST_FILE]
    for path in _files():
        nodes = filter(_is_long, ast.walk(_tree(path)))
        long += [f"{_name(path)}: {node.name}" for node in nodes]
    assert not long


def test_no_unit_imports_the_public_interface() -> None:
    violations = [
        _name(path)
        for path in _files()
        if "ramet" in _modules(path) and path != ROOT / "__init__.py"
    ]
    assert not violations


def test_only_the_flower_unit_imports_flower() -> None:
    outside = [
        _name(path)
        for path in _files()
        if _unit(path) != "flower"
        and any(module.split(".")[0] == "flwr" for module in _modules(path))
    ]
    assert not outside


def test_private_modules_of_flower_have_one_door() -> None:
    """Elsewhere neither an import nor a text names them."""
    public = {"flwr", "flwr.app", "flwr.clientapp", "flwr.common", "flwr.serverapp"}
    outside = set()
    for path in _files():
        if path.parent == ROOT / "flower" / "patches":
            continue
        for node in ast.walk(_tree(path)):
            named = [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            named += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            named += [str(node.value)] if isinstance(node, ast.Constant) else []
            found = [name for name in named if re.fullmatch(r"flwr(\.\w+)*(:\w+)?", name)]
            outside |= {f"{_name(path)}: {name}" for name in found if name not in public}
    assert not outside


def test_files_that_an_export_copies_into_one_folder_have_different_names() -> None:
    names = [
        path.name for unit in ("models", "data/graphs") for path in (ROOT / unit).glob("[!_]*")
    ]
    assert len(names) == len({*names}), sorted(names)
