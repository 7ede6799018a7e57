"""What runs the cells of papers ask for, from `experiments/papers/*.toml`, and the kept runs."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from ramet.papers.printed import PrintedEntry, experiments
from ramet.studies.archive import kept
from ramet.studies.finished_run import Draw, FinishedRun

Status: TypeAlias = Literal[
    "exact",
    "holds",
    "compatible",
    "undecided",
    "differs",
    "fails",
    "other data",
    "not available",
    "not run",
]
Runs: TypeAlias = Mapping[Draw, FinishedRun]
RunsByFolder: TypeAlias = Mapping[str, Mapping[str, Runs]]
"""Kept runs by folder, label and draw."""


class UnmeasuredCells(BaseModel):
    """Printed cells that no run of ours stands for, with the reason."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    table: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    status: Literal["other data", "not available", "not run"]
    reason: str


class WantedRuns(PrintedEntry):
    """Runs that a paper suggests without printing a number for them."""

    table: str
    rows: tuple[str, ...]
    """The methods with their options."""
    splits: int = 5
    seeds: int = 1
    not_comparable: str
    """Why there is no printed number."""


class Protocol(BaseModel):
    """The number of splits, and of seeds of each, that a paper's cells ask for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    splits: int
    seeds: int


@dataclass(frozen=True)
class Paper:
    """One file of `experiments/papers`."""

    name: str
    protocol: Protocol
    cells: Sequence[UnmeasuredCells]
    runs: Sequence[WantedRuns]


def papers() -> dict[str, Paper]:
    """Every paper by name."""
    files = sorted((experiments() / "papers").glob("*.toml"))
    return {path.stem: _paper(path.stem, tomllib.loads(path.read_text())) for path in files}


def _paper(name: str, content: Mapping[str, Any]) -> Paper:
    return Paper(
        name=name,
        protocol=Protocol.model_validate(content["protocol"]),
        cells=[UnmeasuredCells.model_validate(entry) for entry in content.get("cells", [])],
        runs=[WantedRuns.model_validate(entry) for entry in content.get("runs", [])],
    )


def kept_by_folder(results: Path) -> dict[str, dict[str, dict[Draw, FinishedRun]]]:
    """All kept runs below a folder. Those of `NAME-split-N` belong to `NAME`."""
    found: dict[str, dict[str, dict[Draw, FinishedRun]]] = {}
    for folder in sorted(path for path in results.iterdir() if path.is_dir()):
        by_label = found.setdefault(folder.name.partition("-split-")[0], {})
        for run in kept(folder):
            by_label.setdefault(run.label, {})[run.draw] = run
    return found
