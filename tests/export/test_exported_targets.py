"""Exported models of numbers and several labels predict as Ramet does."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import ramet
from planted_targets import molecule_site, person_site
from ramet.errors import RametError
from ramet.export.programs import ONNX, PT2, run_onnx
from ramet.export.targets import predicted_kind
from ramet.metrics.metric import Labels, Predicted
from ramet.tasks import NodeRegression, Target
from ramet.tasks.targets import Numbers

SITES = "abc"
CODE = """
import json, sys
sys.path.insert(0, ".")
from predict import classes, load, probabilities
from prepare import read_inputs
inputs, ids = read_inputs(sys.argv[1])
print(json.dumps({"names": classes(), "given": probabilities(load(), **inputs).tolist(),
                  "ids": next(iter(ids.values())), "ramet": "ramet" in sys.modules}))
"""


@dataclass(frozen=True)
class Handed:
    """An exported model, and what Ramet predicts with it."""

    model: Path
    tables: Path
    expected: Any


def handed(folder: Path, sites: list[Path], network: str, programs: bool) -> Handed:
    result = ramet.run(
        "fedavg",
        "own",
        sites=sites,
        network=network,
        rounds=2,
        out=folder / "run",
        same_schema=True,
        observe=lambda record: None,
    )
    exported = result.export("a", folder / "model", programs=programs)
    assert exported.left_out == {}
    return Handed(exported.folder, sites[0].parent, result.predict("a").set_index("id"))


def predicted(given: Handed) -> Any:
    """What the code of the model card gives, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", CODE, given.tables],
        cwd=given.model,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_numbers_are_in_their_unit_in_every_form(tmp_path: Path) -> None:
    sites = [person_site(tmp_path / name, seed) for seed, name in enumerate(SITES)]
    given = handed(tmp_path, sites, "sage", programs=True)
    expected = given.expected["age"].to_numpy()
    assert 20 < expected.mean() < 60
    found = predicted(given)
    assert (found["names"], found["ramet"]) == (["age"], False)
    np.testing.assert_allclose(np.array(found["given"])[:, 0], expected, rtol=1e-6)
    table = {"x": torch.randn(7, 2), "edge_index": torch.tensor([[0, 1, 2], [1, 2, 0]])}
    program = torch.export.load(given.model / PT2).module()(**table)
    (onnx,) = run_onnx(given.model / ONNX, table)
    torch.testing.assert_close(onnx, program, rtol=1e-5, atol=1e-3)
    assert float(program.mean()) > 5
    card = (given.model / "README.md").read_text()
    assert "in the order of the columns: age, in years." in card
    assert "| mae in years |" in card
    assert "always predicting the mean:" in card
    assert "precision" not in card


@pytest.mark.parametrize("of_graphs", [False, True], ids=["nodes", "graphs"])
def test_labels_have_probabilities(of_graphs: bool, tmp_path: Path) -> None:
    make: Any = molecule_site if of_graphs else person_site
    task, label = "node-multilabel", '["near", "own"]'
    if of_graphs:
        task, label = "graph-multilabel", '["light", "polar"]'
    sites = [make(tmp_path / n, s, task, label, "") for s, n in enumerate(SITES)]
    given = handed(tmp_path, sites, "gin" if of_graphs else "sage", programs=False)
    found = predicted(given)
    assert [f"p_{name}" for name in found["names"]] == [*given.expected.columns]
    expected = given.expected.loc[found["ids"]].to_numpy()
    np.testing.assert_allclose(np.array(found["given"]), expected, atol=1e-6)
    assert "Labels, in the order of the probabilities" in (given.model / "README.md").read_text()


def test_numbers_of_graphs(tmp_path: Path) -> None:
    sites = [molecule_site(tmp_path / name, seed) for seed, name in enumerate(SITES)]
    given = handed(tmp_path, sites, "gin", programs=False)
    found = predicted(given)
    expected = given.expected.loc[found["ids"], "weight"].to_numpy()
    np.testing.assert_allclose(np.array(found["given"])[:, 0], expected, rtol=1e-6)


def test_another_kind_of_target_is_refused() -> None:
    assert predicted_kind(NodeRegression(Numbers("huber"))) == "number"

    class Ranks(Target):
        metrics = Numbers.metrics

        def loss(self, output: Tensor, labels: Tensor, scale: Tensor | None = None) -> Tensor:
            return (output - labels).mean()

        def values(self, output: Tensor, scale: Tensor | None = None) -> Tensor:
            return output.double()

        def error(self, true: Labels, predicted: Predicted) -> float:
            return float((true - predicted).mean())

        def constant(self, training: Labels, outputs: int) -> Predicted:
            return np.zeros(outputs)

    with pytest.raises(RametError, match="models that predict Ranks cannot be exported"):
        predicted_kind(NodeRegression(Ranks()))
