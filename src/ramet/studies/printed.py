"""What the papers print, as data: `experiments/*.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict

from ramet.errors import unknown
from ramet.experiment import MethodSpec
from ramet.methods import METHODS
from ramet.partition import SETTINGS

Kind = Literal["accuracy", "auc", "mrr", "tensors", "model_kb", "payload_kb"]
POINTS, ROUNDING = 2.0, 0.005
"""How far ours may be off unless the file says otherwise: scores in points, sizes in KB."""
_ALLOWED = {"accuracy": POINTS, "auc": POINTS, "mrr": POINTS, "tensors": 0.0}


class Placed(BaseModel):
    """The setting of the runs behind a printed figure, and the name of their folder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    setting: str
    setting_options: Mapping[str, str] = {}
    folder: str = ""

    @property
    def place(self) -> str:
        return self.folder or self.setting


class Printed(Placed):
    """One cell of a paper's table, and how it is run here."""

    table: str
    method: str
    kind: Kind
    value: float
    std: float | None = None
    options: Mapping[str, str] = {}
    activation: str | None = None
    client: str | None = None
    shape: tuple[int, int] | None = None  # node and link types of data that we do not have
    allowed: float
    note: str = ""
    not_comparable: str = ""
    """Why ours cannot be compared with the printed figure, if it cannot."""

    @property
    def label(self) -> str:
        return str(MethodSpec(self.method, self.options, activation=self.activation))

    @property
    def name(self) -> str:
        """The label, with the partition if the setting has several."""
        partition = self.setting_options.get("partition")
        return f"{self.label},partition={partition}" if partition else self.label

    @staticmethod
    def parse(method: str, cell: Mapping[str, object]) -> Printed:
        """A `[[printed]]` entry of an experiment file: exactly one of the kinds is its figure."""
        facts = dict(cell)
        (kind,) = (kind for kind in get_args(Kind) if kind in facts)
        value = facts.pop(kind)
        allowed = facts.pop("tolerance", _ALLOWED.get(kind, ROUNDING))
        return Printed.model_validate(
            {"method": method, "kind": kind, "value": value, "allowed": allowed, **facts}
        )


class Panel(Placed):
    """One panel of a paper's figure: methods' curves over the rounds."""

    figure: str
    panel: str
    curves: tuple[str, ...]
    lines: Literal["mean", "best and worst"]


_T = TypeVar("_T", bound=Placed)


def experiments() -> Path:
    """The folder of the experiment files: in an installed package, or beside its source."""
    package = Path(__file__).parents[1]
    installed = package / "experiments"
    return installed if installed.exists() else package.parents[1] / "experiments"


def _contents() -> list[dict[str, Any]]:
    return [tomllib.loads(path.read_text()) for path in sorted(experiments().glob("*.toml"))]


def baselines() -> dict[str, str]:
    """Methods that claim to equal another one for fewer bytes, and that other one."""
    runs = (content["run"] for content in _contents())
    return {run["method"]: run["baseline"] for run in runs if "baseline" in run}


def tables() -> dict[str, list[Printed]]:
    """Every table that can be reproduced, by `PAPER TABLE`."""
    found: dict[str, list[Printed]] = {}
    for content in _contents():
        for cell in content.get("printed", []):
            printed = Printed.parse(content["run"]["method"], cell)
            found.setdefault(printed.table, []).append(printed)
    return {name: sorted(cells, key=_order) for name, cells in found.items()}


def figures() -> dict[str, list[Panel]]:
    """Every figure that can be reproduced, by `PAPER FIGURE`."""
    found: dict[str, list[Panel]] = {}
    for content in _contents():
        for panel in content.get("drawn", []):
            drawn = Panel.model_validate(panel)
            found.setdefault(drawn.figure, []).append(drawn)
    return found


def _order(cell: Printed) -> tuple[int, int, int]:
    """Setting by setting, from few to many clients, methods in their own order."""
    clients = int(cell.setting_options.get("clients", 0))
    return list(SETTINGS).index(cell.setting), clients, list(METHODS).index(cell.method)


def table(paper: str, name: str, only: Sequence[str] = ()) -> list[Printed]:
    """The cells of a table; ``only`` keeps those of the named methods and settings."""
    cells = _known(tables(), f"{paper} {name}")
    methods = _chosen(cells, only, {word for c in cells for word in (c.label, c.method)})
    return [
        cell for cell in _within(cells, only) if not methods or {cell.label, cell.method} & methods
    ]


def figure(paper: str, name: str, only: Sequence[str] = ()) -> list[Panel]:
    """The panels of a figure, chosen in the same way."""
    panels = _known(figures(), f"{paper} {name}")
    curves = _chosen(panels, only, {curve for panel in panels for curve in panel.curves})
    return [
        panel.model_copy(update={"curves": tuple(c for c in panel.curves if c in curves)})
        if curves
        else panel
        for panel in _within(panels, only)
        if not curves or curves & set(panel.curves)
    ]


def is_figure(paper: str, name: str) -> bool:
    """Whether it is a figure; an error if there is no table or figure of this name."""
    wanted, drawn = f"{paper} {name}", figures()
    if wanted not in {**tables(), **drawn}:
        raise unknown("table or figure", wanted, [*tables(), *drawn])
    return wanted in drawn


def _known(found: Mapping[str, list[_T]], wanted: str) -> list[_T]:
    if wanted not in found:
        raise unknown("table", wanted, found)
    return found[wanted]


def _chosen(entries: Sequence[Placed], only: Sequence[str], methods: set[str]) -> set[str]:
    """The methods among the words; one that is neither a method nor a place is an error."""
    places = {word for entry in entries for word in (entry.setting, entry.place)}
    for word in only:
        if word not in methods | places:
            raise unknown("method or setting of this table", word, sorted(methods | places))
    return methods & set(only)


def _within(entries: Sequence[_T], only: Sequence[str]) -> list[_T]:
    named = [entry for entry in entries if {entry.setting, entry.place} & set(only)]
    return named or list(entries)
