"""FedDA's cost formulas (eqs. 8 to 11) and what its rules sent, as shares of FedAvg's tensors.

    python benchmarks/activation_cost.py PATH … [PICTURE]
    python benchmarks/activation_cost.py

PATH is a run folder, finished or not, or a folder of kept runs, with `restart` or `explore`.
Without one, both rules are first run on a generated graph. PICTURE, a file name ending in .png,
gets a panel per method, averaged over seeds.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from fedda_cost import (
    Activity,
    activity,
    explore_at_most,
    restart,
    restart_as_printed,
    rounds_between,
)
from matplotlib.figure import Figure
from numpy.typing import NDArray

import ramet
from ramet.experiment import Experiment, MethodSpec, RunFolder, checked_settings, default_data
from ramet.methods.fedda import Explore, Restart
from ramet.metrics.summary import tensors_sent
from ramet.report.drawing import COLOURS, DASHES, new_figure, save
from ramet.rules.method import switchable_arrays
from ramet.studies.archive import finished_runs


@dataclass(frozen=True)
class Run:
    """A run's activation rule, and the number of tensors each client sent in each round."""

    label: str
    rule: Restart | Explore
    sent: Sequence[Sequence[int]]
    tensors: int
    switchable: int

    @property
    def seen(self) -> Activity:
        return activity(self.sent, self.tensors, self.switchable)

    @property
    def shares(self) -> list[float]:
        return [sum(line) / (len(line) * self.tensors) for line in self.sent]

    def expected(self) -> dict[str, float]:
        rates = (self.seen.stay, self.seen.off, self.switchable / self.tensors)
        if isinstance(self.rule, Explore):
            return {"eq. 11, upper bound": explore_at_most(*rates, self.rule.beta)}
        rounds = rounds_between(self.seen.stay, self.rule.beta)
        return {
            "eq. 8": restart_as_printed(*rates, rounds),
            "eq. 8, off stays off": restart(*rates, rounds),
            "eq. 8, measured restarts": restart_as_printed(*rates, self.seen.between),
        }

    def line(self) -> str:
        seen = self.seen
        expected = "; ".join(f"{name} {level:.3f}" for name, level in self.expected().items())
        rates = f"r_c {seen.stay:.3f}, r_p {seen.off:.3f}, sent {seen.share:.3f}"
        return f"{self.label}: {rates}; {expected}"


def main() -> None:
    pictures = [Path(word) for word in sys.argv[1:] if word.endswith(".png")]
    paths = [Path(word) for word in sys.argv[1:] if not word.endswith(".png")]
    with tempfile.TemporaryDirectory() as folder:
        if not paths:
            paths = [Path(folder) / rule for rule in ("restart", "explore")]
            for out in paths:
                rule = out.name
                ramet.run("fedda", "planted-hetero", clients=8, activation=rule, hidden=16, out=out)
        runs = [run for path in paths for run in runs_of(path)]
    for run in runs:
        print(run.line())
    for picture in pictures:
        save(tensors_over_rounds(panels(runs)), picture.parent, picture.stem)


def runs_of(path: Path) -> Iterator[Run]:
    """The run of a run folder, finished or not, or all finished and kept runs below a folder."""
    folder = RunFolder(path)
    if folder.started:
        experiment = folder.experiment()
        sent = tensors_sent(folder.records(), experiment.clients)
        yield from of_a_rule(experiment.settings.label, experiment, sent)
        return
    for label, runs in finished_runs([path]).items():
        spec = MethodSpec.parse(label)
        for run in runs.values():
            if run.tensors:
                settings = checked_settings(
                    method=spec.method,
                    network=spec.network,
                    setting=run.setting,
                    data=default_data().absolute(),
                    options=spec.options,
                    activation=spec.activation,
                )
                yield from of_a_rule(label, Experiment(settings), run.tensors)


def of_a_rule(label: str, experiment: Experiment, sent: Sequence[Sequence[int]]) -> Iterator[Run]:
    rule, names = experiment.method.activation, experiment.sizes.shared_names()
    if isinstance(rule, Restart | Explore) and sent:
        count = len(switchable_arrays(experiment.method, names))
        yield Run(label, rule, sent, len(names), count)


def panels(
    runs: Sequence[Run],
) -> dict[str, tuple[np.ndarray, Mapping[str, float]]]:
    """By label: shares [seeds, rounds] of the rounds all seeds have, and mean formula values."""
    found: dict[str, tuple[np.ndarray, Mapping[str, float]]] = {}
    for label in dict.fromkeys(run.label for run in runs):
        own = [run for run in runs if run.label == label]
        rounds = min(len(run.sent) for run in own)
        levels = [run.expected() for run in own]
        means = {name: float(np.mean([level[name] for level in levels])) for name in levels[0]}
        found[label] = np.array([run.shares[:rounds] for run in own]), means
    return found


def tensors_over_rounds(
    panels: Mapping[str, tuple[NDArray[np.float64], Mapping[str, float]]],
) -> Figure:
    """Shares [seeds, rounds] of the tensors that all clients would send, and expected levels."""
    with new_figure(5.6 * len(panels), 4.2, len(panels)) as (figure, axes):
        for panel, (title, (shares, levels)) in zip(
            np.atleast_1d(axes), panels.items(), strict=True
        ):
            rounds = np.arange(1, shares.shape[1] + 1)
            mean_so_far = np.cumsum(shares, axis=1) / rounds
            panel.plot(rounds, shares.mean(axis=0), color="#9aa5b1", lw=1, label="per round")
            panel.plot(
                rounds, mean_so_far.mean(axis=0), color=COLOURS[1], lw=2, label="running mean"
            )
            panel.fill_between(
                rounds,
                mean_so_far.min(axis=0),
                mean_so_far.max(axis=0),
                color=COLOURS[1],
                alpha=0.15,
                lw=0,
            )
            for index, (name, level) in enumerate(levels.items()):
                colour, dashes = COLOURS[(2, 6, 7)[index]], DASHES[1 + index]
                panel.axhline(level, color=colour, linestyle=dashes, label=f"{name}: {level:.2f}")
            panel.set(xlabel="round", ylim=(0, 1.03), title=title)
            panel.legend(fontsize=8, loc="lower left")
        np.atleast_1d(axes)[0].set_ylabel("tensors sent up, as a share of FedAvg's")
    return figure


if __name__ == "__main__":
    main()
