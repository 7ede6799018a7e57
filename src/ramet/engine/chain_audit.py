"""Compare the copies of a run's chain: each site's, and the coordinator's.

A copy that somebody has changed differs from the others, or lacks signatures that only other sites
could make. The last link is confirmed by no signature, so it is confirmed by the other copies only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ramet.engine.chain import FILE, ChainError, Link, link_fault
from ramet.errors import RametError
from ramet.secure.charter import Charter, SignedCharter

COORDINATOR = "the coordinator"


@dataclass(frozen=True)
class Copy:
    """What one member of a run has kept."""

    holder: str
    charter: SignedCharter
    lines: tuple[str, ...]


@dataclass(frozen=True)
class ChainFinding:
    """What is to be said of a copy: it is ``whole``, ``behind`` or ``broken``."""

    holder: str
    state: str
    detail: str


def read_copy(holder: str, chain: Path, charter: SignedCharter) -> Copy:
    """A copy, of whose lines none is parsed yet."""
    if not chain.exists():
        raise RametError(f"there is no chain of {holder} in {chain.parent}.")
    return Copy(holder, charter, tuple(chain.read_text(errors="replace").splitlines()))


def compare(copies: Sequence[Copy]) -> Iterator[ChainFinding]:
    """What is wrong with each copy, by its signatures and by the others."""
    if not copies:
        raise RametError(f"there is no {FILE} to verify.")
    charter = copies[0].charter.charter
    for copy in copies:
        copy.charter.check()
    checked = _Checked(charter)
    agreed = _agreed([checked.links(copy) for copy in copies if copy.charter.charter == charter])
    answered = {site: link.index for link in agreed if link for site in link.answers}
    for copy in copies:
        if copy.charter.charter != charter:
            yield ChainFinding(copy.holder, "broken", "it has another charter than the first copy")
            continue
        links, fault = checked.links(copy), checked.fault(copy)
        pairs = zip(links, agreed, strict=False)
        differing = next((own.index for own, other in pairs if own != other), None)
        if differing is not None:
            fault = f"link {differing} differs from that of other copies"
        is_coordinator = copy.holder == COORDINATOR
        due = len(agreed) if is_coordinator else answered.get(copy.holder, 0) - 1
        if fault is None and len(links) < due:
            fault = f"it ends at link {len(links)}, but its holder had {due}"
        if fault is not None:
            yield ChainFinding(copy.holder, "broken", fault)
        elif len(links) < len(agreed):
            missing = len(agreed) - len(links)
            yield ChainFinding(copy.holder, "behind", f"{missing} of {len(agreed)} links missing")
        else:
            yield ChainFinding(copy.holder, "whole", f"{len(links)} links")


def _agreed(chains: Sequence[Sequence[Link]]) -> list[Link | None]:
    """The link that most copies have, at each place; None if no link has more copies than others.

    Up to the last link, signatures decide anyway.
    """
    agreed: list[Link | None] = []
    for place in range(max(map(len, chains))):
        counts = Counter(links[place].text for links in chains if len(links) > place)
        (first, most), *others = counts.most_common()
        is_decided = not others or others[0][1] < most
        agreed.append(Link.parse(first) if is_decided else None)
    return agreed


class _Checked:
    """The valid links of copies; equal lines are checked once."""

    def __init__(self, charter: Charter) -> None:
        self._charter = charter
        self._known: dict[tuple[str | None, str], Link | str] = {}

    def links(self, copy: Copy) -> list[Link]:
        """The links up to the first that is broken."""
        return [link for link in self._followed(copy) if isinstance(link, Link)]

    def fault(self, copy: Copy) -> str | None:
        return next((found for found in self._followed(copy) if isinstance(found, str)), None)

    def _followed(self, copy: Copy) -> Iterator[Link | str]:
        before: Link | None = None
        for number, line in enumerate(copy.lines, 1):
            key = before.digest if before else None, line
            if key not in self._known:
                self._known[key] = self._read(line, before, number)
            found = self._known[key]
            yield found
            if isinstance(found, str):
                return
            before = found

    def _read(self, line: str, before: Link | None, number: int) -> Link | str:
        try:
            link = Link.parse(line)
        except ChainError:
            return f"line {number} is not a link"
        return link_fault(link, before, self._charter) or link
