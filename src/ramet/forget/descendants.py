"""What descends from a run: runs that were started from its models, and exported models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from safetensors import SafetensorError, safe_open

from ramet.experiment import RunFolder
from ramet.experiment.files import read_json
from ramet.experiment.start_from import START_FILE
from ramet.export.handover import MODEL_FILE, RUN
from ramet.forget.certificate import Descendant


def descendants(below: Path, runs: Sequence[RunFolder]) -> list[Descendant]:
    """What descends from the runs, in the folders below one; without the runs themselves."""
    known, found = {run.run_name for run in runs}, list[Descendant]()
    origins = {path.parent: read_json(path)["run"] for path in sorted(below.rglob(START_FILE))}
    while more := [
        folder
        for folder, origin in origins.items()
        if origin in known and RunFolder(folder).run_name not in known
    ]:
        for folder in more:
            known.add(RunFolder(folder).run_name)
            place = str(folder.relative_to(below))
            found.append(Descendant(kind="run", folder=place, of=origins[folder]))
    return [*found, *_exports(below, known)]


def _exports(below: Path, known: set[str]) -> Iterator[Descendant]:
    for path in sorted(below.rglob(MODEL_FILE)):
        try:
            with safe_open(path, framework="np") as file:
                origin = (file.metadata() or {}).get(RUN)
        except SafetensorError:  # somebody else's file
            continue
        if origin in known:
            yield Descendant(kind="export", folder=str(path.parent.relative_to(below)), of=origin)
