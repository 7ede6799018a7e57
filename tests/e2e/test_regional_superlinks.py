"""Two regions with two sites each, over three real SuperLinks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ramet
from federations import PLANTED

pytestmark = pytest.mark.e2e
FOUR: dict[str, Any] = {**PLANTED, "clients": 4}


@pytest.mark.parametrize("method", ["scaffold", pytest.param("fedavg", marks=pytest.mark.thorough)])
def test_regions_with_superlinks_of_their_own_change_no_bit(method: str, tmp_path: Path) -> None:
    expected = ramet.run(method, "planted", rounds=3, out=tmp_path / "local", **FOUR)
    out = tmp_path / "regions"
    result = ramet.run(method, "planted", rounds=3, engine="superlink", regions=2, out=out, **FOUR)
    for fact in ("sha256", "scores", "traffic", "model"):
        assert getattr(result.summary, fact) == getattr(expected.summary, fact)
    assert result.frame.equals(expected.frame)
    for region in ("region-1", "region-2"):
        logs = out / "logs" / region
        assert len([*logs.glob("supernode-*.log")]) == 2
        assert "Push replies" in (logs / "superlink.log").read_text(errors="replace")
    home = (out / "flower-home.txt").read_text()
    assert not processes_with(f"FLWR_HOME={home}")


def processes_with(variable: str) -> list[str]:
    """Live processes whose environment has a variable that starts like this."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes()
        except OSError:
            continue
        if variable.encode() in environment:
            found.append(process.name)
    return found
