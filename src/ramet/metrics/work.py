"""Floating-point operations of a client's training, counted as they happen.

A multiply-add is two operations. *Linear* are dense matrix products; *messages* are sums over
links and over a graph's nodes. *Avoided* are products with one-hot rows that are lookups here: they
are not done, but code that multiplies would do them. Element-wise functions, the loss and the
optimiser are left out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from torch import Tensor, nn, ops, sparse_csr
from torch.utils.flop_counter import FlopCounterMode

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

    def note(kind: str, operations: int) -> int:
        work[f"{'forward' if inside else 'backward'}_{kind}"] += operations
        return operations

    def enter(*_: Any) -> None:
        nonlocal inside
        inside = True

    def leave(*_: Any) -> None:
        nonlocal inside
        inside = False

    hooks = (model.register_forward_pre_hook(enter), model.register_forward_hook(leave))
    try:
        with FlopCounterMode(display=False, custom_mapping=_formulas(note)):
            yield work
    finally:
        for hook in hooks:
            hook.remove()


Note: TypeAlias = Callable[[str, int], int]


def _formulas(note: Note) -> dict[Any, Callable[..., int]]:
    aten = ops.aten

    def product(left: Tensor, right: Tensor, *_: Any, **__: Any) -> int:
        width = right.size(-1)
        if left.layout is sparse_csr:
            return note("messages", 2 * left.values().numel() * width)
        return note("linear", 2 * left.numel() * width)

    def product_and_sum(_: Tensor, left: Tensor, right: Tensor, *__: Any, **___: Any) -> int:
        return product(left, right)

    def sum_of_rows(*given: Any, **_: Any) -> int:
        rows: Tensor = given[3]  # after the sums so far, the dimension and the places
        return note("messages", rows.numel())

    def some_of_a_product(wanted: Tensor, left: Tensor, *_: Any, **__: Any) -> int:
        return note("messages", 2 * wanted.values().numel() * left.size(-1))

    def lookup(weight: Tensor, places: Tensor, *_: Any, **__: Any) -> int:
        return note("avoided", 2 * places.numel() * weight.numel())

    def lookup_backward(gradient: Tensor, _: Tensor, rows: int, *__: Any, **___: Any) -> int:
        return note("avoided", 2 * gradient.numel() * rows)

    formulas: dict[Any, Callable[..., int]] = {
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
    for formula in formulas.values():
        formula._get_raw = True  # type: ignore[attr-defined]  # give it tensors, not their shapes
    return formulas


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
