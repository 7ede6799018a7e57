"""The form of a site's graphs without any of their data: what sites compare before they start."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from torch import nn

from ramet.errors import RametError
from ramet.version import __version__

TaskName: TypeAlias = Literal["graph-classification", "node-classification", "link-prediction"]
Aspect: TypeAlias = Literal["features", "classes", "types"]
_LONGEST = 2**20


def _usable(name: str) -> str:
    """Names become those of parameters, where PyTorch and Simple-HGN have some of their own."""
    taken = hasattr(nn.ModuleDict(), name) or hasattr(nn.ParameterDict(), name)
    if taken or name == "loop" or name.endswith("-back"):
        raise ValueError(f"'{name}' means something else already; take another name")
    return name


SiteName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]
"""Also the name of a folder, so it is a plain word."""
TypeName: TypeAlias = Annotated[SiteName, AfterValidator(_usable)]
Column: TypeAlias = Annotated[str, Field(min_length=1, max_length=200)]


class Schema(BaseModel):
    """A fingerprint: task, classes, node types with their features, edge types with their ends.

    It tells neither how much a site has nor which of the types it has anything of.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    ramet: str = __version__
    task: TaskName
    classes: tuple[Column, ...] = ()
    nodes: dict[TypeName, tuple[Column, ...]]
    edges: dict[TypeName, tuple[TypeName, TypeName]]

    @property
    def width(self) -> int:
        """Of the features, where there is one node type."""
        (features,) = self.nodes.values()
        return width_of(features)

    def fits(self, other: Schema) -> bool:
        """Whether the form is the same, made by whichever version."""
        return self.model_copy(update={"ramet": other.ramet}) == other

    def text(self) -> str:
        return self.model_dump_json(indent=1) + "\n"

    @staticmethod
    def parse(text: str, site: str) -> Schema:
        """What a site sent; anything else is an error."""
        try:
            if len(text) > _LONGEST:
                raise RametError(f"the fingerprint of {site} has {len(text):,} characters.")
            return Schema.model_validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise RametError(
                f"the fingerprint of {site} is not one of this version ({where}: {first['msg']}). "
                "Use the same Ramet at all sites."
            ) from error


def width_of(features: Sequence[str]) -> int:
    """Nodes without features get one that is 1 for all."""
    return max(len(features), 1)


def check_task(schema: Schema, task: TaskName) -> None:
    """A method is for one task."""
    if schema.task != task:
        raise RametError(
            f"this method is for {task}, and the sites' graphs are for {schema.task}. Choose "
            "another method; `ramet methods` lists them."
        )


def check_fit(schemas: Mapping[str, Schema], needed: Mapping[Aspect, str]) -> None:
    """All sites must agree in task and in these aspects; those that do not are named, and how.

    ``needed`` names for each aspect a shared array that depends on it. Sites are compared with the
    largest group of those that agree.
    """
    alike: dict[str, list[str]] = {}
    for site, schema in schemas.items():
        facts = [schema.task, *(_facts(schema, aspect) for aspect in sorted(needed))]
        alike.setdefault(repr(facts), []).append(site)
    most = max(alike.values(), key=len)
    odd = [site for site in schemas if site not in most]
    if not odd:
        return
    like = schemas[most[0]]
    told = " ".join(
        f"{site} differs from {most[0]}: {'; '.join(differences(schemas[site], like, needed))}."
        for site in odd
    )
    why = "".join(
        f"The {aspect} must agree because '{array}' is shared. "
        for aspect, array in needed.items()
        if any(_facts(schemas[site], aspect) != _facts(like, aspect) for site in odd)
    )
    raise RametError(
        f"the run does not start, because not all sites fit together. {told} {why}"
        f"Change the TOML of {', '.join(odd)}, and run `ramet data check` there."
    )


def differences(here: Schema, there: Schema, aspects: Collection[Aspect]) -> list[str]:
    """How a site's form differs from another's, in words."""
    found = []
    if here.task != there.task:
        found.append(f"its task is {here.task}, not {there.task}")
    if "classes" in aspects:
        found += _lists("classes", here.classes, there.classes)
    if "types" in aspects:
        found += _lists("node types", sorted(here.nodes), sorted(there.nodes))
        found += _lists("edge types", sorted(here.edges), sorted(there.edges))
        for name in sorted(here.edges.keys() & there.edges.keys()):
            own, other = (" to ".join(one.edges[name]) for one in (here, there))
            if own != other:
                found.append(f"its edges '{name}' go from {own}, not from {other}")
    if "features" in aspects:
        found += _feature_differences(here, there)
    return found


def _feature_differences(here: Schema, there: Schema) -> list[str]:
    if len(here.nodes) == len(there.nodes) == 1:  # one type, whatever its name
        (what,) = here.nodes
        return _lists(f"features of {what}", *here.nodes.values(), *there.nodes.values())
    found = []
    for name in sorted(here.nodes.keys() & there.nodes.keys()):
        found += _lists(f"features of {name}", here.nodes[name], there.nodes[name])
    return found


def _facts(schema: Schema, aspect: Aspect) -> object:
    if aspect == "classes":
        return schema.classes
    if aspect == "types":
        return sorted(schema.nodes), sorted(schema.edges.items())
    return [features for _, features in sorted(schema.nodes.items())]


def _lists(what: str, here: Sequence[str], there: Sequence[str]) -> list[str]:
    if tuple(here) == tuple(there):
        return []
    lacking = [name for name in there if name not in here]
    more = [name for name in here if name not in there]
    parts = [f"its {what} lack {', '.join(lacking)}"] if lacking else []
    parts += [f"its {what} have {', '.join(more)} besides"] if more else []
    return parts or [f"its {what} are in another order ({', '.join(here)})"]
