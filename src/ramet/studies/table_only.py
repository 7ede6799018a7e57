"""What a table alone gives: the same network without links, and gradient boosting at each site.

The first says what the links add, since all else is equal. The second is a yardstick from outside:
scikit-learn's histogram gradient boosting with its defaults, on the rows of one site, with the same
split and prepared columns. Neither is needed to train together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ramet.data import EdgeGraph
from ramet.experiment import Experiment, MethodSpec
from ramet.metrics.metric import Labels, Metric, Predicted
from ramet.models.networks import UNLINKED
from ramet.studies.finished_run import Draw, FinishedRun, FinishedRuns, Predictor
from ramet.studies.sites import SiteStandings, standings_of
from ramet.studies.sweep import Sweep
from ramet.tasks import GraphSamples, NodeSamples, Numbers, Predictions, TargetTask

TREES = "gradient boosting"
Rows: TypeAlias = NDArray[np.float32]
"""[samples, columns]"""


def with_tables(sweep: Sweep) -> Sweep:
    """The sweep, in which each method that takes a network is also run without links."""
    twins = [_twin(method) for method in sweep.methods if sweep.takes_network(method)]
    methods = {str(method): method for method in [*sweep.methods, *twins]}
    return replace(sweep, methods=(*methods.values(),))


def _twin(method: MethodSpec) -> MethodSpec:
    return replace(method, network=UNLINKED)


def _has_links(label: str) -> bool:
    return MethodSpec.parse(label).network != UNLINKED


def link_standings(runs: FinishedRuns) -> list[SiteStandings]:
    """What links add at each site: each method beside the same one without them."""
    twins = {label: str(_twin(MethodSpec.parse(label))) for label in runs if _has_links(label)}
    return [
        standings_of(label, runs[twin], runs[label])
        for label, twin in twins.items()
        if runs.get(twin) and runs[label]
    ]


def tree_standings(runs: FinishedRuns) -> list[SiteStandings]:
    """Each method with links beside gradient boosting; empty for links, which have no rows."""
    return [
        standings_of(label, {draw: _TreesRun.beside(run) for draw, run in known.items()}, known)
        for label, by_draw in runs.items()
        if _has_links(label) and (known := _with_rows(by_draw))
    ]


def _with_rows(runs: Mapping[Draw, FinishedRun]) -> dict[Draw, FinishedRun]:
    """The runs whose samples have rows of their own, and whose data is here."""
    return {draw: run for draw, run in runs.items() if run.chosen_metric is not None}


@dataclass(frozen=True)
class _TreesRun(FinishedRun):
    """What gradient boosting gives for the samples of a run."""

    metric: Metric | None = field(default=None, compare=False)
    trees: Predictor | None = field(default=None, compare=False)

    @staticmethod
    def beside(run: FinishedRun) -> _TreesRun:
        assert run.folder is not None
        assert run.chosen_metric is not None
        metric, predict = run.chosen_metric, _predictor(run.folder.experiment())
        scores = run.summary.scores
        clients = {client: predict(client)["test"].scored(metric) for client in scores.clients}
        changed = scores.model_copy(update={"clients": clients})
        return _TreesRun(
            label=TREES,
            command=run.command,
            date=run.date,
            versions=run.versions,
            summary=run.summary.model_copy(update={"scores": changed}),
            rounds=run.rounds,
            metric=metric,
            trees=predict,
        )

    @property
    def chosen_metric(self) -> Metric | None:
        return self.metric

    def predictor(self) -> Predictor | None:
        return self.trees


def _predictor(experiment: Experiment) -> Predictor:
    task = experiment.scored_method.task
    assert isinstance(task, TargetTask)

    @cache
    def predictions(client: str) -> dict[str, Predictions]:
        return {"test": boosted(experiment.samples(client), task, experiment.settings.seed)}

    return predictions


def boosted(samples: GraphSamples | NodeSamples, task: TargetTask, seed: int) -> Predictions:
    """What trees that learn from a client's training rows predict for its test rows."""
    train, test = (_rows(samples, part) for part in ("train", "test"))
    labels, true = (_labels(samples, part) for part in ("train", "test"))
    target, outputs = task.target, _outputs(samples)
    constant = target.constant(labels, outputs)
    predicted = np.tile(constant.astype(np.float64), (len(test), 1))
    if target.has_classes:
        _fill_classes(predicted, train, labels, test, seed)
    else:
        _fill_outputs(predicted, train, labels, test, seed, isinstance(target, Numbers))
    return Predictions(target, true, predicted, constant)


def _fill_classes(
    predicted: Predicted,
    train: Rows,
    labels: Labels,
    test: Rows,
    seed: int,
) -> None:
    """Probabilities of the classes; constant if the client has trained on one class only."""
    from sklearn.ensemble import HistGradientBoostingClassifier  # takes a second to import

    known = np.unique(labels)
    if len(known) > 1 and len(test):
        trees = HistGradientBoostingClassifier(random_state=seed).fit(train, labels)
        predicted[:] = 0
        predicted[:, known] = trees.predict_proba(test)


def _fill_outputs(
    predicted: Predicted,
    train: Rows,
    labels: Labels,
    test: Rows,
    seed: int,
    are_numbers: bool,
) -> None:
    """Numbers, or the probability of each label; constant where the known ones all agree."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    make = HistGradientBoostingRegressor if are_numbers else HistGradientBoostingClassifier
    for output in range(predicted.shape[1]):
        known = ~np.isnan(labels[:, output])
        own = labels[known, output]
        if len(np.unique(own)) > 1 and len(test):
            trees = make(random_state=seed).fit(train[known], own)
            found = trees.predict(test) if are_numbers else trees.predict_proba(test)[:, 1]
            predicted[:, output] = found


def _rows(samples: GraphSamples | NodeSamples, part: str) -> Rows:
    """[samples, columns] what the table says of them; of graphs the means, and how many nodes."""
    chosen = getattr(samples.split, part)
    if isinstance(samples, GraphSamples):
        return _of_graphs(samples)[chosen].numpy()
    graph = samples.graph_of(part)
    if not isinstance(graph, EdgeGraph):
        return graph.features[chosen].numpy()
    asked = graph.asked[chosen]
    ends = [graph.features[end] for end in asked.ends]
    own = [] if asked.attributes is None else [asked.attributes]
    return torch.cat([*ends, *own], dim=1).numpy()


def _of_graphs(samples: GraphSamples) -> Tensor:  # [graphs, features + 1]
    block = samples.block
    given = block.features
    if not given.is_floating_point():
        given = functional.one_hot(given.long(), block.feature_width).float()
    sizes = block.node_starts.diff()
    of_node = torch.repeat_interleave(sizes)
    sums = given.new_zeros((block.graphs, given.size(1))).index_add(0, of_node, given)
    return torch.cat([sums / sizes.clamp(min=1).unsqueeze(1), sizes.unsqueeze(1)], dim=1)


def _labels(samples: GraphSamples | NodeSamples, part: str) -> Labels:
    chosen = getattr(samples.split, part)
    of = samples.block if isinstance(samples, GraphSamples) else samples.graph_of(part)
    labels: Labels = of.labels[chosen].numpy()
    return labels


def _outputs(samples: GraphSamples | NodeSamples) -> int:
    return samples.block.classes if isinstance(samples, GraphSamples) else samples.graph.classes
