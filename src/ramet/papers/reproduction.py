"""Reproduction of a paper's table or figure from our own runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path
from statistics import fmean, stdev

from ramet.errors import RametError
from ramet.experiment import SPLIT_SEED, Experiment, checked_settings
from ramet.experiment.method_spec import MethodSpec
from ramet.models.shape import LinkShape
from ramet.papers.printed import ROUNDING, Panel, Printed, PrintedEntry, baselines
from ramet.papers.savings import Saving, saving, savings
from ramet.papers.wanted import Status
from ramet.rules.activation import Everyone
from ramet.studies.archive import keep, kept
from ramet.studies.choice import Choice, samples_ratio, score
from ramet.studies.finished_run import Draw, FinishedRun, FinishedRuns
from ramet.studies.gains import (
    FEWEST_PAIRS,
    MOST_PAIRS,
    Gain,
    Mean,
    between,
    by_split_or_seed,
    paired_gain,
)
from ramet.studies.sweep import Sweep

COMPATIBLE = 4.0
"""How far, in points, the interval of a compatible number may reach from the printed one."""
_SCALAR_BYTES, _KB = 4, 1024


def _tensors_up(run: FinishedRun) -> float:
    if run.summary.sent is None:
        raise RametError(f"the run of {run.label} is too old to have tensor counts. Rerun it.")
    return float(run.summary.sent.tensors.up)


def _accuracy(run: FinishedRun, choice: Choice) -> float:
    accuracy = score(run, choice)
    if accuracy is None:
        raise RametError(f"the run of {run.label} has no score for {choice.value}.")
    return 100 * accuracy


FROM_RUNS: Mapping[str, Callable[[FinishedRun, Printed], float]] = {
    "accuracy": lambda run, cell: _accuracy(run, cell.round),
    "auc": lambda run, _: 100 * run.score,
    "mrr": lambda run, _: 100 * run.mrr,
    "tensors": lambda run, _: _tensors_up(run),
}


@dataclass(frozen=True)
class ReproducedCell:
    """A printed number and ours: one per run, one exact number, or none yet."""

    printed: Printed
    ours: Mapping[Draw, float]
    test_to_train: float | None = None
    """For the interval over several splits."""

    @property
    def mean(self) -> float | None:
        return fmean(by_split_or_seed(self.ours)) if self.ours else None

    @property
    def spread(self) -> float | None:
        """The standard deviation over splits, or over the seeds of one split."""
        values = by_split_or_seed(self.ours) if self.ours else []
        return stdev(values) if len(values) > 1 else None

    @property
    def off(self) -> float | None:
        return None if self.mean is None else self.mean - self.printed.value

    @property
    def is_exact(self) -> bool:
        """Whether our number is computed from shapes, so that it does not vary."""
        return self.printed.kind not in FROM_RUNS or self.printed.shape is not None

    @property
    def status(self) -> Status:
        """By the 95 % interval of our mean, if there are enough runs to decide."""
        if self.off is None:
            return "not run"
        if self.printed.not_comparable:
            return "other data"
        if self.is_exact or self.printed.kind == "tensors":
            return _by_size(abs(self.off), self.printed.allowed)
        gain = paired_gain(
            {draw: score - self.printed.value for draw, score in self.ours.items()},
            self.test_to_train,
        )
        if not gain.has_enough_pairs:
            return "undecided"
        above, below = gain.at_least(-self.printed.allowed), gain.at_least(self.printed.allowed)
        if above == "holds" and below == "fails":
            return "holds"
        if above == "fails" or below == "holds":
            return "fails"
        return _beside_print(self._from_print(gain.pairs)) or "undecided"

    @property
    def splits_to_decide(self) -> int | None:
        """How many would decide the cell, if mean and deviation stayed; None: over 50."""
        for splits in range(FEWEST_PAIRS, MOST_PAIRS + 1):
            gain = self._from_print(splits)
            if gain is None or _beside_print(gain):
                return splits
        return None

    def _from_print(self, splits: int) -> Gain | None:
        """Ours minus the printed number, over this many splits; None if ours are of one split."""
        if self.mean is None or self.spread is None or not self._has_several_splits:
            return None
        printed = Mean(self.printed.value, self.printed.std or 0.0, self.printed.runs)
        return between(Mean(self.mean, self.spread, splits), printed)

    @property
    def _has_several_splits(self) -> bool:
        return len({draw.split_seed for draw in self.ours}) > 1


def exact_cell(printed: Printed, ours: float) -> ReproducedCell:
    """A cell whose number is computed."""
    return ReproducedCell(printed, {Draw(SPLIT_SEED, 1): ours})


def size_cell(printed: Printed, runs: Mapping[Draw, FinishedRun]) -> ReproducedCell:
    """A cell with a size in KB, which all runs have in common."""
    for run in runs.values():
        model = run.summary.model
        of_client = model.scalars.get(printed.client or "")
        scalars = model.shared_scalars if printed.kind == "payload_kb" else of_client
        if scalars is not None:
            return exact_cell(printed, scalars * _SCALAR_BYTES / _KB)
    return ReproducedCell(printed, {})


def cell_from_runs(printed: Printed, runs: Mapping[Draw, FinishedRun]) -> ReproducedCell:
    """A cell whose number is measured."""
    ours = {draw: FROM_RUNS[printed.kind](run, printed) for draw, run in runs.items()}
    return ReproducedCell(printed, ours, samples_ratio(runs))


def _beside_print(gain: Gain | None) -> Status | None:
    """What an interval of ours minus print says; None if it is too wide."""
    if gain is None or gain.low is None or gain.high is None:
        return None
    if gain.verdict != "undecided":
        return "differs"
    return "compatible" if max(-gain.low, gain.high) <= COMPATIBLE else None


def _by_size(off: float, allowed: float) -> Status:
    if off <= ROUNDING:
        return "exact"
    return "holds" if off <= allowed else "fails"


@dataclass(frozen=True)
class Order:
    """Two printed scores that differ by more than the sum of their standard deviations."""

    group: str
    higher: str
    lower: str
    gain: Gain | None  # of our scores on common seeds, in points

    @property
    def status(self) -> Status:
        if self.gain is None:
            return "not run"
        return self.gain.at_least(0) if self.gain.has_enough_pairs else "undecided"


def orders(cells: Sequence[ReproducedCell], shared: Sequence[ReproducedCell] = ()) -> list[Order]:
    """The clear orders among the cells of one group. ``shared`` cells belong to every group."""
    return [
        Order(
            next(cell.printed.group for cell in (above, below) if cell not in shared),
            above.printed.name,
            below.printed.name,
            _paired(above, below),
        )
        for above, below in permutations([*shared, *cells], 2)
        if not (above in shared and below in shared)
        and above.printed.value - below.printed.value
        > (above.printed.std or 0.0) + (below.printed.std or 0.0)
    ]


def _paired(above: ReproducedCell, below: ReproducedCell) -> Gain | None:
    draws = sorted(above.ours.keys() & below.ours.keys())
    gaps = {draw: above.ours[draw] - below.ours[draw] for draw in draws}
    return paired_gain(gaps, above.test_to_train) if gaps else None


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
    splits: int = 1

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
                options=dict(entry.setting_options),
                given={"rounds": self.rounds or entry.rounds, "data": self.data},
                splits=self.splits,
                kept=() if self.kept is None else kept(self.kept / group),
            )
            for group, entry in groups.items()
        ]

    def _needed(self) -> Iterable[tuple[PrintedEntry, Sequence[str]]]:
        saving_methods = baselines()
        compared = {cell.group for cell in self.cells if cell.method in saving_methods}
        for cell in self.cells:
            if cell.kind in FROM_RUNS and (cell.shape is None or cell.group in compared):
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
                cells.append(exact_cell(cell, self._tensors_of_shape(cell, *cell.shape)))
            elif cell.kind in FROM_RUNS:
                cells.append(cell_from_runs(cell, runs[cell.group][cell.label]))
            else:
                cells.append(exact_cell(cell, self._kilobytes(cell)))
        return cells

    def tensor_counts(self) -> list[ReproducedCell]:
        """Tensors that methods without an activation sent, and tensors × rounds × clients."""
        runs, cells = self.runs(), []
        for cell in self.cells:
            own = runs.get(cell.group, {}).get(cell.label, {})
            if cell.kind != "tensors" or cell.activation or not own:
                continue
            experiment = self._experiment(cell)
            if isinstance(experiment.method.activation, Everyone):
                clients, rounds = len(experiment.clients), experiment.settings.rounds
                count = len(experiment.sizes.shared_names()) * rounds * clients
                exact = {"value": float(count), "not_comparable": "", "shape": None}
                cells.append(cell_from_runs(cell.model_copy(update=exact), own))
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
                rounds=self.rounds or cell.rounds,
                data=self.data,
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
