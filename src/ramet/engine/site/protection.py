"""What protects a client's data, and the order in which replies pass it on their way out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from ramet.engine.site.answered import Answered
from ramet.engine.site.audit import AuditLog
from ramet.engine.site.gates import Gate
from ramet.engine.site.inner_gates import (
    Declared,
    Noised,
    Permission,
    Questioned,
    Released,
    Summed,
    Undisclosed,
)
from ramet.engine.site.limit import SiteLimit
from ramet.engine.site.noisy_sums import NoisedSum
from ramet.engine.site.outer_gates import (
    Audited,
    Chained,
    Counted,
    Measured,
    Once,
    Permitted,
    Tagged,
    Unlinked,
    secure_gates,
)
from ramet.engine.site.private_site import PrivateSite
from ramet.engine.site.request import Opened, Request
from ramet.engine.site.run_answers import RunAnswers
from ramet.engine.site.work import Fit, FitPrivately, fit_openly
from ramet.policy import NO_RULES, Policy, PolicyError
from ramet.rules.method import AssembledMethod

if TYPE_CHECKING:
    from ramet.engine.site.secure_site import SecureSite  # these need an extra
    from ramet.engine.site.site_chain import SiteChain

T = TypeVar("T")


@dataclass(frozen=True)
class Protection:
    """The terms of a run and of a site, from which the gates of a client are put together."""

    audit: AuditLog | None = None
    limit: SiteLimit | None = None
    """What the site lets out, whatever the run shares; None for all that the run shares."""
    clients: int = 1
    """The number of clients of the run."""
    secure: SecureSite | None = None
    """The site's side of secure sums, if the run has them."""
    chain: SiteChain | None = None
    """The site's copy of the run's chain, if its sites verify it."""
    private: PrivateSite | None = None
    """The site's side of differential privacy, if the run has it."""
    policy: Policy = NO_RULES
    """What may leave, and under which conditions."""
    answered: Answered | None = None
    """What the site has answered over all runs, which its policy may limit."""
    run_answers: RunAnswers | None = None
    """What was answered before, so that each question is answered once; None for no limit."""
    deployed: bool = False
    """Whether the client is a site of its own; otherwise it is one of a simulation."""

    def fit(self) -> Fit:
        """How the client trains."""
        private = self._private("graph")
        return fit_openly if private is None else FitPrivately(private)

    def inner(self, method: AssembledMethod) -> tuple[Gate[Opened], ...]:
        """The gates inside the client's state, the first that a reply passes first."""
        site, summation = self._private("site"), method.summation
        secret = self.deployed or site is not None
        in_sum = site is not None and site.share is not None
        releases = enumerate(method.release)
        terms = self.clients, self._permission(), self.secure is not None
        return _present(
            Declared(self.limit),
            Undisclosed() if secret else None,
            None if site is None or in_sum else Noised(site),
            *(Released(release, f"release {index}") for index, release in releases),
            None if summation is None else self._summed(Summed(method, summation, *terms)),
            *self._tagged(in_secret=True),
            None if self.secure is None else Questioned(),
        )

    def _summed(self, summed: Summed) -> Gate[Opened]:
        """The gate of sums in fixed point, with noise in them if the run's unit is a site."""
        site = self._private("site")
        if site is None or site.share is None:
            return summed
        if self.secure is not None:
            self.secure.members.check_colluders(site.share.colluders)
        return NoisedSum(summed, site, site.share)

    def outer(self) -> tuple[Gate[Request], ...]:
        """The gates around the client's state, the first that a reply passes first."""
        self._check_policy()
        links, secure = self._private("link"), self.secure
        return _present(
            None if links is None else Unlinked(links),
            *self._once(),
            Counted(),
            Measured() if secure is None else None,
            Permitted(self.policy, self._permission(), self.answered),
            *self._tagged(in_secret=False),
            None if self.chain is None else Chained(self.chain, secure is not None),
            None if self.audit is None else Audited(self.audit),
        )

    def _once(self) -> tuple[Gate[Request], ...]:
        """The gates that answer each question once."""
        if self.secure is not None:
            return secure_gates(self.secure)
        return () if self.run_answers is None else (Once(self.run_answers),)

    def _tagged(self, in_secret: bool) -> tuple[Tagged, ...]:
        """The gate with tags is where a reply is what is summed: before masks, after a policy."""
        is_here = in_secret == (self.secure is not None)
        return (Tagged(self.chain),) if self.chain is not None and is_here else ()

    def _private(self, unit: str) -> PrivateSite | None:
        """The site's side of differential privacy, if it protects this unit."""
        is_unit = self.private is not None and self.private.budget.unit == unit
        return self.private if is_unit else None

    def _permission(self) -> Permission:
        """Which numbers leave: neither policy nor privacy forbids them."""
        own = (self.policy.numbers, ())
        if self.private is None:
            return Permission((own,))
        return Permission(((self.private.numbers(self.policy.numbers), ("loss",)), own))

    def _check_policy(self) -> None:
        """Refuse to let anything out without what the policy asks for."""
        if self.policy.secure == "required" and self.secure is None:
            raise PolicyError("`secure`: this site's replies leave inside secure sums only.")
        if self.policy.privacy is not None and self.private is None:
            raise PolicyError(
                "`privacy`: this site's replies leave with differential privacy only."
            )
        for key in self.policy.limits if self.answered is None else ():
            raise PolicyError(f"`{key}`: this site does not keep what it has answered.")


def _present(*gates: T | None) -> tuple[T, ...]:
    return tuple(gate for gate in gates if gate is not None)
