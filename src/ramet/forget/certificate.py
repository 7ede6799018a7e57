"""The certificate of a repetition without a site, which the other sites sign.

It says which run was repeated as which, with the hashes of what both have learnt. If the runs are
verified, it has their charters and the ends of their chains, too. A charter lists the sites whose
replies count, every link of the chain is signed by those who replied, and the model follows from
the chain: so the repeated model depends on nothing that the forgotten site has sent. The
certificate cannot say that no copy of the old model is left; it lists those that were found.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ramet.disk import write_atomically
from ramet.errors import RametError
from ramet.experiment import RunFolder
from ramet.experiment.files import read_json
from ramet.experiment.run_facts import DATA_SHA256, SPLIT
from ramet.experiment.start_from import START_FILE
from ramet.partition.own import SITES
from ramet.version import __version__

if TYPE_CHECKING:  # need an extra
    from ramet.engine.chain_audit import Copy
    from ramet.secure.charter import Charter, SignedCharter
    from ramet.secure.identity import Identity

FILE = "forgotten.json"
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class ForgettingError(RametError):
    """A certificate does not say what it should, or somebody has not signed it."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def started_from(folder: RunFolder) -> str | None:
    """The name of the run that a run was started from."""
    path = folder.path / START_FILE
    return str(read_json(path)["run"]) if path.exists() else None


class RunFacts(_Frozen):
    """A run, and what its sites have signed if they verify it."""

    name: str
    command: str
    rounds: int
    sites: dict[str, str | None]
    """The SHA-256 of each site's data; None where it is on another machine."""
    started_from: str | None
    """The name of the run whose models it started with."""
    learnt: Digest | None
    """The SHA-256 of everything that was learnt; None of a run that was stopped."""
    charter: str | None = None
    links: int = 0
    end: Digest | None = None
    """The digest of the last link of the chain."""

    @staticmethod
    def of(folder: RunFolder) -> RunFacts:
        settings, summary = folder.experiment().settings, folder.summary()
        known = read_json(folder.path / SPLIT)["clients"]
        facts = RunFacts(
            name=folder.run_name,
            command=settings.command,
            rounds=settings.rounds,
            sites={client: known[client].get(DATA_SHA256) for client in known},
            started_from=started_from(folder),
            learnt=None if summary is None else summary.sha256,
        )
        if not settings.verified:
            return facts
        from ramet.engine.chain import FILE as CHAIN
        from ramet.engine.chain import read_links
        from ramet.experiment.chain_parts import read_charter

        links = read_links(folder.path / "server" / CHAIN)
        signed = read_charter(folder.path)
        chain = {"links": len(links), "end": links[-1].digest if links else None}
        return facts.model_copy(update={"charter": signed.text(), **chain})

    def signed_charter(self) -> SignedCharter | None:
        """The charter, with valid signatures of all sites of the run."""
        if self.charter is None:
            return None
        from ramet.secure.charter import SignedCharter

        signed = SignedCharter.parse(self.charter)
        signed.check()
        charter = signed.charter
        is_named = self.name in (charter.identity, charter.nonce)  # the latter in a simulation
        if not is_named or {*charter.sites} != {*self.sites}:
            raise ForgettingError(f"the charter is not that of the run {self.name}.")
        return signed

    @property
    def chain(self) -> str | None:
        """The name of the chain, by which its copies are found; None if there is none."""
        signed = self.signed_charter()
        return None if signed is None else signed.charter.identity

    def check_chain(self, copies: Sequence[Copy]) -> None:
        """Raise ForgettingError unless the copies of the chain agree, and end as it says here."""
        from ramet.engine.chain import Link
        from ramet.engine.chain_audit import compare

        for found in compare(copies):
            if found.state == "broken":
                raise ForgettingError(f"the chain of {found.holder} is broken: {found.detail}.")
        signed = self.signed_charter()
        if signed is None or any(copy.charter.charter != signed.charter for copy in copies):
            raise ForgettingError(f"the copies of a chain are not of the run {self.name}.")
        longest = max((copy.lines for copy in copies), key=len)
        end = Link.parse(longest[-1]).digest if longest else None
        if (len(longest), end) != (self.links, self.end):
            raise ForgettingError(f"the chain of the run {self.name} ends elsewhere.")


class Pair(_Frozen):
    """A run, and its repetition without the site."""

    before: RunFacts
    after: RunFacts

    def check(self, site: str, people: bool) -> None:
        """Raise ForgettingError unless the second run lacks the site, or people of it, alone."""
        before, after = self.before, self.after
        if people:  # what others' columns are prepared with changes, so their data do as well
            own = after.sites.get(site)
            if {*after.sites} != {*before.sites} or own in (None, before.sites.get(site)):
                raise ForgettingError(f"{after.name} is not {before.name} with less of {site}.")
        elif site in after.sites or {*after.sites} != {*before.sites} - {site}:
            raise ForgettingError(f"{after.name} is not {before.name} without {site}.")
        if after.learnt is None:
            raise ForgettingError(f"{after.name} is not finished.")
        if after.name == before.name or after.rounds != before.rounds:
            raise ForgettingError(f"{after.name} is no repetition of {before.name}.")
        old, new = before.signed_charter(), after.signed_charter()
        if (old is None) != (new is None):
            raise ForgettingError("of a run and its repetition, only one is verified.")
        if old is not None and new is not None and not _same_terms(old.charter, new.charter):
            raise ForgettingError(f"{after.name} has other terms than {before.name}.")


class Descendant(_Frozen):
    """Something that has what a run has learnt."""

    kind: Literal["run", "export"]
    folder: str
    """Relative to where it was searched for."""
    of: str
    """The name of the run that it comes from."""


class Certificate(_Frozen):
    """What was forgotten, and how."""

    format: Literal[1] = 1
    ramet: str
    date: str
    site: str
    people: int | None = None
    """How many people of the site were forgotten; None for all of it."""
    runs: tuple[Pair, ...]
    """The earliest first; the last one is the run that was asked for."""
    descendants: tuple[Descendant, ...]
    """Copies of the old models that were found, and that the repetition does not replace."""
    signatures: dict[str, str] = {}
    """Of the other sites."""

    @staticmethod
    def of(
        site: str, runs: Sequence[Pair], found: Iterable[Descendant], people: int | None = None
    ) -> Certificate:
        date = datetime.now(UTC).date().isoformat()
        return Certificate(
            ramet=__version__,
            date=date,
            site=site,
            people=people,
            runs=tuple(runs),
            descendants=tuple(found),
        )

    @staticmethod
    def read(path: Path) -> Certificate:
        try:
            return Certificate.model_validate_json(path.read_text())
        except (OSError, UnicodeDecodeError, ValidationError) as error:
            raise ForgettingError(f"{path} is not a certificate of forgetting.") from error

    def write(self, path: Path) -> None:
        write_atomically(path, self.model_dump_json(indent=1) + "\n")

    @property
    def statement(self) -> bytes:
        """What each site signs: everything but the signatures."""
        content = self.model_dump_json(exclude={"signatures"})
        digest = hashlib.sha256(content.encode()).hexdigest()
        return f"a certificate of forgetting in Ramet {digest}".encode()

    @property
    def last(self) -> RunFacts:
        return self.runs[-1].after

    def check(self) -> None:
        """Raise ForgettingError unless what it says fits together; signatures are not looked at."""
        if not self.runs:
            raise ForgettingError("the certificate has no runs.")
        if self.site not in self.runs[0].before.sites:
            raise ForgettingError(f"{self.site} was in no run of the certificate.")
        origin = self.runs[0].before.started_from
        for pair in self.runs:
            pair.check(self.site, self.people is not None)
            if pair.after.started_from != origin:
                raise ForgettingError(
                    f"{pair.after.name} did not start from {origin or 'nothing'}."
                )
            origin = pair.after.name

    def check_signatures(self) -> None:
        """Raise ForgettingError unless every site of the last repetition has signed."""
        from ramet.secure.identity import is_signed

        self.check()
        charter = self._charter()
        if {*self.signatures} != {*charter.sites}:
            missing = {*charter.sites} - {*self.signatures}
            raise ForgettingError(
                f"not signed by {', '.join(sorted(missing)) or 'its sites alone'}."
            )
        for site, member in charter.sites.items():
            if not is_signed(self.statement, _bytes(self.signatures[site]), member.key):
                raise ForgettingError(f"the signature of {site} is not of this certificate.")

    def signed_by(self, site: str, identity: Identity) -> Certificate:
        """With the signature of a site, whose key the charter has."""
        member = self._charter().sites.get(site)
        if member is None or member.key != identity.public:
            raise ForgettingError(f"{site} is not a site of the repeated run, with this key.")
        own = {site: identity.sign(self.statement).hex()}
        return self.model_copy(update={"signatures": {**self.signatures, **own}})

    def _charter(self) -> Charter:
        signed = self.last.signed_charter()
        if signed is None:
            raise ForgettingError(
                "sites sign the repetition of a verified run only. Who has the data of all sites "
                "can repeat this one, and compare its SHA-256."
            )
        return signed.charter


def _same_terms(old: Charter, new: Charter) -> bool:
    """Whether two runs differ in their sites only, and in a quorum that these cannot reach."""
    before, after = old.terms["settings"], new.terms["settings"]
    fitting = {
        "options": {**before["options"], SITES: after["options"].get(SITES)},
        "quorum": min(before["quorum"], len(new.sites)),
    }
    same_version: bool = old.terms["version"] == new.terms["version"]
    return same_version and {**before, **fitting} == after


def _bytes(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""
