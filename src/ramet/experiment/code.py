"""The user-defined code of a run: its files, their SHA-256, and a check that it has not changed.

The code of a file includes what it imports from its own folder, and the code of a module what it
imports from its own package. Imports are read from the sources, also inside functions; nothing is
executed. Modules that are imported by a computed name, and data files, are not covered.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.machinery import all_suffixes
from pathlib import Path
from typing import Any, TypeAlias

from ramet.errors import RametError
from ramet.experiment.method_spec import MethodSpec
from ramet.experiment.objects import is_object
from ramet.experiment.settings import RunSettings
from ramet.methods import ACTIVATIONS, MERGES, METHODS, PAPER_NAMES, RELEASES, SUMMATIONS
from ramet.models.networks import NETWORKS
from ramet.options import name_and_options, source_of

BUILT_IN: dict[str, Mapping[str, Any]] = {
    "method": {**METHODS, **PAPER_NAMES},
    "network": NETWORKS,
    "activation": ACTIVATIONS,
    "merge": {**MERGES, **SUMMATIONS},
    "release": RELEASES,
}
"""The settings that may name user-defined code, and the built-in names of each."""
_IMPORTS = "imports"

ModuleName: TypeAlias = tuple[str, ...]


def user_files(settings: RunSettings) -> dict[str, Path]:
    """The files of user-defined code, by the names of their copies in the run folder."""
    return {
        copy: source for kind, code in _user_code(settings) for copy, source in code.copies(kind)
    }


def code_sha256(settings: RunSettings | MethodSpec) -> str | None:
    """SHA-256 of the user-defined code, or of the hashes of several; None if all is built in."""
    hashes = [code.sha256() for _, code in _user_code(settings) if code.file.is_file()]
    if len(hashes) > 1:
        return hashlib.sha256("".join(hashes).encode()).hexdigest()
    return hashes[0] if hashes else None


def check_code(settings: RunSettings, run_folder: Path | None = None) -> None:
    """Refuse user-defined code that has changed since the run started.

    The copies in the run folder, if it is given, tell which files have changed.
    """
    if settings.code is None or settings.code == code_sha256(settings):
        return
    changed = [*_changed_files(settings, run_folder)] if run_folder else []
    files = [str(file) for file in changed or user_files(settings).values()]
    which = files[0] if len(files) == 1 else f"at least one of {', '.join(files)}"
    copies = f" Copies of the files are in {run_folder}." if run_folder else ""
    raise RametError(
        f"{which} has changed since this run started: the SHA-256 of the code was "
        f"{settings.code[:12]}…. Restore the file, or start a new run in another folder with "
        f"--out.{copies}"
    )


@dataclass(frozen=True)
class _UserCode:
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
    def of(name: str, file: Path) -> _UserCode:
        """The code behind `file.py:factory` or `module:factory`."""
        source = name.rpartition(":")[0]
        if source.endswith(".py"):
            return _UserCode(file, file.parent, "")
        depth = source.count(".") + (file.name == "__init__.py")
        return _UserCode(file, file.parents[depth], source.partition(".")[0])

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
            yield f"{_IMPORTS}/{kind}/{name}", self.folder / name

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


def _user_code(settings: RunSettings | MethodSpec) -> Iterator[tuple[str, _UserCode]]:
    for kind, built_in in BUILT_IN.items():
        name, _ = name_and_options(getattr(settings, kind) or "")
        file = None if is_object(name) else source_of(name, built_in)
        if file:
            yield kind, _UserCode.of(name, file)


def _changed_files(settings: RunSettings, run_folder: Path) -> Iterator[Path]:
    """Files that differ from their copies, including those that are missing on one side."""
    for kind, code in _user_code(settings):
        kept = run_folder / _IMPORTS / kind
        earlier = (file.relative_to(kept).as_posix() for file in kept.rglob("*") if file.is_file())
        for copy, source in code.copies(kind, earlier):
            if _content(run_folder / copy) != _content(source):
                yield source


def _content(file: Path) -> bytes | None:
    return file.read_bytes() if file.is_file() else None


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
