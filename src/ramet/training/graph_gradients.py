"""The clipped sum of the gradients of single graphs, as differential privacy needs it.

For networks of our own, one forward and one backward pass over the whole batch give the gradients
of all graphs. Every parameter of theirs is used once, in a linear map, as a bias or as a table of
one-hot rows. Where it is used, a tensor of zeros is added to the result, whose gradient is that of
the result, row by row. With the rows x and gradients g of a graph's nodes, the gradient of a linear
map is Σ gᵢ xᵢᵀ, and the clipped sum over all graphs is one product again. Other networks are given
one graph at a time.

The coordinator chooses the parameters, so that activations and gradients may be anything, also
infinite. A graph whose gradient is not finite contributes zeros. Where the terms of a graph's
gradient cancel each other, rounding would decide how large its part in the product is, so it is
computed by itself, and what is added is what was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from ramet.models.aligned import AlignedGCN, Linear
from ramet.models.dense_dual_channel import DenseDualChannel
from ramet.models.dual_channel import DualChannel
from ramet.models.single_channel import GIN, GraphGCN, GraphSAGE
from ramet.tasks import GraphSamples, Task

_ONE_PASS = (GIN, GraphGCN, GraphSAGE, DualChannel, DenseDualChannel, Linear, AlignedGCN)
"""Networks whose parameters are used as described above, and which keep graphs apart."""
_CANCELLING = 100.0
"""How much larger, in clipping norms, the terms of a graph's gradient may be than their sum."""
_ADD: tuple[Callable[..., Tensor], ...] = (
    *(torch.Tensor.add, torch.Tensor.add_, torch.Tensor.__add__),
    torch.add,
)


@dataclass(frozen=True)
class Clipped:
    """The sum over graphs of gradients, each clipped to a norm, or zero if it is not finite."""

    gradients: Mapping[str, Tensor]
    """By the names of the parameters; those that the network does not use are left out."""
    norms: Tensor
    """[graphs] before clipping."""


def clipped_sum(
    model: nn.Module, task: Task, samples: GraphSamples, graphs: Tensor, clip: float
) -> Clipped:
    """The sum of the clipped gradients of these training graphs, of which there is at least one."""
    one_pass = type(model) in _ONE_PASS
    return (in_one_pass if one_pass else one_by_one)(model, task, samples, graphs, clip)


def one_by_one(
    model: nn.Module, task: Task, samples: GraphSamples, graphs: Tensor, clip: float
) -> Clipped:
    """As `clipped_sum`, with a backward pass for each graph; for any network."""
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    total, norms = {name: torch.zeros_like(p) for name, p in parameters.items()}, []
    device = next(iter(parameters.values())).device
    for graph in torch.split(graphs, 1):
        batch = samples.block.cut(graph).to(device)
        loss = task.loss(task.output(model, batch), batch)
        found = torch.autograd.grad(loss, [*parameters.values()], allow_unused=True)
        own = {name: g for name, g in zip(parameters, found, strict=True) if g is not None}
        norm = _norm(own.values())
        norms.append(norm)
        if torch.isfinite(norm):
            for name, gradient in own.items():
                total[name] += gradient * _factor(norm, clip)
    return Clipped(total, torch.stack(norms))


def in_one_pass(
    model: nn.Module, task: Task, samples: GraphSamples, graphs: Tensor, clip: float
) -> Clipped:
    """As `clipped_sum`, with one backward pass; for networks of our own."""
    batch = samples.block.cut(graphs).to(next(model.parameters()).device)
    with _Taps(model) as taps:
        output = task.output(model, batch)
    loss = task.loss(output, batch) * batch.graphs  # the loss is a mean
    rows = torch.autograd.grad(loss, [use.tap for use in taps.uses])
    pairs = [*zip(taps.uses, rows, strict=True)]
    each = torch.arange(batch.graphs, device=batch.labels.device)
    graph_of = {len(row): batch.graph if len(row) == batch.nodes else each for row in rows}
    squares = torch.zeros(batch.graphs, device=each.device)
    bounds = torch.zeros_like(squares)
    for use, row in pairs:
        squares += use.squares(row, graph_of[len(row)], batch.graphs)
        bounds += use.bounds(row, graph_of[len(row)], batch.graphs)
    norms = squares.sqrt()
    factors = _factor(norms, clip)
    precise = torch.isfinite(norms) & (bounds * factors <= _CANCELLING * clip)  # not if NaN
    all_precise = bool(precise.all())
    gradients: dict[str, Tensor] = {}
    for use, row in pairs:
        graph = graph_of[len(row)]
        kept: Tensor | slice = slice(None) if all_precise else precise[graph]
        gradients |= use.gradients(row * factors[graph].unsqueeze(1), kept)
    if not all_precise:
        rest = one_by_one(model, task, samples, graphs[~precise.to(graphs.device)], clip)
        norms[~precise] = rest.norms
        gradients = {name: gradients.get(name, 0.0) + g for name, g in rest.gradients.items()}
    return Clipped(gradients, norms)


@dataclass(frozen=True)
class _Use:
    """Where parameters are used: a linear map of rows, a bias, or both."""

    tap: Tensor
    weight: str | None = None
    bias: str | None = None
    inputs: Tensor | None = None
    """[rows, width] of floats, or [rows] with indices of one-hot rows."""
    width: int = 0

    def squares(self, rows: Tensor, graph: Tensor, graphs: int) -> Tensor:  # [graphs]
        """The squared norm of each graph's gradient, given those of the result's rows."""
        found = rows.new_zeros(graphs)
        if self.bias is not None:
            found += _sums(rows, graph, graphs).square().sum(1)
        if self.inputs is None:
            return found
        if not self.inputs.is_floating_point():
            return found + self._table_squares(rows, graph, graphs)
        if len(rows) == graphs:
            return found + (_row_norms(rows) * _row_norms(self.inputs)).square()
        sizes = torch.bincount(graph, minlength=graphs).tolist()
        parts = zip(torch.split(rows, sizes), torch.split(self.inputs, sizes), strict=True)
        return found + torch.stack([torch.linalg.vector_norm(g.t() @ x) for g, x in parts]).square()

    def _table_squares(self, rows: Tensor, graph: Tensor, graphs: int) -> Tensor:
        assert self.inputs is not None
        pairs, place = torch.unique(graph * self.width + self.inputs, return_inverse=True)
        squares = _sums(rows, place, len(pairs)).square().sum(1)
        return squares.new_zeros(graphs).index_add(0, pairs // self.width, squares)

    def bounds(self, rows: Tensor, graph: Tensor, graphs: int) -> Tensor:  # [graphs]
        """The sums of the norms of the terms; finite only if all that is multiplied is."""
        sizes = _row_norms(rows)
        terms = sizes if self.bias is not None else torch.zeros_like(sizes)
        if self.inputs is not None:
            one_hot = not self.inputs.is_floating_point()
            terms = terms + (sizes if one_hot else sizes * _row_norms(self.inputs))
        return terms.new_zeros(graphs).index_add(0, graph, terms)

    def gradients(self, rows: Tensor, kept: Tensor | slice) -> dict[str, Tensor]:
        """The gradients of the parameters, given those of the result's rows; of some rows."""
        rows = rows[kept]
        found = {self.bias: rows.sum(0)} if self.bias is not None else {}
        if self.weight is not None and self.inputs is not None:
            inputs = self.inputs[kept]
            if inputs.is_floating_point():
                found[self.weight] = rows.t() @ inputs
            else:
                found[self.weight] = _sums(rows, inputs, self.width).t()
        return found


class _Taps(TorchFunctionMode):
    """Notes where the parameters of a network are used."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.uses: list[_Use] = []
        self._names = {id(p): name for name, p in model.named_parameters()}
        self._parameters = [*model.parameters()]
        self._tables: list[Tensor] = []

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is functional.linear and self._name(args[1]):
            return self._linear(*args, **(kwargs or {}))
        if func is torch.Tensor.contiguous and self._name(args[0]._base):
            return self._table(args[0])
        if func is functional.embedding and self._name(args[1]):
            return self._embedding(*args[:2])
        if func in _ADD and self._name(args[1]):
            return self._bias(*args)
        return func(*args, **(kwargs or {}))

    def _name(self, value: Any) -> str | None:
        return self._names.get(id(value))

    def _linear(self, inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        product = functional.linear(inputs, weight.detach())
        added = product.new_zeros(()) if bias is None else bias.detach()
        tap = added.expand_as(product).requires_grad_()
        self._note(_Use(tap, self._name(weight), self._name(bias), inputs.detach()))
        return product + tap

    def _table(self, transposed: Tensor) -> Tensor:
        """A parameter whose columns have become rows, under the parameter's name."""
        table = transposed.detach().contiguous()
        self._tables.append(table)  # as long as it exists, no other tensor has its id
        self._names[id(table)] = self._names[id(transposed._base)]
        return table

    def _embedding(self, inputs: Tensor, table: Tensor) -> Tensor:
        product = functional.embedding(inputs, table)
        tap = torch.zeros_like(product).requires_grad_()
        self._note(_Use(tap, self._name(table), None, inputs, len(table)))
        return product + tap

    def _bias(self, values: Tensor, bias: Tensor) -> Tensor:
        tap = bias.detach().expand_as(values).requires_grad_()
        self._note(_Use(tap, bias=self._name(bias)))
        return values + tap

    def _note(self, use: _Use) -> None:
        names = {name for own in self.uses for name in (own.weight, own.bias)} - {None}
        assert not names & {use.weight, use.bias}, "a parameter is used twice"
        self.uses.append(use)


def _sums(rows: Tensor, place: Tensor, count: int) -> Tensor:  # [count, width]
    return rows.new_zeros((count, rows.size(1))).index_add(0, place, rows)


def _row_norms(rows: Tensor) -> Tensor:  # [rows]
    """Norms of rows, without overflow or underflow of the squares."""
    largest = rows.abs().amax(1, keepdim=True).clamp(min=torch.finfo(rows.dtype).tiny)
    relative: Tensor = torch.linalg.vector_norm(rows / largest, dim=1)
    return relative * largest.squeeze(1)


def _norm(gradients: Iterable[Tensor]) -> Tensor:
    return torch.stack([gradient.square().sum() for gradient in gradients]).sum().sqrt()


def _factor(norms: Tensor, clip: float) -> Tensor:
    return (clip / norms.clamp(min=torch.finfo(norms.dtype).tiny)).clamp(max=1.0)
