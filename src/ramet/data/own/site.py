"""A site's user-defined graphs, ready for training, and statistics about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ramet.data.client_data import ClientData
from ramet.data.graphs.edge_graph import EdgeGraph
from ramet.data.graphs.graph_block import GraphBlock
from ramet.data.graphs.hetero_graph import HeteroGraph
from ramet.data.graphs.node_graph import NodeGraph
from ramet.data.graphs.structure import StructureEncoding
from ramet.data.link_split import (
    LinkSplit,
    Negatives,
    held_out_links,
    link_parts,
    split_links,
)
from ramet.data.own.building import BUILDERS, Built, Graph, Unprepared, covers
from ramet.data.own.columns import ColumnValues
from ramet.data.own.computed import completed
from ramet.data.own.content import Content
from ramet.data.own.description import Description, read_description
from ramet.data.own.files import described
from ramet.data.own.many_graphs import ManyGraphs
from ramet.data.own.one_graph import OneGraph, Purpose
from ramet.data.own.own_rows import OwnRows
from ramet.data.own.past import Past
from ramet.data.own.periods import ByTime
from ramet.data.own.preparation import Preparation, SiteSums, agreed
from ramet.data.own.preparer import Preparer
from ramet.data.own.problems import Problem, Problems, SiteDataError
from ramet.data.own.remarks import merged_links, unused_columns
from ramet.data.own.schema import CLASSES, OF_LABELS, Schema, TaskName
from ramet.data.own.scoring import scored_parts, scored_times, unlabelled
from ramet.data.own.tables import NO_PART, Ids
from ramet.data.own.targets import add_classes, add_targets, balanced, scaled
from ramet.data.splits import PARTS, Split, counts_of, has_rare_class, node_split, stratified

MIN_SAMPLES = 10
MIN_LINKS = 20
"""At least one edge type needs this many, so that 5 % for validation is at least one link."""


@dataclass(frozen=True)
class Site:
    """One site: its name, schema, graphs and, if it provides one, its split."""

    name: str
    schema: Schema
    graph: Graph
    """If samples are split by time, as it was at the end of training."""
    parts: Tensor | None  # of graphs, nodes or links: 0 train, 1 val, 2 test, -1 none
    columns: Mapping[str, ColumnValues] = field(default_factory=dict)  # by node type
    sums: SiteSums = field(default_factory=SiteSums)
    """What other sites learn about the columns and classes."""
    ids: Mapping[str, Ids] = field(default_factory=dict)
    """The ids of nodes by type, in the order of the graph."""
    own_rows: OwnRows = OwnRows()  # noqa: RUF009
    new: Mapping[str, int] = field(default_factory=dict)
    """By type, how many nodes are of new data, if they come before those of an earlier period."""
    sample_ids: Ids | None = None
    """The ids of graphs or edges, if these are the samples and have ids."""
    remarks: tuple[str, ...] = ()
    """What of the files the graph does not have, for the site itself."""
    unprepared: Unprepared | ByTime | None = None
    """What the files hold, while the sites have not agreed on how to prepare the columns."""
    later: Mapping[str, Graph] = field(default_factory=dict)
    """The graphs of the same nodes at the end of validation and test, if they differ."""
    times: Tensor | None = None
    """The times of the samples, if they are split by time or scored."""
    by_time: ByTime | None = None
    """How the samples are split by time, until the columns are prepared."""
    stubs: int = 0
    """How many of the last nodes stand for ids that only edges have; they are in no part."""

    def prepared(self, preparation: Preparation) -> Site | None:
        """The site with its columns prepared as agreed, without reading its files again.

        None if they were prepared before, or if the agreement is about other columns.
        """
        if self.unprepared is None:
            return None
        built = self.unprepared.rebuilt(preparation)
        if built is None:
            return None
        graph = scaled(built.graph, preparation)
        graph = balanced(graph, preparation) if CLASSES in self.columns else graph
        prepared = replace(self, graph=graph, later=built.later)
        return replace(prepared, unprepared=None, by_time=None)

    @property
    def labels(self) -> Tensor | None:
        """The labels of all labelled samples; None for links."""
        if isinstance(self.graph, HeteroGraph):
            return None
        if self.parts is not None:
            return self.graph.labels[self.parts >= 0]
        return self.graph.labels[: self.count]

    @property
    def count(self) -> int:
        """The number of nodes or graphs that are in a part of the split, if all have a class."""
        return 0 if isinstance(self.graph, HeteroGraph) else len(self.graph.labels) - self.stubs

    @property
    def classes(self) -> Tensor | None:
        """The class of each labelled sample; None for links, numbers and several labels."""
        labels = self.labels
        return None if labels is None or labels.is_floating_point() else labels

    def client_data(
        self, seed: int, inputs: StructureEncoding, negatives: Negatives = "random"
    ) -> ClientData[Any, Any]:
        """Return the graphs with structure encodings, split as given or by the seed."""
        graph = self.graph
        if isinstance(graph, HeteroGraph):
            return self._links(graph, seed, negatives)
        split = self._split(graph, seed)
        if isinstance(graph, NodeGraph):
            return ClientData(graph, split, self.later or None)
        return ClientData(inputs.added_to(graph), split)

    def sample_parts(self, seed: int) -> Tensor:
        """The part of each graph, node or link, as given or by the seed; -1 for none."""
        if self.parts is not None:
            return self.parts
        if isinstance(self.graph, HeteroGraph):
            return link_parts(self.graph, torch.Generator().manual_seed(seed))
        count, split = len(self.graph.labels), self._split(self.graph, seed)
        parts = torch.full((count,), NO_PART)
        for number, part in enumerate(PARTS):
            parts[getattr(split, part)] = number
        return parts

    def _split(self, graph: GraphBlock | NodeGraph, seed: int) -> Split:
        if self.parts is not None:
            return Split(*_indices(self.parts))
        split = node_split if isinstance(graph, NodeGraph) else stratified
        return split(graph.labels[: self.count], seed)

    def _links(self, whole: HeteroGraph, seed: int, negatives: Negatives) -> LinkSplit:
        if self.parts is None:
            return split_links(whole, seed, negatives)
        draw = torch.Generator().manual_seed(seed)
        return held_out_links(whole, self.parts, negatives, draw)


@dataclass(frozen=True)
class SiteCheck:
    """Result of checking a site's files: the site, or its problems."""

    problems: Sequence[Problem]  # by file and row, up to a limit
    count: int  # of all problems
    site: Site | None

    @property
    def omitted(self) -> int:
        return self.count - len(self.problems)


def check_site(path: Path, preparation: Preparation | None = None) -> SiteCheck:
    """Read and check a site's TOML file and all files that it names.

    Without a preparation that sites have agreed on, columns are prepared from this site's alone.
    """
    problems = Problems()
    description = read_description(path, problems)
    if description is not None:
        for text in description.label_errors():
            problems.add(path.name, text)
    site = None if description is None else build_site(path, description, problems, preparation)
    return SiteCheck(problems.sorted(), problems.count, None if problems else site)


def read_site(path: Path, preparation: Preparation | None = None) -> Site:
    """Read a site, or raise an error with the first problem and the number of problems."""
    checked = check_site(path, preparation)
    if checked.site is None:
        raise SiteDataError(
            f"{checked.problems[0]} (problem 1 of {checked.count}; "
            f"`ramet data check {path}` lists them)"
        )
    return checked.site


def site_name(path: Path) -> str:
    """Return the site's name from its TOML file, without reading its data."""
    return described(path).site


def site_task(path: Path) -> TaskName:
    """Return the task of the site's graphs from its TOML file."""
    return described(path).task


def build_site(
    path: Path,
    description: Description,
    problems: Problems,
    preparation: Preparation | None,
    purpose: Purpose = "training",
    past: Past | None = None,
) -> Site | None:
    """Read the files that a description names; None if they have problems.

    Of new data neither splits nor, for prediction, classes are read, and any number of samples will
    do. With a ``past``, its tables are part of the graph.
    """
    if preparation is not None and not covers(preparation, description, path.name, problems):
        return None
    reader = ManyGraphs if description.level == "graph" else OneGraph
    preparer = Preparer(description.smallest_count, preparation)
    folder, is_split = path.absolute().parent, purpose == "training"
    content = reader(folder, path.name, description, problems, preparer, purpose, past).read()
    if content is None:
        return None
    by_time, parts = None, None
    if is_split and description.split is not None:
        by_time = ByTime.of(content, preparer.columns, description, path.name)
        preparer = Preparer(description.smallest_count, preparation, {}, by_time.counted)
        built, parts = by_time.built(preparer), by_time.parts
    else:
        content = completed(content, description, preparer)
        graph, parts = BUILDERS[description.level](content, description)
        built = Built(graph)
    times = None if by_time is None else by_time.times
    if purpose == "scoring":
        parts, times = scored_parts(content, parts), scored_times(content)
    columns = dict(preparer.columns)
    if is_split:
        add_targets(preparer, built.graph, description, parts)
        stubs = content.stubs(description.labelled)
        add_classes(preparer, built.graph, description, parts, stubs)
    alone = {*OF_LABELS} & preparer.columns.keys()
    known = preparation or agreed({"": preparer.sums(*sorted(alone))})
    graph = scaled(built.graph, known)
    site = Site(
        name=description.site,
        schema=description.site_schema,
        graph=balanced(graph, known) if CLASSES in preparer.columns else graph,
        parts=parts,
        columns={name: preparer.told(name) for name in preparer.columns},
        ids=_ids(content),
        own_rows=OwnRows.of(content, description, by_time),
        new=content.new(description.labelled),
        sample_ids=content.sample_ids(description.labelled),
        remarks=(*problems.notes, *_unscored(content, purpose)),
        unprepared=by_time or Unprepared(content, description, path.name, columns)
        if preparer.columns and preparation is None
        else None,
        later=built.later,
        times=times,
        by_time=by_time if preparation is None else None,
        stubs=content.stubs(description.labelled),
    )
    if not is_split:
        return site
    _report_too_few(path.name, site, problems)
    rare = site.classes is not None and has_rare_class(site.classes, len(site.schema.classes))
    sums = preparer.sums(*sorted(preparer.columns)).model_copy(update={"rare_classes": rare})
    remarks = (
        *site.remarks,
        *unused_columns(problems),
        *merged_links(content, description, built.later.get("test", built.graph)),
        *_split_in_words(content, by_time, built.graph),
    )
    return replace(site, sums=sums, remarks=remarks)


def _unscored(content: Content, purpose: Purpose) -> Iterator[str]:
    if purpose == "scoring":
        yield from unlabelled(content, "they are not scored")


def _split_in_words(content: Content, by_time: ByTime | None, graph: Graph) -> Iterator[str]:
    if by_time is None:
        yield from unlabelled(content, "they are in no part of the split")
    else:
        yield by_time.in_words(_samples_of(graph))


def _ids(content: Content) -> dict[str, Ids]:
    """The ids of nodes by type; of many graphs, in the order of their block."""
    ids = {
        name: np.arange(nodes.count) if nodes.ids is None else nodes.ids
        for name, nodes in content.nodes.items()
    }
    if content.graphs is None:
        return ids
    order = torch.argsort(content.graphs.of_node, stable=True).numpy()
    return {name: of_type[order] for name, of_type in ids.items()}


def _indices(parts: Tensor) -> list[Tensor]:
    return [(parts == number).nonzero().flatten() for number in range(len(PARTS))]


def _samples_of(graph: Graph) -> str:
    if isinstance(graph, HeteroGraph | EdgeGraph):
        return "edges"
    return "nodes" if isinstance(graph, NodeGraph) else "graphs"


def _report_too_few(toml: str, site: Site, problems: Problems) -> None:
    """Report if a part of the split would have no samples."""
    graph, parts = site.graph, site.parts
    if parts is not None:
        given = "the given split" if site.times is None else "[split]"
        for name, indices in zip(PARTS, _indices(parts), strict=True):
            if not indices.numel():
                text = f"{given} has no samples for {name}"
                if site.by_time is not None:
                    first, second, _ = site.by_time.periods.in_words()
                    ends = f"training ends with {first}, and validation with {second}"
                    text += f": {ends}. Change the dates or shares"
                problems.add(toml, text)
    elif isinstance(graph, HeteroGraph):
        most = int(torch.bincount(graph.links.kinds, minlength=1).max())
        if most < MIN_LINKS:
            text = f"no edge type has {MIN_LINKS} or more edges, which the split needs"
            problems.add(toml, text)
    elif site.count < MIN_SAMPLES:
        counted = f"{site.count} {_samples_of(graph)}"
        problems.add(toml, f"{counted} are too few to split; {MIN_SAMPLES} are needed")


def statistics(site: Site, seed: int) -> dict[str, Any]:
    """Count nodes, edges, classes and samples, for the site itself."""
    graph, held = site.graph, site.client_data(seed, StructureEncoding(0, 0))
    if isinstance(graph, HeteroGraph):
        split = held.split
        sizes = [len(held.content.links), *(len(p.pairs) // 2 for p in (split.val, split.test))]
        nodes = {kind.name: kind.nodes for kind in graph.types}
        starts = graph.type_starts
        edges = {}
        for kind, relation in enumerate(graph.relations):
            links = graph.links[(graph.links.kinds == kind).nonzero().flatten()]
            first, end = starts[relation.head], starts[relation.head + 1]
            degrees = torch.bincount(links.heads, minlength=graph.nodes)[first:end]
            edges[relation.name] = _degrees(len(links), degrees)
        return {"nodes": nodes, "edges": edges, "split": dict(zip(PARTS, sizes, strict=True))}
    chosen = torch.cat([getattr(held.split, part) for part in PARTS])
    counts = counts_of(graph.labels[chosen], len(site.schema.classes)).tolist()
    (node_type,) = site.schema.nodes
    counted: dict[str, Any] = {"nodes": {node_type: graph.nodes}}
    if isinstance(graph, GraphBlock):
        (name,) = site.schema.edges
        counted |= {
            "graphs": graph.graphs,
            "edges": {name: _degrees(graph.links // 2, graph.degrees)},
        }
    else:
        channels = graph.channels(graph.kinds, len(graph.kind_names))
        counted["edges"] = {
            name: _degrees(channel.columns.numel() // 2, channel.degrees)
            for name, channel in zip(graph.kind_names, channels, strict=True)
        }
    counted["labels" if site.classes is None else "classes"] = dict(
        zip(site.schema.classes, counts, strict=True)
    )
    if site.classes is not None:
        names, kinds = site.schema.classes, len(site.schema.classes)
        by_part = (counts_of(graph.labels[getattr(held.split, p)], kinds).tolist() for p in PARTS)
        counted["classes by part"] = {
            part: dict(zip(names, own, strict=True))
            for part, own in zip(PARTS, by_part, strict=True)
        }
    return {**counted, "split": {part: getattr(held.split, part).numel() for part in PARTS}}


def _degrees(edges: int, degrees: Tensor) -> Mapping[str, float]:
    if not degrees.numel():
        return {"edges": edges, "mean degree": 0.0, "largest degree": 0}
    return {
        "edges": edges,
        "mean degree": round(float(degrees.double().mean()), 2),
        "largest degree": int(degrees.max()),
    }
