"""A paper's table or figure from our own runs, beside what the paper prints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path
from statistics import fmean, stdev
from typing import Literal

from ramet.errors import RametError
from ramet.experiment import Experiment, checked_settings, default_data
from ramet.experiment.method_spec import MethodSpec
from ramet.methods.activation import Everyone
from ramet.models import LinkShape
from ramet.studies.archive import keep, kept
from ramet.studies.finished_run import FinishedRun, FinishedRuns
from ramet.studies.printed import Panel, Placed, Printed, baselines
from ramet.studies.savings import Saving, saving, savings
from ramet.studies.sweep import Sweep

_SCALAR_BYTES, _KB = 4, 1024


def _tensors_up(run: FinishedRun) -> float:
    if run.summary.sent is None:
        raise RametError(f"the run of {run.label} is too old to know its tensors. Run it again.")
    return float(run.summary.sent.tensors.up)


_FROM_RUNS: Mapping[str, Callable[[FinishedRun], float]] = {
    "accuracy": lambda run: 100 * run.summary.scores.test,
    "auc": lambda run: 100 * run.score,
    "mrr": lambda run: 100 * run.reciprocal_rank,
    "tensors": _tensors_up,
}


@dataclass(frozen=True)
class ReproducedCell:
    """A printed figure and ours: the scores of runs, or one exact number, or nothing yet."""

    printed: Printed
    ours: Sequence[float]

    @property
    def mean(self) -> float | None:
        return fmean(self.ours) if self.ours else None

    @property
    def spread(self) -> float | None:
        return stdev(self.ours) if len(self.ours) > 1 else None

    @property
    def off(self) -> float | None:
        return None if self.mean is None else self.mean - self.printed.value

    @property
    def status(self) -> Literal["inside", "outside", "not comparable", "not run"]:
        if self.off is None:
            return "not run"
        if self.printed.not_comparable:
            return "not comparable"
        return "inside" if abs(self.off) <= self.printed.allowed else "outside"


@dataclass(frozen=True)
class Order:
    """Two printed figures that are further apart than both spreads, and how far apart ours are."""

    place: str
    higher: str
    lower: str
    gap: float | None  # ours, in points

    @property
    def holds(self) -> bool | None:
        return None if self.gap is None else self.gap > 0


def orders(
    cells: Sequence[ReproducedCell], everywhere: Sequence[ReproducedCell] = ()
) -> list[Order]:
    """The clear orders among cells of one place; those ``everywhere`` belong to every place."""
    return [
        Order(
            next(cell.printed.place for cell in (above, below) if cell not in everywhere),
            above.printed.name,
            below.printed.name,
            None if above.mean is None or below.mean is None else above.mean - below.mean,
        )
        for above, below in permutations([*everywhere, *cells], 2)
        if not (above in everywhere and below in everywhere)
        and above.printed.value - below.printed.value
        > (above.printed.std or 0.0) + (below.printed.std or 0.0)
    ]


@dataclass(frozen=True)
class Reproduction:
    """The runs behind a table or figure: one sweep per place, as `ramet compare` makes it."""

    cells: Sequence[Printed]
    seeds: tuple[int, ...]
    folder: Path
    rounds: int | None = None
    data: Path | None = None
    kept: Path | None = None  # has a folder of kept runs per place
    panels: Sequence[Panel] = field(default=())

    def sweeps(self) -> list[Sweep]:
        """What has to be run; sizes of models need no run."""
        places: dict[str, Placed] = {}
        labels: dict[str, dict[str, None]] = {}
        for entry, chosen in self._wanted():
            places[entry.place] = entry
            labels.setdefault(entry.place, {}).update(dict.fromkeys(chosen))
        return [
            Sweep(
                methods=tuple(MethodSpec.parse(label) for label in labels[place]),
                setting=entry.setting,
                seeds=self.seeds,
                folder=self.folder / place,
                rounds=self.rounds,
                data=self.data,
                options=dict(entry.setting_options),
                kept=() if self.kept is None else kept(self.kept / place),
            )
            for place, entry in places.items()
        ]

    def _wanted(self) -> Iterable[tuple[Placed, Sequence[str]]]:
        saving_methods = baselines()
        compared = {cell.place for cell in self.cells if cell.method in saving_methods}
        for cell in self.cells:
            if cell.kind in _FROM_RUNS and (cell.shape is None or cell.place in compared):
                yield cell, [cell.label]
        for panel in self.panels:
            yield panel, panel.curves

    def runs(self) -> dict[str, FinishedRuns]:
        """Finished runs by place."""
        return {sweep.folder.name: sweep.finished() for sweep in self.sweeps()}

    def keep(self) -> None:
        """Put every finished run into the folder of kept runs."""
        if self.kept is None:
            return
        for place, by_label in self.runs().items():
            finished = [run for runs in by_label.values() for run in runs.values()]
            if finished:
                keep(finished, self.kept / place)

    def reproduced(self) -> list[ReproducedCell]:
        """Each printed figure with what the finished runs, or the shapes, give."""
        runs = self.runs()
        found = []
        for cell in self.cells:
            if cell.shape is not None:
                found.append(ReproducedCell(cell, [self._tensors_of_shape(cell, *cell.shape)]))
            elif cell.kind in _FROM_RUNS:
                own = runs[cell.place][cell.label].values()
                found.append(ReproducedCell(cell, [_FROM_RUNS[cell.kind](run) for run in own]))
            else:
                found.append(ReproducedCell(cell, [self._kilobytes(cell)]))
        return found

    def by_shape(self) -> list[ReproducedCell]:
        """Tensors that methods without an activation sent, beside tensors × rounds × clients."""
        runs, found = self.runs(), []
        for cell in self.cells:
            own = runs.get(cell.place, {}).get(cell.label, {}).values()
            if cell.kind != "tensors" or cell.activation or not own:
                continue
            experiment = self._experiment(cell)
            if isinstance(experiment.method.activation, Everyone):
                clients, rounds = len(experiment.clients), experiment.settings.rounds
                count = len(experiment.sizes.shared_names()) * rounds * clients
                exact = {"value": float(count), "not_comparable": "", "shape": None}
                sent = [_FROM_RUNS["tensors"](run) for run in own]
                found.append(ReproducedCell(cell.model_copy(update=exact), sent))
        return found

    def orders(self) -> list[Order]:
        """Printed ROC-AUCs that are clearly apart, place by place; Global belongs to each."""
        scores = [cell for cell in self.reproduced() if cell.printed.kind == "auc"]
        whole = [cell for cell in scores if "clients" not in cell.printed.setting_options]
        places = dict.fromkeys(cell.printed.place for cell in scores if cell not in whole)
        return [
            order
            for place in places
            for own in [[cell for cell in scores if cell.printed.place == place]]
            for order in orders(
                own, [cell for cell in whole if cell.printed.setting == own[0].printed.setting]
            )
        ]

    def savings(self) -> list[Saving]:
        """Methods that claim to save bytes beside their baseline, wherever both were run."""
        return [
            row
            for place, runs in self.runs().items()
            for method, baseline in baselines().items()
            for row in savings(
                place,
                runs,
                baseline,
                [label for label in runs if MethodSpec.parse(label).method == method],
            )
        ]

    def curves(self) -> list[tuple[Panel, FinishedRuns]]:
        """The finished runs of every panel."""
        runs = self.runs()
        return [
            (panel, {curve: runs[panel.place][curve] for curve in panel.curves})
            for panel in self.panels
        ]

    def beside_the_first(self) -> list[Saving]:
        """Every curve beside its panel's first."""
        rows = (
            saving(panel.panel, curve, own, runs[panel.curves[0]])
            for panel, runs in self.curves()
            for curve, own in runs.items()
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
        """What everyone sends in all rounds on data of a shape that we do not have."""
        own = self._experiment(cell)
        shape = LinkShape(
            tuple((f"type {number}", 1) for number in range(node_types)),
            tuple(f"relation {number}" for number in range(link_types)),
        )
        names = own.method.shared.pick(own.method.model(shape).state_dict())
        return float(len(names) * own.settings.rounds * len(own.clients))

    def _kilobytes(self, cell: Printed) -> float:
        sizes = self._experiment(cell).sizes
        if cell.kind == "payload_kb":
            return sizes.shared_scalars() * _SCALAR_BYTES / _KB
        if cell.client is None:
            raise RametError(f"{cell.table}: a model's size needs a client. Name it in the file.")
        return sizes.scalars_of(cell.client) * _SCALAR_BYTES / _KB
