"""What a site keeps about a run, next to its final model, so that it can predict on its own.

The record has the ranges of the site's columns and the path of its data, and never leaves the site.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from ramet.data.own import Preparation, Ranges, Schema
from ramet.engine.disk import write_atomically
from ramet.errors import RametError
from ramet.experiment.settings import RunSettings

NAME = "site.json"


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
