"""Do a paper's table or figure again: what is printed is data, ours comes from runs."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from ramet.archive import keep, kept
from ramet.errors import RametError, unknown
from ramet.experiment import Experiment, checked_settings, default_data
from ramet.methods import METHODS
from ramet.metrics import (
    Order,
    Placed,
    Printed,
    Saving,
    Stories,
    Story,
    Verdict,
    orders,
    saving,
    savings,
)
from ramet.models import LinkShape
from ramet.partition import SETTINGS
from ramet.sweeps import Contender, Sweep

_SCALAR_BYTES, _KB = 4, 1024
FEDAVG, FEDDA = "fed-hgn", "fedda"
_FROM_RUNS: Mapping[str, Callable[[Story], float]] = {
    "accuracy": lambda story: 100 * float(story.result["scores"]["test"]),
    "auc": lambda story: 100 * story.score,
    "mrr": lambda story: 100 * story.reciprocal_rank,
    "tensors": lambda story: float(story.result["sent"]["tensors"]["up"]),
}
_T = TypeVar("_T", bound=Placed)


class Panel(Placed):
    """One panel of a paper's figure: methods' curves over the rounds."""

    figure: str
    panel: str
    curves: tuple[str, ...]
    lines: Literal["mean", "best and worst"]


def experiments() -> Path:
    """The papers' files: inside an installed package, or beside its source."""
    here = Path(__file__).parent
    installed = here / "experiments"
    return installed if installed.exists() else here.parents[1] / "experiments"


def tables() -> dict[str, list[Printed]]:
    """Every table that can be done again, by `PAPER TABLE`."""
    found: dict[str, list[Printed]] = {}
    for content in _contents():
        for cell in content.get("printed", []):
            printed = Printed.parse(content["run"]["method"], cell)
            found.setdefault(printed.table, []).append(printed)
    return {name: sorted(cells, key=_place) for name, cells in found.items()}


def figures() -> dict[str, list[Panel]]:
    """Every figure that can be drawn again, by `PAPER FIGURE`."""
    found: dict[str, list[Panel]] = {}
    for content in _contents():
        for panel in content.get("drawn", []):
            drawn = Panel.model_validate(panel)
            found.setdefault(drawn.figure, []).append(drawn)
    return found


def _contents() -> list[dict[str, Any]]:
    return [tomllib.loads(path.read_text()) for path in sorted(experiments().glob("*.toml"))]


def _place(cell: Printed) -> tuple[int, int, int]:
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
    """The panels of a figure, in the same way."""
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
    """Whether it is a figure; complains if there is nothing of this name."""
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


@dataclass(frozen=True)
class Reproduction:
    """The runs behind a table or figure; a sweep per place, as `ramet compare` makes it."""

    cells: Sequence[Printed]
    seeds: tuple[int, ...]
    folder: Path
    rounds: int | None = None
    data: Path | None = None
    kept: Path | None = None  # a folder of kept results per place
    panels: Sequence[Panel] = field(default=())

    def sweeps(self) -> list[Sweep]:
        """What has to be run; sizes need no run."""
        places: dict[str, Placed] = {}
        labels: dict[str, dict[str, None]] = {}
        for entry, chosen in self._wanted():
            places[entry.place] = entry
            labels.setdefault(entry.place, {}).update(dict.fromkeys(chosen))
        return [
            Sweep(
                contenders=tuple(Contender.parse(label) for label in labels[place]),
                setting=entry.setting,
                seeds=self.seeds,
                folder=self.folder / place,
                rounds=self.rounds,
                data=self.data,
                options=dict(entry.setting_options),
                kept={} if self.kept is None else kept(self.kept / place),
            )
            for place, entry in places.items()
        ]

    def _wanted(self) -> Iterable[tuple[Placed, Sequence[str]]]:
        compared = {cell.place for cell in self.cells if cell.method == FEDDA}
        for cell in self.cells:
            if cell.kind in _FROM_RUNS and (cell.shape is None or cell.place in compared):
                yield cell, [cell.label]
        for panel in self.panels:
            yield panel, panel.curves

    def stories(self) -> dict[str, Stories]:
        """Finished runs by place."""
        return {sweep.folder.name: sweep.stories() for sweep in self.sweeps()}

    def keep(self) -> None:
        """Put every finished run into the folder of kept results."""
        if self.kept is None:
            return
        for place, stories in self.stories().items():
            told = [story for runs in stories.values() for story in runs.values()]
            if told:
                keep(told, self.kept / place)

    def verdicts(self) -> list[Verdict]:
        """Each printed figure beside what the finished runs, or the shapes, give."""
        stories = self.stories()
        found = []
        for cell in self.cells:
            if cell.shape is not None:
                found.append(Verdict(cell, [self._tensors_of_shape(cell, *cell.shape)]))
            elif cell.kind in _FROM_RUNS:
                runs = stories[cell.place][cell.label].values()
                found.append(Verdict(cell, [_FROM_RUNS[cell.kind](story) for story in runs]))
            else:
                found.append(Verdict(cell, [self._kilobytes(cell)]))
        return found

    def by_shape(self) -> list[Verdict]:
        """What who sends everything sent, beside tensors × rounds × clients: equal or wrong."""
        stories, found = self.stories(), []
        for cell in self.cells:
            runs = stories.get(cell.place, {}).get(cell.label, {}).values()
            if cell.kind == "tensors" and cell.method == FEDAVG and runs:
                own = self._experiment(cell)
                count = len(own.shared_names()) * own.settings.rounds * len(own.clients)
                whole = {"value": float(count), "beside": "", "shape": None}
                sent = [_FROM_RUNS["tensors"](story) for story in runs]
                found.append(Verdict(cell.model_copy(update=whole), sent))
        return found

    def orders(self) -> list[Order]:
        """Printed ROC-AUCs that are clearly apart, place by place; Global belongs to each."""
        scores = [verdict for verdict in self.verdicts() if verdict.printed.kind == "auc"]
        whole = [v for v in scores if "clients" not in v.printed.setting_options]
        places = dict.fromkeys(v.printed.place for v in scores if v not in whole)
        return [
            order
            for place in places
            for own in [[v for v in scores if v.printed.place == place]]
            for order in orders(
                own, [v for v in whole if v.printed.setting == own[0].printed.setting]
            )
        ]

    def savings(self) -> list[Saving]:
        """FedDA's rules beside FedAvg, in every place that has both."""
        return [
            row
            for place, stories in self.stories().items()
            for row in savings(
                place, stories, FEDAVG, [label for label in stories if label.startswith(FEDDA)]
            )
        ]

    def curves(self) -> list[tuple[Panel, Stories]]:
        """The finished runs of every panel."""
        stories = self.stories()
        return [
            (panel, {curve: stories[panel.place][curve] for curve in panel.curves})
            for panel in self.panels
        ]

    def beside_the_first(self) -> list[Saving]:
        """Every curve beside its panel's first."""
        rows = (
            saving(panel.panel, curve, runs, stories[panel.curves[0]])
            for panel, stories in self.curves()
            for curve, runs in stories.items()
        )
        return list(dict.fromkeys(row for row in rows if row is not None))

    def _experiment(self, cell: Printed) -> Experiment:
        return Experiment(
            checked_settings(
                method=cell.method,
                setting=cell.setting,
                rounds=self.rounds,
                data=(self.data or default_data()).absolute(),
                options={**cell.setting_options, **cell.options},
            )
        )

    def _tensors_of_shape(self, cell: Printed, node_types: int, link_types: int) -> float:
        """What everyone sends in all rounds on data of a shape that is not among ours."""
        own = self._experiment(cell)
        shape = LinkShape(
            tuple((f"type {number}", 1) for number in range(node_types)),
            tuple(f"relation {number}" for number in range(link_types)),
        )
        names = own.method.shared.pick(own.method.model(shape).state_dict())
        return float(len(names) * own.settings.rounds * len(own.clients))

    def _kilobytes(self, cell: Printed) -> float:
        experiment = self._experiment(cell)
        if cell.kind == "payload_kb":
            return experiment.shared_scalars() * _SCALAR_BYTES / _KB
        if cell.client is None:
            raise RametError(f"{cell.table}: a model's size needs a client. Name it in the file.")
        return experiment.scalars_of(cell.client) * _SCALAR_BYTES / _KB
