"""The values of features as they stand in the table, before they were prepared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from ramet.data.own.columns import EPOCH
from ramet.data.own.preparation import PreparedColumn
from ramet.prediction.inputs import Input
from ramet.prediction.trained import Trained


def shown_values(trained: Trained, given: Input, values: Sequence[float]) -> list[str]:
    """A node's features, each as text; one for each feature of its only type."""
    if not given.features:
        return [f"{value:g}" for value in values]
    (node_type,) = given.features
    schema = trained.schema(given.client)
    columns = schema.columns.get(node_type)
    if not columns:
        return [f"{value:g}" for value in values]
    prepared = trained.preparation.types[node_type]
    rest = iter(values)
    return [text for name in columns for text in _texts(prepared[name], name, rest)]


def _texts(column: PreparedColumn, name: str, values: Iterator[float]) -> list[str]:
    """The texts of one column's features, which are the next values."""
    own = [next(values) for _ in column.names(name)]
    marks = ["yes" if own[-1] else "no"] if column.marked else []
    if column.kind == "category":
        return ["yes" if value else "no" for value in own]
    if column.marked and own[-1]:
        return ["missing", *marks]
    return [_text(column, own[0]), *marks]


def _text(column: PreparedColumn, value: float) -> str:
    if column.kind == "flag":
        return "yes" if value else "no"
    original = column.mean + column.scale * value
    if column.kind == "date":
        return f"{EPOCH + timedelta(days=original, seconds=30):%Y-%m-%d}"
    return f"{original:.6g}"
