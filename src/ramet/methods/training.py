"""Local training: what a client does between two messages."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass as plain_dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import torch
from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt
from pydantic.dataclasses import dataclass
from torch import Tensor, nn

from ramet.randomness import Randomness
from ramet.tasks import Samples, Task, TaskName


@plain_dataclass(frozen=True)
class Session:
    """What a client trains with in one round. The received arrays are already in the model.

    Args:
        model: the client's network, on ``device``.
        optimiser: with its state from the previous round.
        task: loss and batches.
        samples: the client's data in the task's format.
        shared: names of the parameters and buffers that leave the client.
        randomness: random draws of this client in this round, by purpose.
        device: where batches have to be.
    """

    model: nn.Module
    optimiser: torch.optim.Optimizer
    task: Task
    samples: Samples
    shared: Sequence[str]
    randomness: Randomness
    device: torch.device


class _Adam(torch.optim.Adam):
    """PyTorch's Adam without its ``torch.compile`` wrappers.

    The wrappers import the compiler, which takes over a second, and over a SuperLink every message
    starts a new process.
    """

    add_param_group = inspect.unwrap(torch.optim.Adam.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.Adam.zero_grad)
    step = torch.no_grad()(inspect.unwrap(torch.optim.Adam.step))


Term: TypeAlias = Callable[[], Tensor]
"""Computes what is added to the loss of the next batch."""


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
    """Adam over the client's own batches. Its moments are kept between rounds."""

    lr: PositiveFloat = 1e-3
    weight_decay: NonNegativeFloat = 5e-4
    epochs: PositiveInt = 1
    batch_size: PositiveInt = 128

    def optimiser(self, model: nn.Module) -> torch.optim.Optimizer:
        """Create the optimiser; its tensors are saved with the client's state."""
        return _Adam(model.parameters(), lr=self.lr, weight_decay=self.weight_decay, fused=True)

    def fit(self, session: Session, penalty: Penalty | None = None) -> float:
        """Train in place and return the mean loss over all batches, without the penalty."""
        model, optimiser, task = session.model, session.optimiser, session.task
        model.train()
        term = penalty(session) if penalty else None
        losses = []
        with session.randomness.torch_draws("training"):
            for epoch in range(self.epochs):
                generator = session.randomness.generator(f"order of epoch {epoch}")
                for batch in task.batches(session.samples, self.batch_size, generator):
                    loss = task.loss(model, batch.to(session.device))
                    losses.append(loss.detach())
                    optimiser.zero_grad()
                    (loss + term() if term else loss).backward()  # type: ignore[no-untyped-call]
                    optimiser.step()
        return float(torch.stack(losses).mean())


DEFAULT_TRAINING: dict[TaskName, LocalTraining] = {
    "graph-classification": LocalTraining(),
    "node-classification": LocalTraining(lr=0.01),
    "link-prediction": LocalTraining(lr=5e-4, weight_decay=1e-4, batch_size=8192),
}
"""Used by methods that do not bring their own training."""
