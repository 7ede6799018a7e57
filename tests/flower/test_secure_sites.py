"""Three joined sites with keys of their own, whose policies require secure sums."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from federations import merged_sha256
from joined_sites import Joined, joined_site
from own_sites import node_site
from ramet.deploy.site import MEMBERS, POLICY, Site, add_member, join
from ramet.engine.processes.local import LocalWire
from ramet.engine.server.wire import Answer
from ramet.errors import RametError
from ramet.experiment import Experiment
from ramet.experiment.client_side import client_of
from ramet.experiment.server_side import rounds_of
from ramet.payload import Payload

NAMES = ("north", "south", "east")


@dataclass
class SiteWire:
    """Carries messages to the client apps of joined sites, in this process."""

    joined: Joined
    sites: dict[str, Site]

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]:
        for client, request in requests:
            joined = replace(self.joined, site=self.sites[client])
            try:
                yield client, joined.deliver(joined.signed(request), joined.config())
            except RametError as error:
                yield client, str(error)


def test_sites_accept_only_members_whose_keys_they_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("joined_sites.SITES", NAMES)
    joined = joined_site(tmp_path, monkeypatch, secure=True, rounds=1)
    sites = {"north": joined.site}
    for name in NAMES[1:]:
        invitation = joined.coordinator.folder / "invitations" / f"{name}.toml"
        data = node_site(tmp_path / "graphs" / name)
        sites[name], _ = join(invitation, data, tmp_path / name, 9094, lambda _: None)
    for site in sites.values():
        (site.folder / POLICY).write_text('secure = "required"\nmembers = 3\n')
    data = node_site(tmp_path / "graphs" / "north").parent.parent
    files = " ".join(str(data / name / "site.toml") for name in NAMES)
    settings = joined.coordinator.consortium.settings(Path("absent"))
    local = settings.model_copy(update={"options": {**settings.options, "sites": files}})
    run = replace(rounds_of(Experiment(local), tmp_path / "server"), retry_delays=())
    wire = SiteWire(joined, sites)
    with pytest.raises(RametError, match=r"0 of 3 sites answered the step 'shares'"):
        run.run(wire, lambda _: None)
    for site in sites.values():
        for name, other in sites.items():
            add_member(other.folder / f"{name}.application.toml", site.folder)
        assert (site.folder / MEMBERS).stat().st_mode & 0o077 == 0
    sha256 = run.run(wire, lambda _: None)
    plain = local.model_copy(update={"secure": False, "merge": "fixed-point"})
    experiment = Experiment(plain)
    rounds_of(experiment, tmp_path / "plain" / "server").run(
        LocalWire(lambda client: client_of(experiment, client, tmp_path / "plain")), lambda _: None
    )
    assert sha256 == merged_sha256(tmp_path / "plain")
