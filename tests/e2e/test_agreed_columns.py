"""Columns agreed over a real SuperLink."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pandas as pd
import pytest
from sklearn.preprocessing import StandardScaler

import ramet
from own_sites import messy_site

pytestmark = [pytest.mark.e2e, pytest.mark.thorough]


@pytest.mark.parametrize("secure", [False, True])
def test_columns_are_prepared_as_in_one_process(secure: bool, tmp_path: Path) -> None:
    sizes = {"north": 50, "south": 33, "east": 41}
    files = [messy_site(tmp_path / name, n, rows) for n, (name, rows) in enumerate(sizes.items())]
    sites = shlex.join(map(str, files))
    local, remote = (
        ramet.run(
            "fedavg",
            "own",
            rounds=2,
            engine=engine,
            out=tmp_path / engine,
            sites=sites,
            secure=secure,
        )
        for engine in ("local", "superlink")
    )
    assert local.summary.sha256 == remote.summary.sha256
    agreed = json.loads((remote.folder / "preparation.json").read_text())
    assert agreed == json.loads((local.folder / "preparation.json").read_text())
    joined = pd.concat([pd.read_csv(path.parent / "patients.csv") for path in files])
    for name in ("age", "bmi"):
        scaler = StandardScaler().fit(joined[[name]])
        column = agreed["types"]["patient"][name]
        assert column["mean"] == pytest.approx(scaler.mean_[0], rel=1e-9)
        assert column["scale"] == pytest.approx(scaler.scale_[0], rel=1e-9)
    told = json.loads((remote.folder / "columns.json").read_text())
    assert {*told["types"]["patient"]} == {"age", "bmi", "ward", "admitted", "smoker"}
