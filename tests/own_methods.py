"""User-defined methods that keep all promises."""

from __future__ import annotations

from dataclasses import replace

from ramet import Method, fedavg
from ramet.training.local import LocalTraining, Penalty, Session


class Decaying(LocalTraining):
    """A learning rate that decays every round; the optimiser's `param_groups` are saved."""

    def fit(self, session: Session, penalty: Penalty | None = None) -> float:
        loss = super().fit(session, penalty)
        for group in session.optimiser.param_groups:
            group["lr"] *= 0.9
        return loss


def decaying(lr: float = 0.01) -> Method:
    return replace(fedavg(), name="decaying", training=Decaying(lr=lr))
