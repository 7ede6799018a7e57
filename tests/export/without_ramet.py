"""Predict with exported models in a process that refuses to import Ramet.

Arguments: a folder with an input for each model, and the folders of the models.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file


class Refuse:
    """Refuses to import a package."""

    def find_spec(self, name: str, *_: Any) -> None:
        if name.partition(".")[0] == "ramet":
            raise ImportError("this process must not import ramet")


def nested(tensors: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a network from their names in a file."""
    given: dict[str, Any] = {}
    for name, tensor in tensors.items():
        argument, *key = name.split("/")
        if key:
            given.setdefault(argument, {})[key[0] if len(key) == 1 else tuple(key)] = tensor
        else:
            given[argument] = tensor
    return given


def flat(name: str, found: Any) -> dict[str, Any]:
    if not isinstance(found, dict):
        return {name: found}
    return {f"{name}/{key}": tensor for key, tensor in named(found).items()}


def named(tensors: dict[Any, Any]) -> dict[str, Any]:
    """Tensors by the names of relations, as programs take and return them."""
    return {key if isinstance(key, str) else "/".join(key): one for key, one in tensors.items()}


if __name__ == "__main__":
    sys.meta_path.insert(0, Refuse())
    files, *folders = map(Path, sys.argv[1:])
    for folder in folders:
        for module in [*sys.modules]:
            if module.partition(".")[0] in ("predict", "network", "prepare", "ramet_code"):
                del sys.modules[module]
        sys.path.insert(0, str(folder))
        predict: Any = import_module("predict")
        inputs = nested(load_file(files / f"{folder.name}.inputs"))
        found = flat("probabilities", predict.probabilities(predict.load(), **inputs))
        if (folder / "model.pt2").exists():
            program = torch.export.load(folder / "model.pt2").module()
            given = {k: named(one) if isinstance(one, dict) else one for k, one in inputs.items()}
            found |= flat("program-probabilities", predict.probabilities(program, **given))
        save_file(found, files / f"{folder.name}.outputs")
