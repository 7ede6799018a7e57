"""Floating-point operations of a client's training, counted as they happen.

A multiply-add is two operations. *Linear* are products with weights; *messages* are sums over links
and over a graph's nodes. *Avoided* are products with one-hot rows that are lookups here: they
are not done, but code that multiplies would do them. Element-wise functions, the loss and the
optimiser are left out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from torch import Tensor, nn, ops, sparse_csr
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

PASSES, KINDS = ("forward", "backward"), ("linear", "messages", "avoided")
WORK = tuple(f"{way}_{kind}" for way in PASSES for kind in KINDS)
"""The names under which a client reports its work."""


Work: TypeAlias = dict[str, float]
"""Operations by pass and kind."""


@contextmanager
def counted(model: nn.Module) -> Iterator[Work]:
    """Count all that is done with the model inside; its results stay the same."""
    work: Work = dict.fromkeys(WORK, 0)
    inside = False

    def note(kind: str, operations: int) -> None:
        work[f"{'forward' if inside else 'backward'}_{kind}"] += operations

    def enter(*_: Any) -> None:
        nonlocal inside
        inside = True

    def leave(*_: Any) -> None:
        nonlocal inside
        inside = False

    hooks = (model.register_forward_pre_hook(enter), model.register_forward_hook(leave))
    try:
        with _Watch(_formulas(note)):
            yield work
    finally:
        for hook in hooks:
            hook.remove()


Note: TypeAlias = Callable[[str, int], None]
Formula: TypeAlias = Callable[..., None]


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Tells each operation's formula of its arguments.

    PyTorch's own FlopCounterMode also follows modules and takes operations apart: with it a counted
    epoch took twice as long as an uncounted one, with this 1.4 times.
    """

    def __init__(self, formulas: Mapping[Any, Formula]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.formulas = formulas

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing here is compiled, and telling the compiler so would import it: a second."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        formula = self.formulas.get(func.overloadpacket)
        if formula:
            formula(*args, **(kwargs or {}), out_val=result)
        return result


def _formulas(note: Note) -> dict[Any, Formula]:
    aten = ops.aten

    def product(left: Tensor, right: Tensor, *_: Any, **__: Any) -> None:
        sparse = left.layout is sparse_csr
        between_nodes = sparse and left.size(0) == left.size(1)
        factors = left.values().numel() if sparse else left.numel()
        note("messages" if between_nodes else "linear", 2 * factors * right.size(-1))

    def product_and_sum(_: Tensor, left: Tensor, right: Tensor, *__: Any, **___: Any) -> None:
        product(left, right)

    def sum_of_rows(*given: Any, **_: Any) -> None:
        rows: Tensor = given[3]  # after the sums so far, the dimension and the places
        note("messages", rows.numel())

    def some_of_a_product(wanted: Tensor, left: Tensor, *_: Any, **__: Any) -> None:
        note("messages", 2 * wanted.values().numel() * left.size(-1))

    def lookup(weight: Tensor, places: Tensor, *_: Any, **__: Any) -> None:
        note("avoided", 2 * places.numel() * weight.numel())

    def lookup_backward(gradient: Tensor, _: Tensor, rows: int, *__: Any, **___: Any) -> None:
        note("avoided", 2 * gradient.numel() * rows)

    def other(formula: Callable[..., int]) -> Formula:
        return lambda *args, **kwargs: note("linear", formula(*args, **kwargs))

    return {packet: other(formula) for packet, formula in flop_registry.items()} | {
        aten.mm: product,
        aten.bmm: product,
        aten.addmm: product_and_sum,
        aten.baddbmm: product_and_sum,
        aten.sparse_sampled_addmm: some_of_a_product,
        aten.index_add: sum_of_rows,
        aten.index_add_: sum_of_rows,
        aten.scatter_add: sum_of_rows,
        aten.scatter_add_: sum_of_rows,
        aten.embedding: lookup,
        aten.embedding_dense_backward: lookup_backward,
    }


def total(work: Mapping[str, float]) -> float:
    """All that was really done, in both passes."""
    return sum(work[name] for name in WORK if not name.endswith("avoided"))


def peak_memory() -> int:
    """The most bytes this process ever held at once; 0 where the system does not tell."""
    if sys.platform == "win32":
        return 0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
