"""The user-defined code of a run: its files, their SHA-256, and a check that it has not changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ramet.errors import RametError
from ramet.experiment.method_spec import MethodSpec
from ramet.experiment.objects import is_object
from ramet.experiment.settings import RunSettings
from ramet.methods import ACTIVATIONS, MERGES, METHODS, PAPER_NAMES, RELEASES, SUMMATIONS
from ramet.models.networks import NETWORKS
from ramet.options import allow_code, is_user_defined, name_and_options
from ramet.partition import SETTINGS
from ramet.tasks import TASK_METRICS, TASKS
from ramet.user_code import IMPORTS, UserCode

BUILT_IN: dict[str, Mapping[str, Any]] = {
    "method": {**METHODS, **PAPER_NAMES},
    "network": NETWORKS,
    "activation": ACTIVATIONS,
    "merge": {**MERGES, **SUMMATIONS},
    "release": RELEASES,
    "task": TASKS,
    "metric": {name: name for names in TASK_METRICS.values() for name in names},
    "setting": SETTINGS,
}
"""The settings that may name user-defined code, and the built-in names of each."""


def allow_run(settings: RunSettings) -> None:
    """Load the code of a run in this process, because the process that started it has it loaded."""
    allow_code(*(getattr(settings, kind) for kind in BUILT_IN), remember=False)


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


def _user_code(settings: RunSettings | MethodSpec) -> Iterator[tuple[str, UserCode]]:
    for kind, built_in in BUILT_IN.items():
        name, _ = name_and_options(getattr(settings, kind, None) or "")
        if name not in built_in and is_user_defined(name) and not is_object(name):
            yield kind, UserCode.of(name)


def _changed_files(settings: RunSettings, run_folder: Path) -> Iterator[Path]:
    """Files that differ from their copies, including those that are missing on one side."""
    for kind, code in _user_code(settings):
        kept = run_folder / IMPORTS / kind
        earlier = (file.relative_to(kept).as_posix() for file in kept.rglob("*") if file.is_file())
        for copy, source in code.copies(kind, earlier):
            if _content(run_folder / copy) != _content(source):
                yield source


def _content(file: Path) -> bytes | None:
    return file.read_bytes() if file.is_file() else None
