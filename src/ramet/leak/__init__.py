"""What a run gives away: attacks on one's own finished runs, each with an interval."""

from ramet.leak.attacked import Effort
from ramet.leak.audit import audit
from ramet.leak.findings import ATTACKS, NAME, VIEWS, Audit, Finding, parse_bars, stored_audit

__all__ = [
    "ATTACKS",
    "NAME",
    "VIEWS",
    "Audit",
    "Effort",
    "Finding",
    "audit",
    "parse_bars",
    "stored_audit",
]
