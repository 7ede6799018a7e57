"""A consortium's run that starts with the models of its last one, on data that have grown."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

import ramet
from consortia import Members, consortium
from federations import merged_sha256
from own_sites import graph_site
from ramet.deploy.run import run_consortium
from ramet.deploy.site import add_member
from ramet.engine.site.kept_models import FINAL
from ramet.experiment import RunFolder
from ramet.experiment.site_record import PARTS

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.thorough,
    pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed"),
]
SITES = {"north": ("mass",), "south": ("mass", "charge"), "east": ("spin",)}


def trained(members: Members, out: Path, start_from: Path | None = None) -> RunFolder:
    say = members.output.append
    return run_consortium(
        members.coordinator, out, out.parent, 300.0, lambda record: None, say, start_from
    )


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "secure"])
def test_it_is_the_run_that_one_process_computes(secure: bool, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"method": "fedstar", "rounds": 2, "quorum": 3, "secure": secure}
    with consortium(tmp_path / "c", SITES, **settings) as members:
        if secure:
            _exchange_keys(members)
        files = shlex.join(str(site.settings.data) for site in members.sites)
        first = trained(members, tmp_path / "first")
        given: dict[str, Any] = {"rounds": 2, "sites": files, "secure": secure}
        alone = ramet.run("fedstar", "own", out=tmp_path / "alone", **given)
        graph_site(members.site("north").settings.data.parent, SITES["north"], graphs=30)
        second = trained(members, tmp_path / "second", first.path)
        expected = ramet.run(
            "fedstar", "own", out=tmp_path / "again", start_from=alone.folder, **given
        )
        summary = second.summary()
        assert summary is not None
        assert summary.sha256 == merged_sha256(expected.folder) != merged_sha256(alone.folder)
        start, last = second.records()[0].start, first.records()[-1].evaluated
        if secure:
            assert start == {}
        else:
            assert start.keys() == {*SITES}
            assert start["south"] == last["south"]  # the same model on the same rows
        for site in SITES:
            state = members.site(site).folder / "state" / "clients" / second.run_name / site
            assert (state / FINAL).is_dir()
            kept = RunFolder(expected.folder).clients / site / PARTS
            assert (state / PARTS).read_text() == kept.read_text()


def _exchange_keys(members: Members) -> None:
    for site in members.sites:
        for other in members.sites:
            add_member(other.folder / f"{other.settings.site}.application.toml", site.folder)
