r"""SCAFFOLD: correct each client's steps by the difference between its direction and everyone's.

Karimireddy et al., *SCAFFOLD: Stochastic Controlled Averaging for Federated Learning*, ICML 2020.

.. math::
    y \leftarrow y - \eta\,(g(y) - c_i + c), \qquad
    c_i^+ = c_i - c + \frac{x - y}{K \eta}, \qquad
    c \leftarrow c + \frac{1}{N} \sum_{i \in S} (c_i^+ - c_i)

=====================  ==================================================================
paper symbol           name here
=====================  ==================================================================
:math:`x, y`           the shared parameters at the start and at the end of a round
:math:`c`              the extras, one per shared parameter, under the parameter's name
:math:`c_i`            the client's memory
:math:`c_i^+ - c_i`    the extras in a reply
:math:`K, \eta`        ``session.steps`` and the learning rate of SGD
:math:`N, S`           all clients, and those that replied
=====================  ==================================================================

This is option II of the paper. The correction is a term that is linear in the parameters, so its
gradient is :math:`c - c_i`. Private parameters have no common direction and are not corrected. The
paper's server step is a plain mean; here replies are weighted as in FedAvg.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ramet.errors import RametError
from ramet.methods.fedavg import fedavg
from ramet.payload import Arrays, Payload
from ramet.rules.extras import Extras
from ramet.rules.merging import Summing
from ramet.rules.method import Method
from ramet.rules.server import Server
from ramet.rules.site_model import SiteModel, with_site_model
from ramet.training.local import LocalTraining, Session, Term


def zero_controls(model: nn.Module, shared: Sequence[str]) -> Mapping[str, Tensor]:
    """A control of zeros for each shared parameter."""
    named = dict(model.named_parameters())
    return {name: torch.zeros_like(named[name]) for name in shared if name in named}


@dataclass(frozen=True)
class ControlSum(Summing):
    """Add the changes of the clients' controls, divided by the number of all clients."""

    def term(self, reply: Payload) -> Arrays:
        return reply.extras

    def step(self, state: Payload, total: Arrays, server: Server) -> Payload:
        clients = len(server.clients)
        moved = {name: (state.arrays[name] + total[name] / clients) for name in total}
        return Payload({**state.arrays, **{n: a.astype(np.float32) for n, a in moved.items()}})


def correct(session: Session) -> Term:
    """The term with gradient c - c_i."""
    shared = session.shared_parameters()
    pull = {name: session.received[name] - _own(session, name) for name in shared}

    def term(batch: Any, output: Tensor) -> Tensor:  # noqa: ARG001
        return torch.stack([(pull[name] * now).sum() for name, now in shared.items()]).sum()

    return term


def update_controls(session: Session) -> None:
    """Compute the client's new control from how far it has moved, and send the change."""
    (group,) = session.optimiser.param_groups
    for name, now in session.shared_parameters().items():
        moved = (session.start[name] - now.detach()) / (session.steps * group["lr"])
        session.sending[name] = moved - session.received[name]
        session.memory[name] = _own(session, name) + session.sending[name]


def _own(session: Session, name: str) -> Tensor:
    return session.memory.get(name, torch.zeros_like(session.received[name]))


def scaffold(
    training: LocalTraining = LocalTraining(lr=0.1, algorithm="sgd"),  # noqa: B008 (frozen)
    site_model: SiteModel = "merged",
) -> Method:
    """FedAvg whose clients correct their steps by control variates."""
    if training.algorithm != "sgd":
        raise RametError("scaffold derives its controls from plain SGD. Use algorithm=sgd.")
    method = replace(
        fedavg(),
        name="scaffold",
        paper="arXiv:1910.06378",
        training=training,
        penalty=correct,
        after=update_controls,
        extras=Extras(zero_controls, ControlSum()),
    )
    return with_site_model(method, site_model)
