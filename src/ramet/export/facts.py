"""Gather what is known about a trained model, for its export."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ramet.experiment import RunFolder
from ramet.experiment.run_models import can_predict, evaluate_model
from ramet.export.card import Facts
from ramet.export.example import Form
from ramet.export.inputs import edge_types
from ramet.export.networks import Standalone
from ramet.export.tables import tables_of
from ramet.export.targets import predicted_kind, scale_of
from ramet.leak import stored_audit
from ramet.metrics.evaluation import Evaluation
from ramet.models.shape import LinkShape, NodeShape
from ramet.prediction import Trained
from ramet.prediction.decision import saved
from ramet.tasks import Predictions
from ramet.version import versions

RESAMPLES = 200
_OF_RUN_OR_MACHINE = ("run", "started", "platform", "processor", "commit", "data")


def form_of(trained: Trained, client: str) -> Form:
    """What a client's model takes, and what it predicts."""
    form, task = _taken(trained, client), trained.experiment.method.task
    kind = predicted_kind(task)
    scale = scale_of(trained.experiment, client) if kind == "number" else None
    decision, _ = saved(trained, client, trained.model(client))
    unit = getattr(task, "unit", "")
    return replace(form, target=kind, scale=scale, unit=unit, decision=decision)


def _taken(trained: Trained, client: str) -> Form:
    experiment = trained.experiment
    shape: Any = experiment.sizes.shape_of(client)
    encoding = experiment.method.inputs
    schema = experiment.raw_schemas.get(client)
    if schema is not None:
        edges = [(head, name, tail) for name, (head, tail) in sorted(schema.edges.items())]
        return Form(
            shape=shape,
            encoding=encoding,
            relations=edges if isinstance(shape, LinkShape) else (),
            kinds=len(schema.edges),
            schema=schema,
            preparation=experiment.preparation,
            tables=tables_of(trained, client),
        )
    if isinstance(shape, LinkShape):
        graph = experiment.samples(client).graph
        fixed = {kind.name: kind.nodes for kind in graph.types if kind.features is None}
        return Form(shape, encoding, edge_types(graph), fixed)
    if isinstance(shape, NodeShape):
        kinds = len(experiment.samples(client).graph.kind_names)
        return Form(shape, encoding, kinds=max(kinds, 1))
    return Form(shape, encoding)


def facts_of(
    trained: Trained,
    client: str,
    found: Standalone,
    form: Form,
    inputs: Sequence[str],
    files: Mapping[str, str],
    left_out: Mapping[str, str],
) -> Facts:
    """What the model card says."""
    experiment, folder = trained.experiment, RunFolder(trained.states.parents[1])
    about = folder.about() if folder.started else {}
    evaluation, intervals = _evaluated(trained, client)
    return Facts(
        client=client,
        experiment=experiment,
        found=found,
        form=form,
        inputs=inputs,
        split=_split(folder, client),
        best_round=trained.best_round,
        summary=folder.summary() if folder.started else None,
        evaluation=evaluation,
        intervals=intervals,
        resamples=RESAMPLES,
        versions=_versions(about or versions()),
        started=about.get("started", ""),
        files=files,
        left_out=left_out,
        audit=stored_audit(folder.path),
    )


def _versions(known: Mapping[str, str]) -> dict[str, str]:
    """Versions as `pip install` takes them, without the machine's name and the kind of build."""
    return {
        name: text.partition("+")[0]
        for name, text in known.items()
        if name not in _OF_RUN_OR_MACHINE
    }


def _split(folder: RunFolder, client: str) -> dict[str, Any]:
    """What the run recorded about the client's own data."""
    path = folder.path / "split.json"
    known: dict[str, Any] = json.loads(path.read_text())["clients"] if path.exists() else {}
    of_client: dict[str, Any] = known.get(client, {})
    return of_client


def _evaluated(
    trained: Trained, client: str
) -> tuple[Evaluation | None, dict[str, tuple[float, float]]]:
    """The model on the client's own test data, if that is on this machine."""
    experiment = trained.experiment
    data = experiment.setting.data_of(client, experiment.settings.data)
    if data is None or (experiment.setting.user_defined and not data.exists()):
        return None, {}
    if not can_predict(experiment):
        return None, {}
    model, samples = trained.model(client), experiment.samples(client)
    task: Any = experiment.method.task
    given = task.predictions(model, samples, torch.device("cpu"))["test"]
    if not given.labels.size:
        return None, {}
    return evaluate_model(experiment, client, model)["test"], _intervals(given)


def _intervals(given: Predictions) -> dict[str, tuple[float, float]]:
    """95 % intervals of all metrics, from bootstrap samples of the test data."""
    draw, size = np.random.default_rng(0), len(given.labels)
    drawn = [draw.integers(size, size=size) for _ in range(RESAMPLES)]
    found = {}
    for name, metric in given.target.metrics.items():
        scores = (metric(given.labels[rows], given.predicted[rows]) for rows in drawn)
        known = [score for score in scores if score is not None]
        if known:
            low, high = np.percentile(known, [2.5, 97.5])
            found[name] = float(low), float(high)
    return found
