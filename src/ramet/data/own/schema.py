"""Schemas of sites' graphs, which contain no data and are compared before a run starts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
)
from torch import nn

from ramet.errors import RametError
from ramet.version import __version__

TaskName: TypeAlias = Literal[
    "graph-classification",
    "graph-regression",
    "graph-multilabel",
    "node-classification",
    "node-regression",
    "node-multilabel",
    "edge-classification",
    "link-prediction",
]
Level: TypeAlias = Literal["graph", "node", "link", "edge"]
TargetKind: TypeAlias = Literal["class", "number", "flag"]
_KINDS: dict[str, TargetKind] = {"regression": "number", "multilabel": "flag"}


def level_of(task: TaskName) -> Any:
    """What a task predicts something for."""
    return task.partition("-")[0]


def target_kind(task: TaskName) -> TargetKind:
    """What a task predicts: a class, numbers or several labels."""
    return _KINDS.get(task.partition("-")[2], "class")


Aspect: TypeAlias = Literal["features", "classes", "types", "links"]
Kind: TypeAlias = Literal["number", "category", "date", "age", "flag", "ignored"]
_MAX_LENGTH = 2**22
Told = TypeVar("Told", bound=BaseModel)


def parsed(kind: type[Told], text: str, what: str) -> Told:
    """Parse and validate what another party has sent; ``what`` is its name in errors."""
    if len(text) > _MAX_LENGTH:
        raise RametError(
            f"{what} has {len(text):,} characters; at most {_MAX_LENGTH:,} are allowed. Declare "
            "fewer columns or categories."
        )
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "its text"
        raise RametError(
            f"{what} is not valid for this version ({where}: {first['msg']}). Use the same version "
            "of Ramet everywhere."
        ) from error


def _not_reserved(name: str) -> str:
    """Refuse names that PyTorch or Simple-HGN reserve, since types become parameter names."""
    taken = hasattr(nn.ModuleDict(), name) or hasattr(nn.ParameterDict(), name)
    if taken or name == "loop" or name.endswith("-back"):
        raise ValueError(f"'{name}' is a reserved name; choose another")
    return name


SiteName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]
"""Restricted because it is also the name of a folder."""
TypeName: TypeAlias = Annotated[SiteName, AfterValidator(_not_reserved)]
OF_EDGES = "edges."
TARGETS, CLASSES = ".targets", ".classes"
"""The tables of what is predicted, numbers or classes, among those of columns."""
OF_LABELS = (TARGETS, CLASSES)
TableName: TypeAlias = Annotated[
    str,
    Field(pattern=r"^((edges\.)?[A-Za-z0-9][A-Za-z0-9_-]{0,63}|\.targets|\.classes)$"),
    AfterValidator(_not_reserved),
]
"""A node type, ``edges.TYPE``, or what is predicted."""


def shown_column(table: str, column: str) -> str:
    """How messages name a column, or what is predicted."""
    what = {TARGETS: "label", CLASSES: "class"}.get(table)
    return f"{what} {column}" if what else f"{table}.{column}"


Column: TypeAlias = Annotated[str, Field(min_length=1, max_length=200)]


def _texts(given: Any) -> Any:
    """Convert to text, since classes and categories may be written as numbers."""
    if isinstance(given, list):
        return [str(one) if type(one) in (int, float, bool) else one for one in given]
    return given


Texts: TypeAlias = Annotated[tuple[Column, ...], BeforeValidator(_texts)]


class Schema(BaseModel):
    """A fingerprint: task, classes, node types with their features, edge types with their ends.

    It reveals neither how much data a site has nor which of the types it has data for.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    ramet: str = __version__
    task: TaskName
    classes: tuple[Column, ...] = ()
    """Of classes, or of the numbers or labels that are predicted."""
    unit: Annotated[str, Field(max_length=40)] = ""
    """That of the numbers."""
    nodes: dict[TypeName, tuple[Column, ...]]
    edges: dict[TypeName, tuple[TypeName, TypeName]]
    columns: dict[TableName, dict[Column, Kind]] = {}
    """The kinds of the columns from which a type's features are prepared, if there are any."""
    links: dict[TypeName, tuple[Column, ...]] = {}
    """The attributes of edge types that have any."""
    weighted: tuple[TypeName, ...] = ()
    directed: tuple[TypeName, ...] = ()
    aged: tuple[TypeName, ...] = ()
    """The edge types whose links have their age as an attribute."""
    split: tuple[Column, ...] = ()
    """The dates that all sites split by, if they agree on any."""
    labelled: Annotated[str, Field(max_length=64)] = ""
    """The edge type whose edges have classes, if any do."""

    @property
    def width(self) -> int:
        """Number of features, if there is a single node type."""
        (features,) = self.nodes.values()
        return width_of(features)

    @property
    def link_width(self) -> int:
        """Number of attributes of links, those of several edge types side by side."""
        return sum(len(names) for names in self.links.values())

    def fits(self, other: Schema) -> bool:
        """Whether both are equal, ignoring the version of Ramet that wrote them."""
        return self.model_copy(update={"ramet": other.ramet}) == other

    def text(self) -> str:
        optional = ("unit", "columns", "links", "weighted", "directed", "aged", "split", "labelled")
        without = {name for name in optional if not getattr(self, name)}
        return self.model_dump_json(indent=1, exclude=without) + "\n"

    @staticmethod
    def parse(text: str, site: str) -> Schema:
        """Parse and validate what a site sent."""
        return parsed(Schema, text, f"the fingerprint of {site}")


def width_of(features: Sequence[str]) -> int:
    """Return the number of features; nodes without any get one constant feature."""
    return max(len(features), 1)


def check_task(schema: Schema, task: TaskName) -> None:
    """Refuse data for a task other than the method's."""
    if level_of(schema.task) != level_of(task):
        raise RametError(
            f"this method is for {task}, and the sites' graphs are for {schema.task}. Choose "
            "another method; `ramet list methods` lists them."
        )


def check_fit(schemas: Mapping[str, Schema], needed: Mapping[Aspect, str]) -> None:
    """Check that all sites agree in task and in these aspects, and name those that differ.

    ``needed`` names for each aspect a shared array that depends on it. Sites are compared with the
    largest group that agrees.
    """
    groups: dict[str, list[str]] = {}
    for site, schema in schemas.items():
        always = (schema.task, schema.unit, schema.labelled)
        facts = [*always, *(_facts(schema, aspect) for aspect in sorted(needed))]
        groups.setdefault(repr(facts), []).append(site)
    majority = max(groups.values(), key=len)
    differing = [site for site in schemas if site not in majority]
    if not differing:
        return
    reference = schemas[majority[0]]
    details = " ".join(
        f"{site} differs from {majority[0]}: "
        f"{'; '.join(differences(schemas[site], reference, needed))}."
        for site in differing
    )
    reasons = "".join(
        f"The {aspect} must match because '{array}' is shared. "
        for aspect, array in needed.items()
        if any(_facts(schemas[site], aspect) != _facts(reference, aspect) for site in differing)
    )
    raise RametError(
        f"the run cannot start because the sites' fingerprints do not match. {details} {reasons}"
        f"Change the TOML of {', '.join(differing)} and run `ramet data check` there."
    )


def check_same_dates(schemas: Mapping[str, Schema]) -> None:
    """Refuse sites that split by other dates: one would train on what is later than another's."""
    sites: dict[tuple[str, ...], list[str]] = {}
    for site, schema in schemas.items():
        sites.setdefault(schema.split, []).append(site)
    if len(sites) > 1:
        listed = "; ".join(
            f"{', '.join(names)}: {' and '.join(dates) or 'no agreed dates'}"
            for dates, names in sites.items()
        )
        raise RametError(
            f"the run cannot start because the sites split by other dates ({listed}). Write the "
            "same train_until, validate_until and test_until in [split] at all sites, or own = "
            "true if each site should have its own."
        )


def differences(here: Schema, there: Schema, aspects: Collection[Aspect]) -> list[str]:
    """Describe how one site's schema differs from another's."""
    texts = []
    if here.task != there.task:
        texts.append(f"its task is {here.task}, not {there.task}")
    if here.unit != there.unit:
        texts.append(f"its unit is '{here.unit}', not '{there.unit}'")
    if here.labelled != there.labelled:
        texts.append(f"its edges '{here.labelled}' have classes, not '{there.labelled}'")
    if "classes" in aspects:
        what = "classes" if target_kind(here.task) == "class" else "labels"
        texts += _list_differences(what, here.classes, there.classes)
    if "types" in aspects:
        texts += _list_differences("node types", sorted(here.nodes), sorted(there.nodes))
        texts += _list_differences("edge types", sorted(here.edges), sorted(there.edges))
        for name in sorted(here.edges.keys() & there.edges.keys()):
            ours, theirs = (" to ".join(schema.edges[name]) for schema in (here, there))
            if ours != theirs:
                texts.append(f"its edges '{name}' go from {ours}, not from {theirs}")
    if "features" in aspects:
        texts += _feature_differences(here, there)
    if "links" in aspects:
        texts += _link_differences(here, there)
    return texts


def _feature_differences(here: Schema, there: Schema) -> list[str]:
    if len(here.nodes) == len(there.nodes) == 1:  # the name of a single type does not matter
        (what,) = here.nodes
        return _list_differences(f"features of {what}", *here.nodes.values(), *there.nodes.values())
    texts = []
    for name in sorted(here.nodes.keys() & there.nodes.keys()):
        texts += _list_differences(f"features of {name}", here.nodes[name], there.nodes[name])
    return texts


def _link_differences(here: Schema, there: Schema) -> list[str]:
    texts = []
    for name in sorted({*here.links, *there.links}):
        names = here.links.get(name, ()), there.links.get(name, ())
        texts += _list_differences(f"columns of edges '{name}'", *names)
    for what in ("weighted", "directed"):
        texts += _list_differences(f"{what} edge types", getattr(here, what), getattr(there, what))
    return texts


def _facts(schema: Schema, aspect: Aspect) -> object:
    if aspect == "links":
        return sorted(schema.links.items()), schema.weighted, schema.directed
    if aspect == "classes":
        return schema.classes
    if aspect == "types":
        return sorted(schema.nodes), sorted(schema.edges.items())
    return [features for _, features in sorted(schema.nodes.items())]


def _list_differences(what: str, here: Sequence[str], there: Sequence[str]) -> list[str]:
    if tuple(here) == tuple(there):
        return []
    missing = [name for name in there if name not in here]
    extra = [name for name in here if name not in there]
    parts = [f"its {what} lack {', '.join(missing)}"] if missing else []
    parts += [f"its {what} also include {', '.join(extra)}"] if extra else []
    return parts or [f"its {what} are in a different order ({', '.join(here)})"]
