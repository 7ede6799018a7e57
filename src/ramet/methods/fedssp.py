r"""FedSSP: share what is learned about spectra, and keep a preference of each domain.

Tan, Wan, Huang and Ye, *FedSSP: Federated Graph Learning with Spectral Knowledge and Personalized
Preference*, NeurIPS 2024.

Links are weighted by filters of the graph's Laplacian :math:`L = U \Lambda U^\top`:

.. math::
    S_h = U\, \operatorname{diag}(g_h(\phi_e(\Lambda)))\, U^\top, \qquad
    w_{ij} = \operatorname{softmax}_{j \in N_i} \phi_f(S_{1,ij}, \dots, S_{H,ij})

The two encoders of the spectrum are averaged, and everything else is private. So that a private
preference can add to embeddings what is particular to a domain, the embeddings themselves are kept
near those of all clients:

.. math:: L_m = L_{CE}(z + p_m) + \frac{\tau}{2} \lVert \mu_m - \bar\mu \rVert^2 / d

=============================  =============================================================
symbol                         name here
=============================  =============================================================
:math:`\phi_e, \phi_f`         ``eigenvalues.*``, ``filters.*``: shared
:math:`g`                      ``attend`` and ``decode``
:math:`p_m`                    ``preference``
:math:`\mu_m`                  the mean embedding: of a batch, and sent as ``consensus``
:math:`\bar\mu`                the extra ``consensus`` that clients are sent
:math:`\tau`                   ``strength``
=============================  =============================================================

The symbols of the formulas are ours; the network, its sizes and the loss were read in the authors'
program. There the mean of a batch is halved before it is compared, so its strength of 100 is 25
here, and the consensus has the last batch of each client, here all training graphs. It also weighs
clients equally, makes a new optimiser for every batch, and predicts without the preference. Here
means are weighted as in FedAvg, one optimiser trains all parameters, and predictions are made as in
training. The identity matrix among its filters is 0 at every link, and left out. The program's
optimiser holds a copy of the preference that is not used, so that it stays 0 there; here it is
trained. Its consensus has statistics of batches in its batch norms, here running ones.

The encoders' parameters and the mean embedding of the training graphs leave a site, and running
statistics of batch norms do not. Both can be summed securely.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from pydantic import NonNegativeFloat
from torch import Tensor, nn

from ramet.models.networks import embedding_size
from ramet.models.settings import SpectralNetwork
from ramet.models.spectral import SpectralGNN
from ramet.payload import Arrays, Payload, only
from ramet.rules.extras import Extras
from ramet.rules.merging import Summing
from ramet.rules.method import Method
from ramet.rules.server import Server
from ramet.tasks import GraphClassification, StructureEncoding
from ramet.training.local import Session, Term

_BATCH = 128


def no_consensus(model: nn.Module, shared: Sequence[str]) -> Mapping[str, Tensor]:  # noqa: ARG001
    return {"consensus": torch.zeros(embedding_size(model)[1]), "known": torch.zeros(1)}


@dataclass(frozen=True)
class MeanOfClients(Summing):
    """The mean of what clients send, each counted once."""

    def term(self, reply: Payload) -> Arrays:
        return {"consensus": reply.extras["consensus"], "known": np.ones(1)}

    def step(self, state: Payload, total: Arrays, server: Server) -> Payload:  # noqa: ARG002
        mean = (total["consensus"] / total["known"]).astype(np.float32)
        return Payload({"consensus": mean, "known": np.ones(1, np.float32)})


@dataclass(frozen=True)
class NearConsensus:
    """``strength`` / 2 times the mean squared distance of a batch's mean from the consensus."""

    strength: float

    def __call__(self, session: Session) -> Term:
        consensus, known = session.received["consensus"], bool(session.received["known"])

        def term(batch: Any, output: Tensor) -> Tensor:
            if not known:
                return output.new_zeros(())
            mean = session.task.encode(session.model, batch).mean(dim=0)
            return self.strength / 2 * (mean - consensus).square().mean()

        return term


@torch.no_grad()
def send_mean(session: Session) -> None:
    """Send the mean embedding of the training graphs."""
    session.model.eval()
    order = session.randomness.generator("order of the mean")
    graphs, total = 0, torch.zeros_like(session.received["consensus"])
    for batch in session.task.batches(session.samples, _BATCH, order):
        embeddings = session.task.encode(session.model, batch.to(session.device))
        graphs, total = graphs + len(embeddings), total + embeddings.sum(dim=0)
    session.sending["consensus"] = total / max(graphs, 1)


def fedssp(
    network: SpectralNetwork = SpectralNetwork(),  # noqa: B008 (frozen)
    strength: NonNegativeFloat = 25.0,
) -> Method:
    """Share the encoders of spectra; a private preference adjusts embeddings near a consensus."""
    return Method(
        name="fedssp",
        paper="arXiv:2410.20105",
        model=partial(SpectralGNN, settings=network),
        inputs=StructureEncoding(0, 0, spectrum=True),
        shared=only("eigenvalues.*", "filters.*.weight", "filters.*.bias"),
        task=GraphClassification(),
        penalty=NearConsensus(strength),
        after=send_mean,
        extras=Extras(no_consensus, MeanOfClients(), up=only("consensus")),
    )
