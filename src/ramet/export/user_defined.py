"""A user's own network, whose file is copied if it needs nothing of Ramet."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import nn

from ramet.errors import RametError
from ramet.experiment import Experiment
from ramet.experiment.code import user_files
from ramet.export.networks import Standalone
from ramet.export.standalone.predict import OfData
from ramet.models.shape import GraphShape, NodeShape
from ramet.options import name_and_options


def user_network(
    experiment: Experiment, model: nn.Module, shape: Any, options: Mapping[str, Any]
) -> Standalone:
    """The network of a user's file; raises RametError if it cannot be used without Ramet."""
    name, _ = name_and_options(experiment.settings.network or "")
    files = {
        copy: file
        for copy, file in user_files(experiment.settings).items()
        if copy == "network.py" or copy.startswith("imports/network/")
    }
    if not files or not isinstance(shape, GraphShape | NodeShape):
        raise _refused(
            model,
            "it is neither one of Ramet's networks nor, for nodes or graphs, given with --network. "
            "Give its file with --network and train again.",
        )
    file = files.pop("network.py")
    imported = ["Ramet"] if "ramet" in _packages(file) else [path.name for path in files.values()]
    if imported:
        raise _refused(
            model,
            f"{file.name} imports {', '.join(imported)}. Write it with PyTorch and PyTorch "
            "Geometric alone, in one file, and train again.",
        )
    config = {
        "module": "network",
        "network": name.rpartition(":")[2],
        "shape": asdict(shape),
        "arguments": dict(options),
    }
    code = {"network.py": file.read_text()}
    return Standalone(model, OfData(model), config, code, "network.py")


def _refused(model: nn.Module, reason: str) -> RametError:
    return RametError(f"the network {type(model).__name__} cannot be exported: {reason}")


def _packages(file: Path) -> set[str]:
    """The top-level packages that a file imports, also inside functions."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found
