"""Charters and chains as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ramet.flower.site_charters import Proposal
from ramet.secure.charter import SIMULATED, SignedCharter
from ramet.secure.identity import fingerprint


def charter_lines(signed: SignedCharter) -> Iterator[str]:
    charter = signed.charter
    yield f"charter {charter.identity}"
    yield from _lines(charter.terms, charter.quorum, {s: m.key for s, m in charter.sites.items()})


def proposal_lines(proposal: Proposal) -> Iterator[str]:
    yield f"waits for a signature: {proposal.agreement}"
    yield from _lines(proposal.terms, proposal.quorum, proposal.keys)


def _lines(terms: Mapping[str, Any], quorum: int, keys: Mapping[str, str]) -> Iterator[str]:
    for name, value in terms["settings"].items():
        if value is not False and value not in (None, {}, []):
            yield f"  {name}: {value}"
    for node_type, columns in terms.get("preparation", {}).get("types", {}).items():
        for column, own in columns.items():
            facts = ", ".join(f"{name} {value}" for name, value in own.items() if value)
            yield f"  {node_type}.{column}: {facts}"
    yield f"  replies in each round: at least {quorum} of {len(keys)}"
    drawn = "from the command" if SIMULATED in terms else "drawn by all sites together"
    yield f"  seed: {drawn}"
    yield f"  Ramet: {terms['version']}"
    for site, key in keys.items():
        yield f"  {site}: {fingerprint(key)}"
