"""Numbers and figures printed in papers, read from `experiments/*.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict

from ramet.errors import unknown
from ramet.experiment import MethodSpec
from ramet.methods import table_order
from ramet.partition import SETTINGS
from ramet.studies.choice import Choice

Kind = Literal["accuracy", "auc", "mrr", "tensors", "model_kb", "payload_kb"]
POINTS, ROUNDING = 2.0, 0.005
"""Default tolerances: scores in points, sizes in KB."""
_ALLOWED = {"accuracy": POINTS, "auc": POINTS, "mrr": POINTS, "tensors": 0.0}


class PrintedEntry(BaseModel):
    """The setting of the runs behind a printed number or panel, and the name of their folder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    setting: str
    setting_options: Mapping[str, str] = {}
    folder: str = ""
    rounds: int | None = None
    """Of a run, if other than the setting's."""

    @property
    def group(self) -> str:
        """Entries of one group have their runs in one sweep, whose folder has this name."""
        return self.folder or self.setting


class Printed(PrintedEntry):
    """One cell of a paper's table, and the method that reproduces it."""

    table: str
    method: str
    kind: Kind
    value: float
    std: float | None = None
    runs: int = 5
    """Of the printed mean and deviation."""
    options: Mapping[str, str] = {}
    activation: str | None = None
    client: str | None = None
    round: Choice = Choice.LAST
    """The round of a printed accuracy."""
    shape: tuple[int, int] | None = None  # node and link types, if we do not have the data
    allowed: float
    note: str = ""
    not_comparable: str = ""
    """The reason if our number cannot be compared with the printed one, else empty."""

    @property
    def label(self) -> str:
        return str(MethodSpec(self.method, self.options, activation=self.activation))

    @property
    def name(self) -> str:
        """The label, with the partition if one is given."""
        partition = self.setting_options.get("partition")
        return f"{self.label},partition={partition}" if partition else self.label

    @staticmethod
    def parse(method: str, cell: Mapping[str, object]) -> Printed:
        """Parse a `[[printed]]` entry of an experiment file, which has exactly one of the kinds."""
        facts = dict(cell)
        (kind,) = (kind for kind in get_args(Kind) if kind in facts)
        value = facts.pop(kind)
        allowed = facts.pop("tolerance", _ALLOWED.get(kind, ROUNDING))
        return Printed.model_validate(
            {"method": method, "kind": kind, "value": value, "allowed": allowed, **facts}
        )


class Panel(PrintedEntry):
    """One panel of a paper's figure: a curve over rounds for each method."""

    figure: str
    panel: str
    curves: tuple[str, ...]
    lines: Literal["mean", "best and worst"]
    not_comparable: str = ""
    """The reason if our curves cannot be compared with the drawn ones, else empty."""


_T = TypeVar("_T", bound=PrintedEntry)


def experiments() -> Path:
    """The folder of the experiment files, in the installed package or in the checkout."""
    package = Path(__file__).parents[1]
    installed = package / "experiments"
    return installed if installed.exists() else package.parents[1] / "experiments"


def _contents() -> list[dict[str, Any]]:
    return [tomllib.loads(path.read_text()) for path in sorted(experiments().glob("*.toml"))]


def row_name(run: Mapping[str, Any]) -> str:
    """The name of a paper's row: that of the method, or of the method with its network."""
    name: str = run.get("name", run["method"])
    return name


def baselines() -> dict[str, str]:
    """The baseline of each method that claims to match it with fewer bytes."""
    runs = (content["run"] for content in _contents())
    return {row_name(run): run["baseline"] for run in runs if "baseline" in run}


def tables() -> dict[str, list[Printed]]:
    """Every table that can be reproduced, by `PAPER TABLE`.

    A cell with `authors` is also in `PAPER TABLE-authors`, for runs under the authors' protocol.
    """
    by_name: dict[str, list[Printed]] = {}
    for content in _contents():
        for cell in content.get("printed", []):
            for printed in _with_authors(row_name(content["run"]), dict(cell)):
                by_name.setdefault(printed.table, []).append(printed)
    return {name: sorted(cells, key=_sort_key) for name, cells in by_name.items()}


def _with_authors(method: str, cell: dict[str, Any]) -> Iterator[Printed]:
    """A printed cell, and the same for each list of options in its `authors`."""
    variants = cell.pop("authors", [])
    printed = Printed.parse(method, cell)
    yield printed
    for options in variants:
        changed = {"table": f"{printed.table}-authors", "options": {**printed.options, **options}}
        yield printed.model_copy(update=changed)


def figures() -> dict[str, list[Panel]]:
    """Every figure that can be reproduced, by `PAPER FIGURE`."""
    by_name: dict[str, list[Panel]] = {}
    for content in _contents():
        for panel in content.get("drawn", []):
            parsed = Panel.model_validate(panel)
            by_name.setdefault(parsed.figure, []).append(parsed)
    return by_name


def _sort_key(cell: Printed) -> tuple[int, int, tuple[int, int]]:
    """By setting, then by number of clients, then by method."""
    clients = int(cell.setting_options.get("clients", 0))
    return list(SETTINGS).index(cell.setting), clients, table_order(cell.method)


def table(paper: str, name: str, only: Sequence[str] = ()) -> list[Printed]:
    """The cells of a table, restricted to the methods and settings in ``only``."""
    cells = _lookup(tables(), f"{paper} {name}")
    methods = _chosen_methods(cells, only, {word for c in cells for word in (c.label, c.method)})
    return [
        cell
        for cell in _in_settings(cells, only)
        if not methods or {cell.label, cell.method} & methods
    ]


def figure(paper: str, name: str, only: Sequence[str] = ()) -> list[Panel]:
    """The panels of a figure, restricted in the same way."""
    panels = _lookup(figures(), f"{paper} {name}")
    curves = _chosen_methods(panels, only, {curve for panel in panels for curve in panel.curves})
    return [
        panel.model_copy(update={"curves": tuple(c for c in panel.curves if c in curves)})
        if curves
        else panel
        for panel in _in_settings(panels, only)
        if not curves or curves & set(panel.curves)
    ]


def is_figure(paper: str, name: str) -> bool:
    """Whether this is a figure. Raises an error if there is no table or figure of this name."""
    full_name, known = f"{paper} {name}", figures()
    if full_name not in {**tables(), **known}:
        raise unknown("table or figure", full_name, [*tables(), *known])
    return full_name in known


def _lookup(by_name: Mapping[str, list[_T]], name: str) -> list[_T]:
    if name not in by_name:
        raise unknown("table or figure", name, by_name)
    return by_name[name]


def _chosen_methods(
    entries: Sequence[PrintedEntry], only: Sequence[str], methods: set[str]
) -> set[str]:
    """The methods in ``only``. Raises an error for a name that is not a method or setting."""
    settings = {name for entry in entries for name in (entry.setting, entry.group)}
    for name in only:
        if name not in methods | settings:
            raise unknown("method or setting of this table", name, sorted(methods | settings))
    return methods & set(only)


def _in_settings(entries: Sequence[_T], only: Sequence[str]) -> list[_T]:
    """The entries whose setting is in ``only``; all entries if it names no setting."""
    named = [entry for entry in entries if {entry.setting, entry.group} & set(only)]
    return named or list(entries)
