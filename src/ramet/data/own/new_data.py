"""Read a site's new data for a trained model: no classes, no split, and gaps where data is lacking.

The TOML file may leave out what is known from training. Types that it leaves out have no nodes or
edges, and columns that it or the table leaves out are missing in all rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ramet.data.own.columns import MISSING
from ramet.data.own.description import read_description, read_toml
from ramet.data.own.files import described
from ramet.data.own.one_graph import Purpose
from ramet.data.own.parts import AGE
from ramet.data.own.past import Past
from ramet.data.own.preparation import Preparation, PreparedColumn
from ramet.data.own.problems import Problems, SiteDataError
from ramet.data.own.schema import OF_EDGES, Aspect, Schema, differences, level_of, target_kind
from ramet.data.own.site import Site, build_site
from ramet.errors import RametError

_TYPES: tuple[Aspect, ...] = ("types",)
FILE = "site.toml"
"""The TOML file in a folder of new data."""


def new_data_name(path: Path) -> str:
    """The site's name in its TOML file, whatever else the file leaves out."""
    problems = Problems()
    content = read_toml(path, problems)
    if content is None:
        raise SiteDataError(str(problems.items[0]))
    return str(content.get("site", ""))


def toml_of(new: Path) -> Path | None:
    """The TOML file of new data, which is given itself, or in its folder if there is one."""
    if not new.is_dir():
        return new
    return new / FILE if (new / FILE).is_file() else None


def read_new_data(
    path: Path,
    trained: Schema,
    preparation: Preparation,
    context: Path | None = None,
    purpose: Purpose = "prediction",
) -> Site:
    """Read a site's new data as in training, or raise an error with the first problem.

    ``context``: the TOML file of an earlier period, whose nodes and links are in the graph, too.
    Then ``path`` may be a folder whose files are called as that one says.
    """
    problems = Problems()
    past = None if context is None else _past(context, trained)
    own = toml_of(path)
    if own is None and context is None:
        raise RametError(f"{path} is a folder without {FILE}. Name the TOML file of the new data.")

    def complete(content: dict[str, Any]) -> None:
        content.pop("split", None)
        if past is not None and own is None:
            _only_files_in(path, content, past.path)
        if past is not None:
            _repeat(content.setdefault("nodes", {}), past.keys("nodes"))
            _repeat(content.setdefault("edges", {}), past.keys("edges"))
            if purpose == "scoring":
                _repeat(content["nodes"], past.labels("nodes"))
                _repeat(content["edges"], past.labels("edges"))
        _complete(content, trained, preparation)

    toml = own or context
    assert toml is not None
    description = read_description(toml, problems, complete)
    if description is not None:
        for text in differences(
            description.site_schema, trained, ("classes", "features", "types", "links")
        ):
            problems.add(path.name, f"this is not what the model was trained on: {text}")
    site = None
    if description is not None and not problems:
        joined = past if past is not None and description.level != "graph" else None
        file = path / toml.name if own is None else own
        site = build_site(file, description, problems, preparation, purpose, joined)
    if site is None or problems:
        first = str(problems.sorted()[0])
        if past is not None and "unknown = " in first:
            first += " If it is a row of an earlier month, --context names a TOML file that has it."
        raise SiteDataError(f"{first} (problem 1 of {problems.count})")
    return site


def _only_files_in(folder: Path, content: dict[str, Any], like: Path) -> None:
    """Leave the files out that a folder of new data does not have."""
    graphs = content.get("graphs", {})
    parts = [*content["nodes"].values(), *content["edges"].values(), graphs]
    named = [(part, key) for part in parts for key in ("file", "folder") if key in part]
    missing = [(part, key) for part, key in named if not (folder / part[key]).exists()]
    if len(missing) == len(named):
        listed = ", ".join(sorted({part[key] for part, key in named})) or "none"
        raise RametError(
            f"{folder} has none of the files that {like} names ({listed}). Call the new files "
            f"alike, or describe them in a {FILE} there."
        )
    for part, key in missing:
        del part[key]


def _past(path: Path, trained: Schema) -> Past:
    """The description of an earlier period, if it can be joined to new data."""
    description = described(path)
    if description.tensors is not None:
        raise RametError(
            f"{path} names tensors, which have no ids to join new data to. Use tables, or give the "
            "new data as a whole graph with --site."
        )
    for text in differences(description.site_schema, trained, _TYPES):
        raise RametError(f"{path.name}: this is not what the model was trained on: {text}.")
    return Past(path, description)


def _repeat(types: Any, earlier: dict[str, dict[str, Any]]) -> None:
    """Add keys and columns of an earlier period to each type that does not have them."""
    for name, keys in earlier.items() if isinstance(types, dict) else ():
        part = types.setdefault(name, {})
        for key, value in keys.items() if isinstance(part, dict) else ():
            given = part.setdefault(key, value)
            if key == "columns" and isinstance(given, dict):
                part[key] = {**value, **given}


def _name_targets(content: dict[str, Any], trained: Schema) -> None:
    """Name the columns of numbers or labels as in training; new data need not have them."""
    if trained.unit:
        content.setdefault("unit", trained.unit)
    graphs = content.get("graphs")
    if level_of(trained.task) == "graph":
        parts = [graphs]
    else:
        parts = [content.setdefault("nodes", {}).setdefault(name, {}) for name in trained.nodes]
    for part in parts:
        if isinstance(part, dict):
            part.setdefault("label", [*trained.classes])


def _complete(content: dict[str, Any], trained: Schema, preparation: Preparation) -> None:
    """Add what is known from training to the content of a TOML file, where it leaves it out."""
    content.setdefault("task", trained.task)
    if target_kind(trained.task) != "class":
        _name_targets(content, trained)
    elif trained.classes:
        content.setdefault("classes", [*trained.classes])
    nodes, edges = content.setdefault("nodes", {}), content.setdefault("edges", {})
    if not isinstance(nodes, dict) or not isinstance(edges, dict):
        return  # reported when the content is validated
    for name, features in trained.nodes.items():
        prepared = preparation.types.get(name, {})
        columns = {
            column: prepared[column]
            for column in trained.columns.get(name, {})
            if not column.startswith(tuple(f"{edge} " for edge in trained.edges))  # an aggregate
        }
        part = nodes.setdefault(name, {} if columns else {"features": [*features]})
        if columns and isinstance(part, dict) and "features" not in part:
            declared = part.setdefault("columns", {})
            if isinstance(declared, dict):
                _complete_columns(declared, columns)
    for name, (head, tail) in trained.edges.items():
        part = edges.setdefault(name, {"from": head, "to": tail})
        if isinstance(part, dict):
            _complete_edges(part, name, trained, preparation)


def _complete_edges(
    part: dict[str, Any], name: str, trained: Schema, preparation: Preparation
) -> None:
    if name == trained.labelled:
        part.setdefault("label", "label")
    if name in trained.directed:
        part.setdefault("directed", True)
    if name in trained.aged:
        part.setdefault("age", True)
    prepared = preparation.types.get(f"{OF_EDGES}{name}")
    if prepared is not None and name in trained.aged:
        prepared = {column: one for column, one in prepared.items() if column != AGE}
    if prepared is None and name in trained.links and "columns" not in part:
        part.setdefault("features", [*trained.links[name]])
    elif prepared is not None and "features" not in part:
        declared = part.setdefault("columns", {})
        if isinstance(declared, dict):
            _complete_columns(declared, prepared)


def _complete_columns(declared: dict[str, Any], trained: dict[str, PreparedColumn]) -> None:
    """Declare columns as in training; a list of categories is not needed, and would refuse others.

    Columns that are not declared are absent, unless training refused missing values.
    """
    for name, column in trained.items():
        missing = "mark" if column.marked else "refuse"
        absent = {"kind": column.kind, "missing": missing, "absent": column.marked}
        given = declared.setdefault(name, absent)
        if isinstance(given, str):
            declared[name] = {"kind": given, "missing": missing}
        elif isinstance(given, dict):
            listed = {str(one).lower() for one in given.pop("categories", ())}
            markers = given.get("missing_values", MISSING)  # none of the list counts as missing
            given["missing_values"] = [one for one in markers if str(one).lower() not in listed]
            given["missing"] = missing
