"""Ramet's networks without Ramet: their code is copied, with all of Ramet that it imports."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, is_dataclass
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import Any

from torch import nn

from ramet.models.node_sage import MendedSAGE
from ramet.models.pyg import PyGEdgeNetwork, PyGGraphNetwork, PyGLinkNetwork, PyGNodeNetwork
from ramet.models.shape import EdgeShape, GraphShape, LinkShape, NodeShape
from ramet.models.spectral import SpectralGNN

CODE = "ramet_code"
"""The folder of the copied code, which is a package."""
_IMPORT = re.compile(r"^from (ramet\.(?:\w+\.)*(\w+)) import", re.MULTILINE)
_ADAPTERS: Mapping[type, type[nn.Module]] = {
    GraphShape: PyGGraphNetwork,
    NodeShape: PyGNodeNetwork,
    EdgeShape: PyGEdgeNetwork,
    LinkShape: PyGLinkNetwork,
}


@dataclass(frozen=True)
class Standalone:
    """A trained network that does not need Ramet.

    Args:
        model: the network itself.
        network: the same with PyG's arguments, in evaluation mode.
        config: from which `predict.py` builds it, in the form of JSON.
        code: the text of each file.
        file: the one that has the network.
    """

    model: nn.Module
    network: nn.Module
    config: Mapping[str, Any]
    code: Mapping[str, str]
    file: str

    @property
    def name(self) -> str:
        """Of the class or function that builds the network."""
        return str(self.config["network"])


def standalone(model: nn.Module, shape: Any, options: Mapping[str, Any]) -> Standalone | None:
    """One of Ramet's networks, which was built with these options; None for other networks."""
    if isinstance(model, MendedSAGE):
        model = model.classifier
    module = type(model).__module__
    if not module.startswith("ramet.models.") or isinstance(model, SpectralGNN):
        return None
    adapter, name = _ADAPTERS[type(shape)], module.rpartition(".")[2]
    known = signature(type(model)).parameters
    arguments = {key: value for key, value in options.items() if key in known}
    config = {
        "module": f"{CODE}.{name}",
        "network": type(model).__name__,
        "adapter": adapter.__name__,
        "shape": asdict(shape),
        "arguments": {
            key: asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
            for key, value in arguments.items()
        },
    }
    code = copied(module, adapter.__module__)
    return Standalone(model, adapter(model).eval(), config, code, f"{CODE}/{name}.py")


def copied(*modules: str) -> dict[str, str]:
    """The files of some modules and of those that they import, as files of one package."""
    files = {f"{CODE}/__init__.py": '"""Copied from Ramet, with other names of modules."""\n'}
    left = [*modules]
    while left:
        module = left.pop()
        path = f"{CODE}/{module.rpartition('.')[2]}.py"
        if path not in files:
            spec = find_spec(module)
            assert spec is not None
            assert spec.origin is not None
            text = Path(spec.origin).read_text()
            files[path] = _IMPORT.sub(rf"from {CODE}.\2 import", text)
            left += [found[1] for found in _IMPORT.finditer(text)]
    return files
