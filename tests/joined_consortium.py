"""Joined sites with their default policies, and a coordinator that asks them what it likes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from joined_sites import Joined, joined_site
from own_sites import node_site
from ramet.deploy.site import Site, add_member, join
from ramet.engine.messages import request
from ramet.engine.secure_messages import context_digest
from ramet.engine.server.secure_steps import PendingSum, SecureState, sum_of, with_keys
from ramet.experiment import Experiment
from ramet.experiment.server_side import rounds_of
from ramet.payload import Array, Arrays, Payload
from ramet.rules.fixed_point import RingTotal


@dataclass(frozen=True)
class JoinedConsortium:
    """Sites in this process that have joined, and know each other's keys."""

    joined: Joined
    sites: Mapping[str, Site]

    def ask(self, client: str, message: Payload, run: str) -> Payload:
        """A site's reply; a site that refuses raises its error."""
        joined = replace(self.joined, site=self.sites[client])
        named = replace(message, notes={**message.notes, "run": run})
        return joined.deliver(joined.signed(named), joined.config())

    @cached_property
    def experiment(self) -> Experiment:
        """The run as the coordinator knows it, with the sites' schemas read from their files."""
        settings = self.joined.coordinator.consortium.settings(Path("absent"))
        files = " ".join(str(site.settings.data) for site in self.sites.values())
        options = {**settings.options, "sites": files}
        return Experiment(settings.model_copy(update={"options": options}))

    @cached_property
    def start(self) -> Arrays:
        """The shared arrays before round 1."""
        return self.experiment.sizes.shared_start()


def joined_consortium(
    root: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], **settings: Any
) -> JoinedConsortium:
    """Set up a consortium whose sites have joined with different data and default policies."""
    monkeypatch.setattr("joined_sites.SITES", names)
    joined = joined_site(root, monkeypatch, **settings)
    sites = {names[0]: joined.site}
    for seed, name in enumerate(names[1:], start=2):
        invitation = joined.coordinator.folder / "invitations" / f"{name}.toml"
        data = node_site(root / "graphs" / name, seed)
        sites[name], _ = join(invitation, data, root / name, 9094, lambda _: None)
    for site in sites.values():
        for name, other in sites.items():
            add_member(other.folder / f"{name}.application.toml", site.folder)
    return JoinedConsortium(joined, sites)


@dataclass
class LyingCoordinator:
    """Runs secure sums over whom it likes, and claims that others have dropped out."""

    consortium: JoinedConsortium
    run: str
    state: SecureState = field(default_factory=SecureState)

    def ask(
        self,
        step: str,
        requests: Mapping[str, Payload],
        fault: Callable[[str, Payload], str | None],
        needed: int,
    ) -> Mapping[str, Payload]:
        replies = {c: self.consortium.ask(c, m, self.run) for c, m in requests.items()}
        assert not any(fault(client, reply) for client, reply in replies.items())
        return replies

    def sum(
        self,
        number: int,
        arrays: Arrays,
        train: bool = True,
        members: Collection[str] = (),
        without: Collection[str] = (),
    ) -> dict[str, Array]:
        """The sum over the members without those that are said to have dropped out."""
        clients = tuple(sorted(members or self.consortium.sites))
        self.state = with_keys(self.state, clients, number, 4, self.ask)
        total, survivors = RingTotal(), tuple(c for c in self.state.members if c not in without)
        message = request(number, train, arrays)
        message = replace(message, notes={**message.notes, **self.state.notes()})
        for client in self.state.members:
            reply = self.consortium.ask(client, message, self.run)
            if client in survivors:
                total.add(reply.arrays)
        experiment = self.consortium.experiment
        context = context_digest(message, rounds_of(experiment, Path("absent")).config)
        pending = PendingSum(number, survivors, total.arrays, context, {})
        sums, self.state = sum_of(self.state, pending, train, self.ask)
        assert experiment.method.summation is not None
        return experiment.method.summation.decode(sums, len(experiment.clients))
