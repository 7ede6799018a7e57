"""`ramet leak` on models of numbers and of several labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import ramet
from own_sites import write_toml
from planted_targets import molecule_site
from ramet.experiment import RunFolder
from ramet.leak import Audit, Effort, audit
from ramet.leak.attacked import FinishedRun, sites_of
from ramet.leak.attacks import ATTACKS
from ramet.leak.control import Leaking
from ramet.leak.findings import Finding, View
from ramet.leak.labels import margins
from ramet.report.leak import verdict
from ramet.tasks import Classes, Numbers, SeveralLabels
from silent_runs import Silent

COLUMNS = [f"c{n}" for n in range(24)]
LABELS = {"node-regression": '["age"]', "node-multilabel": '["ill", "tired"]'}
TASKS = [*LABELS]
SITE = """site = "{name}"
task = "{task}"
[nodes.person]
file = "people.csv"
label = {label}
features = {columns}
[edges.meets]
file = "links.csv"
"""
EFFORT = Effort(references=2, canaries=60, small_sites=4)
BY_NAME = {attack.name: attack for attack in ATTACKS}


def noise_site(folder: Path, seed: int, task: str, people: int = 160) -> Path:
    """People in pairs, whose age and findings nothing tells: who knows them was told."""
    folder.mkdir(parents=True)
    draw = np.random.default_rng(seed)
    table = pd.DataFrame(draw.normal(size=(people, len(COLUMNS))), columns=COLUMNS)
    table.insert(0, "id", [f"p{n}" for n in range(people)])
    table["age"] = 50 + 20 * draw.normal(size=people)
    table["ill"], table["tired"] = draw.integers(0, 2, size=(2, people))
    table.to_csv(folder / "people.csv", index=False)
    ids = table["id"].to_numpy()
    pd.DataFrame({"source": ids[::2], "target": ids[1::2]}).to_csv(
        folder / "links.csv", index=False
    )
    text = SITE.format(name=folder.name, task=task, label=LABELS[task], columns=COLUMNS)
    return write_toml(folder, text.replace("'", '"'))


def noise_run(folder: Path, task: str, **options: Any) -> RunFolder:
    sites = [noise_site(folder / name, seed, task) for seed, name in enumerate("abc")]
    given = {"network": "gcn", "dropout": 0, "rounds": 2, **options}
    result = ramet.run(
        *("fedavg", "own"), sites=sites, out=folder / "run", observe=lambda _: None, **given
    )
    return RunFolder.open(result.folder)


def found(run: RunFolder, name: str, view: View, scratch: Path) -> Finding:
    return BY_NAME[name].find(FinishedRun(run, scratch, EFFORT), view)[0]


@pytest.mark.parametrize("task", TASKS)
def test_members_of_an_overfitted_model_are_found_and_of_an_untrained_one_not(
    task: str, tmp_path: Path
) -> None:
    overfitted = noise_run(tmp_path / "long", task, rounds=60, weight_decay=0)
    known = found(overfitted, "membership", "model", tmp_path)
    assert known.leaks
    assert known.value is not None
    assert known.value > 0.7
    untrained = noise_run(tmp_path / "short", task, rounds=1, lr=1e-9)
    nothing = found(untrained, "membership", "model", tmp_path)
    assert nothing.low is not None
    assert nothing.high is not None
    assert nothing.low < 0.5 < nothing.high


@pytest.fixture(scope="module")
def silent(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Silent]:
    folder = tmp_path_factory.mktemp("silent")
    runs = {task: noise_run(folder / task, task, rounds=1).experiment() for task in TASKS}
    return {task: Silent(run, sites_of(run), EFFORT) for task, run in runs.items()}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    "attack",
    [
        pytest.param("features", marks=pytest.mark.thorough),
        "membership",
        pytest.param("lira", marks=pytest.mark.thorough),
        "links",
        "epsilon",
    ],
)
def test_attacks_find_what_is_planted_and_nothing_in_silence(
    silent: dict[str, Silent], attack: str, task: str
) -> None:
    run, one = silent[task], BY_NAME[attack]
    planted = one.find(Leaking(run, one.control), one.views[0])[0]
    assert planted.leaks, planted
    nothing = one.find(run, one.views[0])[0]
    assert nothing.value is not None
    assert not nothing.leaks, nothing


def test_margins_are_log_odds_of_exp_of_minus_the_loss() -> None:
    outputs, scale = torch.tensor([[0.5], [1.0]]).double(), torch.tensor([[10.0], [2.0]])
    losses = np.array([(0.5 - 1.0) ** 2, (1.0 - (-2.0)) ** 2])
    of_numbers = margins(Numbers(), outputs, torch.tensor([[12.0], [6.0]]), scale)
    assert of_numbers.tolist() == pytest.approx(-np.log(np.expm1(losses)))
    logits, labels = torch.tensor([[2.0], [-1.0]]).double(), torch.tensor([[1.0], [1.0]])
    of_labels = margins(SeveralLabels(), logits, labels, None)
    both = torch.cat([torch.zeros_like(logits), logits], dim=1)
    of_classes = margins(Classes(), both, labels.flatten().long(), None)
    assert of_labels.tolist() == pytest.approx(of_classes.tolist()) == [2.0, -1.0]


def test_a_wrong_number_is_three_deviations_off(silent: dict[str, Silent]) -> None:
    site = silent["node-regression"].sites["a"]
    chosen, draw = site.members[:5], torch.Generator().manual_seed(0)
    changed = site.with_wrong_labels(chosen, draw)
    assert site.scale is not None
    off = (changed.labels - site.labels)[chosen] / site.scale[1]
    assert off.abs().flatten().tolist() == pytest.approx([3.0] * 5, rel=1e-5)
    labels = silent["node-multilabel"].sites["a"]
    opposite = labels.with_wrong_labels(chosen, draw)
    assert (opposite.labels[chosen] + labels.labels[chosen] == 1).all()


def by_name(one: Audit) -> dict[str, Finding]:
    return {finding.attack: finding for finding in one.findings}


def test_a_secure_run_of_numbers_is_audited(tmp_path: Path) -> None:
    run = noise_run(tmp_path, "node-regression", secure=True)
    little = Effort(references=0, canaries=0, small_sites=1)
    found = by_name(audit(run, little))
    assert found["labels"].note == "for classes, not for numbers"
    assert verdict(found["membership"]) != "does not apply"
    summary = run.summary()
    assert summary is not None
    assert FinishedRun(run, tmp_path, little).repeat.sha256 == summary.sha256


@pytest.mark.thorough
def test_a_private_run_of_several_labels_is_audited(tmp_path: Path) -> None:
    flags = [
        molecule_site(tmp_path / name, seed, "graph-multilabel", '["light", "polar"]')
        for seed, name in enumerate("abc")
    ]
    options: dict[str, Any] = {
        "network": "gin",
        "same_schema": True,
        "dp": "unit=graph,epsilon=8,delta=1e-3",
    }
    result = ramet.run("fedavg", "own", sites=flags, rounds=2, out=tmp_path / "run", **options)
    found = by_name(audit(RunFolder.open(result.folder), Effort(0, 8, 1)))
    assert found["labels"].note == "for classes, not for labels"
    assert verdict(found["membership"]) != "does not apply"
    assert "unit: one graph" in found["epsilon"].note
