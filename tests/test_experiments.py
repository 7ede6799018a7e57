"""A paper's settings and printed results are data; our defaults are the paper's."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from ramet.experiment import Experiment, checked_settings
from ramet.methods import METHODS
from ramet.partition import SETTINGS

FILES = sorted((Path(__file__).parents[1] / "experiments").glob("*.toml"))


def read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_papers_settings_are_our_defaults(path: Path) -> None:
    content = read(path)
    assert set(content) == {"paper", "run", "printed"}
    stated = Experiment(checked_settings(**content["run"], data=Path())).method
    default = METHODS[content["run"]["method"]]()
    for axis in ("inputs", "shared", "training", "penalty", "activation", "merging", "task"):
        assert getattr(stated, axis) == getattr(default, axis)
    assert stated.model.keywords == default.model.keywords  # type: ignore[attr-defined]
    assert content["run"]["rounds"] == SETTINGS[content["run"]["setting"]]().rounds


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_printed_figures_are_percentages_of_known_settings(path: Path) -> None:
    for cell in read(path)["printed"]:
        assert cell["setting"] in SETTINGS
        assert 0 < cell["accuracy"] < 100


def test_every_method_has_its_file() -> None:
    assert {read(path)["run"]["method"] for path in FILES} == set(METHODS)
