"""The terms of a run do not change under its name, and every question counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from joined_sites import RUN, Joined, joined_site
from own_sites import messy_site
from ramet.data.own.preparation import Preparation
from ramet.errors import RametError
from ramet.flower.client_app import _cached_experiment
from ramet.flower.permission import NotAllowedError
from ramet.policy import PolicyError

COLUMNS = {
    "age": {"kind": "number", "marked": True, "mean": 50.0, "scale": 20.0},
    "bmi": {"kind": "number", "marked": True, "mean": 25.0, "scale": 4.0},
    "ward": {"kind": "category", "marked": True, "categories": ["surgery", "intensive"]},
    "admitted": {"kind": "date", "marked": True, "mean": 19500.0, "scale": 700.0},
    "smoker": {"kind": "flag", "marked": True},
}


def ask(joined: Joined, run: str, age: dict[str, Any], **numbers: Any) -> None:
    """Send a message to train with a preparation in which the column `age` is changed."""
    _cached_experiment.cache_clear()  # every message has a process of its own
    columns = {**COLUMNS, "age": {**COLUMNS["age"], **age}}
    preparation = Preparation.model_validate({"types": {"patient": columns}}).text()
    joined.send(joined.config(), notes={"preparation": preparation, "run": run}, **numbers)


@pytest.fixture
def joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Joined:
    return joined_site(tmp_path, monkeypatch)


def test_other_settings_under_the_same_name_are_refused(joined: Joined) -> None:
    joined.send(joined.config(), notes={"run": RUN})
    with pytest.raises(NotAllowedError, match="have changed since this run started"):
        joined.send(joined.config(options="task=node-classification sites='north south' lr=0.5"))
    joined.send(joined.config(rounds=2), notes={"run": RUN}, round=2, last=1)


def test_the_preparation_of_columns_is_no_oracle(joined: Joined) -> None:
    """Which scale a site refuses depends on its data, so each try costs one of the site's runs."""
    messy_site(joined.site.settings.data.parent, 1, 50)
    ask(joined, RUN, {})
    with pytest.raises(NotAllowedError, match="have changed since this run started"):
        ask(joined, RUN, {"mean": -1e7, "scale": 1e-3}, round=2, last=1)
    for name in range(1, 20):
        with pytest.raises(RametError, match=r"the agreed scale of the column patient\.age"):
            ask(joined, f"{name:032x}", {"mean": 1000.0 + name, "scale": 1.0})
    with pytest.raises(PolicyError, match=r"^`runs`: .* allows 20"):
        ask(joined, "f" * 32, {})


def test_no_columns_are_prepared_in_private_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined = joined_site(tmp_path, monkeypatch, dp="unit=site,epsilon=1,delta=1e-5")
    messy_site(joined.site.settings.data.parent, 1, 50)
    with pytest.raises(NotAllowedError, match=r"^`dp`: "):
        ask(joined, RUN, {})
