"""The parts of a site's TOML file: its node types, its edge types, and its graphs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from ramet.data.own.columns import ColumnOrKind, ColumnPart
from ramet.data.own.schema import Column, TypeName

Aggregate: TypeAlias = Literal["sum", "mean", "count"]
Unknown: TypeAlias = Literal["refuse", "drop", "stub"]
AGE = "age"
"""The attribute of links with the days from each to the last one."""
Days: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]


LabelColumns: TypeAlias = Column | Annotated[tuple[Column, ...], Field(min_length=1)]
"""The column with the class or the number, or those of several numbers or labels."""


def columns_of(label: LabelColumns | None) -> tuple[Column, ...]:
    if label is None:
        return ()
    return (label,) if isinstance(label, str) else label


class Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class _Rows(Part):
    """Rows of one type. Without a file, they are in the tensors or the site has none."""

    file: str | None = None
    features: tuple[Column, ...] | Annotated[int, Field(strict=True, ge=0, le=100_000)] = ()
    columns: dict[Column, ColumnOrKind] = {}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the features, or of the columns that become features.

        An integer stands for x0, x1, … Columns are sorted, so that sites may declare them in any
        order.
        """
        if self.columns or self.computed:
            return tuple(self.prepared)
        if isinstance(self.features, int):
            return tuple(f"x{number}" for number in range(self.features))
        return self.features

    @cached_property
    def prepared(self) -> dict[str, ColumnPart]:
        """The columns that become features, by name."""
        parts = {**self.columns, **self.computed}
        return {name: parts[name] for name in sorted(parts) if parts[name].kind != "ignored"}

    @property
    def computed(self) -> dict[str, ColumnPart]:
        """Columns that are not in the table, but computed from others."""
        return {}

    @property
    def read(self) -> dict[str, ColumnPart]:
        """The columns that become features and are read from a table."""
        return {name: one for name, one in self.prepared.items() if name not in self.computed}

    @property
    def in_table(self) -> list[str]:
        """The columns that the table must have."""
        names = [name for name in self.names if name not in self.computed]
        return [name for name in names if name not in self.prepared or not self._absent(name)]

    def only(self, header: Collection[str]) -> Self:
        """The same part, with columns that the table lacks declared as absent, where they may be.

        Columns that refuse missing values stay, and are reported as missing.
        """
        columns = {
            name: one
            if name in header or one.missing == "refuse"
            else one.model_copy(update={"absent": True})
            for name, one in self.columns.items()
        }
        return type(self)(**self.model_dump(exclude={"columns"}), columns=columns)

    def _absent(self, column: str) -> bool:
        return self.prepared[column].absent

    @abstractmethod
    def _keys(self) -> dict[str, Column | None]:
        """The columns that have another meaning, by that meaning."""

    def errors(self, where: str, obstacle: str) -> Iterator[str]:
        """What is wrong in the part called ``where``; ``obstacle`` says why there are no tables."""
        if len(set(self.names)) < len(self.names):
            yield f"a feature of {where} is listed twice"
        for column in self.names if self.columns or not obstacle else ():
            taken = [meaning for meaning, name in self._keys().items() if name == column]
            if taken:
                yield f"'{column}' of {where} cannot be a feature: it is the {taken[0]}"
        if not self.columns:
            return
        if self.features:
            yield f"{where} has both 'features' and 'columns'; use one of them"
        if obstacle:
            yield f"{where} has 'columns', {obstacle}"
        for column, one in self.prepared.items():
            if one.categories and one.kind != "category":
                yield f"'{column}' of {where} has categories, but is a {one.kind}"


class NodePart(_Rows):
    """Nodes of one type. ``time`` names a column, or with tensors a tensor, for ``[split]``."""

    id: Column = "id"
    graph: Column = "graph"
    label: LabelColumns | None = None
    split: Column | None = None
    time: Column | None = None

    @property
    def label_columns(self) -> tuple[Column, ...]:
        return columns_of(self.label)

    def _keys(self) -> dict[str, Column | None]:
        labels = {"label": self.label} if isinstance(self.label, str) else {}
        several = {f"label {name}": name for name in self.label_columns if not labels}
        return {"id": self.id, **labels, **several, "split": self.split}


class EdgePart(_Rows):
    """Edges of one type between two node types.

    ``weight`` and ``time`` name a column, or with tensors a tensor. ``aggregate``: columns of the
    nodes at both ends that sum up their links, for each of ``windows``, which are numbers of days
    before the last link, or for all links. ``age``: an attribute, the days to the last link.
    ``label``: the class of each edge; ``id`` names the edges in predictions.
    ``unknown``: whether an edge with an end that is in no table is a problem, is dropped, or has a
    node there of which nothing but the id is known.
    """

    source: Column = "source"
    target: Column = "target"
    graph: Column = "graph"
    id: Column | None = None
    label: Column | None = None
    head: TypeName | None = Field(default=None, alias="from")
    tail: TypeName | None = Field(default=None, alias="to")
    split: Column | None = None
    weight: Column | None = None
    time: Column | None = None
    age: StrictBool = False
    directed: StrictBool = False
    aggregate: tuple[Aggregate, ...] = ()
    windows: tuple[Days, ...] = ()
    unknown: Unknown = "refuse"

    @property
    def values_given(self) -> list[str]:
        """The keys that say what links carry."""
        keys = ("features", "columns", "weight", "age", "directed", "aggregate", "windows")
        return [key for key in keys if getattr(self, key)]

    @property
    def computed(self) -> dict[str, ColumnPart]:
        return {AGE: ColumnPart(kind="number", missing="refuse")} if self.age else {}

    @property
    def is_plain(self) -> bool:
        """Whether links carry nothing but their ends, so that equal ones are one."""
        return not (self.names or self.weight or self.time)

    @property
    def more_in_table(self) -> list[str]:
        """The columns that the table must have besides those of the ends."""
        extra = [one for one in (self.weight, self.time) if one is not None]
        return [*dict.fromkeys([*self.in_table, *extra])]

    @property
    def known(self) -> set[str | None]:
        """The columns that the part reads or ignores."""
        return {*self._keys().values(), *self.in_table, *self.columns, *self.more_in_table}

    @property
    def summed(self) -> list[str]:
        """The columns of numbers, of which there are sums and means."""
        if not self.columns:
            numbers = [name for name in self.names if name not in self.computed]
        else:
            numbers = [n for n, one in self.read.items() if one.kind in ("number", "flag")]
        return [*dict.fromkeys([*numbers, *([self.weight] if self.weight else [])])]

    def _keys(self) -> dict[str, Column | None]:
        return {key: getattr(self, key) for key in ("source", "target", "id", "label", "split")}

    def errors(self, where: str, obstacle: str) -> Iterator[str]:
        yield from super().errors(where, obstacle)
        for column in (name for name, one in self.columns.items() if one.kind == "age"):
            yield (
                f"'{column}' of {where} is an age, which columns of nodes can be. Name the column "
                "as 'time', and write age = true"
            )
        yield from self._age_errors(where, obstacle)
        if obstacle and self.unknown != "refuse":
            yield f"{where} has 'unknown', {obstacle}"
        for key, name in (("weight", self.weight), ("time", self.time)):
            if name is not None and name in (self.source, self.target):
                yield f"{where} has the ends of links as '{key}'. Name another column"
        yield from self._aggregate_errors(where, obstacle)

    def _age_errors(self, where: str, obstacle: str) -> Iterator[str]:
        if not self.age:
            return
        if obstacle:
            yield f"{where} has 'age', {obstacle}"
        if self.file is not None and self.time is None:
            yield f"{where} has 'age' without 'time'. Name the column with the time of a link"
        if AGE in self.columns:
            yield f"'{AGE}' of {where} is also the name of the days to the last link. Rename it"
        if self.features:
            yield (
                f"{where} has 'features', to which 'age' cannot be added. Declare them in "
                f'{where[:-1]}.columns] as "number"'
            )

    def _aggregate_errors(self, where: str, obstacle: str) -> Iterator[str]:
        if self.windows and not self.aggregate:
            yield f"{where} has 'windows' without 'aggregate'. Add aggregate, or remove windows"
        if self.windows and self.time is None:
            yield f"{where} has 'windows' without 'time'. Name the column with the time of a link"
        for key in ("aggregate", "windows"):
            if len(set(getattr(self, key))) < len(getattr(self, key)):
                yield f"{where} lists the same value of '{key}' twice. Remove one"
        if not self.aggregate:
            return
        if obstacle:
            yield f"{where} has 'aggregate', {obstacle}"
        if self.aggregate != ("count",) and not self.summed:
            yield (
                f"{where} has no number to aggregate. Declare a column in its 'columns' as "
                '"number", or write aggregate = ["count"]'
            )


class GraphPart(Part):
    """Many graphs: a table with a row per graph, a folder with files per graph, or both.

    ``time`` names a column, for ``[split]``.
    """

    file: str | None = None
    folder: str | None = None
    id: Column = "id"
    label: LabelColumns = "label"
    split: Column | None = None
    time: Column | None = None

    @property
    def label_columns(self) -> tuple[Column, ...]:
        return columns_of(self.label)
