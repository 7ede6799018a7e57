"""What an exported model predicts, if it is not classes: numbers in their unit, or labels."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from ramet.data.own.schema import TargetKind
from ramet.data.own.targets import agreed_scale
from ramet.errors import RametError
from ramet.experiment import Experiment
from ramet.export.example import Form
from ramet.export.networks import Standalone
from ramet.export.standalone.predict import Predicting
from ramet.tasks import Numbers, SeveralLabels, TargetTask, Task


def predicted_kind(task: Task) -> TargetKind:
    """What the outputs of a network are for."""
    if not isinstance(task, TargetTask) or task.has_classes:
        return "class"
    if isinstance(task.target, Numbers):
        return "number"
    if isinstance(task.target, SeveralLabels):
        return "flag"
    raise RametError(
        f"models that predict {type(task.target).__name__} cannot be exported, only those of "
        "classes, numbers, several labels and links."
    )


def scale_of(experiment: Experiment, client: str) -> Tensor | None:
    """The means and deviations of the numbers that a client's model predicts, if it has any."""
    if client in experiment.raw_schemas:
        known = experiment.preparation
        return None if known is None else agreed_scale(known)
    graph = experiment.setting.client_data(client, experiment.reading).content
    scale: Tensor | None = graph.label_scale
    return scale


def predicting(found: Standalone, form: Form) -> Standalone:
    """The network with outputs in the unit of numbers, or with probabilities of labels."""
    if form.target == "class":
        return found
    scale = None if form.scale is None else form.scale.double().tolist()
    if form.target == "number" and scale is None:
        scale = torch.tensor([[0.0], [1.0]]).expand(2, len(form.classes)).tolist()
    config = {**found.config, "target": form.target, "scale": scale}
    return replace(found, network=Predicting(found.network, scale).eval(), config=config)
