"""The models of a run's clients, and how they do on held-out data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from ramet.engine.processes.local import LocalWire
from ramet.engine.site.kept_models import evaluated_model, final_model, has_final_model
from ramet.engine.start import start_model
from ramet.errors import RametError
from ramet.experiment.changed_data import check_data
from ramet.experiment.client_side import client_of
from ramet.experiment.experiment import Experiment
from ramet.experiment.run_folder import RunFolder
from ramet.experiment.server_side import rounds_of
from ramet.metrics.evaluation import Evaluation
from ramet.tasks import TASK_METRICS, Predictions, TargetTask


def model_of(folder: RunFolder, client: str, best: bool = False) -> nn.Module:
    """A client's model of the last or the best round of a finished run."""
    experiment = folder.experiment()
    check_data(folder, client, experiment)
    return _model(folder, experiment, client, best)


def evaluation_of(folder: RunFolder, client: str, best: bool = False) -> dict[str, Evaluation]:
    """All metrics of a client's model of the last or the best round."""
    experiment = folder.experiment()
    check_data(folder, client, experiment)
    return evaluate_model(experiment, client, _model(folder, experiment, client, best))


def predictor(folder: RunFolder, best: bool = False) -> Callable[[str], dict[str, Predictions]]:
    """Returns what a client's model predicts for its held-out samples, by part of its split.

    Data that clients have in common are read once.
    """
    experiment = folder.experiment()

    def predictions(client: str) -> dict[str, Predictions]:
        check_data(folder, client, experiment)
        return _predictions(experiment, client, _model(folder, experiment, client, best))

    return predictions


def best_round(folder: RunFolder) -> int | None:
    """The round with the best mean validation score, if it is not the last one."""
    summary = folder.summary()
    if summary is None or summary.scores.best_val_round == summary.rounds:
        return None
    return summary.scores.best_val_round


def start_model_of(experiment: Experiment, client: str) -> nn.Module:
    """A client's model before round 1, as drawn from the seed."""
    shape, seed = experiment.shape_of(client), experiment.settings.seed
    return start_model(experiment.method, shape, seed, client)


def saved_model_of(
    experiment: Experiment, client: str, states: Path, number: int | None = None
) -> nn.Module:
    """A client's final model, from the folder with the folders in which clients save their states.

    With a number, that of an evaluated round, if it was kept as one of the best.
    """
    method, shape, seed = experiment.method, experiment.shape_of(client), experiment.settings.seed
    if number is None:
        return final_model(method, shape, seed, client, states / client)
    return evaluated_model(method, shape, seed, client, states / client, number)


def evaluate_model(experiment: Experiment, client: str, model: nn.Module) -> dict[str, Evaluation]:
    """All metrics of a model on a client's held-out data, by part of its split with samples."""
    check_metrics(experiment)
    return {
        part: evaluated(experiment, client, given)
        for part, given in _predictions(experiment, client, model).items()
        if given.labels.size
    }


def check_metrics(experiment: Experiment) -> None:
    """Refuse a task whose predictions the metrics may not fit."""
    task = experiment.method.task
    if not can_predict(experiment):
        raise RametError(
            f"the task of {experiment.method.name} is scored by {task.metric}, which is none of "
            f"{', '.join(TASK_METRICS[task.name])}, so these may not score what it predicts. Its "
            "own scores are in result.json."
        )


def evaluated(experiment: Experiment, client: str, given: Predictions) -> Evaluation:
    """All metrics of a client's predictions."""
    schemas = experiment.schemas
    known = schemas[client].classes if client in schemas else ()
    return given.target.evaluate(
        given.labels,
        given.predicted,
        known or [*map(str, range(given.predicted.shape[1]))],
        given.constant,
        getattr(experiment.method.task, "unit", ""),
    )


def can_predict(experiment: Experiment) -> bool:
    """Whether the task is scored by its predictions; a user-defined one may not be."""
    task = experiment.scored_method.task
    known = task.metric in TASK_METRICS[task.name]
    return known if not isinstance(task, TargetTask) else task.chosen is not None


def _predictions(experiment: Experiment, client: str, model: nn.Module) -> dict[str, Predictions]:
    return predictions_on(experiment, experiment.samples(client), model)


def predictions_on(
    experiment: Experiment, samples: Any, model: nn.Module
) -> dict[str, Predictions]:
    """What a model predicts for held-out samples, by part of their split."""
    task = cast(Any, experiment.method.task)
    found: dict[str, Predictions] = task.predictions(model, samples, torch.device("cpu"))
    return found


def _model(folder: RunFolder, experiment: Experiment, client: str, best: bool) -> nn.Module:
    number = best_round(folder) if best else None
    if number is None:
        _deliver_to(folder, client, experiment)
    return saved_model_of(experiment, client, folder.clients, number)


def _deliver_to(folder: RunFolder, client: str, experiment: Experiment) -> None:
    """Send a client the final model, if the closing message did not go to it."""
    known = client in experiment.final_clients or client not in experiment.clients
    if known or folder.summary() is None or has_final_model(folder.clients / client):
        return
    wire = LocalWire(lambda name: client_of(experiment, name, folder.clients))
    with folder.locked("run"):
        rounds_of(experiment, folder.path / "server").deliver(wire, client)
