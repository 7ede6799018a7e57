"""User-defined code: its files, their SHA-256, and whether it may run.

The code of a file includes what it imports from its own folder, and the code of a module what it
imports from its own package. Imports are read from the sources, also inside functions; nothing is
executed. Modules that are imported by a computed name, and data files, are not covered.

A run's folder, an invitation or an experiment's file may come from somebody else and name code. So
code is only loaded if the user has named it, in a command or a call, or has allowed its SHA-256.
What was named once stays allowed, in a list of the user's, so that later commands can read the run.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import os
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.machinery import PathFinder, all_suffixes
from pathlib import Path
from typing import TypeAlias

from ramet.errors import RametError, RametWarning

IMPORTS = "imports"
"""The folder of a run with copies of the files that its code imports."""
LIST_VARIABLE = "RAMET_ALLOWED_CODE"
"""The environment variable with the path of the user's list of allowed code."""
_SESSION_VARIABLE = "RAMET_ALLOWED_SHA256"
"""The environment variable with what this process and its children may load."""

ModuleName: TypeAlias = tuple[str, ...]


def allow(name: str, remember: bool) -> None:
    """Let the code behind `file.py:factory` or `module:factory` run.

    Args:
        name: as the user has given it.
        remember: also in later processes of this user, not only in this one and its children.
    """
    try:
        sha256 = UserCode.of(name).sha256()
    except (RametError, OSError):  # loading it says what is wrong
        return
    if sha256 in _allowed():
        return
    os.environ[_SESSION_VARIABLE] = f"{os.environ.get(_SESSION_VARIABLE, '')} {sha256}"
    if remember:
        _remember(sha256, name)


def check_allowed(name: str, kind: str) -> None:
    """Refuse code that the user has neither named nor allowed."""
    code = UserCode.of(name)
    if code.file.is_file() and (sha256 := code.sha256()) not in _allowed():
        raise RametError(
            f"the {kind} {name} was not loaded: its code would run with your rights, and you have "
            f"not named it yourself. Its SHA-256 is {sha256}. If you trust whoever wrote "
            f"{code.file}, allow it: echo {sha256} >> {_list()}"
        )


def _list() -> Path:
    """The user's list of allowed code, with a SHA-256 and a comment in each line."""
    given = os.environ.get(LIST_VARIABLE)
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return Path(given) if given else config / "ramet" / "allowed-code.txt"


def _allowed() -> set[str]:
    path = _list()
    lines = path.read_text().splitlines() if path.is_file() else []
    listed = {line.partition("#")[0].strip() for line in lines}
    return listed | {*os.environ.get(_SESSION_VARIABLE, "").split()}


def _remember(sha256: str, name: str) -> None:
    path = _list()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(f"{sha256}  # {name.encode('unicode_escape').decode()}\n")
    except OSError as error:
        text = f"later commands will not load {name}, because {path} cannot be written ({error})."
        warnings.warn(text, RametWarning, stacklevel=2)


def code_file(name: str) -> Path:
    """The file behind `file.py:factory` or `module:factory`; no package is imported to find it."""
    source = name.rpartition(":")[0]
    if source.endswith(".py"):
        return Path(source)
    first, *others = source.split(".")
    spec = importlib.util.find_spec(first) if first else None
    place = first
    for part in others:
        place = f"{place}.{part}"
        inside = spec.submodule_search_locations if spec else None
        spec = PathFinder.find_spec(place, inside) if inside is not None else None
    file = getattr(spec and spec.loader, "path", None) or (spec and spec.origin)
    if not file or not Path(file).is_file():
        raise RametError(f"no module {source} is installed. Install it, or write file.py:FACTORY.")
    return Path(file)


@dataclass(frozen=True)
class UserCode:
    """A user-defined file and the files that it imports, directly or through others.

    Args:
        file: the file that is named in the settings.
        folder: the folder from which it imports.
        package: the only package whose imports are followed; empty for all in the folder.
    """

    file: Path
    folder: Path
    package: str

    @staticmethod
    def of(name: str) -> UserCode:
        """The code behind `file.py:factory` or `module:factory`."""
        source, file = name.rpartition(":")[0], code_file(name)
        if source.endswith(".py"):
            return UserCode(file, file.parent, "")
        depth = source.count(".") + (file.name == "__init__.py")
        return UserCode(file, file.parents[depth], source.partition(".")[0])

    @cached_property
    def imports(self) -> tuple[str, ...]:
        """The imported files, relative to the folder."""
        found, waiting = {self.file}, [self.file]
        while waiting:
            new = set(self._imported_by(waiting.pop())) - found
            found |= new
            waiting += new
        return tuple(sorted(self._relative(file).as_posix() for file in found - {self.file}))

    def sha256(self) -> str:
        """SHA-256 of the file; with imports, of the names and hashes of all files."""
        own = _sha256(self.file)
        if not self.imports:
            return own
        hashes = {name: _sha256(self.folder / name) for name in self.imports}
        pairs = sorted({**hashes, self._relative(self.file).as_posix(): own}.items())
        return hashlib.sha256(json.dumps(pairs).encode()).hexdigest()

    def copies(self, kind: str, earlier: Iterable[str] = ()) -> Iterator[tuple[str, Path]]:
        """The names of the copies in a run folder, with their sources.

        ``earlier`` are files that it imported when the run started.
        """
        yield f"{kind}.py", self.file
        for name in sorted({*self.imports, *earlier}):
            yield f"{IMPORTS}/{kind}/{name}", self.folder / name

    def _imported_by(self, file: Path) -> Iterator[Path]:
        for name in _imported_names(file, self._relative(file).parts):
            if name[0] in self._followed:
                yield from _files_of(name, self.folder)

    @cached_property
    def _followed(self) -> set[str]:
        """The top-level modules and packages whose imports are followed."""
        beside = {path.name.partition(".")[0] for path in self.folder.iterdir()}
        return ({self.package} if self.package else beside) - {"ramet"}

    def _relative(self, file: Path) -> Path:
        return file.relative_to(self.folder)


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _imported_names(file: Path, location: tuple[str, ...]) -> Iterator[ModuleName]:
    """The absolute names that a file imports; its location is relative to the folder.

    `from a import b` gives a.b, because b may be a module.
    """
    for node in _statements(_syntax_tree(file)):
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = location[: -node.level] if node.level else ()
            module = node.module.split(".") if node.module else []
            yield from ((*package, *module, alias.name) for alias in node.names)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements, without their expressions, which are most of a tree and import nothing."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield child
            yield from _statements(child)


def _syntax_tree(file: Path) -> ast.AST:
    """Empty for compiled modules and for files with errors, which are reported on loading."""
    try:
        return ast.parse(file.read_bytes() if file.suffix == ".py" else b"")
    except (OSError, SyntaxError, ValueError):
        return ast.Module([], [])


def _files_of(name: ModuleName, folder: Path) -> Iterator[Path]:
    """The files that are executed when a module is imported: its parents' and its own."""
    for length in range(1, len(name) + 1):
        place = folder.joinpath(*name[:length])
        for suffix in all_suffixes():
            candidates = (place / f"__init__{suffix}", place.parent / f"{place.name}{suffix}")
            yield from (file for file in candidates if file.is_file())
