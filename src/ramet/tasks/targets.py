"""What is predicted: one of several classes, numbers, or several labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ramet.errors import RametError
from ramet.metrics import classification, multilabel, regression
from ramet.metrics.evaluation import Evaluation, scored_by_output
from ramet.metrics.metric import Labels, Metric, Predicted

Loss: TypeAlias = Literal["mse", "mae", "huber"]
_LOSSES: dict[Loss, Callable[..., Tensor]] = {
    "mse": functional.mse_loss,
    "mae": functional.l1_loss,
    "huber": functional.huber_loss,
}


class Target(ABC):
    """What a task predicts, from the outputs of a network for each sample.

    ``labels`` and ``true`` are classes [samples], or [samples, outputs] of numbers, NaN where
    unknown. ``scale`` is None, the mean and the deviation of each output [2, outputs], or weights
    of classes [classes].
    """

    metrics: ClassVar[Mapping[str, Metric]]
    """The first is the default."""
    has_classes: ClassVar[bool] = False
    """Whether each sample has one of several classes."""

    @abstractmethod
    def loss(self, output: Tensor, labels: Tensor, scale: Tensor | None = None) -> Tensor:
        """The loss of the outputs of a batch."""

    @abstractmethod
    def values(self, output: Tensor, scale: Tensor | None = None) -> Tensor:
        """What the outputs predict: probabilities, or numbers in the unit of the labels."""

    def predicted(self, output: Tensor, scale: Tensor | None = None) -> Predicted:
        return self.values(output, scale).cpu().numpy()

    @abstractmethod
    def error(self, true: Labels, predicted: Predicted) -> float:
        """The mean loss of predictions, up to a factor."""

    @abstractmethod
    def constant(self, training: Labels, outputs: int) -> Predicted:
        """[outputs] the prediction that fits the training samples best."""

    def evaluate(
        self,
        true: Labels,
        predicted: Predicted,
        names: Sequence[str],
        constant: Predicted,
        unit: str = "",
    ) -> Evaluation:
        """All metrics; ``names`` are those of classes or outputs."""
        return scored_by_output(true, predicted, names, constant, self.metrics, unit)


@dataclass(frozen=True)
class Classes(Target):
    """One of several classes: cross-entropy, or focal loss (Lin et al., ICCV 2017).

    Args:
        weights: one for each class; or "balanced", from a client's own training samples, or those
            of all clients if they agreed.
        focal: the exponent by which samples count less that are predicted well; 0: cross-entropy.
    """

    weights: tuple[float, ...] | Literal["balanced"] = ()
    focal: float = 0.0
    metrics: ClassVar[Mapping[str, Metric]] = classification.METRICS
    has_classes: ClassVar[bool] = True

    def loss(self, output: Tensor, labels: Tensor, scale: Tensor | None = None) -> Tensor:
        """The mean is over all samples, so that no sample's term depends on the others."""
        if scale is None and not self.focal:
            return functional.cross_entropy(output, labels)
        losses = functional.cross_entropy(output, labels, weight=scale, reduction="none")
        if self.focal:
            right = output.softmax(dim=1).gather(1, labels.unsqueeze(1)).squeeze(1)
            losses = losses * (1 - right).clamp(min=1e-8) ** self.focal
        return losses.mean()

    def class_weights(
        self, training: Tensor, classes: int, agreed: Tensor | None = None
    ) -> Tensor | None:  # [classes]
        """None without weights; balanced ones have a mean of 1 over the training samples."""
        if not self.weights:
            return None
        if self.weights == "balanced" and agreed is not None:
            return agreed
        if self.weights == "balanced":
            counts = training.bincount(minlength=classes)
            return training.numel() / (classes * counts.clamp(min=1)).float()
        if len(self.weights) != classes:
            raise RametError(
                f"there are {len(self.weights)} weights, but {classes} classes. Give one weight "
                "for each class, in their order, as weights=1:30; or weights=balanced."
            )
        return torch.tensor(self.weights)

    def values(self, output: Tensor, scale: Tensor | None = None) -> Tensor:  # noqa: ARG002
        return output.double().softmax(dim=1)

    def error(self, true: Labels, predicted: Predicted) -> float:
        return _negative_log(predicted[np.arange(true.size), true])

    def constant(self, training: Labels, outputs: int) -> Predicted:
        """The most frequent class."""
        most = int(np.bincount(training).argmax()) if training.size else 0
        row: Predicted = np.eye(outputs)[most]
        return row

    def evaluate(
        self,
        true: Labels,
        predicted: Predicted,
        names: Sequence[str],
        constant: Predicted,
        unit: str = "",  # noqa: ARG002
    ) -> Evaluation:
        return classification.evaluate(true, predicted, names, constant)


@dataclass(frozen=True)
class Numbers(Target):
    """One or several numbers, in units of their deviations: squared, absolute or Huber's error."""

    kind: Loss = "mse"
    metrics: ClassVar[Mapping[str, Metric]] = regression.METRICS

    def loss(self, output: Tensor, labels: Tensor, scale: Tensor | None = None) -> Tensor:
        wanted = labels if scale is None else (labels - scale[0]) / scale[1]
        return _mean(_LOSSES[self.kind](output, wanted.nan_to_num(), reduction="none"), labels)

    def values(self, output: Tensor, scale: Tensor | None = None) -> Tensor:
        numbers = output.double()
        return numbers if scale is None else numbers * scale[1] + scale[0]

    def error(self, true: Labels, predicted: Predicted) -> float:
        return float(np.nanmean((true - predicted) ** 2))

    def constant(self, training: Labels, outputs: int) -> Predicted:
        """The means."""
        return _means(training, outputs)


@dataclass(frozen=True)
class SeveralLabels(Target):
    """Several labels, each of which a sample has or not: binary cross-entropy."""

    metrics: ClassVar[Mapping[str, Metric]] = multilabel.METRICS

    def loss(self, output: Tensor, labels: Tensor, scale: Tensor | None = None) -> Tensor:  # noqa: ARG002
        wanted, loss = labels.nan_to_num(), functional.binary_cross_entropy_with_logits
        return _mean(loss(output, wanted, reduction="none"), labels)

    def values(self, output: Tensor, scale: Tensor | None = None) -> Tensor:  # noqa: ARG002
        return output.double().sigmoid()

    def error(self, true: Labels, predicted: Predicted) -> float:
        known = ~np.isnan(true)
        return _negative_log(np.where(true > 0, predicted, 1 - predicted)[known])

    def constant(self, training: Labels, outputs: int) -> Predicted:
        """The share of samples that have each label."""
        return _means(training, outputs)


def _negative_log(likely: Predicted) -> float:
    return float(-np.log(np.maximum(likely, 1e-12)).mean())


def _mean(losses: Tensor, labels: Tensor) -> Tensor:
    """The mean loss, in which unknown labels count as 0.

    It is over all samples, so that no sample's term depends on others, as privacy requires.
    """
    return torch.where(labels.isnan(), 0.0, losses).mean()


def _means(training: Labels, outputs: int) -> Predicted:
    """Of the known values of each output; 0 without any."""
    known = ~np.isnan(training)
    sums = np.where(known, training, 0.0).sum(axis=0, dtype=np.float64)
    means: Predicted = sums / np.maximum(known.sum(axis=0), 1)
    return means if training.size else np.zeros(outputs)


@dataclass(frozen=True)
class Predictions:
    """True values and what is predicted for them, of one part of a split."""

    target: Target
    labels: Labels
    predicted: Predicted
    constant: Predicted
    """[outputs] what to predict without looking at a sample."""

    @staticmethod
    def of(
        target: Target,
        output: Tensor,
        labels: Tensor,
        training: Tensor,
        scale: Tensor | None = None,
    ) -> Predictions:
        """What outputs predict; ``training`` are the labels of the training samples."""
        predicted = target.predicted(output, scale)
        constant = target.constant(training.cpu().numpy(), predicted.shape[1])
        return Predictions(target, labels.cpu().numpy(), predicted, constant)

    @property
    def loss(self) -> float:
        return self.target.error(self.labels, self.predicted)

    def scored(self, metric: Metric) -> float | None:
        """None without samples."""
        return metric(self.labels, self.predicted) if len(self.labels) else None


CLASSES, NUMBERS, SEVERAL_LABELS = Classes(), Numbers(), SeveralLabels()


def rare_classes(weights: str, focal: float) -> Classes:
    """Classes with weights as in an option: "", "balanced", or numbers as in "1:30"."""
    if weights in ("", "balanced"):
        return Classes("balanced" if weights else (), focal)
    try:
        numbers = tuple(float(word) for word in weights.split(":"))
    except ValueError:
        numbers = ()
    if not numbers or not all(0 < number < float("inf") for number in numbers):
        raise RametError(
            f"weights={weights} is neither 'balanced' nor a positive number for each class. Write "
            "them with colons, as weights=1:30."
        )
    return Classes(numbers, focal)
