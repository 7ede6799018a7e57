"""Floating-point operations of a client's training, counted as they happen.

A multiply-add counts as two operations. *Linear* operations are products with weights; *messages*
are sums over links and over a graph's nodes. *Avoided* operations are products with one-hot rows:
here they are lookups, but code that multiplies would perform them. Element-wise functions, the loss
and the optimiser are not counted.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeAlias

from torch import Tensor, ops, sparse_csr
from torch._C import _current_graph_task_id
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

PASSES, KINDS = ("forward", "backward"), ("linear", "messages", "avoided")
WORK = tuple(f"{direction}_{kind}" for direction in PASSES for kind in KINDS)
"""The names under which a client reports its work."""


Work: TypeAlias = dict[str, float]
"""Operations by pass and kind."""


@contextmanager
def count_operations() -> Iterator[Work]:
    """Count the operations inside the block; its results do not change.

    Operations of PyTorch's backward pass are backward, all others forward, whichever module or
    function performs them.
    """
    work: Work = dict.fromkeys(WORK, 0)

    def add(kind: str, operations: int) -> None:
        in_backward = _current_graph_task_id() != _NO_BACKWARD
        work[f"{'backward' if in_backward else 'forward'}_{kind}"] += operations

    with _DispatchCounter(_formulas(add)):
        yield work


_NO_BACKWARD = -1
_EVERY = 10
Add: TypeAlias = Callable[[str, int], None]
Formula: TypeAlias = Callable[..., None]


class _DispatchCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Calls the formula of each operation with its arguments.

    PyTorch's FlopCounterMode also tracks modules and decomposes operations: with it a counted epoch
    took twice as long as an uncounted one, with this class 1.4 times as long.
    """

    def __init__(self, formulas: Mapping[Any, Formula]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.formulas = formulas

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing here is compiled, and True would import the compiler, which takes a second."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        formula = self.formulas.get(func.overloadpacket)
        if formula:
            formula(*args, **(kwargs or {}), out_val=result)
        return result


def _formulas(add: Add) -> dict[Any, Formula]:
    aten = ops.aten

    def product(left: Tensor, right: Tensor, *_: Any, **__: Any) -> None:
        sparse = left.layout is sparse_csr
        between_nodes = sparse and left.size(0) == left.size(1)
        factors = left.values().numel() if sparse else left.numel()
        add("messages" if between_nodes else "linear", 2 * factors * right.size(-1))

    def product_and_sum(_: Tensor, left: Tensor, right: Tensor, *__: Any, **___: Any) -> None:
        product(left, right)

    def sum_of_rows(*given: Any, **_: Any) -> None:
        rows: Tensor = given[3]  # after the sums, the dimension and the indices
        add("messages", rows.numel())

    def sampled_product(mask: Tensor, left: Tensor, *_: Any, **__: Any) -> None:
        add("messages", 2 * mask.values().numel() * left.size(-1))

    def lookup(weight: Tensor, indices: Tensor, *_: Any, **__: Any) -> None:
        add("avoided", 2 * indices.numel() * weight.numel())

    def lookup_backward(gradient: Tensor, _: Tensor, rows: int, *__: Any, **___: Any) -> None:
        add("avoided", 2 * gradient.numel() * rows)

    def other(formula: Callable[..., int]) -> Formula:
        return lambda *args, **kwargs: add("linear", formula(*args, **kwargs))

    return {packet: other(formula) for packet, formula in flop_registry.items()} | {
        aten.mm: product,
        aten.bmm: product,
        aten.addmm: product_and_sum,
        aten.baddbmm: product_and_sum,
        aten.sparse_sampled_addmm: sampled_product,
        aten.index_add: sum_of_rows,
        aten.index_add_: sum_of_rows,
        aten.scatter_add: sum_of_rows,
        aten.scatter_add_: sum_of_rows,
        aten.embedding: lookup,
        aten.embedding_dense_backward: lookup_backward,
    }


def is_counted(number: int, last: int, phases: Iterable[int] = ()) -> bool:
    """Whether a client counts its work in a round, if its last reply was that of round ``last``.

    It does in the first two rounds of the run and of each phase, which begins in one of ``phases``,
    and in every tenth round: a first round may do more than later ones, or less.
    """
    due = {first + later for first in (1, *phases) for later in (0, 1)}
    return number // _EVERY > last // _EVERY or any(last < one <= number for one in due)


def total(work: Mapping[str, float]) -> float:
    """The operations that were performed in both passes."""
    return sum(work[name] for name in WORK if not name.endswith("avoided"))


def peak_memory() -> int:
    """Peak memory of this process in bytes; 0 if the system does not report it.

    It is measured four times a second at most, because some systems take milliseconds for it.
    """
    return _peak_memory(int(4 * time.monotonic()))


@lru_cache(maxsize=1)
def _peak_memory(quarter: int) -> int:  # noqa: ARG001
    if sys.platform == "win32":
        return 0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
