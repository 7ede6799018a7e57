"""Write predictions as CSV or Parquet."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ramet.disk import replace_file
from ramet.errors import RametError

if TYPE_CHECKING:
    import pandas as pd

_TABLES = (".csv", ".parquet")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def check_output(path: Path, endings: tuple[str, ...] = _TABLES) -> None:
    """Refuse a file that could not be written, before anything is computed."""
    if path.suffix.lower() not in endings:
        raise RametError(f"{path} ends neither in {' nor in '.join(endings)}. Choose one of them.")
    if not path.absolute().parent.is_dir():
        raise RametError(f"there is no folder {path.absolute().parent}. Create it first.")
    if path.suffix.lower() == ".parquet" and not find_spec("pyarrow"):
        raise RametError("Parquet needs pyarrow. Install it: pip install 'ramet[parquet]'")


def write(frame: pd.DataFrame, path: Path) -> None:
    is_parquet = path.suffix.lower() == ".parquet"
    to_file = frame.to_parquet if is_parquet else _for_spreadsheets(frame).to_csv
    try:
        replace_file(path, lambda temporary: to_file(temporary, index=False))
    except OSError as error:
        raise RametError(f"cannot write {path} ({error.strerror}). Choose another file.") from error


def to_csv(frame: pd.DataFrame) -> None:
    """Write to standard output."""
    _for_spreadsheets(frame).to_csv(sys.stdout, index=False)


def _for_spreadsheets(frame: pd.DataFrame) -> pd.DataFrame:
    """The table with names of classes, which other sites choose too, as text and not as formulas.

    Ids are the site's own, and stay as they are.
    """
    named = frame.rename(columns=_as_text)
    return named.assign(**{"class": named["class"].map(_as_text)}) if "class" in named else named


def _as_text(cell: Any) -> Any:
    """A cell that no spreadsheet takes for a formula, with an apostrophe before it if needed."""
    if not isinstance(cell, str) or not cell.startswith(_FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell
