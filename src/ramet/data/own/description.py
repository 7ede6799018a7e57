"""A site's TOML file: where its tables or tensors are, and what their columns mean."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ramet.data.own.columns import ColumnOrKind, ColumnPart
from ramet.data.own.hints import did_you_mean
from ramet.data.own.preparation import SMALLEST_COUNT
from ramet.data.own.problems import Problems
from ramet.data.own.schema import Column, Schema, SiteName, TaskName, Texts, TypeName

_MAX_BYTES = 2**20


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class NodePart(_Part):
    """Nodes of one type. Without a file, they are in the tensors or the site has none."""

    file: str | None = None
    id: Column = "id"
    graph: Column = "graph"
    features: tuple[Column, ...] | Annotated[int, Field(ge=0, le=100_000)] = ()
    columns: dict[Column, ColumnOrKind] = {}
    label: Column | None = None
    split: Column | None = None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the features, or of the columns that become features.

        An integer stands for x0, x1, … Columns are sorted, so that sites may declare them in any
        order.
        """
        if self.columns:
            return tuple(self.prepared)
        if isinstance(self.features, int):
            return tuple(f"x{number}" for number in range(self.features))
        return self.features

    @cached_property
    def prepared(self) -> dict[str, ColumnPart]:
        """The columns that become features, by name."""
        parts = self.columns
        return {name: parts[name] for name in sorted(parts) if parts[name].kind != "ignored"}

    @property
    def in_table(self) -> list[str]:
        """The columns that the table must have."""
        return [name for name in self.names if name not in self.prepared or not self._absent(name)]

    def only(self, header: Collection[str]) -> NodePart:
        """The same part, with columns that the table lacks declared as absent, where they may be.

        Columns that refuse missing values stay, and are reported as missing.
        """
        columns = {
            name: one
            if name in header or one.missing == "refuse"
            else one.model_copy(update={"absent": True})
            for name, one in self.columns.items()
        }
        return NodePart(**self.model_dump(exclude={"columns"}), columns=columns)

    def _absent(self, column: str) -> bool:
        return self.prepared[column].absent


class EdgePart(_Part):
    """Edges of one type between two node types."""

    file: str | None = None
    source: Column = "source"
    target: Column = "target"
    graph: Column = "graph"
    head: TypeName | None = Field(default=None, alias="from")
    tail: TypeName | None = Field(default=None, alias="to")
    split: Column | None = None


class GraphPart(_Part):
    """Many graphs: a table with a row per graph, a folder with files per graph, or both."""

    file: str | None = None
    folder: str | None = None
    id: Column = "id"
    label: Column = "label"
    split: Column | None = None


class Description(_Part):
    """Content of the TOML file."""

    site: SiteName
    task: TaskName
    classes: Texts = ()
    tensors: str | None = None
    nodes: dict[TypeName, NodePart]
    edges: Annotated[dict[TypeName, EdgePart], Field(max_length=255)]
    graphs: GraphPart | None = None
    smallest_count: Annotated[int, Field(ge=1)] = SMALLEST_COUNT
    """Other sites learn nothing about columns and categories with fewer rows than this."""

    @model_validator(mode="after")
    def _check_consistency(self) -> Description:
        errors = [*self._type_errors(), *self._task_errors()]
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
            classes=self.classes,
            nodes={name: self.nodes[name].names for name in sorted(self.nodes)},
            edges={name: self.ends(name) for name in sorted(self.edges)},
            columns={
                name: {column: one.kind for column, one in part.prepared.items()}
                for name, part in sorted(self.nodes.items())
                if part.columns
            },
        )

    def _type_errors(self) -> list[str]:
        errors = []
        for kind, parts in (("nodes", self.nodes), ("edges", self.edges)):
            if not parts:
                errors.append(f"[{kind}.NAME] is missing")
        for name, part in self.nodes.items():
            if len(set(part.names)) < len(part.names):
                errors.append(f"a feature of [nodes.{name}] is listed twice")
            errors += self._column_errors(name, part)
        for name, edges in self.edges.items():
            for end, word in ((edges.head, "from"), (edges.tail, "to")):
                if end is None and len(self.nodes) > 1:
                    errors.append(f"[edges.{name}] lacks '{word}', the node type at that end")
                elif end is not None and end not in self.nodes:
                    errors.append(
                        f"[edges.{name}] goes {word} '{end}', but there is no [nodes.{end}]"
                    )
        return errors

    def _column_errors(self, name: str, part: NodePart) -> list[str]:
        if not part.columns:
            return []
        errors = []
        if part.features:
            errors.append(f"[nodes.{name}] has both 'features' and 'columns'; use one of them")
        if self.tensors is not None:
            errors.append(f"[nodes.{name}] has 'columns', which need a table instead of 'tensors'")
        if self.graphs is not None and self.graphs.folder is not None:
            errors.append(f"[nodes.{name}] has 'columns', which need one table of all nodes")
        errors += [
            f"'{column}' of [nodes.{name}] cannot be a feature: it is the id, label or split"
            for column in part.prepared
            if column in (part.id, part.label, part.split)
        ]
        errors += [
            f"'{column}' of [nodes.{name}] has categories, but is a {one.kind}"
            for column, one in part.prepared.items()
            if one.categories and one.kind != "category"
        ]
        return errors

    def _task_errors(self) -> list[str]:
        errors = []
        if self.task == "link-prediction":
            if self.classes:
                errors.append("link-prediction takes no classes")
        elif len(self.classes) < 2 or len(set(self.classes)) < len(self.classes):
            errors.append("'classes' must list two or more different classes")
        if self.task != "link-prediction" and len(self.nodes) > 1:
            errors.append(f"{self.task} takes a single node type")
        if (self.task == "graph-classification") != (self.graphs is not None):
            errors.append("[graphs] is required for graph-classification and not allowed otherwise")
        if self.graphs is not None:
            errors += self._graph_errors(self.graphs)
        return errors

    def label_errors(self) -> list[str]:
        """What is missing for training, and not for prediction."""
        if self.task != "node-classification" or self.tensors is not None:
            return []
        return [
            f"[nodes.{name}] lacks 'label', the column with the class"
            for name, part in self.nodes.items()
            if part.label is None
        ]

    def _graph_errors(self, graphs: GraphPart) -> list[str]:
        errors = []
        if len(self.edges) > 1:
            errors.append("graph-classification takes a single edge type")
        if graphs.file is None and graphs.folder is None:
            errors.append("[graphs] needs 'file' or 'folder'")
        if self.tensors is not None:
            errors.append("graph-classification takes [graphs] folder instead of 'tensors'")
        in_tables = [p.file for p in self.nodes.values()] + [p.file for p in self.edges.values()]
        if graphs.folder is not None and any(in_tables):
            errors.append("with [graphs] folder, [nodes] and [edges] must not have 'file'")
        if graphs.folder is None and not all(in_tables):
            errors.append("without [graphs] folder, [nodes] and [edges] each need 'file'")
        return errors


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
        for detail in error.errors():
            where = ".".join(map(str, detail["loc"]))
            text = detail["msg"].removeprefix("Value error, ")
            if detail["type"] == "extra_forbidden":
                text = _no_such_key(str(detail["loc"][-1]))
            problems.add(path.name, f"{where}: {text}" if where else text)
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
    "in a column of [nodes.TYPE.columns]": ColumnPart,
}
"""Where the keys of each part are written."""
