"""A site's TOML file: where its tables or tensors are, and what their columns mean."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import BaseModel, Field, StrictBool, ValidationError, model_validator

from ramet.data.own.aggregates import aggregate_parts
from ramet.data.own.columns import ColumnPart
from ramet.data.own.hints import did_you_mean, how_to_write
from ramet.data.own.label_columns import place_errors, target_errors, two_meanings
from ramet.data.own.parts import EdgePart, GraphPart, NodePart, Part, columns_of
from ramet.data.own.preparation import SMALLEST_COUNT
from ramet.data.own.problems import Problems
from ramet.data.own.schema import (
    CLASSES,
    OF_EDGES,
    TARGETS,
    Level,
    Schema,
    SiteName,
    TaskName,
    Texts,
    TypeName,
    level_of,
    target_kind,
)
from ramet.data.own.time_errors import time_errors, unread_times
from ramet.data.own.time_split import TimeSplit

_MAX_BYTES = 2**20
_ENDS = "(columns are named by 'source' and 'target')"
_SINGLE_TYPE = (
    "takes a single node type. Let edges join its own rows, such as two customers with the same "
    "card"
)


class Description(Part):
    """Content of the TOML file."""

    site: SiteName
    task: TaskName
    classes: Texts = ()
    unit: Annotated[str, Field(max_length=40)] = ""
    """That of the numbers that are predicted, such as years."""
    tensors: str | None = None
    nodes: dict[TypeName, NodePart]
    edges: Annotated[dict[TypeName, EdgePart], Field(max_length=255)]
    graphs: GraphPart | None = None
    split: TimeSplit | None = None
    class_counts: StrictBool = False
    """Whether other sites learn how many samples each class has, for weights=balanced."""
    smallest_count: Annotated[int, Field(ge=1)] = SMALLEST_COUNT
    """Other sites learn nothing about columns and categories with fewer rows than this."""

    @model_validator(mode="after")
    def _check_consistency(self) -> Description:
        errors = [*self._type_errors(), *self._task_errors(), *time_errors(self)]
        if errors:
            raise ValueError("; ".join(errors))
        return self

    def ends(self, edges: str) -> tuple[str, str]:
        """Return the node types that edges join; with a single node type it can be omitted."""
        part, default = self.edges[edges], next(iter(self.nodes))
        return part.head or default, part.tail or default

    @cached_property
    def site_schema(self) -> Schema:
        return Schema(
            task=self.task,
            classes=self.outputs,
            unit=self.unit,
            nodes={
                name: tuple(self.prepared(name)) or self.nodes[name].names
                for name in sorted(self.nodes)
            },
            edges={name: self.ends(name) for name in sorted(self.edges)},
            columns={
                table: {column: one.kind for column, one in parts.items()}
                for table, parts in self.prepared_tables.items()
            },
            links={n: part.names for n, part in sorted(self.edges.items()) if part.names},
            weighted=tuple(n for n, part in sorted(self.edges.items()) if part.weight),
            directed=tuple(n for n, part in sorted(self.edges.items()) if part.directed),
            aged=tuple(n for n, part in sorted(self.edges.items()) if part.age),
            split=() if self.split is None else self.split.agreed,
            labelled=self.labelled,
        )

    def _type_errors(self) -> list[str]:
        errors = []
        for kind, parts in (("nodes", self.nodes), ("edges", self.edges)):
            if not parts:
                errors.append(f"[{kind}.NAME] is missing")
        for name, part in self.nodes.items():
            if len(set(part.names)) < len(part.names):
                errors.append(f"a feature of [nodes.{name}] is listed twice")
            errors += part.errors(f"[nodes.{name}]", self._tables)
        for name, edges in self.edges.items():
            for end, word in ((edges.head, "from"), (edges.tail, "to")):
                if end is None and len(self.nodes) > 1:
                    errors.append(f"[edges.{name}] lacks '{word}', the node type at that end")
                elif end is not None and end not in self.nodes:
                    errors.append(
                        f"[edges.{name}] goes {word} '{end}', but there is no [nodes.{end}] {_ENDS}"
                    )
            errors += edges.errors(f"[edges.{name}]", self._tables)
        return errors

    @property
    def _tables(self) -> str:
        """What stands in the way of columns that need a table of all rows; empty if nothing."""
        if self.tensors is not None:
            return "which need a table instead of 'tensors'"
        if self.graphs is not None and self.graphs.folder is not None:
            return "which need one table of all rows instead of [graphs] folder"
        return ""

    def prepared(self, table: str) -> dict[str, ColumnPart]:
        """The columns that are prepared, sorted by name.

        ``table`` is a node type, or ``edges.TYPE``. Those of nodes have the aggregates of links.
        """
        if table.startswith(OF_EDGES):
            return self.edges[table.removeprefix(OF_EDGES)].prepared
        joined = {**self.nodes[table].prepared, **self.aggregates(table)}
        return {name: joined[name] for name in sorted(joined)}

    def aggregates(self, node_type: str) -> dict[str, ColumnPart]:
        """The columns of a node type that links are summed up in."""
        return {
            column: part
            for name, edges in self.edges.items()
            if node_type in self.ends(name)
            for column, part in aggregate_parts(name, edges).items()
        }

    @property
    def prepared_tables(self) -> dict[str, dict[str, ColumnPart]]:
        """What is prepared, by node type and ``edges.TYPE``."""
        tables = [*sorted(self.nodes), *(f"{OF_EDGES}{name}" for name in sorted(self.edges))]
        declared = {name: self.prepared(name) for name in tables}
        with_columns = {name for name, part in self.nodes.items() if part.columns}
        labels = {TARGETS: self.targets} if self.targets else {}
        labels |= {CLASSES: self.counted_classes} if self.counted_classes else {}
        return {n: p for n, p in declared.items() if p or n in with_columns} | labels

    @property
    def level(self) -> Level:
        """What something is predicted for."""
        found: Level = level_of(self.task)
        return found

    @property
    def label_columns(self) -> tuple[str, ...]:
        """The columns with what is predicted."""
        if self.graphs is not None:
            return self.graphs.label_columns
        if self.labelled:
            return columns_of(self.edges[self.labelled].label)
        return tuple(column for part in self.nodes.values() for column in part.label_columns)

    @property
    def labelled(self) -> str:
        """The edge type whose edges have classes; empty if the task is another one."""
        named = [name for name, part in self.edges.items() if part.label is not None]
        return next(iter(named or self.edges), "") if self.level == "edge" else ""

    @property
    def outputs(self) -> tuple[str, ...]:
        """The classes, or the names of the numbers or labels that are predicted."""
        return self.classes if target_kind(self.task) == "class" else self.label_columns

    @property
    def counted_classes(self) -> dict[str, ColumnPart]:
        """The classes, if the sites agree on their shares."""
        part = ColumnPart(kind="number", missing="refuse", unlike=True)
        return dict.fromkeys(self.classes, part) if self.class_counts else {}

    @property
    def targets(self) -> dict[str, ColumnPart]:
        """The numbers that are predicted, whose means and deviations the sites agree on."""
        if target_kind(self.task) != "number":
            return {}
        return {name: ColumnPart(kind="number", missing="mark") for name in self.label_columns}

    def _task_errors(self) -> list[str]:
        errors = []
        if self.task == "link-prediction":
            if self.classes:
                errors.append("link-prediction takes no classes")
            errors += [
                f"[edges.{name}] has '{key}', which link-prediction does not read. Remove it"
                for name, part in self.edges.items()
                for key in part.values_given
            ]
        elif target_kind(self.task) != "class":
            errors += target_errors(self.task, self.classes, self.label_columns)
        elif len(self.classes) < 2 or len(set(self.classes)) < len(self.classes):
            errors.append("'classes' must list two or more different classes")
        elif len(self.label_columns) > 1:
            errors.append(f"{self.task} takes a single column as 'label'")
        if self.class_counts and not self.classes:
            errors.append(f"'class_counts' is for classes, and {self.task} has none. Remove it")
        if self.unit and target_kind(self.task) != "number":
            errors.append(f"'unit' is for numbers, and {self.task} has none. Remove it")
        errors += [*place_errors(self.task, self.nodes, self.edges), *_aggregate_errors(self)]
        errors += two_meanings(self.nodes, self.edges, self.graphs)
        errors += _unknown_errors(self)
        if self.task != "link-prediction" and len(self.nodes) > 1:
            errors.append(f"{self.task} {_SINGLE_TYPE}")
        if (self.level == "graph") != (self.graphs is not None):
            errors.append("[graphs] is required for tasks on graphs, and not allowed otherwise")
        if self.graphs is not None:
            errors += self._graph_errors(self.graphs)
        return errors

    def label_errors(self) -> list[str]:
        """What is missing for training, and not for prediction."""
        return [*_class_errors(self), *unread_times(self)]

    def _graph_errors(self, graphs: GraphPart) -> list[str]:
        errors = []
        if len(self.edges) > 1:
            errors.append(f"{self.task} takes a single edge type")
        if graphs.file is None and graphs.folder is None:
            errors.append("[graphs] needs 'file' or 'folder'")
        if self.tensors is not None:
            errors.append(f"{self.task} takes [graphs] folder instead of 'tensors'")
        in_tables = [p.file for p in self.nodes.values()] + [p.file for p in self.edges.values()]
        if graphs.folder is not None and any(in_tables):
            errors.append("with [graphs] folder, [nodes] and [edges] must not have 'file'")
        if graphs.folder is None and not all(in_tables):
            errors.append("without [graphs] folder, [nodes] and [edges] each need 'file'")
        return errors


def _class_errors(site: Description) -> list[str]:
    if site.tensors is not None and site.classes:
        return []
    if site.level == "edge" and not site.label_columns:
        return ["no [edges.TYPE] has 'label', the column with the class"]
    if site.level != "node":
        return []
    what = {"class": "the class", "number": "the number", "flag": "0 or 1"}
    return [
        f"[nodes.{name}] lacks 'label', the column with {what[target_kind(site.task)]}"
        for name, part in site.nodes.items()
        if part.label is None
    ]


def _aggregate_errors(site: Description) -> list[str]:
    errors = []
    for name, part in site.nodes.items():
        aggregated = site.aggregates(name)
        if aggregated and part.features:
            errors.append(
                f"[nodes.{name}] has 'features', to which the aggregates of links cannot be "
                f'added. Declare them in [nodes.{name}.columns] as "number"'
            )
        errors += [
            f"'{column}' of [nodes.{name}] is also the name of an aggregate. Rename the column"
            for column in aggregated
            if column in part.columns
        ]
    return errors


def _unknown_errors(site: Description) -> Iterator[str]:
    """Edge types whose unknown ends cannot be dropped or become nodes."""
    for name, part in site.edges.items():
        if part.unknown != "refuse" and site.level == "graph":
            yield f"[edges.{name}] has 'unknown', which {site.task} does not read. Remove it"
        for node_type in {*site.ends(name)} & site.nodes.keys() if part.unknown == "stub" else ():
            nodes = site.nodes[node_type]
            full = [column for column, one in nodes.prepared.items() if one.missing == "refuse"]
            if nodes.names and not nodes.columns:
                full = [*nodes.names]
            if full:
                yield (
                    f'[edges.{name}] has unknown = "stub", and {full[0]} of [nodes.{node_type}] '
                    "cannot be missing, as it is of a node of which only the id is known. Declare "
                    f'it in [nodes.{node_type}.columns] with missing = "mark"'
                )


def read_description(
    path: Path, problems: Problems, complete: Callable[[dict[str, Any]], None] | None = None
) -> Description | None:
    """Parse the TOML file; on failure report its problems and return None.

    ``complete`` adds to its content what the file may leave out.
    """
    content = read_toml(path, problems)
    if content is None:
        return None
    if complete is not None:
        complete(content)
    try:
        return Description.model_validate(content)
    except ValidationError as error:
        for text in dict.fromkeys(map(_problem, error.errors())):
            problems.add(path.name, text)
    return None


def read_toml(path: Path, problems: Problems) -> dict[str, Any] | None:
    """The content of a TOML file; on failure report why and return None."""
    try:
        content = path.read_bytes()
        if len(content) <= _MAX_BYTES:
            return tomllib.loads(content.decode())
        problems.add(path.name, f"has {len(content):,} bytes; at most {_MAX_BYTES:,} are allowed")
    except OSError as error:
        problems.add(path.name, f"cannot be read ({error.strerror or error})")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        hint = ". Write paths with / instead of \\" if b"\\" in content else ""
        problems.add(path.name, f"is not valid TOML ({error}){hint}")
    return None


def _problem(detail: Any) -> str:
    """What pydantic found, in words for the owner of the file."""
    where, text = [*map(str, detail["loc"])], detail["msg"].removeprefix("Value error, ")
    depth = _DEPTHS.get(where[0], 1) if where else 0
    place = where[0] if depth > 1 else ""
    hint = how_to_write(place, where[depth - 1]) if len(where) >= depth > 0 else ""
    if where == ["split"]:
        hint = how_to_write("split", "by")
    if detail["type"] == "extra_forbidden":
        text = _no_such_key(where[-1])
    elif detail["type"] == "missing" and depth == 1:
        text = f"is missing{hint}"
    elif where == ["task"]:
        text += did_you_mean(str(detail["input"]), get_args(TaskName))
    elif hint and (len(where) <= depth or where[depth - 1] != "columns"):
        where, text = where[:depth], f"is not understood{hint}"
    return f"{'.'.join(where)}: {text}" if where else text


_DEPTHS = {"nodes": 3, "edges": 3, "graphs": 2, "split": 2}
"""How many names lead to a key in each part."""


def _no_such_key(name: str) -> str:
    """Where the key belongs if it exists elsewhere, or the one that may be meant."""
    known = {
        place: {f.alias or key for key, f in part.model_fields.items()}
        for place, part in _PLACES.items()
    }
    places = [place for place, keys in known.items() if name in keys]
    if places:
        return f"this key is not read here. It belongs {' or '.join(places)}"
    return f"there is no such key{did_you_mean(name, set().union(*known.values()))}"


_PLACES: dict[str, type[BaseModel]] = {
    "at the top of the file, above the first line in brackets": Description,
    "in [nodes.TYPE]": NodePart,
    "in [edges.TYPE]": EdgePart,
    "in [graphs]": GraphPart,
    "in [split]": TimeSplit,
    "in a column of [nodes.TYPE.columns] or [edges.TYPE.columns]": ColumnPart,
}
"""Where the keys of each part are written."""
