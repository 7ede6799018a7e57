"""Write a client's model into a folder that works without Ramet."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from ramet.data import GraphBlock, HeteroGraph, StructureEncoding
from ramet.errors import RametError
from ramet.experiment.files import filling
from ramet.export.card import card
from ramet.export.example import Example, Form, invented
from ramet.export.facts import facts_of, form_of
from ramet.export.inputs import Inputs, by_relation, flat, inputs_of
from ramet.export.networks import CODE, Standalone, copied, standalone
from ramet.export.programs import ONNX, PT2, write_programs
from ramet.export.standalone import predict
from ramet.export.targets import predicting
from ramet.export.user_defined import user_network
from ramet.prediction import Trained
from ramet.tasks import TargetTask, Task

_SCRIPTS = ("prepare.py", "predict.py")
_EXAMPLE, _OTHER = (12, 0), (17, 1)
"""Size and seed of the example, and of another one that programs are checked with."""
MODEL_FILE = "model.safetensors"
RUN = "run"
"""The name of the run that a model was trained in, among the facts of its file."""
_CONTENTS = {
    "README.md": "this card",
    "network.py": "the network, in PyTorch and PyTorch Geometric",
    CODE: "the code that the network needs of Ramet",
    "model.safetensors": "its weights",
    "config.json": "the arguments of the network, and what it predicts",
    "predict.py": "loads the network and predicts",
    "prepare.py": "turns tables into the network's input",
    "schema.json": "node types, columns, edge types and classes of the tables",
    "preparation.json": "how columns become features",
    "tables.json": "the names of the site's files and their columns",
    "example": "invented tables and tensors, and the expected predictions",
    PT2: "the network as a program for `torch.export.load`; relations are called `head/name/tail`",
    ONNX: "the network as a program for ONNX Runtime",
}
_TOLERANCE = 1e-5
"""Of probabilities, and relative of numbers; rounding is below it, a wrong network far above."""


@dataclass(frozen=True)
class Exported:
    """The folder of an exported model."""

    folder: Path
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Programs that could not be written, with the reason."""


def export(trained: Trained, client: str, folder: Path, programs: bool = True) -> Exported:
    """Write a client's model, with everything that is needed to use it, into a new folder.

    ``programs``: also write it for `torch.export` and ONNX, which takes some seconds.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RametError(f"{folder} is not an empty folder. Choose a new one.")
    model, form = trained.model(client), form_of(trained, client)
    options: Mapping[str, Any] = getattr(trained.experiment.method.model, "keywords", {})
    found = standalone(model, form.shape, options)
    if found is None:
        found = user_network(trained.experiment, model, form.shape, options)
    found = predicting(found, form)
    example, task = invented(form, *_EXAMPLE), trained.experiment.method.task
    inputs, expected = _inputs(found, example), _expected(model, example, form, task)
    _check(found, inputs, expected)
    other = _inputs(found, invented(form, *_OTHER))
    with filling(folder):
        (folder / "example").mkdir()
        _write_code(found, "structure" in inputs, trained.states.name, folder)
        _write_form(form, found, [*inputs], folder)
        _write_example(example, {**inputs, "probabilities": expected}, folder / "example")
        left_out = write_programs(found.network, inputs, other, folder) if programs else {}
        contents = {name: text for name, text in _CONTENTS.items() if (folder / name).exists()}
        facts = facts_of(trained, client, found, form, [*inputs], contents, left_out)
        (folder / "README.md").write_text(card(facts))
    return Exported(folder, left_out)


def _inputs(found: Standalone, example: Example) -> Inputs:
    return inputs_of(example.graph, found.model, example.pairs)


@torch.no_grad()
def _expected(model: Any, example: Example, form: Form, task: Task) -> Any:
    """The predictions of Ramet's network, in the form of `predict.probabilities`."""
    graph = example.graph
    if isinstance(graph, HeteroGraph):
        assert example.pairs is not None
        chances = model(graph, example.pairs).double().sigmoid()
        kinds = example.pairs.kinds
        return {
            relation: chances[kinds == kind]
            for kind, relation in enumerate(by_relation(graph, example.pairs))
        }
    whole = graph.cut(torch.arange(graph.graphs)) if isinstance(graph, GraphBlock) else graph
    if form.target == "class" or not isinstance(task, TargetTask):
        return model(whole).double().softmax(dim=1)
    return torch.from_numpy(task.target.predicted(model(whole), form.scale))


def _check(found: Standalone, inputs: Inputs, expected: Any) -> None:
    """Refuse a network that does not give what Ramet's own gives."""
    try:
        difference = predict.difference(expected, predict.probabilities(found.network, **inputs))
    except AttributeError as error:  # a user's network that reads more than PyG's data has
        raise RametError(
            f"the network {found.name} cannot be exported: {error}. It may read "
            f"{', '.join(inputs)} of its data, as in PyG."
        ) from error
    if not difference <= _TOLERANCE:
        raise RametError(
            f"the exported network {found.name} gives other predictions than the trained one "
            f"(difference {difference:.1e}), so nothing was written. Please report this."
        )


def _write_code(found: Standalone, structure: bool, run: str, folder: Path) -> None:
    encoding = copied(StructureEncoding.__module__) if structure else {}
    for path, text in {**found.code, **encoding}.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)
    for script in _SCRIPTS:
        shutil.copyfile(Path(predict.__file__).with_name(script), folder / script)
    arrays = {name: array.contiguous() for name, array in found.model.state_dict().items()}
    save_file(arrays, folder / MODEL_FILE, {RUN: run})


def _write_form(form: Form, found: Standalone, inputs: list[str], folder: Path) -> None:
    encoding = asdict(form.encoding)
    encoding.pop("spectrum")  # no network that reads it can be exported
    encodings = {"structure_encoding": encoding} if form.encoding.width else {}
    config = {**found.config, **encodings, "inputs": inputs, "classes": form.classes}
    if form.decision is not None:
        config["decision"] = form.decision.model_dump(
            include={"temperature", "threshold", "wanted"}
        )
    _write_json(folder / "config.json", config)
    if form.tables is not None:
        _write_json(folder / "tables.json", form.tables)
    if form.schema is not None and form.preparation is not None:
        _write_json(folder / "schema.json", form.schema.model_dump(mode="json"))
        _write_json(folder / "preparation.json", form.preparation.model_dump(mode="json"))


def _write_example(example: Example, tensors: Mapping[str, Any], folder: Path) -> None:
    save_file(flat(tensors), folder / "tensors.safetensors")
    for name, table in example.tables.items():
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(table)
            writer.writerows(zip(*table.values(), strict=True))


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n")
