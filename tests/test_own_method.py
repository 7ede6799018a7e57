"""The page "Your own method", run as it is written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ramet
from ramet.experiment import method_factory
from ramet.payload import digest

PAGE = Path(__file__).parents[1] / "docs" / "your-own-method.md"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(code.splitlines()) < 60
    path = tmp_path / "momentum.py"
    path.write_text(code)
    return path


def test_without_momentum_it_is_fedstar(own: Path, tmp_path: Path) -> None:
    star = ramet.run("fedstar", rounds=3, out=tmp_path / "star")
    still = ramet.run(f"{own}:momentum", rounds=3, out=tmp_path / "still", beta=0.0)
    moving = ramet.run(f"{own}:momentum", rounds=3, out=tmp_path / "moving", beta=0.5)
    assert still.frame.equals(star.frame)
    assert not moving.frame.equals(star.frame)
    assert moving.summary["method"] == "momentum"
    assert moving.summary["traffic"] == star.summary["traffic"]


def test_its_state_survives_a_restart(own: Path, tmp_path: Path) -> None:
    whole = ramet.run(f"{own}:momentum", rounds=4, out=tmp_path / "whole")
    rule = method_factory(f"{own}:momentum")().merging
    assert digest(rule.ask(rule.start({}), "a")) == digest({})
    (whole.folder / "result.json").unlink()
    for newest in sorted((whole.folder / "server").glob("*.safetensors"))[1:]:
        newest.unlink()
    assert ramet.resume(whole.folder).summary["sha256"] == whole.summary["sha256"]


@pytest.mark.e2e
def test_it_runs_over_ray_as_it_is(own: Path, tmp_path: Path) -> None:
    local = ramet.run(f"{own}:momentum", rounds=3, out=tmp_path / "local")
    ray = ramet.run(f"{own}:momentum", rounds=3, engine="ray", out=tmp_path / "ray")
    assert ray.summary["sha256"] == local.summary["sha256"]
