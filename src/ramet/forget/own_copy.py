"""What a site has itself of a run, before it signs a certificate about it."""

from __future__ import annotations

from pathlib import Path

from ramet.engine.chain import FILE, Link, read_links, slices_of
from ramet.engine.server.state import RunState
from ramet.engine.site.site_chain import FOLDER
from ramet.engine.store.checkpoint import Snapshots
from ramet.flower.chain_copies import chain_copies
from ramet.forget.certificate import Certificate
from ramet.forget.pair import ForgettingError, RunFacts


def check_own_copies(certificate: Certificate, site: str, state: Path) -> None:
    """Raise ForgettingError unless the repeated runs are what the site has computed itself."""
    certificate.check()
    for pair in certificate.runs:
        if site in pair.after.sites:
            pair.after.check_chain(chain_copies([state], pair.after.chain))
            _check_learnt(pair.after, site, state)
        if site in pair.before.sites:
            _check_before(pair.before, site, state)


def _check_before(run: RunFacts, site: str, state: Path) -> None:
    """Compare what the site has of the old run, which it need not have followed to its end."""
    links = read_links(_chain(run, site, state) / FILE)
    if len(links) < run.links or not links:
        return
    if len(links) > run.links or links[-1].digest != run.end:
        raise ForgettingError(f"the chain of the run {run.name} ends elsewhere.")
    if run.learnt is not None:
        _check_learnt(run, site, state)


def _chain(run: RunFacts, site: str, state: Path) -> Path:
    return state / "clients" / str(run.chain) / site / FOLDER


def _check_learnt(run: RunFacts, site: str, state: Path) -> None:
    saved = Snapshots(_chain(run, site, state)).latest_valid()
    if saved is None or Link.parse(saved.facts["link"]).digest != run.end:
        raise ForgettingError(f"{site} has not followed the run {run.name} to its end.")
    model = RunState(slices_of(saved.arrays, saved.facts["slices"]))
    if model.sha256({}) != run.learnt:
        raise ForgettingError(f"{site} has computed another model than that of {run.name}.")
