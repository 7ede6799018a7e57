"""Prepare columns in the same way at all sites: scaling and categories, agreed from sums.

A site contributes counts and sums of its numbers and names of categories, never single values, and
nothing about a column or a category with fewer rows than the site's smallest count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor

from ramet.data.own.columns import ColumnPart, ColumnValues, Values
from ramet.data.own.moments import Moments, bounded, pooled
from ramet.data.own.schema import OF_EDGES, Column, Kind, Schema, TableName, parsed, shown_column
from ramet.errors import RametError

SMALLEST_COUNT = 10
_MAX_CATEGORIES = 10_000
_LARGEST = float(np.finfo(np.float32).max)
"""The largest number in a table."""
_Count: TypeAlias = Annotated[int, Field(ge=0, le=2**53)]
_Number: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ColumnSums(_Frozen):
    """What a site tells about a column: a number's count and sums, or names of categories."""

    kind: Kind
    marked: bool
    """Whether missing values are marked by a feature."""
    count: _Count = 0
    total: _Number = 0.0
    squares: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """The sum of squared deviations from the site's own mean."""
    categories: Annotated[tuple[Column, ...], Field(max_length=_MAX_CATEGORIES)] = ()
    fixed: bool = False
    """Whether the site's TOML lists the categories."""

    @model_validator(mode="after")
    def _check_possible(self) -> ColumnSums:
        largest = self.count * _LARGEST
        if abs(self.total) > largest or self.squares > 4 * largest * _LARGEST:
            raise ValueError("the sums are larger than the numbers of a table can be")
        if len(set(self.categories)) < len(self.categories):
            raise ValueError("a category is listed twice")
        return self

    @property
    def moments(self) -> Moments:
        """The sums of a number; there must be at least one."""
        return Moments(self.count, self.total, self.squares)

    def __str__(self) -> str:
        """What leaves the site, in words."""
        if self.kind == "category":
            if self.fixed:
                return "the list of categories in the TOML"
            return f"the names {', '.join(self.categories)}" if self.categories else "nothing"
        if not self.count:
            return "nothing"
        return f"count {self.count}, sum {self.total:g}, squared deviations {self.squares:g}"


class SiteSums(_Frozen):
    """What a site tells before round 1: the sums of its columns, and whether a class is rare."""

    types: dict[TableName, dict[Column, ColumnSums]] = {}
    rare_classes: bool = False
    """Whether a class is so rare that accuracy says little; which one and how rare is not told."""

    def text(self) -> str:
        return self.model_dump_json(exclude_defaults=True)

    def without_rarity(self) -> SiteSums:
        """The same, silent about classes."""
        return self.model_copy(update={"rare_classes": False})

    @property
    def numbers(self) -> dict[str, ColumnSums]:
        """The columns of numbers, by type and name; those that have sums or could have."""
        return {
            f"{node_type}.{column}": sums
            for node_type, of_type in self.types.items()
            for column, sums in of_type.items()
            if sums.kind in ("number", "date", "age")
        }

    def without_numbers(self) -> SiteSums:
        """The same without what can be summed under masks: names and kinds only."""
        nothing = {"count": 0, "total": 0.0, "squares": 0.0}
        types = {
            node_type: {name: sums.model_copy(update=nothing) for name, sums in of_type.items()}
            for node_type, of_type in self.types.items()
        }
        return SiteSums(types=types)

    def in_words(self, masked: bool = False) -> tuple[str, ...]:
        """What leaves the site, one line per column, for its audit log."""
        hidden = ", in a sum under masks" if masked else ""
        rare = ("classes: one is rare; which one is not told",) if self.rare_classes else ()
        columns = (
            f"{shown_column(node_type, column)}: {sums}{hidden if sums.count else ''}"
            for node_type, of_type in self.types.items()
            for column, sums in of_type.items()
        )
        return (*columns, *(f"{line}{hidden}" for line in rare))

    @staticmethod
    def parse(text: str, site: str) -> SiteSums:
        """Parse and validate what a site sent."""
        return parsed(SiteSums, text, f"the summary of the columns of {site}")


class PreparedColumn(_Frozen):
    """How a column becomes features."""

    kind: Kind
    marked: bool
    mean: _Number = 0.0
    scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    categories: Annotated[tuple[Column, ...], Field(max_length=_MAX_CATEGORIES)] = ()

    @model_validator(mode="after")
    def _check_categories(self) -> PreparedColumn:
        if len(set(self.categories)) < len(self.categories):
            raise ValueError("a category is listed twice")
        if self.categories and self.kind != "category":
            raise ValueError(f"a {self.kind} has no categories")
        return self

    def difference(self, declared: ColumnPart) -> str | None:
        """How the site's declaration differs from this; None if it does not."""
        if self.kind != declared.kind:
            return f"is a {declared.kind} here, but it was a {self.kind} in training"
        if self.marked != (declared.missing == "mark"):
            word = "marks" if declared.missing == "mark" else "refuses"
            return f"{word} missing values here, which it did not in training"
        if declared.categories and self.categories != declared.categories:
            return "has other categories here than in training"
        return None

    def names(self, column: str) -> list[str]:
        """The names of the features."""
        marks = [f"{column} missing"] if self.marked else []
        if self.kind == "category":
            return [*(f"{column}={name}" for name in self.categories), f"{column} other", *marks]
        return [column, *marks]

    def features(self, values: Values) -> list[Values]:
        """The features, one array per name."""
        if self.kind == "category":
            is_missing = values == ""
            one_hot = [values == name for name in self.categories]
            other = ~(is_missing | np.isin(values.astype(str), self.categories))
            return [*one_hot, other, *([is_missing] if self.marked else [])]
        is_missing = np.isnan(values)
        scaled = np.where(is_missing, 0.0, (values - self.mean) / self.scale)
        return [scaled, *([is_missing] if self.marked else [])]


class Preparation(_Frozen):
    """How all sites prepare their columns, by node type and column, and their default metric."""

    types: dict[TableName, dict[Column, PreparedColumn]] = {}
    metric: Literal["balanced-accuracy"] | None = None
    """None for the default of the task."""

    def text(self) -> str:
        return self.model_dump_json(exclude_defaults=True)

    @staticmethod
    def parse(text: str) -> Preparation:
        """Parse and validate what the coordinator sent."""
        return parsed(Preparation, text, "the coordinator's preparation of columns")

    def names(self, node_type: str, columns: Iterable[str]) -> tuple[str, ...]:
        """The names of the features that these columns become, in the order of the columns."""
        return tuple(n for c in columns for n in self.types[node_type][c].names(c))

    def features(self, node_type: str, columns: ColumnValues) -> Tensor:  # [rows, features]
        prepared = self.types.get(node_type, {})
        arrays = [
            array
            for name in columns.parts
            for array in prepared[name].features(columns.values[name])
        ]
        if not arrays:
            return torch.ones((columns.rows, 1))
        features = np.stack(arrays, axis=1).clip(-_LARGEST, _LARGEST)  # an error would tell a value
        return torch.from_numpy(features.astype(np.float32))

    def expanded(self, schema: Schema) -> Schema:
        """The schema with the features that its columns become."""
        nodes = {
            node_type: self.names(node_type, schema.columns[node_type])
            if node_type in schema.columns
            else names
            for node_type, names in schema.nodes.items()
        }
        links = {
            name: self.names(f"{OF_EDGES}{name}", schema.columns[f"{OF_EDGES}{name}"])
            if f"{OF_EDGES}{name}" in schema.columns
            else names
            for name, names in schema.links.items()
        }
        return schema.model_copy(update={"nodes": nodes, "links": links})


@dataclass(frozen=True)
class Pooled:
    """Sums over all sites, of which nobody knows those of a single site.

    Args:
        moments: those of numbers, by type and column.
        rare: whether a class is rare at some site.
    """

    moments: Mapping[str, Moments]
    rare: bool

    @staticmethod
    def of(sums: Mapping[str, SiteSums]) -> Pooled:
        """What sums under masks give, computed in the open."""
        told: dict[str, list[Moments]] = {}
        for site in sums.values():
            for column, own in site.numbers.items():
                told.setdefault(column, []).extend([own.moments] if own.count else [])
        moments = {column: pooled(own) for column, own in told.items() if own}
        return Pooled(moments, any(site.rare_classes for site in sums.values()))


def agreed(sums: Mapping[str, SiteSums], pooled_sums: Pooled | None = None) -> Preparation:
    """Merge the sums of all sites into a common preparation.

    With sums that were pooled under masks, nobody can say whose are far from the others'.
    """
    by_column, known = _by_column(sums), pooled_sums or _bounded(sums)
    return Preparation(
        types={
            node_type: {
                column: _merged(f"{node_type}.{column}", told, known)
                for column, told in columns.items()
            }
            for node_type, columns in by_column.items()
        },
        metric="balanced-accuracy" if known.rare else None,
    )


def _bounded(sums: Mapping[str, SiteSums]) -> Pooled:
    """The sums over all sites, each as far as it is near the others."""
    moments = {
        f"{node_type}.{column}": pooled(bounded(numbers).values())
        for node_type, columns in _by_column(sums).items()
        for column, told in columns.items()
        if (numbers := _numbers(told))
    }
    return Pooled(moments, any(site.rare_classes for site in sums.values()))


def distant_sums(sums: Mapping[str, SiteSums]) -> list[str]:
    """Whose sums are so far from all others' that they count in part only, in words."""
    return [
        f"{shown_column(node_type, column)}: the sums of {site} are far from those of the other "
        "sites, so they count only in part. Check the column's unit there"
        for node_type, columns in _by_column(sums).items()
        for column, told in columns.items()
        for site, kept in bounded(_numbers(told)).items()
        if kept != told[site].moments
    ]


def _by_column(
    sums: Mapping[str, SiteSums],
) -> dict[TableName, dict[Column, dict[str, ColumnSums]]]:
    """What sites told, by node type, column and site."""
    found: dict[TableName, dict[Column, dict[str, ColumnSums]]] = {}
    for site in sorted(sums):
        for node_type, columns in sums[site].types.items():
            for column, told in columns.items():
                found.setdefault(node_type, {}).setdefault(column, {})[site] = told
    return found


def _merged(column: str, told: Mapping[str, ColumnSums], known: Pooled) -> PreparedColumn:
    (first_site, first), *others = told.items()
    for site, sums in others:
        if (sums.kind, sums.marked, sums.fixed) != (first.kind, first.marked, first.fixed):
            raise RametError(
                f"the sites declare the column {column} differently: {first_site} as "
                f"{_declared(first)}, {site} as {_declared(sums)}. Use the same declaration."
            )
    if first.kind == "category":
        return _merged_categories(column, told)
    merged = known.moments.get(column)
    if merged is None:
        return PreparedColumn(kind=first.kind, marked=first.marked)
    return PreparedColumn(
        kind=first.kind, marked=first.marked, mean=merged.mean, scale=merged.scale or 1.0
    )


def _numbers(told: Mapping[str, ColumnSums]) -> dict[str, Moments]:
    return {site: sums.moments for site, sums in told.items() if sums.count}


def _merged_categories(column: str, told: Mapping[str, ColumnSums]) -> PreparedColumn:
    (first_site, first), *others = told.items()
    names = [name for sums in told.values() for name in sums.categories]
    if first.fixed:
        for site, sums in others:
            if sums.categories != first.categories:
                raise RametError(
                    f"the sites list different categories of {column}: {first_site} "
                    f"{', '.join(first.categories)}; {site} {', '.join(sums.categories)}. "
                    "Use the same list."
                )
    categories = first.categories if first.fixed else tuple(sorted(set(names)))
    if len(categories) > _MAX_CATEGORIES:
        raise RametError(
            f"the sites have {len(categories):,} categories of {column}; at most "
            f'{_MAX_CATEGORIES:,} are allowed. Declare it as "ignored", or raise smallest_count.'
        )
    return PreparedColumn(kind=first.kind, marked=first.marked, categories=categories)


def _declared(sums: ColumnSums) -> str:
    listed = " with listed categories" if sums.fixed else ""
    return f"{sums.kind}{listed}{'' if sums.marked else ' that refuses missing values'}"
