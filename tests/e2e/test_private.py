"""Differential privacy over real engines, and in a consortium with its own noise and ledger."""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path
from typing import Any, Literal

import pytest

import ramet
from consortia import consortium
from ramet.deploy.due import Due
from ramet.deploy.releases import Releases
from ramet.deploy.run import run_consortium
from ramet.deploy.site import POLICY, add_member
from ramet.engine.site.ledger import NAME, Ledger
from ramet.errors import RametError
from ramet.experiment import RunFolder

pytestmark = [pytest.mark.e2e, pytest.mark.thorough]
GRAPH = "unit=graph,epsilon=2,delta=1e-3"
SITE = "unit=site,epsilon=2,delta=1e-3"
LINK = "unit=link,epsilon=2,delta=1e-3"
SHARED = "unit=site,epsilon=2,delta=1e-3,colluders=1"
"""With noise inside secure sums."""


@pytest.mark.parametrize(
    ("engine", "dp"),
    [
        ("ray", GRAPH),
        ("superlink", GRAPH),
        ("ray", SHARED),
        ("superlink", SHARED),
        ("superlink", SITE),
        ("ray", LINK),
        ("superlink", LINK),
    ],
)
def test_engines_agree_on_private_runs(
    engine: Literal["ray", "superlink"], dp: str, tmp_path: Path
) -> None:
    of_links = {"setting": "planted", "network": "hops", "nodes": 200, "links": 400, "clients": 4}
    given: Any = {"rounds": 2, "dp": dp, **(of_links if dp == LINK else {"setting": "tiny"})}
    given |= {"secure": dp == SHARED}
    expected = ramet.run("fedavg", out=tmp_path / "local", **given)
    result = ramet.run("fedavg", engine=engine, out=tmp_path / "r", **given)
    for fact in ("sha256", "scores", "traffic", "privacy"):
        assert getattr(result.summary, fact) == getattr(expected.summary, fact)


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
def test_a_consortium_spends_its_budget_once(tmp_path: Path) -> None:
    """The second run would exceed the sites' ceilings, so they refuse its first round."""
    three = dict.fromkeys(("north", "south", "east"), ("mass",))
    with consortium(tmp_path, three, method="fedstar", rounds=2, seed=3, dp=GRAPH) as members:
        for site in members.sites:
            text = '[privacy]\nunit = "graph"\nepsilon = 2\ndelta = 1e-3\n'
            (site.folder / POLICY).write_text(text)

        def run(name: str) -> RunFolder:
            coordinator, quiet = members.coordinator, lambda _: None
            return run_consortium(coordinator, tmp_path / name, tmp_path, 300.0, quiet, quiet)

        summary = run("first").summary()
        assert summary is not None
        assert summary.privacy is not None
        assert not summary.privacy.simulated
        for site in members.sites:
            spent = Ledger(site.folder / "state" / NAME).spent("graph", 1e-3)
            assert 1.9 < spent <= 2.0
        with pytest.raises(RametError):
            run("second")
        for site in members.sites:
            assert len(Ledger(site.folder / "state" / NAME).runs()) == 1


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
def test_a_schedule_stops_when_the_budget_is_spent(tmp_path: Path) -> None:
    """The sites' ceilings, as `join` writes them, allow one run; the next one spends nothing."""
    three = dict.fromkeys(("north", "south", "east"), ("mass",))
    schedule = {"every": "month", "start": "seed"}
    given: Any = {"method": "fedstar", "rounds": 1, "quorum": 3, "dp": GRAPH, "schedule": schedule}
    with consortium(tmp_path, three, **given) as members:
        quiet: Any = lambda _: None  # noqa: E731

        def due(day: date) -> None:
            Due(members.coordinator, day, tmp_path, 1200.0, quiet, quiet).work()

        due(date(2026, 1, 5))
        with pytest.raises(RametError, match="`privacy`: with this round, the site would"):
            due(date(2026, 2, 5))
        first, *_, failed = Releases.read(members.coordinator.folder).entries
        assert (first.run, failed.event, failed.run) == ("2026-01", "failed", "2026-02")
        for site in members.sites:
            ledger = Ledger(site.folder / "state" / NAME)
            assert len(ledger.runs()) == 1
            assert 1.9 < ledger.spent("graph", 1e-3) <= 2.0


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
def test_the_sites_of_a_consortium_share_the_noise_of_a_sum(tmp_path: Path) -> None:
    """Its own policy is each site's: one that assumes more colluders takes no part."""
    pytest.importorskip("opendp", reason="the extra `privacy` is not installed")
    three = dict.fromkeys(("north", "south", "east"), ("mass",))
    given: Any = {"method": "fedstar", "rounds": 2, "seed": 3, "secure": True, "dp": SHARED}
    with consortium(tmp_path, three, **given) as members:
        for site in members.sites:
            for other in members.sites:
                name = other.settings.site
                add_member(other.folder / f"{name}.application.toml", site.folder)

        def run(name: str) -> RunFolder:
            coordinator, quiet = members.coordinator, lambda _: None
            return run_consortium(coordinator, tmp_path / name, tmp_path, 300.0, quiet, quiet)

        summary = run("first").summary()
        assert summary is not None
        assert summary.privacy is not None
        assert summary.privacy.sentence == (
            "ε = 2, δ = 0.001 for each site's update in sums of 3 or more sites, 1 colluding"
        )
        for site in members.sites:
            ledger = Ledger(site.folder / "state" / NAME)
            (entry,) = ledger.runs().values()
            assert entry.discrete
            assert entry.terms.endswith("survivors=3 colluders=1 discrete")
            assert 1.9 < ledger.spent("site", 1e-3) <= 2.0
        text = '[privacy]\nunit = "site"\nepsilon = 9\ndelta = 1e-3\ncolluders = 2\n'
        (members.sites[0].folder / POLICY).write_text(text)
        with pytest.raises(RametError):
            run("second")
