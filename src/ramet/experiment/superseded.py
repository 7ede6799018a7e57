"""Runs and exports whose models are out of use: a repetition without a site replaces them."""

from __future__ import annotations

import warnings
from pathlib import Path

from ramet.errors import RametWarning
from ramet.experiment.files import read_json, write_json

FILE = "superseded.json"


def mark_superseded(folder: Path, by: str, forgotten: str) -> None:
    """Note in the folder of a run or export which run replaces it, and who was forgotten."""
    write_json(folder / FILE, {"by": by, "forgotten": forgotten})


def why_superseded(folder: Path) -> str | None:
    """Which run replaces that of a folder, and who was forgotten; None if it is in use."""
    if not (folder / FILE).exists():
        return None
    note = read_json(folder / FILE)
    return f"superseded by the run {note['by']}, without {note['forgotten']}"


def warn_if_superseded(folder: Path) -> None:
    """Warn if a folder is marked; the warning points to the caller of the calling function."""
    if why := why_superseded(folder):
        text = f"{folder} is {why}. Use that one, and delete this one."
        warnings.warn(text, RametWarning, stacklevel=3)
