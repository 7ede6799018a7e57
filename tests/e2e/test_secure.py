"""Secure sums over real engines: the SHA-256 of the run in fixed point, without masks."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

import ramet
from federations import with_all_states
from ramet.engine.site.audit import audit_entries

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("engine", [pytest.param("ray", marks=pytest.mark.thorough), "superlink"])
def test_engines_agree_on_secure_sums(engine: Literal["ray", "superlink"], tmp_path: Path) -> None:
    fixed = ramet.run("fedstar", "tiny", rounds=2, merge="fixed-point", out=tmp_path / "fixed")
    secure = ramet.run("fedstar", "tiny", rounds=2, secure=True, engine=engine, out=tmp_path / "s")
    assert secure.summary.sha256 == fixed.summary.sha256
    assert secure.summary.scores.test == pytest.approx(fixed.summary.scores.test, abs=1e-6)
    again = with_all_states(fixed.folder, tmp_path / "again")
    sent = {t.sha256 for e in audit_entries(secure.folder)[0] for t in e.tensors}
    clear = {t.sha256 for e in audit_entries(again.path)[0] for t in e.tensors}
    assert clear
    assert not sent & clear
