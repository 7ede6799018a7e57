"""Stories of finished runs: told from run folders, kept in small files, found again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ramet.errors import RametError
from ramet.methods import METHODS
from ramet.metrics import Stories, Story, curve, measure
from ramet.metrics.activity import tensors_sent
from ramet.run_folder import RunFolder, make_folder

if TYPE_CHECKING:
    import pandas as pd

_NOT_A_VERSION = ("run", "started")


def story(folder: RunFolder) -> Story | None:
    """The story of a finished run; None if it is not finished."""
    result = folder.result()
    if result is None:
        return None
    settings, about, records = folder.experiment().settings, folder.about(), folder.records()
    sent = tensors_sent(records, list(result["scores"]["clients"]))
    return Story(
        label=settings.label,
        command=settings.command,
        date=about["started"][:10],
        versions={key: value for key, value in about.items() if key not in _NOT_A_VERSION}
        | ({"method": settings.code} if settings.code else {}),
        result=result,
        rounds=curve(records),
        tensors=sent if len({count for line in sent for count in line}) > 1 else (),
    )


def keep(stories: Iterable[Story], folder: Path) -> None:
    """Write each story into a file of its own."""
    make_folder(folder)
    for told in stories:
        name = f"{told.label.replace('/', '_')}-seed{told.seed}.json"
        (folder / name).write_text(told.text())


def kept(folder: Path) -> Stories:
    """What was kept in a folder; nothing if there is no such folder yet."""
    return found([folder]) if folder.exists() and any(folder.iterdir()) else {}


def found(paths: Iterable[Path]) -> Stories:
    """The stories below these paths: run folders, folders of them, and kept files."""
    by_label: dict[str, dict[int, Story]] = {}
    for told in _all_below(paths):
        by_label.setdefault(told.label, {})[told.seed] = told
    return {label: dict(sorted(by_label[label].items())) for label in sorted(by_label, key=_place)}


def results(*paths: Path | str) -> pd.DataFrame:
    """One row per finished run below these paths: run folders, folders of them, kept files."""
    import pandas as pd  # takes half a second to import

    return pd.DataFrame([_row(told) for told in _all_below(map(Path, paths))])


def _row(told: Story) -> dict[str, object]:
    result, scores = told.result, told.result["scores"]
    return {
        "method": told.label,
        **{name: result[name] for name in ("setting", "seed", "rounds", "engine")},
        "measure": measure(result),
        **{name: scores[name] for name in ("test", "test_at_best_val", "best_val_round")},
        "bytes": result["traffic"]["total"],
        "seconds": result["seconds"],
        "date": told.date,
        "sha256": result["sha256"],
        "command": told.command,
    }


def _all_below(paths: Iterable[Path]) -> list[Story]:
    stories: list[Story] = []
    for path in paths:
        if not path.exists():
            raise RametError(f"{path} is not there. Give a folder of runs, or of kept results.")
        stories += _below(path)
    if not stories:
        raise RametError("no finished run is there. Give a folder of runs, or of kept results.")
    return stories


def _place(label: str) -> tuple[int, str]:
    """Methods in their own order, those of other files last."""
    known, method = list(METHODS), label.partition(",")[0]
    return known.index(method) if method in known else len(known), label


def _below(path: Path) -> Iterator[Story]:
    if path.is_file():
        yield _read(path)
    elif RunFolder(path).started:
        told = story(RunFolder(path))
        if told is not None:
            yield told
    else:
        for inside in sorted(path.iterdir()):
            if inside.is_dir() or inside.suffix == ".json":
                yield from _below(inside)


def _read(path: Path) -> Story:
    try:
        return Story.parse(path.read_text())
    except (ValueError, TypeError, KeyError) as error:
        raise RametError(f"{path} holds no kept result. Leave it out.") from error
