"""What a client does between two messages."""

from __future__ import annotations

import torch
from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt
from pydantic.dataclasses import dataclass
from torch import nn

from ramet.randomness import Randomness
from ramet.tasks import GraphClassification, GraphSamples


@dataclass(frozen=True)
class LocalTraining:
    """Adam over the client's own batches. Its moments live as long as the run."""

    lr: PositiveFloat = 1e-3
    weight_decay: NonNegativeFloat = 5e-4
    epochs: PositiveInt = 1
    batch_size: PositiveInt = 128

    def optimiser(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.Adam(
            model.parameters(), lr=self.lr, weight_decay=self.weight_decay, fused=True
        )

    def fit(
        self,
        model: nn.Module,
        optimiser: torch.optim.Optimizer,
        task: GraphClassification,
        samples: GraphSamples,
        randomness: Randomness,
        device: torch.device,
    ) -> float:
        """Train in place; the mean loss over all batches."""
        model.train()
        losses = []
        with randomness.torch_draws("training"):
            for epoch in range(self.epochs):
                order = randomness.generator(f"order of epoch {epoch}")
                for batch in task.batches(samples, self.batch_size, order):
                    loss = task.loss(model, batch.to(device))
                    optimiser.zero_grad()
                    loss.backward()  # type: ignore[no-untyped-call]
                    optimiser.step()
                    losses.append(loss.detach())
        return float(torch.stack(losses).mean())
