"""A site's TOML: where its tables or tensors lie and what their columns mean."""

from __future__ import annotations

import tomllib
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from ramet.data.own.problems import Problems
from ramet.data.own.schema import Column, Schema, SiteName, TaskName, TypeName

_LONGEST = 2**20


def _texts(given: Any) -> Any:
    """Classes may be written as numbers."""
    if isinstance(given, list):
        return [str(one) if type(one) in (int, float, bool) else one for one in given]
    return given


Texts: TypeAlias = Annotated[tuple[Column, ...], BeforeValidator(_texts)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class NodePart(_Part):
    """Nodes of one type. Without a file the site has none of them, or they are in the tensors."""

    file: str | None = None
    id: Column = "id"
    graph: Column = "graph"
    features: tuple[Column, ...] | Annotated[int, Field(ge=0, le=100_000)] = ()
    label: Column | None = None
    split: Column | None = None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """A number of features stands for x0, x1, …"""
        if isinstance(self.features, int):
            return tuple(f"x{number}" for number in range(self.features))
        return self.features


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
    """Many graphs: a table with a row for each, or a folder with a file for each, or both."""

    file: str | None = None
    folder: str | None = None
    id: Column = "id"
    label: Column = "label"
    split: Column | None = None


class Description(_Part):
    """What the TOML says."""

    site: SiteName
    task: TaskName
    classes: Texts = ()
    tensors: str | None = None
    nodes: dict[TypeName, NodePart]
    edges: Annotated[dict[TypeName, EdgePart], Field(max_length=255)]
    graphs: GraphPart | None = None

    @model_validator(mode="after")
    def _whole(self) -> Description:
        faults = [*self._type_faults(), *self._task_faults()]
        if faults:
            raise ValueError("; ".join(faults))
        return self

    def ends(self, edges: str) -> tuple[str, str]:
        """The node types that edges join; where there is one type, it need not be named."""
        part, only = self.edges[edges], next(iter(self.nodes))
        return part.head or only, part.tail or only

    @cached_property
    def form(self) -> Schema:
        return Schema(
            task=self.task,
            classes=self.classes,
            nodes={name: self.nodes[name].names for name in sorted(self.nodes)},
            edges={name: self.ends(name) for name in sorted(self.edges)},
        )

    def _type_faults(self) -> list[str]:
        found = []
        for kind, parts in (("nodes", self.nodes), ("edges", self.edges)):
            if not parts:
                found.append(f"[{kind}.NAME] is missing")
        for name, part in self.nodes.items():
            if len(set(part.names)) < len(part.names):
                found.append(f"a feature of [nodes.{name}] is listed twice")
        for name, edges in self.edges.items():
            for end, word in ((edges.head, "from"), (edges.tail, "to")):
                if end is None and len(self.nodes) > 1:
                    found.append(f"[edges.{name}] lacks '{word}', the node type of its {word} end")
                elif end is not None and end not in self.nodes:
                    found.append(
                        f"[edges.{name}] goes {word} '{end}', but there is no [nodes.{end}]"
                    )
        return found

    def _task_faults(self) -> list[str]:
        found = []
        if self.task == "link-prediction":
            if self.classes:
                found.append("link-prediction has no classes")
        elif len(self.classes) < 2 or len(set(self.classes)) < len(self.classes):
            found.append("'classes' must list two or more different classes")
        if self.task != "link-prediction" and len(self.nodes) > 1:
            found.append(f"{self.task} takes one type of nodes")
        if (self.task == "graph-classification") != (self.graphs is not None):
            found.append("[graphs] belongs to graph-classification, and only there")
        if self.graphs is not None:
            found += self._graph_faults(self.graphs)
        if self.task == "node-classification" and self.tensors is None:
            found += [
                f"[nodes.{name}] lacks 'label', the column with the class"
                for name, part in self.nodes.items()
                if part.label is None
            ]
        return found

    def _graph_faults(self, graphs: GraphPart) -> list[str]:
        found = []
        if len(self.edges) > 1:
            found.append("graph-classification takes one type of edges")
        if graphs.file is None and graphs.folder is None:
            found.append("[graphs] needs 'file' or 'folder'")
        if self.tensors is not None:
            found.append("graph-classification takes [graphs] folder instead of 'tensors'")
        in_tables = [p.file for p in self.nodes.values()] + [p.file for p in self.edges.values()]
        if graphs.folder is not None and any(in_tables):
            found.append("with [graphs] folder, [nodes] and [edges] name no file")
        if graphs.folder is None and not all(in_tables):
            found.append("without [graphs] folder, [nodes] and [edges] each need 'file'")
        return found


def read_description(path: Path, problems: Problems) -> Description | None:
    """The TOML as it is meant, or None with its problems."""
    try:
        content = path.read_bytes()
        if len(content) > _LONGEST:
            problems.add(path.name, f"has {len(content):,} bytes, more than a description needs")
            return None
        return Description.model_validate(tomllib.loads(content.decode()))
    except OSError as error:
        problems.add(path.name, f"cannot be read ({error.strerror or error})")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        problems.add(path.name, f"is not TOML ({error})")
    except ValidationError as error:
        for one in error.errors():
            where = ".".join(map(str, one["loc"]))
            text = one["msg"].removeprefix("Value error, ")
            if one["type"] == "extra_forbidden":
                text = _no_such_key(str(one["loc"][-1]))
            problems.add(path.name, f"{where}: {text}" if where else text)
    return None


def _no_such_key(name: str) -> str:
    parts = (Description, NodePart, EdgePart, GraphPart)
    known = {f.alias or key for part in parts for key, f in part.model_fields.items()}
    near = get_close_matches(name, known, n=1)
    return f"there is no such key; did you mean '{near[0]}'?" if near else "there is no such key"
