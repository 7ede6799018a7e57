"""Experiment files: the papers' settings, which are our defaults, and their printed results."""

from __future__ import annotations

import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from ramet.experiment import Experiment, MethodSpec, checked_settings
from ramet.methods import METHODS, PAPER_NAMES
from ramet.papers.printed import baselines, experiments, figures, row_name, tables
from ramet.partition import SETTINGS

FILES = sorted(experiments().glob("*.toml"))
ONE_SHOT = ("o-pfgl",)


def read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_papers_settings_are_our_defaults(path: Path) -> None:
    content = read(path)
    assert {"paper", "run"} <= set(content) <= {"paper", "run", "printed", "drawn"}
    run = content["run"]
    given = {key: value for key, value in run.items() if key not in ("name", "baseline")}
    stated = Experiment(checked_settings(**given, data=Path())).method
    plain = {"method": row_name(run), "setting": run["setting"], "data": Path()}
    default = Experiment(checked_settings(**plain)).method
    for axis in {field.name for field in fields(stated)} - {"model", "name", "paper"}:
        assert getattr(stated, axis) == getattr(default, axis), axis
    assert stated.model.keywords == default.model.keywords  # type: ignore[attr-defined]
    rounds = 1 if run["method"] in ONE_SHOT else SETTINGS[run["setting"]]().rounds
    assert run["rounds"] == rounds


def test_printed_results_have_known_settings_and_plausible_values() -> None:
    printed = tables()
    assert {name: len(cells) for name, cells in sorted(printed.items())} == {
        "fedda table2": 41,
        "fedda table2-authors": 18,
        "fedda table3": 15,
        "fedda table3-authors": 6,
        "feddense table2": 28,
        "feddense table2-authors": 1,
        "feddense table3": 8,
        "fedpub table1": 18,
        "fedstar table2": 28,
        "fedstar table2-authors": 7,
    }
    for cell in (cell for cells in printed.values() for cell in cells):
        assert cell.setting in SETTINGS
        assert (
            0
            < cell.value
            < {"tensors": 50_000, "model_kb": 300, "payload_kb": 300}.get(cell.kind, 100)
        )


def test_printed_results_under_the_authors_protocol_can_be_run() -> None:
    cells = [
        cell for name, cells in tables().items() if name.endswith("-authors") for cell in cells
    ]
    for cell in cells:
        assert cell.options["protocol"] == "authors"
        checked_settings(
            method=cell.method,
            setting=cell.setting,
            options={**cell.setting_options, **cell.options},
            activation=cell.activation,
            data=Path(),
        )


def test_drawn_curves_have_known_methods_and_settings() -> None:
    drawn = figures()
    assert {name: len(panels) for name, panels in drawn.items()} == {
        "fedda figure2": 4,
        "fedda figure5": 4,
        "fedda figure6": 3,
    }
    for panel in (panel for panels in drawn.values() for panel in panels):
        for curve in panel.curves:
            spec = MethodSpec.parse(curve)
            checked_settings(
                method=spec.method,
                setting=panel.setting,
                options=dict(panel.setting_options),
                activation=spec.activation,
                data=Path(),
            )


def test_methods_that_claim_to_save_bytes_have_a_baseline_for_the_same_task() -> None:
    assert baselines() == {"fedda": "fed-hgn"}
    for method, baseline in baselines().items():
        assert method in METHODS
        assert PAPER_NAMES[baseline].method == "fedavg"


def test_every_method_and_every_name_of_a_paper_has_an_experiment_file() -> None:
    runs = {row_name(run): run for run in (read(path)["run"] for path in FILES)}
    assert set(runs) == {*METHODS, *PAPER_NAMES}
    for name, paper in PAPER_NAMES.items():
        assert (runs[name]["method"], runs[name]["network"]) == (paper.method, paper.network)
