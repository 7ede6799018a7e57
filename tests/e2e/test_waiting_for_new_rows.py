"""A schedule that waits until enough sites have new rows, with real processes on loopback.

In between, the coordinator frees space.
"""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path

import pytest
import tomli_w

from consortia import Members, consortium
from own_sites import graph_site
from ramet.deploy.due import Due, roll_back
from ramet.deploy.releases import Releases
from ramet.errors import RametError
from ramet.experiment import RunFolder

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed"),
]
SITES = {"north": ("mass",), "south": ("mass",)}
SETTINGS = {"method": "fedstar", "rounds": 1, "deadline": 60.0}
SCHEDULE = {"every": "month", "new": 2}


def due(members: Members, month: int, root: Path) -> list[str]:
    said: list[str] = []
    day = date(2026, month, 5)
    Due(members.coordinator, day, root, 300.0, lambda record: None, said.append).work()
    return said


def free_space(folder: Path, *old: str) -> None:
    """Delete what docs/operations.md names."""
    for name in old:
        shutil.rmtree(folder / "runs" / name)
    for logs in folder.glob("logs/*/"):
        shutil.rmtree(logs)


def test_a_run_waits_for_new_rows(tmp_path: Path) -> None:
    with consortium(tmp_path, SITES, **SETTINGS, schedule=SCHEDULE) as members:
        folder = members.coordinator.folder
        due(members, 1, tmp_path)
        assert Releases.read(folder).accepted == ["2026-01"]
        (members.site("north").folder / "policy.toml").write_text(tomli_w.dumps({"new_rows": 3}))
        graph_site(members.site("north").settings.data.parent, SITES["north"], graphs=30)
        (refused,) = due(members, 2, tmp_path)
        assert refused.startswith("1 of 2 sites have new rows, and the schedule needs 2 (north: ye")
        assert "`new_rows`: this site does not tell whether it has new rows" in refused
        (members.site("south").folder / "policy.toml").write_text(tomli_w.dumps({"new_rows": 3}))
        assert "(north: yes; south: no)" in due(members, 2, tmp_path)[0]
        assert Releases.read(folder).accepted == ["2026-01"]
        graph_site(members.site("south").settings.data.parent, SITES["south"], graphs=30)
        assert "new rows at north, south" in due(members, 2, tmp_path)
        assert Releases.read(folder).accepted == ["2026-01", "2026-02"]
        free_space(folder, "2026-01")
        for site in ("north", "south"):
            graph_site(members.site(site).settings.data.parent, SITES[site], graphs=40)
        due(members, 3, tmp_path)
        assert Releases.read(folder).accepted == ["2026-01", "2026-02", "2026-03"]
        assert RunFolder(folder / "runs" / "2026-03").experiment().settings.start_from is not None
        with pytest.raises(RametError, match=r"2026-01 is not in .* any more"):
            roll_back(members.coordinator, "2026-01", members.output.append)
