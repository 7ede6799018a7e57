"""A summary of a site's columns, and warnings about data that a model can hardly learn from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import torch

from ramet.data.graphs.graph_block import GraphBlock
from ramet.data.graphs.hetero_graph import HeteroGraph
from ramet.data.own.columns import EPOCH, ColumnValues, Values
from ramet.data.own.leaks import leaks
from ramet.data.own.ranges import plain_features, unlinked
from ramet.data.own.site import Site

_LARGE = 10.0
"""A feature whose mean or standard deviation exceeds this drowns those that are scaled."""
_RARE_SHARE, _RARE_COUNT = 0.05, 10
_MANY_CATEGORIES = 50
_MOST_SHOWN = 3


@dataclass(frozen=True)
class ColumnSummary:
    """One column of a node type, as the site sees it."""

    type: str
    column: str
    kind: str
    rows: int
    missing: int
    content: str
    leaves: str
    """What other members learn about the column."""


def column_summaries(site: Site) -> list[ColumnSummary]:
    return [
        _summary(site, node_type, columns, name)
        for node_type, columns in site.columns.items()
        for name in columns.parts
    ]


def _summary(site: Site, node_type: str, columns: ColumnValues, name: str) -> ColumnSummary:
    part, present = columns.parts[name], _present(columns.values[name])
    return ColumnSummary(
        type=node_type,
        column=name,
        kind=part.kind,
        rows=columns.rows,
        missing=columns.rows - present.size,
        content="not at this site" if part.absent else _content(part.kind, present),
        leaves=str(site.sums.types[node_type][name]),
    )


def warnings(site: Site) -> list[str]:
    """What is likely to spoil a model, each with what to do."""
    return [
        *_unscaled(site),
        *_weights(site),
        *_identifiers(site),
        *_spellings(site),
        *_markers(site),
        *_absent(site),
        *_unlinked(site),
        *leaks(site),
        *_rare_classes(site),
        *_untrained_classes(site),
    ]


def _present(values: Values) -> Values:
    """The values that are not missing."""
    return values[values != ""] if values.dtype == object else values[~np.isnan(values)]


def _content(kind: str, values: Values) -> str:
    if not values.size:
        return "no values"
    if kind == "category":
        counts = Counter(values.tolist())
        shown = ", ".join(f"{name} {count}" for name, count in counts.most_common(_MOST_SHOWN))
        more = f", {len(counts) - _MOST_SHOWN} more" if len(counts) > _MOST_SHOWN else ""
        return f"{shown}{more}"
    if kind == "flag":
        return f"{values.mean():.0%} true"
    if kind == "date":
        first, last = (EPOCH + timedelta(days=float(day)) for day in (values.min(), values.max()))
        return f"{first:%Y-%m-%d} to {last:%Y-%m-%d}"
    return f"{values.min():g} to {values.max():g}, mean {values.mean():.4g}"


def _unscaled(site: Site) -> Iterator[str]:
    for node_type, names, features in plain_features(site):
        if isinstance(site.graph, GraphBlock) or not features.numel():
            continue
        means, spreads = features.double().mean(dim=0).abs(), features.double().std(dim=0)
        large = ((means > _LARGE) | (spreads > _LARGE)).nonzero().flatten().tolist()
        if large:
            listed = ", ".join(names[index] for index in large[:_MOST_SHOWN])
            yield (
                f"{node_type}: {listed} {'is' if len(large) == 1 else 'are'} not scaled. Declare "
                f"them in [nodes.{node_type}.columns] as \"number\" instead of in 'features'"
            )


def _weights(site: Site) -> Iterator[str]:
    """Weights beside which a node itself, which has weight 1 in a GCN, counts for nothing."""
    weights = None if isinstance(site.graph, HeteroGraph) else site.graph.link_values.weights
    if weights is not None and weights.numel() and float(weights.double().mean()) > _LARGE:
        yield (
            f"the mean weight of a link is {float(weights.double().mean()):.4g}, and gcn counts a "
            "node itself with weight 1. Divide the weights in the table, so that it is about 1"
        )


def _identifiers(site: Site) -> Iterator[str]:
    for node_type, columns in site.columns.items():
        for name, part in columns.parts.items():
            values = _present(columns.values[name])
            distinct = len(set(values.tolist()))
            if part.kind == "category" and distinct > max(_MANY_CATEGORIES, values.size // 2):
                yield (
                    f"{node_type}: {name} has {distinct:,} categories in {values.size:,} rows. "
                    + ('If it identifies rows, declare it as "ignored"')
                )
            elif part.kind == "number" and _counts_up(values):
                yield f'{node_type}: {name} numbers the rows. Declare it as "ignored"'


def _spellings(site: Site) -> Iterator[str]:
    """Categories that differ in case or spaces only."""
    for node_type, columns in site.columns.items():
        for name, part in columns.parts.items():
            if part.kind != "category":
                continue
            spellings: dict[str, list[str]] = {}
            for value in sorted(set(_present(columns.values[name]).tolist())):
                spellings.setdefault("".join(value.split()).lower(), []).append(value)
            twice = [f"'{same[0]}' and '{same[1]}'" for same in spellings.values() if same[1:]]
            if twice:
                listed = ", ".join(twice[:_MOST_SHOWN])
                yield f"{node_type}: {name} has {listed}. Write a category in one way"


def _markers(site: Site) -> Iterator[str]:
    """Cells of categories that count as missing, since a category may be called so."""
    for node_type, columns in site.columns.items():
        for name, counts in columns.markers.items():
            if counts and columns.parts[name].kind == "category":
                listed = ", ".join(f"'{text}' in {count:,} rows" for text, count in counts.items())
                yield (
                    f"{node_type}: {name} has {listed}, which counts as missing. If it is a "
                    f'category, declare {name} = {{ kind = "category", missing_values = [""] }}'
                )


def _absent(site: Site) -> Iterator[str]:
    for node_type, columns in site.columns.items():
        absent = [name for name, part in columns.parts.items() if part.absent]
        if absent:
            yield (
                f"{node_type}: this site lacks {', '.join(absent)}, which the model learns from "
                "other sites only"
            )


def _counts_up(values: Values) -> bool:
    """Whether the values are consecutive integers in the order of the table."""
    return values.size > _RARE_COUNT and bool((np.diff(values) == 1).all())


def _unlinked(site: Site) -> Iterator[str]:
    if isinstance(site.graph, GraphBlock):
        return
    for node_type, (alone, total) in unlinked(site).items():
        what = f"nodes of {node_type}" if isinstance(site.graph, HeteroGraph) else "nodes"
        yield (
            f"{alone:,} of {total:,} {what} have no links, so the model knows only their "
            "features. Check that the ids of the edges match"
        )


def _rare_classes(site: Site) -> Iterator[str]:
    labels = site.classes
    if labels is None:
        return
    counts = torch.bincount(labels, minlength=len(site.schema.classes)).tolist()
    for name, count in zip(site.schema.classes, counts, strict=True):
        if count < max(_RARE_COUNT, _RARE_SHARE * labels.numel()):
            yield (
                f"class {name} has {count:,} of {labels.numel():,} samples. Accuracy hides how "
                "well it is found; look at recall and average precision"
            )


def _untrained_classes(site: Site) -> Iterator[str]:
    """Classes that the given split has for validation or test only."""
    classes = site.classes
    if classes is None or site.parts is None or isinstance(site.graph, HeteroGraph):
        return
    trained = set(site.graph.labels[site.parts == 0].tolist())
    for index in sorted(set(classes.tolist()) - trained):
        yield (
            f"class {site.schema.classes[index]} has no training samples, so the model cannot "
            "learn it here. Give it some in the split"
        )
