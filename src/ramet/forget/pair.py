"""What a certificate of forgetting says of a run and its repetition, and whether it fits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from ramet.errors import RametError
from ramet.experiment import RunFolder
from ramet.experiment.files import read_json
from ramet.experiment.run_facts import DATA_SHA256, SPLIT
from ramet.experiment.start_from import START_FILE
from ramet.partition.own import SITES

if TYPE_CHECKING:  # need an extra
    from ramet.engine.chain_audit import Copy
    from ramet.secure.charter import Charter, SignedCharter

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class ForgettingError(RametError):
    """A certificate does not say what it should, or somebody has not signed it."""


class Frozen(BaseModel):
    """Facts that nothing else may be beside."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def started_from(folder: RunFolder) -> str | None:
    """The name of the run that a run was started from."""
    path = folder.path / START_FILE
    return str(read_json(path)["run"]) if path.exists() else None


class RunFacts(Frozen):
    """A run, and what its sites have signed if they verify it."""

    name: str
    command: str | None
    """None of a verified run, whose charter says more."""
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
        return facts.model_copy(update={"charter": signed.text(), "command": None, **chain})

    def signed_charter(self) -> SignedCharter | None:
        """The charter, with valid signatures of all sites of the run."""
        if self.charter is None:
            return None
        from ramet.secure.charter import SignedCharter

        signed = SignedCharter.parse(self.charter)
        signed.check()
        charter = signed.charter
        is_named = self.name in (charter.identity, charter.nonce)  # the latter in a simulation
        if (
            not is_named
            or {*charter.sites} != {*self.sites}
            or self.rounds != _settings(charter)["rounds"]
            or (self.command, self.started_from) != (None, None)
            or not (charter.is_simulated or {*self.sites.values()} == {None})
        ):  # no site has signed anything of that
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
        from ramet.rules.extras import TRAINING

        for found in compare(copies):
            if found.state == "broken":
                raise ForgettingError(f"the chain of {found.holder} is broken: {found.detail}.")
        signed = self.signed_charter()
        if signed is None or any(copy.charter.charter != signed.charter for copy in copies):
            raise ForgettingError(f"the copies of a chain are not of the run {self.name}.")
        longest = max((copy.lines for copy in copies), key=len)
        last = Link.parse(longest[-1]) if longest else None
        if last is None or (len(longest), last.digest) != (self.links, self.end):
            raise ForgettingError(f"the chain of the run {self.name} ends elsewhere.")
        stops_early = _settings(signed.charter).get("patience") is not None
        if not stops_early and (last.round, last.exchange) != (self.rounds, TRAINING):
            raise ForgettingError(
                f"the chain of the run {self.name} ends in round {last.round} of {self.rounds}."
            )


class Pair(Frozen):
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
        if old is None or new is None:
            return
        if not _same_terms(old.charter, new.charter):
            raise ForgettingError(f"{after.name} has other terms than {before.name}.")
        keys = [member.key for member in new.charter.sites.values()]
        gone = set() if people else {old.charter.sites[site].key}
        if len({*keys}) < len(keys) or gone & {*keys}:
            raise ForgettingError(
                f"a site of {after.name} has the key of another one, or of {site}."
            )


def _same_terms(old: Charter, new: Charter) -> bool:
    """Whether two runs differ in their sites only, and in a quorum that these cannot reach."""
    before, after = _settings(old), _settings(new)
    fitting = {
        "options": {**before["options"], SITES: after["options"].get(SITES)},
        "quorum": min(before["quorum"], len(new.sites)),
    }
    same_kind = old.is_simulated == new.is_simulated
    same_version: bool = old.terms.get("version") == new.terms.get("version")
    return same_kind and same_version and {**before, **fitting} == after


def _settings(charter: Charter) -> dict[str, Any]:
    """The settings of a run, as far as all of its sites agree on them."""
    match charter.terms:
        case {"settings": {"options": dict(), "quorum": int(), "rounds": int()} as settings}:
            return {**settings}
    raise ForgettingError("the charter has no settings of a run.")
