"""Reproduction of a paper's table or figure from our own runs."""

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
from ramet.studies.printed import Panel, Printed, PrintedEntry, baselines
from ramet.studies.savings import Saving, saving, savings
from ramet.studies.sweep import Sweep

_SCALAR_BYTES, _KB = 4, 1024


def _tensors_up(run: FinishedRun) -> float:
    if run.summary.sent is None:
        raise RametError(f"the run of {run.label} is too old to have tensor counts. Rerun it.")
    return float(run.summary.sent.tensors.up)


_FROM_RUNS: Mapping[str, Callable[[FinishedRun], float]] = {
    "accuracy": lambda run: 100 * run.summary.scores.test,
    "auc": lambda run: 100 * run.score,
    "mrr": lambda run: 100 * run.mrr,
    "tensors": _tensors_up,
}


@dataclass(frozen=True)
class ReproducedCell:
    """A printed number and ours: one per run, one exact number, or none yet."""

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
    """Two printed scores that differ by more than the sum of their standard deviations."""

    group: str
    higher: str
    lower: str
    gap: float | None  # difference of our scores, in points

    @property
    def holds(self) -> bool | None:
        return None if self.gap is None else self.gap > 0


def orders(cells: Sequence[ReproducedCell], shared: Sequence[ReproducedCell] = ()) -> list[Order]:
    """The clear orders among the cells of one group. ``shared`` cells belong to every group."""
    return [
        Order(
            next(cell.printed.group for cell in (above, below) if cell not in shared),
            above.printed.name,
            below.printed.name,
            None if above.mean is None or below.mean is None else above.mean - below.mean,
        )
        for above, below in permutations([*shared, *cells], 2)
        if not (above in shared and below in shared)
        and above.printed.value - below.printed.value
        > (above.printed.std or 0.0) + (below.printed.std or 0.0)
    ]


@dataclass(frozen=True)
class Reproduction:
    """The runs behind a table or figure: one sweep per group, like those of `ramet compare`."""

    cells: Sequence[Printed]
    seeds: tuple[int, ...]
    folder: Path
    rounds: int | None = None
    data: Path | None = None
    kept: Path | None = None  # contains a folder of kept runs per group
    panels: Sequence[Panel] = field(default=())

    def sweeps(self) -> list[Sweep]:
        """The sweeps that have to be run. Model sizes need none."""
        groups: dict[str, PrintedEntry] = {}
        labels: dict[str, dict[str, None]] = {}
        for entry, chosen in self._needed():
            groups[entry.group] = entry
            labels.setdefault(entry.group, {}).update(dict.fromkeys(chosen))
        return [
            Sweep(
                methods=tuple(MethodSpec.parse(label) for label in labels[group]),
                setting=entry.setting,
                seeds=self.seeds,
                folder=self.folder / group,
                rounds=self.rounds,
                data=self.data,
                options=dict(entry.setting_options),
                kept=() if self.kept is None else kept(self.kept / group),
            )
            for group, entry in groups.items()
        ]

    def _needed(self) -> Iterable[tuple[PrintedEntry, Sequence[str]]]:
        saving_methods = baselines()
        compared = {cell.group for cell in self.cells if cell.method in saving_methods}
        for cell in self.cells:
            if cell.kind in _FROM_RUNS and (cell.shape is None or cell.group in compared):
                yield cell, [cell.label]
        for panel in self.panels:
            yield panel, panel.curves

    def runs(self) -> dict[str, FinishedRuns]:
        """Finished runs by group."""
        return {sweep.folder.name: sweep.finished() for sweep in self.sweeps()}

    def keep(self) -> None:
        """Write every finished run to the folder of kept runs."""
        if self.kept is None:
            return
        for group, by_label in self.runs().items():
            finished = [run for runs in by_label.values() for run in runs.values()]
            if finished:
                keep(finished, self.kept / group)

    def reproduced(self) -> list[ReproducedCell]:
        """Each printed number with ours, from the finished runs or from the shapes of tensors."""
        runs = self.runs()
        cells = []
        for cell in self.cells:
            if cell.shape is not None:
                cells.append(ReproducedCell(cell, [self._tensors_of_shape(cell, *cell.shape)]))
            elif cell.kind in _FROM_RUNS:
                by_seed = runs[cell.group][cell.label]
                ours = [_FROM_RUNS[cell.kind](run) for run in by_seed.values()]
                cells.append(ReproducedCell(cell, ours))
            else:
                cells.append(ReproducedCell(cell, [self._kilobytes(cell)]))
        return cells

    def tensor_counts(self) -> list[ReproducedCell]:
        """Tensors that methods without an activation sent, and tensors × rounds × clients."""
        runs, cells = self.runs(), []
        for cell in self.cells:
            own = runs.get(cell.group, {}).get(cell.label, {}).values()
            if cell.kind != "tensors" or cell.activation or not own:
                continue
            experiment = self._experiment(cell)
            if isinstance(experiment.method.activation, Everyone):
                clients, rounds = len(experiment.clients), experiment.settings.rounds
                count = len(experiment.sizes.shared_names()) * rounds * clients
                exact = {"value": float(count), "not_comparable": "", "shape": None}
                sent = [_FROM_RUNS["tensors"](run) for run in own]
                cells.append(ReproducedCell(cell.model_copy(update=exact), sent))
        return cells

    def orders(self) -> list[Order]:
        """The clear orders among printed ROC-AUCs of each group. The Global ones belong to all."""
        scores = [cell for cell in self.reproduced() if cell.printed.kind == "auc"]
        whole = [cell for cell in scores if "clients" not in cell.printed.setting_options]
        groups = dict.fromkeys(cell.printed.group for cell in scores if cell not in whole)
        return [
            order
            for group in groups
            for own in [[cell for cell in scores if cell.printed.group == group]]
            for order in orders(
                own, [cell for cell in whole if cell.printed.setting == own[0].printed.setting]
            )
        ]

    def savings(self) -> list[Saving]:
        """Methods that claim to save bytes, compared with their baseline where both were run."""
        return [
            row
            for group, runs in self.runs().items()
            for method, baseline in baselines().items()
            for row in savings(
                group,
                runs,
                baseline,
                [label for label in runs if MethodSpec.parse(label).method == method],
            )
        ]

    def curves(self) -> list[tuple[Panel, FinishedRuns]]:
        """The finished runs of every panel."""
        runs = self.runs()
        return [
            (panel, {curve: runs[panel.group][curve] for curve in panel.curves})
            for panel in self.panels
        ]

    def compared_with_first_curve(self) -> list[Saving]:
        """Every curve compared with the first one of its panel."""
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
        """Tensors that all clients send in all rounds, on data of a shape that we do not have."""
        experiment = self._experiment(cell)
        shape = LinkShape(
            tuple((f"type {number}", 1) for number in range(node_types)),
            tuple(f"relation {number}" for number in range(link_types)),
        )
        method = experiment.method
        names = method.shared.pick(method.model(shape).state_dict())
        return float(len(names) * experiment.settings.rounds * len(experiment.clients))

    def _kilobytes(self, cell: Printed) -> float:
        sizes = self._experiment(cell).sizes
        if cell.kind == "payload_kb":
            return sizes.shared_scalars() * _SCALAR_BYTES / _KB
        if cell.client is None:
            raise RametError(
                f"{cell.table}: a model size needs a client. Name it in the experiment file."
            )
        return sizes.scalars_of(cell.client) * _SCALAR_BYTES / _KB
