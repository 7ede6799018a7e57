"""Over Ray and a real SuperLink, the repeated run has the numbers of one in a single process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ramet
from own_sites import node_site
from ramet.forget import forget

pytestmark = [pytest.mark.e2e, pytest.mark.thorough]


@pytest.mark.parametrize("options", [{}, {"secure": True}], ids=["plain", "secure"])
@pytest.mark.parametrize("engine", ["ray", "superlink"])
def test_the_repeated_run_is_one_that_never_had_the_site(
    engine: str, options: dict[str, Any], tmp_path: Path
) -> None:
    names = ("north", "south", "east", "west")
    sites = [node_site(tmp_path / name, number) for number, name in enumerate(names)]
    given = {"rounds": 2, **options}
    never = ramet.run("fedavg", "own", sites=sites[1:], out=tmp_path / "never", **given)
    ramet.run("fedavg", "own", sites=sites, out=tmp_path / "all", engine=engine, **given)
    certificate, _ = forget(tmp_path / "all", "north")
    assert certificate.last.learnt == never.summary.sha256
