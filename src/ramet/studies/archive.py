"""Finished runs on disk: run folders, and the small files of kept runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ramet.disk import write_atomically
from ramet.errors import RametError
from ramet.experiment import SPLIT_SEED, RunFolder, make_folder
from ramet.methods import table_order
from ramet.studies.finished_run import Draw, FinishedRun, FinishedRuns

if TYPE_CHECKING:
    import pandas as pd


def keep(runs: Iterable[FinishedRun], folder: Path) -> None:
    """Write each run to its own file, unless the file already contains that run."""
    make_folder(folder)
    for run in runs:
        path = folder / _file_name(run)
        before = _read(path) if path.exists() else None
        if before is not None and before.label != run.label:
            raise RametError(
                f"{path} already has a run of {before.label}, so that of {run.label} cannot be "
                "kept there. Rename one of their files."
            )
        if before != run:
            write_atomically(path, run.text())


def _file_name(run: FinishedRun) -> str:
    split = "" if run.split_seed == SPLIT_SEED else f"-split{run.split_seed}"
    label = run.label.replace("/", "_").replace(":", "_")  # neither is allowed on every system
    return f"{label}-seed{run.seed}{split}.json"


def kept(folder: Path) -> tuple[FinishedRun, ...]:
    """The runs kept in a folder. Empty if the folder does not exist."""
    return tuple(_runs_below(folder)) if folder.exists() else ()


def finished_runs(paths: Iterable[Path]) -> FinishedRuns:
    """The finished runs below the paths, which are run folders, folders of them, or kept files."""
    return by_label(runs_below(paths))


def by_label(runs: Iterable[FinishedRun]) -> FinishedRuns:
    """The runs by method and draw, in the order of tables."""
    found: dict[str, dict[Draw, FinishedRun]] = {}
    for run in runs:
        other = found.setdefault(run.label, {}).setdefault(run.draw, run)
        if not other.matches(run.command, run.versions.get("method")):
            raise RametError(
                f"two different runs are called {run.label}, seed {run.seed}: `{other.command}` "
                f"and `{run.command}`, or their method has changed. Give runs that differ only in "
                "method and seed."
            )
    return {label: dict(sorted(found[label].items())) for label in sorted(found, key=_sort_key)}


def results(*paths: Path | str) -> pd.DataFrame:
    """One row per finished run below the paths: run folders, folders of them, or kept files."""
    import pandas as pd  # takes half a second to import

    return pd.DataFrame([_row(run) for run in runs_below(map(Path, paths))])


def _row(run: FinishedRun) -> dict[str, object]:
    summary, scores = run.summary, run.summary.scores
    return {
        "method": run.label,
        "setting": summary.setting,
        "seed": summary.seed,
        "split_seed": run.split_seed,
        "rounds": summary.rounds,
        "engine": summary.engine,
        "metric": summary.metric,
        "test": scores.test,
        "test_at_best_val": scores.test_at_best_val,
        "best_val_round": scores.best_val_round,
        "bytes": summary.traffic.total,
        "seconds": summary.seconds,
        "date": run.date,
        "sha256": summary.sha256,
        "command": run.command,
    }


def runs_below(paths: Iterable[Path]) -> list[FinishedRun]:
    """The finished runs below the paths; at least one."""
    runs: list[FinishedRun] = []
    for path in paths:
        if not path.exists():
            raise RametError(f"{path} does not exist. Give a folder of runs or of kept results.")
        runs += _runs_below(path)
    if not runs:
        raise RametError("no finished run was found. Give a folder of runs or of kept results.")
    return runs


def _sort_key(label: str) -> tuple[tuple[int, int], str]:
    return table_order(label.partition(",")[0]), label


def _runs_below(path: Path) -> Iterator[FinishedRun]:
    if path.is_file():
        yield _read(path)
    elif RunFolder(path).started:
        run = FinishedRun.of(RunFolder(path))
        if run is not None:
            yield run
    else:
        for child in sorted(path.iterdir()):
            if child.is_dir() or child.suffix == ".json":
                yield from _runs_below(child)


def _read(path: Path) -> FinishedRun:
    try:
        return FinishedRun.parse(path.read_text())
    except (ValueError, TypeError, KeyError) as error:
        raise RametError(f"{path} is not a kept result. Leave it out.") from error
