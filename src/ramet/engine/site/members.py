"""Who may be in a secure sum with a site, and in which sums it has been."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from ramet.disk import write_atomically
from ramet.engine.secure_messages import SecureError
from ramet.secure.identity import Peers
from ramet.secure.shares import SMALLEST, holds, threshold

COLUMNS = "columns"
"""The kind of sums of columns, which are about a version of the data, not about a model."""


@dataclass(frozen=True)
class Members:
    """The sites that a site accepts in a sum.

    Args:
        site: the site's name.
        peers: the sites in its own list.
        smallest: the smallest number of sites in a sum, as the site's owner has set it. None for
            the default: all of its list exchange keys and are in each sum.
        survivors: among how many sites the noise of a sum is divided, if it is; none is smaller.
    """

    site: str
    peers: Peers
    smallest: int | None = SMALLEST
    survivors: int = 0

    @property
    def needed(self) -> int:
        """How many sites must be in a sum and sign it: more than half of the site's own list.

        A sum that needs all of the list is not signed, because no other could be unmasked.
        """
        peers = len(self.peers.fingerprints)
        divided = self.survivors if self.survivors < peers else 0
        return max(threshold(peers), self.smallest or 0, divided)

    def check_colluders(self, colluders: int) -> None:
        """Check that sums hide the parts of the noise of all but so many sites."""
        sites = len(self.peers.fingerprints)
        if not holds(sites, self.survivors, colluders):
            raise SecureError(
                f"{self.site} takes no part in sums of {self.survivors} of {sites} sites, of which "
                f"{colluders} may collude: these could unmask single updates."
            )

    def check(self, sites: Collection[str], what: str) -> None:
        """Check who exchanges keys or is in a sum: by default all of the site's own list.

        A coordinator may lie about who has dropped out, and two sums about nearly the same model,
        of which one lacks a site, differ by the update of that site.
        """
        missing = sorted(self.peers.fingerprints.keys() - {*sites})
        if self.smallest is None and missing:
            raise SecureError(
                f"{self.site} takes part in sums of all sites in its list of members, and "
                f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing. To go on "
                f"without, its owner sets `members` in policy.toml to {len(sites)} or less, or "
                "removes who has left with `ramet deploy remove-member`."
            )
        needed = max(self.needed, self.survivors)
        if len(sites) < needed:
            raise SecureError(
                f"{self.site} refuses a sum of {len(sites)} {what}; it needs {needed}."
            )


@dataclass(frozen=True)
class AskedSums:
    """What a site was asked in secure sums of all runs, and over which sites."""

    site: str
    folder: Path

    def check(self, questions: Mapping[str, str], survivors: list[str]) -> None:
        """Refuse a second sum about the same network over other sites, in whichever run.

        The difference of the two would be the answer of single sites.
        """
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with FileLock(self.folder / ".lock"):
            for kind, model in questions.items():
                path = self.folder / f"{kind}-{model}.json"
                if not path.exists():
                    write_atomically(path, json.dumps(survivors).encode())
                if json.loads(path.read_text()) != survivors:
                    what = "version of its data" if kind == COLUMNS else "model"
                    instead = "with the same sites" if kind == COLUMNS else "with another seed"
                    raise SecureError(
                        f"{self.site} has already answered about this {what} in a sum over other "
                        "sites, and the difference of both sums would tell the answer of single "
                        f"sites. Start a new run {instead}."
                    )
