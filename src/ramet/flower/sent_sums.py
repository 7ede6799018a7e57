"""The sums of columns that a site has sent, once for each version of its data.

The difference between two answers is the sum over the rows that changed: of one row, its values. So
the same data get the same answer, and the site's policy can limit the number of versions.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from ramet.engine.site.run_entries import RunEntries
from ramet.policy import Policy

NAME = "told.json"


class Version(BaseModel):
    """What was sent for one version of the data."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sums: str


@dataclass(frozen=True)
class SentSums:
    """The answers of one site, in a file in its state folder."""

    path: Path
    site: str

    def once(self, version: str, sums: str, policy: Policy) -> str:
        """What was sent for this version before, or else these sums, which are then kept."""
        entries = RunEntries(self.path, Version, "which sums of columns it has sent", "run")
        with entries.locked():
            sent, key = entries.read(), f"{self.site} {version}"
            if key not in sent:
                sent[key] = Version(sums=sums)
                policy.check_versions(sum(name.startswith(f"{self.site} ") for name in sent))
                entries.write(sent)
            return sent[key].sums
