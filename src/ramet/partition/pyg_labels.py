"""What `y` of PyG's objects says: classes, numbers, or several labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import torch
from torch import Tensor

from ramet.data.own.schema import TargetKind, TaskName, level_of, target_kind
from ramet.errors import RametError

_NAMES: dict[TargetKind, str] = {
    "class": "classification",
    "number": "regression",
    "flag": "multilabel",
}


def task_of(level: str, kind: TargetKind) -> TaskName:
    """The task for nodes or graphs of which this is predicted."""
    return cast(TaskName, f"{level}-{_NAMES[kind]}")


def kind_of(given: Mapping[str, Any], level: str, task: TaskName | None) -> TargetKind:
    """What `y` of the data says: what the task predicts or, without one, numbers if it is floats.

    ``given`` has the values of y by name; ``level`` is what has them, node or graph. One graph may
    also have classes of edges, if the task says so.
    """
    if task is not None:
        if level_of(task) not in (level, *(["edge"] if level == "node" else [])):
            raise RametError(
                f"the data has y for {'each node of one graph' if level == 'node' else 'graphs'}, "
                f"which is not for {task}. Give one Data for nodes, and a list of Data for graphs."
            )
        return target_kind(task)
    floats = {name: torch.is_floating_point(torch.as_tensor(y)) for name, y in given.items()}
    kinds = {is_float: name for name, is_float in floats.items()}
    if len(kinds) > 1:
        raise RametError(
            f"y of {kinds[True]} is floats, but of {kinds[False]} whole numbers. Give all the "
            "same: floats for numbers to predict, whole numbers for classes."
        )
    return "number" if True in kinds else "class"


def targets(y: Any, count: int, who: str, kind: TargetKind) -> Tensor:  # [count, outputs]
    """The numbers or labels of 0 and 1, NaN where unknown."""
    what = "number" if kind == "number" else "row of labels"
    if y is None:
        raise RametError(f"{who} has no y. Give {'it' if count == 1 else 'each node'} its {what}.")
    given = torch.as_tensor(y).detach().cpu()
    of_graph = count == 1 and given.dim() < 2
    rows = given.reshape(1, -1) if of_graph else given.unsqueeze(-1) if given.dim() == 1 else given
    if rows.dim() != 2 or rows.size(0) != count or not rows.numel() or given.is_complex():
        due = f"{what} for {'one graph' if count == 1 else f'{count} nodes'}"
        raise RametError(f"y of {who} has shape {list(given.shape)}, but a {due} is due.")
    values = rows.to(torch.float32).contiguous()
    _check_values(values, who, kind)
    if count == 1 and values.isnan().all():
        raise RametError(f"y of {who} is not known. Give it its {what}, or leave out the graph.")
    return values


def _check_values(values: Tensor, who: str, kind: TargetKind) -> None:
    needed, wrong = "a finite number", values.isinf()
    if kind == "flag":
        needed, wrong = "0 or 1", (values != 0) & (values != 1) & ~values.isnan()
    if wrong.any():
        row, column = wrong.nonzero()[0].tolist()
        raise RametError(
            f"y of {who} has {float(values[row, column]):g} in row {row}, column {column}, but "
            f"{needed} is due, or NaN where it is unknown."
        )


def labelled(labels: Tensor) -> Tensor:
    """[samples] whether a class, or any number or label, is known; from y as it is given."""
    if labels.is_floating_point():
        return labels.cpu().isnan().logical_not().any(dim=1)
    return labels.cpu().flatten() >= 0


def check_outputs(widths: Iterable[tuple[str, int]]) -> None:
    """Check that all have the same number of numbers or labels."""
    (first, width), *others = widths
    for other, own in others:
        if own != width:
            raise RametError(
                f"y of {first} has {width} column{'s' if width > 1 else ''} and that of {other} "
                f"{own}. Give all the same columns, in the same order."
            )
