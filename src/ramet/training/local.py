"""Local training: what a client does between two messages."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass as plain_dataclass
from dataclasses import field
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import torch
from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from ramet.errors import RametError
from ramet.randomness import Randomness
from ramet.tasks import Samples, Task, TaskName

LOGGED = "log/"
"""The prefix of numbers that a method has logged."""


@plain_dataclass
class Session:
    """What a client trains with in one round. The received arrays are already in the model.

    Args:
        model: the client's network, on ``device``.
        optimiser: with its state from the previous round.
        training: the method's training.
        task: loss and batches.
        samples: the client's data in the task's format.
        shared: names of the parameters and buffers that leave the client.
        randomness: random draws of this client in this round, by purpose.
        device: where batches have to be.
        start: copies of the shared parameters and buffers, from before training.
        received: the extras that the server sent; in round 1 their start values.
        sending: the extras to send, to be set by the method.
        memory: the client's private tensors. They are kept until the next round, and never leave.
        steps: number of batches trained so far in this round.
        logged: numbers of this round, set with ``log``.
    """

    model: nn.Module
    optimiser: torch.optim.Optimizer
    training: Training
    task: Task
    samples: Samples
    shared: Sequence[str]
    randomness: Randomness
    device: torch.device
    start: Mapping[str, Tensor] = field(default_factory=dict)
    received: Mapping[str, Tensor] = field(default_factory=dict)
    sending: dict[str, Tensor] = field(default_factory=dict)
    memory: dict[str, Tensor] = field(default_factory=dict)
    steps: int = 0
    logged: dict[str, float] = field(default_factory=dict)

    def log(self, name: str, value: float) -> None:
        """Add a number to the record of this round: ``log/NAME`` in the frame and in trackers.

        It leaves a deployed site only if the site's policy lets such numbers leave, and never in
        runs with secure sums or differential privacy.
        """
        number = float(value)
        if not math.isfinite(number):
            raise RametError(f"the number '{name}' in session.log is {number}.")
        self.logged[LOGGED + name] = number

    def shared_parameters(self) -> dict[str, nn.Parameter]:
        """The shared arrays that are trained; buffers are not."""
        named = dict(self.model.named_parameters())
        return {name: named[name] for name in self.shared if name in named}


class _Adam(torch.optim.Adam):
    """PyTorch's Adam without its ``torch.compile`` wrappers.

    The wrappers import the compiler, which takes over a second, and over a SuperLink every message
    starts a new process.
    """

    add_param_group = inspect.unwrap(torch.optim.Adam.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.Adam.zero_grad)
    step = torch.no_grad()(inspect.unwrap(torch.optim.Adam.step))


class _SGD(torch.optim.SGD):
    """PyTorch's SGD without its ``torch.compile`` wrappers, as above."""

    add_param_group = inspect.unwrap(torch.optim.SGD.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.SGD.zero_grad)
    step = torch.no_grad()(inspect.unwrap(torch.optim.SGD.step))


Term: TypeAlias = Callable[[Any, Tensor], Tensor]
"""Computes what is added to the loss, given the batch and the network's output for it."""
After: TypeAlias = Callable[[Session], None]
"""What a client does after training: it may set ``sending`` and ``memory`` of the session."""


class Penalty(Protocol):
    """A term that a method adds to the loss."""

    def __call__(self, session: Session) -> Term:
        """Return the term, which is called for every batch.

        Called once per round, before the first batch.
        """
        ...


@runtime_checkable
class Training(Protocol):
    """Protocol of training: an optimiser, and what a client does with it in a round.

    Model and optimiser are rebuilt from the client's saved state for every round. What is saved:
    parameters and buffers of the model, and the optimiser's tensors and numbers, such as a learning
    rate that ``fit`` has changed.
    """

    def optimiser(self, model: nn.Module) -> torch.optim.Optimizer:
        """Create the optimiser of the model's parameters."""
        ...

    def fit(self, session: Session, penalty: Penalty | None = None) -> float:
        """Train in place and return the mean loss over all batches, without the penalty."""
        ...


@dataclass(frozen=True)
class LocalTraining:
    """Adam, or plain SGD, over the client's own batches. Adam's moments are kept between rounds.

    Args:
        lr: learning rate.
        weight_decay: L2 penalty on all parameters.
        epochs: passes over the client's samples in a round.
        batch_size: samples in a step.
        algorithm: of the optimiser.
        fresh_moments: forget Adam's moments at the start of every round.
        stop_after: stop the round's training after this many steps without a lower validation loss,
            and keep the weights with the lowest; 0 to train all epochs.
    """

    lr: PositiveFloat = 1e-3
    weight_decay: NonNegativeFloat = 5e-4
    epochs: PositiveInt = 1
    batch_size: PositiveInt = 128
    algorithm: Literal["adam", "sgd"] = "adam"
    fresh_moments: bool = False
    stop_after: NonNegativeInt = 0

    def optimiser(self, model: nn.Module) -> torch.optim.Optimizer:
        """Create the optimiser; its tensors are saved with the client's state."""
        if self.algorithm == "sgd":
            return _SGD(model.parameters(), lr=self.lr, weight_decay=self.weight_decay)
        return _Adam(model.parameters(), lr=self.lr, weight_decay=self.weight_decay, fused=True)

    def fit(self, session: Session, penalty: Penalty | None = None) -> float:
        """Train in place and return the mean loss over all batches, without the penalty."""
        session.model.train()
        if self.fresh_moments:
            session.optimiser.state.clear()
        term = _term(penalty, session) if penalty else None
        best = _Best(session, self.stop_after) if self.stop_after else None
        losses = []
        with session.randomness.torch_draws("training"):
            for batch in self._batches(session):
                losses.append(_step(session, batch.to(session.device), term))
                if best is not None and best.is_over():
                    break
        if best is not None:
            best.restore()
        return float(torch.stack(losses).mean())

    def _batches(self, session: Session) -> Iterator[Any]:
        """The batches of all epochs."""
        for epoch in range(self.epochs):
            generator = session.randomness.generator(f"order of epoch {epoch}")
            yield from session.task.batches(session.samples, self.batch_size, generator)


def _step(session: Session, batch: Any, term: Term | None) -> Tensor:
    """Train on a batch, and return its loss without the penalty."""
    output = session.task.output(session.model, batch)
    loss = session.task.loss(output, batch)
    descend(session.optimiser, loss + term(batch, output) if term else loss)
    session.steps += 1
    return loss.detach()


def descend(optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
    """One step down the gradient of a loss."""
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()


class _Best:
    """The weights with the lowest validation loss so far in a round."""

    def __init__(self, session: Session, patience: int) -> None:
        self._session, self._patience = session, patience
        self._loss, self._since = math.inf, 0
        self._weights: dict[str, Tensor] = {}

    def is_over(self) -> bool:
        """Whether as many of the last steps as the patience have not lowered the loss."""
        loss = self._validation_loss()
        self._since += 1
        if loss < self._loss:
            self._loss, self._since = loss, 0
            state = self._session.model.state_dict()
            self._weights = {name: value.detach().clone() for name, value in state.items()}
        return self._since >= self._patience

    def restore(self) -> None:
        if self._weights:
            self._session.model.load_state_dict(self._weights)

    def _validation_loss(self) -> float:
        """The loss of the client's validation samples."""
        session = self._session
        task: Any = session.task
        given = task.predictions(session.model, session.samples, session.device)["val"]
        session.model.to(session.device).train()
        if not given.labels.size:
            raise RametError(
                "stop_after needs validation samples, and this client has none. Omit stop_after."
            )
        return float(given.loss)


def _term(penalty: Penalty, session: Session) -> Term:
    term = penalty(session)
    if not callable(term):
        raise RametError(
            f"the penalty returned {type(term).__name__}, not a function of a batch and the "
            "network's output for it."
        )
    return term


DEFAULT_TRAINING: dict[TaskName, LocalTraining] = {
    **dict.fromkeys(
        ("graph-classification", "graph-regression", "graph-multilabel"), LocalTraining()
    ),
    **dict.fromkeys(
        ("node-classification", "node-regression", "node-multilabel", "edge-classification"),
        LocalTraining(lr=0.01),
    ),
    "link-prediction": LocalTraining(lr=5e-4, weight_decay=1e-4, batch_size=8192),
}
"""Used by methods that do not bring their own training."""
