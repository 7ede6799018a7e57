"""What a site keeps about a run, next to its final model: nothing of it leaves the site.

The record has the ranges of the site's columns and the path of its data, so that the site can
predict on its own. The parts of its samples let a later run keep them.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from ramet.data.own.kept_parts import KeptParts
from ramet.data.own.preparation import Preparation
from ramet.data.own.ranges import Ranges
from ramet.data.own.schema import Schema
from ramet.disk import write_atomically
from ramet.errors import RametError
from ramet.experiment.files import damaged
from ramet.experiment.settings import RunSettings

NAME = "site.json"
PARTS = "parts.json"


class SiteRecord(BaseModel):
    """The run as the site knows it, and the data that its model was trained on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    settings: RunSettings
    site_schema: Schema
    preparation: Preparation
    ranges: Ranges

    def save(self, state: Path) -> None:
        """Save the record in the site's state folder."""
        state.mkdir(parents=True, exist_ok=True)
        write_atomically(state / NAME, self.model_dump_json().encode())

    @staticmethod
    def load(state: Path) -> SiteRecord:
        path = state / NAME
        try:
            return SiteRecord.model_validate_json(path.read_text())
        except (OSError, ValidationError) as error:
            raise RametError(
                f"{path} is missing or damaged. Restore it from a backup, or train again."
            ) from error


def save_parts(state: Path, parts: KeptParts) -> None:
    """Save the parts of a client's samples in its state folder."""
    state.mkdir(parents=True, exist_ok=True)
    write_atomically(state / PARTS, parts.text().encode())


def load_parts(state: Path) -> KeptParts | None:
    """None if they were not saved, as by earlier versions and for built-in data."""
    path = state / PARTS
    if not path.exists():
        return None
    try:
        return KeptParts.parse(path.read_text())
    except (ValueError, KeyError, TypeError) as error:
        raise damaged(path) from error
