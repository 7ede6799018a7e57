"""Load the model and predict. Needs PyTorch, PyTorch Geometric, pydantic and safetensors.

``python predict.py`` checks that this machine gives the expected output for the example.
"""

from __future__ import annotations

import json
import warnings
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

HERE = Path(__file__).parent


def load(folder: Path = HERE) -> nn.Module:
    """The trained network, in evaluation mode."""
    config = _config(folder)
    note = folder / "superseded.json"
    if note.exists():
        warnings.warn(f"this model is out of use: {note.read_text()}", stacklevel=2)
    build = getattr(import_module(config["module"]), config["network"])
    options = {
        name: SimpleNamespace(**value) if isinstance(value, dict) else value
        for name, value in config["arguments"].items()
    }
    network: nn.Module = build(SimpleNamespace(**config["shape"]), **options)
    network.load_state_dict(load_file(folder / "model.safetensors"))
    model: nn.Module = OfData(network)
    if "adapter" in config:
        model = getattr(import_module("ramet_code.pyg"), config["adapter"])(network)
    if "target" in config:
        model = Predicting(model, config["scale"])
    return model.eval()


def classes(folder: Path = HERE) -> list[str]:
    """The names of the classes, numbers or labels, in the order of ``probabilities``."""
    names: list[str] = _config(folder)["classes"]
    return names


@torch.no_grad()
def probabilities(model: nn.Module, **inputs: Any) -> Any:
    """The probability of each class or label, or for links that of each pair, by relation.

    If numbers are predicted, these numbers in their unit. ``inputs`` are the arguments of the
    network's ``forward``.
    """
    output = model(**inputs)
    if isinstance(output, dict):
        return {relation: logits.double().sigmoid() for relation, logits in output.items()}
    if isinstance(model, Predicting):
        return output
    return output.double().softmax(dim=1)


def predicted(model: nn.Module, folder: Path = HERE, **inputs: Any) -> list[str]:
    """The class of each sample, by the threshold and the temperature that were chosen, if any."""
    found, config = probabilities(model, **inputs), _config(folder)
    if isinstance(found, dict) or "target" in config:
        raise TypeError("this model predicts no classes")
    decision = config.get("decision", {})
    calibrated = (found.log() / decision.get("temperature", 1)).softmax(dim=1)
    rows = calibrated.argmax(dim=1)
    if decision.get("threshold") is not None:
        rows = (calibrated[:, 1] >= decision["threshold"]).long()
    return [classes(folder)[row] for row in rows.tolist()]


def example(folder: Path = HERE) -> tuple[dict[str, Any], Any]:
    """Invented inputs, and what ``probabilities`` gave for them when it was exported."""
    given: dict[str, Any] = {}
    for name, tensor in load_file(folder / "example" / "tensors.safetensors").items():
        argument, *key = name.split("/")
        if key:
            given.setdefault(argument, {})[key[0] if len(key) == 1 else tuple(key)] = tensor
        else:
            given[argument] = tensor
    expected = given.pop("probabilities")
    return given, expected


def difference(one: Any, other: Any) -> float:
    """The largest difference of two outputs of ``probabilities``, relative if they are above 1."""
    if isinstance(one, Tensor):
        return float((one - other).abs().max()) / max(1.0, float(other.abs().max()))
    return max(difference(one[key], other[key]) for key in one)


class OfData(nn.Module):
    """Gives a network that takes one data object, as PyG's ``Data``, its tensors by name."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, **tensors: Tensor) -> Tensor:
        logits: Tensor = self.network(SimpleNamespace(**tensors))
        return logits


class Predicting(nn.Module):
    """A network that gives numbers in their unit, or without a scale the probability of labels.

    ``scale``: the means of the numbers, then their deviations.
    """

    scale: Tensor

    def __init__(self, network: nn.Module, scale: list[list[float]] | None) -> None:
        super().__init__()
        self.network = network
        self.in_units = scale is not None
        self.register_buffer("scale", torch.tensor(scale or [], dtype=torch.float64))

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor | None = None,
        edge_attr: Tensor | None = None,
        edge_weight: Tensor | None = None,
        edge_type: Tensor | None = None,
        structure: Tensor | None = None,
    ) -> Tensor:
        more = {
            "batch": batch,
            "edge_attr": edge_attr,
            "edge_weight": edge_weight,
            "edge_type": edge_type,
            "structure": structure,
        }
        given = {name: tensor for name, tensor in more.items() if tensor is not None}
        output: Tensor = self.network(x=x, edge_index=edge_index, **given).double()
        if self.in_units:
            return output * self.scale[1] + self.scale[0]
        return output.sigmoid()


def _config(folder: Path) -> Any:
    return json.loads((folder / "config.json").read_text())


if __name__ == "__main__":
    inputs, expected = example()
    largest = difference(expected, probabilities(load(), **inputs))
    print(f"largest difference from the expected predictions: {largest:.1e}")  # noqa: T201
    if largest > 1e-6:
        raise SystemExit("the output differs; use the versions of PyTorch and PyG in README.md")
