"""A site of a consortium in a run that its sites verify: with its own key and its own charters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ramet.engine.site.protection import Protection
from ramet.experiment import Experiment
from ramet.flower.permission import NotAllowedError
from ramet.flower.site_charters import FOLDER, SiteCharters
from ramet.flower.terms import MEMBERS, SETTINGS


def site_charters(node_config: Mapping[str, object]) -> SiteCharters | None:
    """The charters of a site; None for one that has joined no consortium, so has no keys."""
    if SETTINGS not in node_config or MEMBERS not in node_config:
        return None
    return SiteCharters(Path(str(node_config["state"])) / FOLDER, str(node_config["client"]))


def verified(
    protection: Protection, node_config: Mapping[str, object], experiment: Experiment, states: Path
) -> Protection:
    """The protection with the charter that the site has signed, if the run has one.

    No secure sum is then over fewer sites than the charter says.
    """
    charters = site_charters(node_config)
    if protection.chain is None or charters is None:
        return protection
    from ramet.experiment.chain_parts import charter_terms, site_chain  # these need an extra
    from ramet.secure.charter import canonical

    member = charters.member(states.name)
    if canonical(member.charter.terms) != canonical(charter_terms(experiment)):
        raise NotAllowedError("the run's settings are not those of the charter that was signed.")
    secure = protection.secure
    if secure is not None and secure.members.smallest is not None:
        smallest = max(secure.members.smallest, member.charter.quorum)
        secure = replace(secure, members=replace(secure.members, smallest=smallest))
    return replace(protection, chain=site_chain(experiment, member, states), secure=secure)
