"""The sums of columns that a site has sent, once for each version of its data.

The difference between two answers is the sum over the rows that changed: of one row, its values. So
the same data get the same answer, and the site's policy can limit the number of versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from ramet.data.own.preparation import SiteSums
from ramet.disk import write_atomically
from ramet.engine.site.audit import INTRODUCTIONS, AuditLog
from ramet.engine.site.audit import NAME as AUDIT
from ramet.engine.site.run_entries import RunEntries
from ramet.flower.data_record import data_version
from ramet.flower.records import COLUMNS
from ramet.payload import Payload
from ramet.policy import Policy

NAME = "told.json"
SUMS = "columns.json"
"""The file in the site's state folder with the sums of columns that it sent last."""


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


@dataclass(frozen=True)
class SiteColumns:
    """What one site tells of its columns, and what it keeps of that in the folder of its state.

    Args:
        site: the site's name.
        method: the run's method, for the audit log.
        folder: the folder of its state; None for a node that keeps none.
        data: the site's TOML file.
        run_config: SHA-256 of the run config.
    """

    site: str
    method: str
    folder: Path | None
    data: Path | None
    run_config: str

    @cached_property
    def version(self) -> str:
        return "" if self.data is None else data_version(self.data)

    def once(self, described: Mapping[str, str], policy: Policy) -> SiteSums:
        """What was sent for this version of the data before, or else what the site tells now."""
        if COLUMNS not in described:
            return SiteSums()
        sums = described[COLUMNS]
        if self.folder is not None:
            sums = SentSums(self.folder / NAME, self.site).once(self.version, sums, policy)
        return SiteSums.parse(sums, self.site)

    def keep(self, sums: str, reply: Payload, words: tuple[str, ...]) -> None:
        """Keep and audit what the site is about to send, for its owner to read."""
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self.folder / SUMS, sums.encode())
        audit = AuditLog(
            self.folder / INTRODUCTIONS / AUDIT,
            run="",
            client=self.site,
            method=self.method,
            data=str(self.data),
            run_config=self.run_config,
        )
        audit.add(0, reply, "introduction", words)
