"""How a model's probabilities become classes: a threshold and a temperature, from validation.

A temperature divides the logits (Guo et al., ICML 2017). From a threshold on, the last of two
classes is predicted. Both are saved beside the client's model, for which alone they hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field
from torch.nn import functional

from ramet.data.own.schema import parsed
from ramet.disk import write_atomically
from ramet.engine.store.client_state import model_arrays
from ramet.errors import RametError
from ramet.metrics.metric import Labels, Predicted
from ramet.payload import digest
from ramet.prediction.held_out import held_out
from ramet.prediction.trained import Trained
from ramet.tasks import Predictions

NAME = "decision.json"
_COOLEST, _HOTTEST = 0.05, 20.0


@dataclass(frozen=True)
class Wanted:
    """What is chosen on the validation samples: a threshold, and whether to calibrate.

    The threshold is for a ``recall``, a ``precision``, or where a ``cost_of_miss`` is the number of
    false alarms that are as bad as one miss.
    """

    recall: float | None = None
    precision: float | None = None
    cost_of_miss: float | None = None
    calibrate: bool = False

    def __post_init__(self) -> None:
        if sum(one is not None for one in (self.recall, self.precision, self.cost_of_miss)) > 1:
            raise RametError(
                "one threshold is chosen for a recall, a precision or a cost. Give one of them."
            )
        if self.cost_of_miss is not None and not 0 < self.cost_of_miss < float("inf"):
            raise RametError(
                f"a miss cannot cost {self.cost_of_miss:g} false alarms. Give a number above 0."
            )
        for name, share in (("recall", self.recall), ("precision", self.precision)):
            if share is not None and not 0 < share <= 1:
                raise RametError(f"a {name} of {share:g} is not a share. Give one up to 1, as 0.9.")

    def __str__(self) -> str:
        if self.cost_of_miss is not None:
            return f"a miss that costs {self.cost_of_miss:g} false alarms"
        shares = (("recall", self.recall), ("precision", self.precision))
        return "".join(f"{name} {share:g}" for name, share in shares if share is not None)


class Decision(BaseModel):
    """How the probabilities of one model become classes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    """The SHA-256 of the model."""
    temperature: float = Field(1.0, gt=0)
    threshold: float | None = None
    wanted: str = ""
    """For which share or cost the threshold was chosen."""
    scores: dict[str, dict[str, float]] = {}
    """By part of the split: the loss and, with a threshold, recall and precision."""

    def __str__(self) -> str:
        parts = [f"temperature {self.temperature:.3g}"] if self.temperature != 1 else []
        if self.threshold is not None:
            parts.append(f"threshold {self.threshold:.3g}, chosen on validation for {self.wanted}")
        return "; ".join(parts) or "no threshold, and temperature 1"

    @property
    def reached(self) -> str:
        """The scores in words."""
        return "; ".join(
            f"{part}: {', '.join(f'{name} {score:.4g}' for name, score in scores.items())}"
            for part, scores in self.scores.items()
        )

    def calibrated(self, probabilities: Predicted) -> Predicted:
        """The probabilities at the temperature."""
        if self.temperature == 1:
            return probabilities
        found: Predicted = (_logits(probabilities) / self.temperature).softmax(dim=1).numpy()
        return found

    def classes(self, calibrated: Predicted) -> Labels:
        """[samples] the class that is predicted."""
        likeliest: Labels = calibrated.argmax(axis=1)
        if self.threshold is None:
            return likeliest
        return (calibrated[:, 1] >= self.threshold).astype(likeliest.dtype)

    def scored(self, given: Predictions) -> dict[str, float]:
        from sklearn.metrics import precision_score, recall_score  # takes a second to import

        found = self.calibrated(given.predicted)
        scores = {"samples": len(found), "loss": given.target.error(given.labels, found)}
        if self.threshold is not None:
            scores["positives"] = int(given.labels.sum())
            for name, score in (("recall", recall_score), ("precision", precision_score)):
                scores[name] = score(given.labels, self.classes(found), zero_division=0.0)
        return scores


def saved(trained: Trained, client: str, model: torch.nn.Module) -> tuple[Decision | None, str]:
    """What was chosen for the client's model; with a warning if it was for another one."""
    path = trained.states / client / NAME
    if not path.exists():
        return None, ""
    found = parsed(Decision, path.read_text(), str(path))
    if found.model == digest(model_arrays(model)):
        return found, ""
    return None, (
        f"the threshold and temperature of {client} were chosen for another model and are not "
        "used. Choose them again with `ramet evaluate`"
    )


def decide(trained: Trained, clients: Iterable[str], wanted: Wanted) -> dict[str, Decision]:
    """Choose for each client, and save it beside the client's model; nothing, if one cannot."""
    given = held_out_classes(trained, clients)
    chosen = {client: decision(parts, wanted, client) for client, parts in given.items()}
    for client, one in chosen.items():
        model = digest(model_arrays(trained.model(client)))
        chosen[client] = one.model_copy(update={"model": model})
    for client, one in chosen.items():
        write_atomically(trained.states / client / NAME, one.model_dump_json(indent=1))
    return chosen


def held_out_classes(trained: Trained, clients: Iterable[str]) -> dict[str, dict[str, Predictions]]:
    """What clients' models predict for their held-out samples, which must have classes."""
    task = trained.experiment.method.task
    if not hasattr(task, "target") or not task.has_classes:
        raise RametError(
            f"thresholds, calibration and their picture are for classes of nodes and graphs, not "
            f"for {task.name}."
        )
    return {client: held_out(trained, client) for client in clients}


def decision(parts: Mapping[str, Predictions], wanted: Wanted, client: str) -> Decision:
    """Choose on validation, and score on all parts that have samples."""
    validation = parts["val"]
    if not validation.labels.size:
        raise RametError(
            f"{client} has no validation samples to choose on. Name other clients with --client."
        )
    found = Decision(model="")
    if wanted.calibrate:
        found = found.model_copy(update={"temperature": best_temperature(validation)})
    if str(wanted):
        probabilities = found.calibrated(validation.predicted)
        threshold = best_threshold(validation.labels, probabilities, wanted, client)
        found = found.model_copy(update={"threshold": threshold, "wanted": str(wanted)})
    scores = {part: found.scored(given) for part, given in parts.items() if given.labels.size}
    return found.model_copy(update={"scores": scores})


def best_temperature(validation: Predictions) -> float:
    """The temperature with the least loss, within bounds, as separable samples have none."""
    logits, labels = _logits(validation.predicted), torch.from_numpy(validation.labels)
    log = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([log], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        mean = functional.cross_entropy(logits / log.exp(), labels)
        mean.backward()  # type: ignore[no-untyped-call]
        return mean

    optimiser.step(loss)  # type: ignore[no-untyped-call]
    return float(log.detach().exp().clamp(_COOLEST, _HOTTEST))


def best_threshold(
    labels: Labels, probabilities: Predicted, wanted: Wanted, client: str = "the client"
) -> float:
    """The threshold that costs least, or reaches one share with as much as possible of the other.

    Of several the highest.
    """
    from sklearn.metrics import precision_recall_curve

    if probabilities.shape[1] != 2:
        raise RametError(
            f"a threshold is for two classes, but there are {probabilities.shape[1]}. Leave out "
            "--recall, --precision and --cost-of-miss."
        )
    if not labels.any():
        raise RametError(
            f"no validation sample of {client} has the last class, so no threshold can be chosen. "
            "Name other clients with --client."
        )
    if wanted.cost_of_miss is not None:
        return _cheapest(labels, probabilities[:, 1], wanted.cost_of_miss)
    precision, recall, thresholds = precision_recall_curve(labels, probabilities[:, 1])
    precision, recall = precision[:-1], recall[:-1]
    by_recall = wanted.recall is not None
    reached, other = (recall, precision) if by_recall else (precision, recall)
    needed = wanted.recall if by_recall else wanted.precision
    enough = np.flatnonzero(reached >= needed)
    if not enough.size:
        raise RametError(
            f"no threshold reaches a {wanted} on the validation samples of {client}; the highest "
            f"is {reached.max():.3g}. Ask for less."
        )
    last_of_best = enough[other[enough] == other[enough].max()][-1]
    return float(thresholds[last_of_best])


def _cheapest(labels: Labels, scores: Predicted, cost_of_miss: float) -> float:
    """The threshold with the least cost; above all scores if it is best never to raise alarm."""
    order = np.argsort(-scores, kind="stable")
    ranked, is_positive = scores[order], labels[order] == 1
    found, alarms = is_positive.cumsum(), (~is_positive).cumsum()
    cost = cost_of_miss * (is_positive.sum() - found) + alarms
    ends = np.flatnonzero(np.append(np.diff(ranked) != 0, True))
    best = ends[cost[ends].argmin()]
    if cost_of_miss * is_positive.sum() <= cost[best]:
        return float(np.nextafter(ranked[0], np.inf))
    return float(ranked[best])


def _logits(probabilities: Any) -> torch.Tensor:
    """Up to a constant for each sample, which softmax ignores."""
    return torch.from_numpy(np.log(np.maximum(probabilities, 1e-300)))
