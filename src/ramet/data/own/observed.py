"""A site's rows as values, to compare those of one period with those of another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ramet.data.own.columns import ColumnPart, ColumnValues, Values
from ramet.data.own.ranges import plain_features
from ramet.data.own.schema import OF_LABELS
from ramet.data.own.site import Site

_NUMBER = ColumnPart(kind="number")


def observed(site: Site) -> dict[str, ColumnValues]:
    """The values of a site's own rows, by table and column.

    Rows of an earlier period and ids that only edges have are left out, and if the site is split by
    time, so are rows from after training. Nodes also have the number of their links by edge type
    and direction, and graphs the number of their nodes.
    """
    counted = {} if site.by_time is None else site.by_time.counted
    found = {}
    for table, columns in site.columns.items():
        if table not in OF_LABELS:
            rows = site.own_rows.count.get(table, columns.rows)
            told = int(counted[table][:rows].sum()) if table in counted else rows
            found[table] = columns.first(told)
    plain = {
        node_type: dict(zip(names, values.double().numpy().T, strict=True))
        for node_type, names, values in plain_features(site)
    }
    for numbers in (plain, site.own_rows.links):
        for table, by_name in numbers.items():
            every = _numbers(by_name)
            own = every.first(site.own_rows.count.get(table, every.rows))
            own = own.only(counted[table][: own.rows]) if table in counted else own
            found[table] = _joined(found[table], own) if table in found else own
    return found


def _numbers(by_name: Mapping[str, Values]) -> ColumnValues:
    rows = len(next(iter(by_name.values()), ()))
    values = {name: one.astype(np.float64) for name, one in by_name.items()}
    return ColumnValues(dict.fromkeys(by_name, _NUMBER), values, rows)


def _joined(one: ColumnValues, other: ColumnValues) -> ColumnValues:
    parts, values = {**one.parts, **other.parts}, {**one.values, **other.values}
    return replace(one, parts=parts, values=values)
