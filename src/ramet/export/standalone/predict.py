"""Load the model and predict. Needs PyTorch, PyTorch Geometric, pydantic and safetensors.

``python predict.py`` checks that this machine gives the expected output for the example.
"""

from __future__ import annotations

import json
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
    build = getattr(import_module(config["module"]), config["network"])
    options = {
        name: SimpleNamespace(**value) if isinstance(value, dict) else value
        for name, value in config["arguments"].items()
    }
    network: nn.Module = build(SimpleNamespace(**config["shape"]), **options)
    network.load_state_dict(load_file(folder / "model.safetensors"))
    if "adapter" not in config:
        return OfData(network).eval()
    model: nn.Module = getattr(import_module("ramet_code.pyg"), config["adapter"])(network)
    return model.eval()


def classes(folder: Path = HERE) -> list[str]:
    """The names of the classes, in the order of the probabilities."""
    names: list[str] = _config(folder)["classes"]
    return names


@torch.no_grad()
def probabilities(model: nn.Module, **inputs: Any) -> Any:
    """The probability of each class, or for links the probability of each pair, by relation.

    ``inputs`` are the arguments of the network's ``forward``.
    """
    output = model(**inputs)
    if isinstance(output, dict):
        return {relation: logits.double().sigmoid() for relation, logits in output.items()}
    return output.double().softmax(dim=1)


def example(folder: Path = HERE) -> tuple[dict[str, Any], Any]:
    """Invented inputs, and the probabilities that the model gave for them when it was exported."""
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
    """The largest difference of two outputs of ``probabilities``."""
    if isinstance(one, Tensor):
        return float((one - other).abs().max())
    return max(difference(one[key], other[key]) for key in one)


class OfData(nn.Module):
    """Gives a network that takes one data object, as PyG's ``Data``, its tensors by name."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, **tensors: Tensor) -> Tensor:
        logits: Tensor = self.network(SimpleNamespace(**tensors))
        return logits


def _config(folder: Path) -> Any:
    return json.loads((folder / "config.json").read_text())


if __name__ == "__main__":
    inputs, expected = example()
    largest = difference(expected, probabilities(load(), **inputs))
    print(f"largest difference from the expected probabilities: {largest:.1e}")  # noqa: T201
    if largest > 1e-6:
        raise SystemExit("the output differs; use the versions of PyTorch and PyG in README.md")
