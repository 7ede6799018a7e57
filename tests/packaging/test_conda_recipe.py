"""The conda recipe says what pyproject.toml says."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import ramet

ROOT = Path(__file__).parents[2]
CONDA_NAMES = {
    "torch": "pytorch",
    "torch_geometric": "pytorch_geometric",
    "xxhash": "python-xxhash",
}
"""Packages that conda-forge calls otherwise than PyPI."""


@pytest.fixture(scope="module")
def recipe() -> dict[str, Any]:
    text = (ROOT / "deploy" / "conda" / "recipe.yaml").read_text()
    read: dict[str, Any] = yaml.safe_load(text)
    return read


@pytest.fixture(scope="module")
def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def as_conda(requirement: str) -> str:
    """`torch>=2.6` as `pytorch >=2.6`."""
    match = re.fullmatch(r"([\w-]+)([<>=!~].*)", requirement)
    assert match, requirement
    return f"{CONDA_NAMES.get(match[1], match[1])} {match[2]}"


def test_the_version_is_ours(recipe: dict[str, Any]) -> None:
    assert recipe["context"]["version"] == ramet.__version__
    assert recipe["package"] == {"name": "ramet", "version": "${{ version }}"}


def test_it_requires_the_core_and_nothing_else(
    recipe: dict[str, Any], pyproject: dict[str, Any]
) -> None:
    project = pyproject["project"]
    python = f"python {project['requires-python']}"
    assert recipe["requirements"]["run"] == [python, *map(as_conda, project["dependencies"])]
    built_with = map(as_conda, pyproject["build-system"]["requires"])
    assert recipe["requirements"]["host"] == [python, "pip", *built_with]


def test_it_has_our_licence_summary_and_command(
    recipe: dict[str, Any], pyproject: dict[str, Any]
) -> None:
    project = pyproject["project"]
    assert recipe["about"]["license"] == project["license"]
    assert [recipe["about"]["license_file"]] == project["license-files"]
    assert recipe["about"]["summary"] == project["description"]
    commands = [f"{name} = {place}" for name, place in project["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == commands


def test_its_source_is_this_repository(recipe: dict[str, Any]) -> None:
    folder = ROOT / "deploy" / "conda" / recipe["source"]["path"]
    assert folder.resolve() == ROOT
