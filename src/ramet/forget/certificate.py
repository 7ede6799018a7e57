"""The certificate of a repetition without a site, which the coordinator and the other sites sign.

It says which run was repeated as which, with the hashes of what both have learnt. If the runs are
verified, it has their charters and the ends of their chains, too. A charter lists the sites whose
replies count, every link of the chain is signed by those who replied, and the model follows from
the chain: so the repeated model depends on no reply of the forgotten site. The certificate cannot
say that no copy of the old model is left; it lists those that the coordinator says to have found.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, ValidationError

from ramet.disk import write_atomically
from ramet.forget.pair import ForgettingError, Frozen, Pair, RunFacts
from ramet.version import __version__

if TYPE_CHECKING:  # need an extra
    from ramet.secure.charter import Charter
    from ramet.secure.identity import Identity

FILE = "forgotten.json"


class Descendant(Frozen):
    """Something that has what a run has learnt."""

    kind: Literal["run", "export"]
    folder: str
    """Relative to where it was searched for."""
    of: str
    """The name of the run that it comes from."""


class CoordinatorSignature(Frozen):
    """Of the key that signs requests to sites."""

    certificate: str
    """The authority's certificate for the key, as PEM."""
    signature: str


class Certificate(Frozen):
    """What was forgotten, and how."""

    format: Literal[1] = 1
    ramet: str
    date: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\d$")]
    site: str
    people: int | None = None
    """How many people of the site were forgotten; None for all of it."""
    runs: tuple[Pair, ...]
    """The earliest first; the last one is the run that was asked for."""
    descendants: tuple[Descendant, ...]
    """Copies of the old models that were found, and that the repetition does not replace."""
    signatures: dict[str, str] = Field(default_factory=dict)
    """Of the other sites."""
    coordinator: CoordinatorSignature | None = None

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
            return Certificate.parse(path.read_text())
        except (OSError, UnicodeDecodeError) as error:
            raise ForgettingError(f"cannot read {path} ({error}).") from error

    @staticmethod
    def parse(text: str) -> Certificate:
        """The certificate in its one form, so that people read what programs read."""
        try:
            certificate = Certificate.model_validate_json(text)
        except ValidationError as error:
            raise ForgettingError("not a certificate of forgetting.") from error
        if certificate.text.strip() != text.strip():
            raise ForgettingError("not a certificate of forgetting in its one form.")
        return certificate

    @property
    def text(self) -> str:
        return self.model_dump_json(indent=1) + "\n"

    def write(self, path: Path) -> None:
        write_atomically(path, self.text)

    @property
    def statement(self) -> bytes:
        """What each of them signs: everything but the signatures."""
        content = self.model_dump_json(exclude={"signatures", "coordinator"})
        digest = hashlib.sha256(content.encode()).hexdigest()
        return f"a certificate of forgetting in Ramet {digest}".encode()

    @property
    def last(self) -> RunFacts:
        return self.runs[-1].after

    def check(self) -> None:
        """Raise ForgettingError unless what it says fits together; signatures are not looked at."""
        if not self.runs:
            raise ForgettingError("the certificate has no runs.")
        if self.last.charter is not None and len(self.runs) > 1:
            raise ForgettingError("verified runs start from no others, but it has several.")
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
        charter = self.charter
        if {*self.signatures} != {*charter.sites}:
            missing = {*charter.sites} - {*self.signatures}
            raise ForgettingError(
                f"not signed by {', '.join(sorted(missing)) or 'its sites alone'}."
            )
        for site, member in charter.sites.items():
            if not is_signed(self.statement, _bytes(self.signatures[site]), member.key):
                raise ForgettingError(f"the signature of {site} is not of this certificate.")

    def check_coordinator(self, authority: Path) -> None:
        """Raise ForgettingError unless the coordinator that an authority has named has signed."""
        from ramet.flower.signing import is_coordinators

        if self.coordinator is None:
            raise ForgettingError("not signed by the coordinator.")
        own, signature = self.coordinator, _bytes(self.coordinator.signature)
        if not is_coordinators(self.statement, signature, own.certificate, authority):
            raise ForgettingError(
                f"the signature is not that of the coordinator whose authority is {authority}."
            )

    def signed_by_coordinator(
        self, identity: Identity, certificate: str, admitted: Mapping[str, str]
    ) -> Certificate:
        """With the coordinator's signature, if the sites have the keys that it has admitted."""
        self.check()
        for site, member in self.charter.sites.items():
            if admitted.get(site) != member.key:
                raise ForgettingError(f"{site} is not admitted with the key of the charter.")
        if self.people is None and self.site in admitted:
            raise ForgettingError(f"{self.site} is still admitted. Revoke its key first.")
        signature = identity.sign(self.statement).hex()
        own = CoordinatorSignature(certificate=certificate, signature=signature)
        return self.model_copy(update={"coordinator": own})

    def signed_by(self, site: str, identity: Identity) -> Certificate:
        """With the signature of a site, whose key the charter has."""
        member = self.charter.sites.get(site)
        if member is None or member.key != identity.public:
            raise ForgettingError(f"{site} is not a site of the repeated run, with this key.")
        own = {site: identity.sign(self.statement).hex()}
        return self.model_copy(update={"signatures": {**self.signatures, **own}})

    @property
    def charter(self) -> Charter:
        """The charter of the repeated run, whose sites sign."""
        signed = self.last.signed_charter()
        if signed is None:
            raise ForgettingError(
                "sites sign the repetition of a verified run only. Who has the data of all sites "
                "can repeat this one, and compare its SHA-256."
            )
        if signed.charter.is_simulated:
            raise ForgettingError(
                "the keys of a simulation follow from its seed, so anybody could sign. Repeat the "
                "run, and compare its SHA-256."
            )
        return signed.charter


def _bytes(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""
