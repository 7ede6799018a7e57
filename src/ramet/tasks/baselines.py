"""The baseline of a client's data: the score of the simplest classifier, which learns nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ramet.metrics.classification import METRICS
from ramet.metrics.summary import Baseline
from ramet.tasks.graph_classification import GraphSamples
from ramet.tasks.link_prediction import LinkSamples
from ramet.tasks.node_classification import NodeSamples


def baseline(samples: Any, metric: str) -> Baseline | None:
    """The baseline of a built-in task's samples; None for those of a user-defined task."""
    if isinstance(samples, LinkSamples):
        links, test = samples.graph.learned, samples.held_out.test.labels
        return Baseline(train=int(links.sum()), test=int((test > 0).sum()))
    if isinstance(samples, GraphSamples):
        labels = evaluated = samples.block.labels
    elif isinstance(samples, NodeSamples):
        labels, evaluated = samples.graph.labels, samples.graph_of("test").labels
    else:
        return None
    return _of_classes(labels[samples.split.train], evaluated[samples.split.test], metric)


def _of_classes(train: Tensor, test: Tensor, metric: str) -> Baseline:
    if not (train.numel() and test.numel() and metric in METRICS):
        return Baseline(train=train.numel(), test=test.numel())
    classes = int(torch.cat([train, test]).max()) + 1
    constant = np.eye(classes)[np.full(test.numel(), int(torch.bincount(train).argmax()))]
    majority = METRICS[metric](test.numpy(), constant)
    return Baseline(train=train.numel(), test=test.numel(), majority=majority)
