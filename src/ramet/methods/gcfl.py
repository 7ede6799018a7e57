r"""GCFL and GCFL+: average within clusters of clients whose updates are similar.

Xie et al., *Federated Graph Classification over Non-IID Graphs*, NeurIPS 2021.

All clients start in one cluster. A cluster is split in two by a minimum cut when its mean update is
small while some of its members still have large updates:

.. math:: \left\lVert \tfrac1n \sum_i \Delta W_i \right\rVert < \varepsilon_1
          \quad\text{and}\quad \max_i \lVert \Delta W_i \rVert > \varepsilon_2

==========================  ==================================================================
paper symbol                name here
==========================  ==================================================================
:math:`\Delta W_i`          a client's reply minus the arrays it was sent
:math:`\varepsilon_1`       ``settled``
:math:`\varepsilon_2`       ``moving``
similarity (GCFL)           1 + cosine of two updates
similarity (GCFL+)          largest DTW distance minus that of the last ``window`` update norms
:math:`d`                   ``window``
==========================  ==================================================================

Members of a cluster are sent the same arrays, so averaging their replies, as is done here, equals
adding the mean update. Similarities need all updates of a round at once, so the server's memory
grows with the number of active clients. GCFL+ compares the norms of updates, which the server can
compute, whereas the authors' program also sends the norm of the last gradient.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import NonNegativeInt, PositiveFloat, PositiveInt
from pydantic.dataclasses import dataclass as checked_dataclass

from ramet.errors import RametError
from ramet.methods.authors import Authors, Deviation
from ramet.methods.fedavg import fedavg
from ramet.payload import Array, Arrays, Payload, nothing, under
from ramet.rules.merging import Comparing, weighted_mean
from ramet.rules.method import Method
from ramet.rules.server import Server
from ramet.rules.site_model import SiteModel

Flat: TypeAlias = NDArray[np.float64]
Similarity: TypeAlias = Callable[[list[Flat], list[Flat]], NDArray[np.float64]]
"""Computes a matrix of weights ≥ 0 from the members' updates and their last norms."""


@checked_dataclass(frozen=True)
class Clustering:
    """When to split a cluster.

    Args:
        settled: split only if the norm of the mean update is below this,
        moving: and the largest norm of an update is above this.
        quiet_rounds: number of rounds at the start without splits.
        window: number of last update norms that GCFL+ compares.
    """

    settled: PositiveFloat = 0.05
    moving: PositiveFloat = 0.1
    quiet_rounds: NonNegativeInt = 20
    window: PositiveInt = 5


@dataclass(frozen=True)
class ClusteredMean(Comparing):
    """A weighted mean per cluster. Clusters are split and never joined.

    The state has arrays ``CLUSTER/NAME`` and ``norms/CLIENT``, the note ``clusters`` (client to
    cluster).
    """

    clustering: Clustering
    similarity: Similarity

    def start(self, shared: Arrays) -> Payload:
        return Payload({f"0/{name}": array for name, array in shared.items()})

    def send(self, state: Payload, client: str) -> Arrays:
        return under(f"{_clusters(state).get(client, 0)}/", state.arrays)

    def compared(self, state: Payload, replies: Mapping[str, Payload], server: Server) -> Payload:
        before = _clusters(state)
        updates = {
            client: _flatten(reply.arrays) - _flatten(self.send(state, client))
            for client, reply in replies.items()
        }
        norms = self._norms(state, updates)
        arrays: dict[str, Array] = {f"norms/{client}": last for client, last in norms.items()}
        after: dict[str, int] = {}
        numbers = count()
        for cluster in sorted({0, *before.values()}):
            old = under(f"{cluster}/", state.arrays)
            members = [client for client in updates if before.get(client, 0) == cluster]
            absent = [c for c in before if before[c] == cluster and c not in updates]
            for part in self._parts(members, updates, norms, server.round):
                new = next(numbers)
                merged = weighted_mean(old, ((client, replies[client]) for client in part))
                arrays |= {f"{new}/{name}": array for name, array in merged.items()}
                after |= dict.fromkeys([*part, *absent], new)
                absent = []  # absent clients join the first part
        return Payload(arrays, notes={"clusters": json.dumps(after, sort_keys=True)})

    def _parts(
        self,
        members: list[str],
        updates_of: Mapping[str, Flat],
        norms: Mapping[str, Flat],
        number: int,
    ) -> list[list[str]]:
        """Return the cluster unchanged, or its two parts if it is split."""
        updates = [updates_of[client] for client in members]
        if len(members) <= 2 or number <= self.clustering.quiet_rounds:
            return [members]
        mean_norm = _norm(np.mean(updates, axis=0))
        largest_norm = max(map(_norm, updates))
        if mean_norm >= self.clustering.settled or largest_norm <= self.clustering.moving:
            return [members]
        weights = self.similarity(updates, [norms[client] for client in members])
        import networkx as nx  # slow to import

        graph = nx.Graph()
        graph.add_nodes_from(range(len(members)))
        for a in range(len(members)):
            for b in range(a):
                graph.add_edge(a, b, weight=float(weights[a, b]))
        halves = nx.stoer_wagner(graph)[1]
        return sorted(sorted(members[index] for index in half) for half in halves)

    def _norms(self, state: Payload, updates: Mapping[str, Flat]) -> dict[str, Flat]:
        """Each client's last update norms, newest last."""
        norms = under("norms/", state.arrays)
        for client, update in updates.items():
            before = norms.get(client, np.empty(0))
            norms[client] = np.append(before, _norm(update))[-self.clustering.window :]
        return norms


def _norm(update: Flat) -> float:
    """The L2 norm. NumPy's own uses BLAS, whose last bit depends on the number of threads."""
    return float(np.sqrt(np.square(update).sum()))


def by_cosine(updates: list[Flat], norms: list[Flat]) -> NDArray[np.float64]:  # noqa: ARG001
    """1 + cosine of the updates."""
    stacked = np.stack(updates)
    unit = stacked / np.maximum(np.linalg.norm(stacked, axis=1, keepdims=True), 1e-12)
    weights: NDArray[np.float64] = np.clip(1 + unit @ unit.T, 0, 2)
    return weights


def by_warping(updates: list[Flat], norms: list[Flat]) -> NDArray[np.float64]:  # noqa: ARG001
    """Largest DTW distance of all pairs minus that of each pair of norm sequences."""
    try:
        from dtaidistance import dtw
    except ImportError as error:
        raise RametError(
            "gcfl+ needs the package dtaidistance. Install it: pip install 'ramet[gcfl]'"
        ) from error
    distances = np.array([[dtw.distance(one, other) for other in norms] for one in norms])
    weights: NDArray[np.float64] = distances.max() - distances
    return weights


_RUNNER = "runnerfile: the commands for molecules, biochem and mix"
AUTHORS = Authors(
    setting="single",
    deviations=(
        Deviation(
            "settled",
            {"single": "0.07", "bio-sm": "0.07", "bio-sm-sn": "0.08"},
            f"{_RUNNER}, --epsilon1",
        ),
        Deviation(
            "moving",
            {"single": "0.28", "bio-sm": "0.35", "bio-sm-sn": "0.4"},
            f"{_RUNNER}, --epsilon2",
        ),
        Deviation(
            "window", {"single": "5", "bio-sm": "5", "bio-sm-sn": "10"}, f"{_RUNNER}, --seq_length"
        ),
    ),
    not_followed=(
        "The program reports the best test accuracy over snapshots, so that test data choose the "
        "model.",
        "For GCFL+ the program sends the norm of the last gradient; here the server computes the "
        "norms of updates.",
    ),
)
"""For GCFL and GCFL+."""


def gcfl(
    clustering: Clustering = Clustering(),  # noqa: B008 (frozen)
    site_model: SiteModel = "merged",
) -> Method:
    """FedAvg within clusters of clients with similar update directions."""
    return replace(
        fedavg(site_model),
        name="gcfl",
        paper="arXiv:2106.13423",
        switchable=nothing,  # whole updates are compared
        merging=ClusteredMean(clustering, by_cosine),
    )


def gcfl_plus(
    clustering: Clustering = Clustering(),  # noqa: B008 (frozen)
    site_model: SiteModel = "merged",
) -> Method:
    """FedAvg within clusters of clients with similar sequences of update norms."""
    return replace(
        fedavg(site_model),
        name="gcfl+",
        paper="arXiv:2106.13423",
        switchable=nothing,  # whole updates are compared
        merging=ClusteredMean(clustering, by_warping),
    )


def _clusters(state: Payload) -> dict[str, int]:
    clusters: dict[str, int] = json.loads(state.notes.get("clusters", "{}"))
    return clusters


def _flatten(arrays: Arrays) -> Flat:
    return np.concatenate([arrays[name].ravel().astype(np.float64) for name in sorted(arrays)])
