"""The files of a site's own graphs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ramet.data.own.description import Description, read_description
from ramet.data.own.problems import Problems, SiteDataError


def described(path: Path) -> Description:
    """Parse a site's TOML file, or raise an error with its first problem."""
    problems = Problems()
    description = read_description(path, problems)
    if description is None:
        raise SiteDataError(f"{problems.items[0]} (`ramet data check {path}` lists them)")
    return description


def site_files(path: Path) -> list[Path]:
    """The site's TOML file and all files that it names, those in folders included."""
    return sorted({path, *_files(path.parent, described(path))})


def _files(folder: Path, description: Description) -> Iterator[Path]:
    graphs = description.graphs
    of_graphs = [] if graphs is None else [graphs.file, graphs.folder]
    nodes = [part.file for part in description.nodes.values()]
    edges = [part.file for part in description.edges.values()]
    for name in (*nodes, *edges, *of_graphs, description.tensors):
        if name is not None:
            named = folder / name
            inside = named.rglob("*") if named.is_dir() else (named,)
            yield from (file for file in inside if file.is_file())
