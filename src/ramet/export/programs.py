"""The network as a program that runs without its Python code: `torch.export` and ONNX.

The numbers of nodes, links, graphs and pairs are left open, so that a program takes graphs of any
size. A program is kept only if it gives the network's output for a graph of another size. Saved
programs have names as keys, so relations are called `head/name/tail` in them.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

from ramet.export.inputs import Inputs, flat
from ramet.export.standalone.predict import Predicting

PT2, ONNX = "model.pt2", "model.onnx"
_ONNX_PACKAGES = ("onnx", "onnxscript", "onnxruntime")
_TOLERANCE = 1e-4
"""Relative to the logits; rounding is far below it, and a wrong program far above."""
_FAILURES = (RuntimeError, ValueError, TypeError, NotImplementedError, AssertionError)
"""What PyTorch raises for operators and sizes that cannot be exported."""


class _ImpossibleError(Exception):
    """Why a program could not be written, in one line."""


def write_programs(
    network: nn.Module, inputs: Inputs, other: Inputs, folder: Path
) -> dict[str, str]:
    """Write both programs. Returns the reasons for those that could not be written, by file.

    ``other`` is an input of other sizes, with which the programs are checked.
    """
    reasons = {}
    for name, write in ((PT2, _write_pt2), (ONNX, _write_onnx)):
        try:
            with _quiet():
                write(network, inputs, other, folder / name)
        except _ImpossibleError as error:
            (folder / name).unlink(missing_ok=True)
            reasons[name] = str(error)
    return reasons


def _write_pt2(network: nn.Module, inputs: Inputs, other: Inputs, path: Path) -> None:
    with _reason_of_failure():
        named = network if "x" in inputs else _NamedRelations(network)
        torch.export.save(_exported(named, _with_names(inputs)), path)
        loaded = torch.export.load(path).module()
        _check(network, other, [*flat({"": loaded(**_with_names(other))}).values()])


def _write_onnx(network: nn.Module, inputs: Inputs, other: Inputs, path: Path) -> None:
    missing = [package for package in _ONNX_PACKAGES if find_spec(package) is None]
    if missing:
        raise _ImpossibleError(
            f"{', '.join(missing)} not installed; pip install 'ramet[export]' and export again"
        )
    with _reason_of_failure():
        torch.onnx.export(
            _exported(network, inputs),
            f=path,
            dynamo=True,
            input_names=[*flat(inputs)],
            output_names=[*flat({_output_name(network): _outputs(network, inputs)})],
            external_data=False,
            verbose=False,
        )
        _check(network, other, run_onnx(path, other))


def run_onnx(path: Path, inputs: Inputs) -> list[Tensor]:
    """The outputs of an ONNX program, in the order of relations if there are several."""
    from onnxruntime import InferenceSession

    session = InferenceSession(path, providers=["CPUExecutionProvider"])
    given = {name: tensor.numpy() for name, tensor in flat(inputs).items()}
    return [torch.from_numpy(output) for output in session.run(None, given)]


class _NamedRelations(nn.Module):
    """A network of links that takes and returns tensors by the names of relations."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(
        self,
        x_dict: Mapping[str, Tensor],
        edge_index_dict: Mapping[str, Tensor],
        edge_label_index_dict: Mapping[str, Tensor],
    ) -> dict[str, Tensor]:
        by_relation = (
            {tuple(name.split("/")): pairs for name, pairs in by_name.items()}
            for by_name in (edge_index_dict, edge_label_index_dict)
        )
        return _by_name(self.network(x_dict, *by_relation))


def _with_names(inputs: Inputs) -> Inputs:
    return {
        argument: value if isinstance(value, Tensor) else _by_name(value)
        for argument, value in inputs.items()
    }


def _by_name(tensors: Mapping[Any, Tensor]) -> dict[str, Tensor]:
    return {key if isinstance(key, str) else "/".join(key): one for key, one in tensors.items()}


def _output_name(network: nn.Module) -> str:
    return "predictions" if isinstance(network, Predicting) else "logits"


@torch.no_grad()
def _outputs(network: nn.Module, inputs: Inputs) -> Any:
    return network(**inputs)


@torch.no_grad()
def _exported(network: nn.Module, inputs: Inputs) -> Any:
    sizes = {argument: _open_sizes(argument, value) for argument, value in inputs.items()}
    return torch.export.export(network, (), inputs, dynamic_shapes=sizes, strict=False)


def _open_sizes(argument: str, value: Any) -> Any:
    """Leave open the number of nodes or links, which is a tensor's first or second size."""
    if isinstance(value, Tensor):
        return {1 if "index" in argument else 0: Dim.AUTO}
    return {key: _open_sizes(argument, one) for key, one in value.items()}


def _check(network: nn.Module, inputs: Inputs, given: Sequence[Tensor]) -> None:
    expected = [*flat({"": _outputs(network, inputs)}).values()]
    for one, other in zip(given, expected, strict=True):
        unit = max(1.0, float(other.abs().max())) if isinstance(network, Predicting) else 1.0
        if not torch.allclose(one, other, rtol=_TOLERANCE, atol=_TOLERANCE * unit):
            difference = float((one - other).abs().max())
            raise _ImpossibleError(f"it gives other output than the network ({difference:.1e})")


@contextmanager
def _reason_of_failure() -> Iterator[None]:
    try:
        yield
    except _FAILURES as error:
        raise _ImpossibleError(str(error).strip().partition("\n")[0]) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Without PyTorch's messages about optional packages and deprecations."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
