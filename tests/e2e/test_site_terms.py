"""A coordinator that changes the run config, and real sites that answer to their own settings."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ramet
from consortia import Members, consortium
from federations import merged_sha256
from own_sites import graph_site
from ramet.deploy.run import run_consortium
from ramet.engine.site.audit import audit_entries
from ramet.errors import RametError
from ramet.events import read_lines
from ramet.flower.programs import Flower
from ramet.flower.run_config import run_config_digest, to_run_config
from ramet.flower.submission import Submission
from ramet.flower.thin_app import thin_app

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.thorough,
    pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed"),
]
SITES = {"north": ("mass",), "south": ("mass",)}
ROUNDS, SEED = 2, 3
TASK = "task=graph-classification"


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Members]:
    root = tmp_path_factory.mktemp("terms")
    options = {"hidden": "16"}
    with consortium(
        root, SITES, method="fedstar", rounds=ROUNDS, seed=SEED, quorum=2, options=options
    ) as found:
        yield found


def _config(members: Members, folder: Path) -> dict[str, Any]:
    settings = members.coordinator.consortium.settings(Path("absent"))
    return {**to_run_config(settings, folder), "keys": str(members.coordinator.admitted)}


@pytest.mark.parametrize(
    ("setting", "changes"),
    [
        ("sites", {"options": f"hidden=16 {TASK} sites='OTHER south'"}),
        ("share", {"share": "*"}),
        ("method", {"method": "local-gcn", "share": "*"}),
        ("method", {"method": "feddense"}),
        ("hidden", {"options": f"{TASK} sites='north south'"}),
    ],
)
def test_a_changed_run_config_is_refused_by_name(
    setting: str, changes: dict[str, Any], members: Members, tmp_path: Path
) -> None:
    other = graph_site(tmp_path / "north", ("mass",), graphs=24)
    changed = {name: str(value).replace("OTHER", str(other)) for name, value in changes.items()}
    flower = Flower(members.coordinator.flower.home, tmp_path / "logs")
    before = {site.events: len(read_lines(site.events)) for site in members.sites}
    with pytest.raises(RametError, match=f"`{setting}`: this site does not allow") as raised:
        Submission(flower).run(
            app=thin_app(),
            config={**_config(members, tmp_path / "r"), **changed},
            simulated_clients=0,
            on_poll=lambda: None,
        )
    shown = str(raised.value) + (tmp_path / "logs" / "run.log").read_text()
    for site in members.sites:
        assert str(site.folder) not in shown
        refused, failed = read_lines(site.events)[before[site.events] :]
        assert refused["event"] == "run refused"
        assert refused["reason"].startswith(f"`{setting}`: this site does not allow")
        assert failed["event"] == "message failed"
    assert not (tmp_path / "r" / "rounds.jsonl").exists()


def test_the_permitted_run_gives_the_local_engines_model(members: Members, tmp_path: Path) -> None:
    files = shlex.join(str(site.settings.data) for site in members.sites)
    local = ramet.run(
        "fedstar", "own", rounds=ROUNDS, seed=SEED, out=tmp_path / "l", sites=files, hidden=16
    )
    run = run_consortium(
        members.coordinator, tmp_path / "r", tmp_path, 300.0, lambda _: None, members.output.append
    )
    summary = run.summary()
    assert summary is not None
    assert summary.sha256 == merged_sha256(local.folder)
    config = {**_config(members, run.path), "data": str(tmp_path)}
    for site in members.sites:
        entries, _ = audit_entries(site.folder / "state")
        assert {entry.run for entry in entries} == {run.run_name}, "a refused run left a reply"
        assert {entry.data for entry in entries} == {str(site.settings.data)}
        assert {entry.sharing for entry in entries} == {"structure.*"}
        assert {entry.run_config for entry in entries} == {run_config_digest(config)}
