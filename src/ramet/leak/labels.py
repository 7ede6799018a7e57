"""What attacks do with labels: one of several classes, numbers, or several labels."""

from __future__ import annotations

import torch
from torch import Tensor

from ramet.data.label_scale import standardising
from ramet.tasks import SeveralLabels, Target

_FAR = 3.0
"""By how many deviations a wrong number differs from the true one."""


def words(target: Target) -> str:
    """What a sample's labels are."""
    if target.has_classes:
        return "class"
    return "labels" if isinstance(target, SeveralLabels) else "numbers"


def margins(
    target: Target, outputs: Tensor, labels: Tensor, scale: Tensor | None
) -> Tensor:  # [samples]
    """log p / (1 - p) of each sample's labels, which grows as the loss falls.

    Of classes p is their probability, else exp(-loss).
    """
    if target.has_classes:
        return _margins_of_classes(outputs, labels)
    double = None if scale is None else scale.double()
    each = [
        target.loss(output, label, double)
        for output, label in zip(outputs[:, None], labels[:, None].double(), strict=True)
    ]
    losses = torch.stack(each).clamp(min=1e-12) if each else outputs.new_empty(0)
    return -losses - (-torch.expm1(-losses)).log()


def _margins_of_classes(logits: Tensor, classes: Tensor) -> Tensor:
    logs, own = logits.log_softmax(dim=1), classes.unsqueeze(1)
    rest = logs.scatter(1, own, -torch.inf).logsumexp(dim=1)
    return logs.gather(1, own).squeeze(1) - rest


def similarity(target: Target, outputs: Tensor, ends: Tensor) -> Tensor:  # [pairs]
    """How similar the outputs for the ends of pairs are.

    Of classes, the cosine of the logarithms of probabilities without their mean over the classes;
    else the distance, negative.
    """
    if not target.has_classes:
        distances: Tensor = torch.linalg.vector_norm(outputs[ends[0]] - outputs[ends[1]], dim=1)
        return -distances
    logs = outputs.log_softmax(dim=1)
    unit: Tensor = torch.nn.functional.normalize(logs - logs.mean(dim=1, keepdim=True))
    cosines: Tensor = (unit[ends[0]] * unit[ends[1]]).sum(dim=1)
    return cosines


def random_labels(
    target: Target, labels: Tensor, classes: int, scale: Tensor | None, draw: torch.Generator
) -> Tensor:
    """Labels that nothing tells; numbers with the mean and the deviation of the true ones."""
    if target.has_classes:
        return torch.randint(classes, labels.shape, generator=draw)
    if isinstance(target, SeveralLabels):
        return torch.randint(2, labels.shape, generator=draw).to(labels.dtype)
    mean, deviation = _scale_of(labels, scale)
    return torch.randn(labels.shape, generator=draw) * deviation + mean


def wrong_labels(
    target: Target, labels: Tensor, classes: int, scale: Tensor | None, draw: torch.Generator
) -> Tensor:
    """Other classes, numbers that are far off, or the opposite of all labels."""
    if target.has_classes:
        shift = torch.randint(1, classes, labels.shape, generator=draw)
        return (labels + shift) % classes
    if isinstance(target, SeveralLabels):
        return 1 - labels
    _, deviation = _scale_of(labels, scale)
    signs = 2.0 * torch.randint(0, 2, labels.shape, generator=draw) - 1
    return labels + _FAR * deviation * signs


def _scale_of(numbers: Tensor, agreed: Tensor | None) -> tuple[Tensor, Tensor]:
    """The agreed means and deviations of the outputs, or else those of the numbers."""
    scale = standardising([numbers]) if agreed is None else agreed
    return scale[0], scale[1]
