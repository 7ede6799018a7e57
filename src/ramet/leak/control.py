"""A reply that is made to leak, on which an attack must succeed to mean anything elsewhere."""

from __future__ import annotations

import torch
from torch import nn

from ramet.engine.store.client_state import model_arrays
from ramet.experiment import Experiment
from ramet.payload import Arrays
from ramet.randomness import Randomness
from ramet.tasks import GraphSamples, NodeSamples
from ramet.training.local import LocalTraining

PLAIN_STEP = LocalTraining(lr=0.1, weight_decay=0.0, algorithm="sgd")


def plain_step(
    experiment: Experiment, model: nn.Module, samples: GraphSamples | NodeSamples
) -> tuple[Arrays, Arrays]:
    """The arrays of a network before and after one step of SGD, without decay and dropout."""
    task, draw = experiment.method.task, Randomness(0, "control", 1).generator("batch")
    model.eval()
    before = {name: array.copy() for name, array in model_arrays(model).items()}
    batch = next(iter(task.batches(samples, samples.split.train.numel(), draw)))
    optimiser = PLAIN_STEP.optimiser(model)
    torch.autograd.backward(task.loss(task.output(model, batch), batch))
    optimiser.step()
    return before, model_arrays(model)
