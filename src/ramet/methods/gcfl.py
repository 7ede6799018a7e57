r"""GCFL and GCFL+: average inside clusters of clients that pull in the same direction.

Xie et al., *Federated Graph Classification over Non-IID Graphs*, NeurIPS 2021.

All clients start as one cluster. A cluster is split in two by a minimum cut when its members as a
whole have nearly settled while some still move a lot:

.. math:: \left\lVert \tfrac1n \sum_i \Delta W_i \right\rVert < \varepsilon_1
          \quad\text{and}\quad \max_i \lVert \Delta W_i \rVert > \varepsilon_2

==========================  ==================================================================
paper symbol                name here
==========================  ==================================================================
:math:`\Delta W_i`          a client's reply minus what it was sent
:math:`\varepsilon_1`       ``settled``
:math:`\varepsilon_2`       ``moving``
similarity (GCFL)           1 + cosine of two updates
similarity (GCFL+)          largest minus DTW distance of the last ``window`` update norms
:math:`d`                   ``window``
==========================  ==================================================================

Adding the mean update to what the members were sent is the same as averaging their replies, which
is what is done here. Similarities need all updates of a round at once, so the server's memory grows
with the number of clients asked. GCFL+ warps the norms of updates, which the server sees anyway,
where the authors' program sends the norm of the last gradient besides.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import NonNegativeInt, PositiveFloat, PositiveInt
from pydantic.dataclasses import dataclass as checked_dataclass

from ramet.errors import RametError
from ramet.methods.base import Method
from ramet.methods.fedavg import fedavg
from ramet.methods.merging import Reply, WeightedMean
from ramet.methods.training import LocalTraining
from ramet.models import GraphNetwork
from ramet.payload import Array, Arrays, Payload, nothing, under

Flat: TypeAlias = NDArray[np.float64]
Similarity: TypeAlias = Callable[[list[Flat], list[Flat]], NDArray[np.float64]]
"""From the members' updates, and their last norms, to a matrix of weights ≥ 0."""


@checked_dataclass(frozen=True)
class Clustering:
    """When a cluster is split.

    Args:
        settled: the norm of the mean update must be below this,
        moving: and the largest norm of an update above this,
        quiet_rounds: in a round after these.
        window: update norms remembered per client, for GCFL+.
    """

    settled: PositiveFloat = 0.05
    moving: PositiveFloat = 0.1
    quiet_rounds: NonNegativeInt = 20
    window: PositiveInt = 5


@dataclass(frozen=True)
class ClusteredMean:
    """A weighted mean per cluster; clusters only ever split.

    State: arrays ``CLUSTER/NAME`` and ``norms/CLIENT``, the note ``clusters`` (client to cluster)
    and the number of rounds merged.
    """

    clustering: Clustering
    similarity: Similarity

    def start(self, shared: Arrays) -> Payload:
        return Payload({f"0/{name}": array for name, array in shared.items()}, {"round": 0})

    def ask(self, state: Payload, client: str) -> Arrays:
        return under(f"{_clusters(state).get(client, 0)}/", state.arrays)

    def merge(self, state: Payload, replies: Iterable[Reply]) -> Payload:
        came = dict(replies)
        number = int(state.numbers["round"]) + 1
        home = _clusters(state)
        moved = {
            client: _flat(reply.arrays) - _flat(self.ask(state, client))
            for client, reply in sorted(came.items())
        }
        norms = self._norms(state, moved)
        arrays: dict[str, Array] = {f"norms/{client}": last for client, last in norms.items()}
        after: dict[str, int] = {}
        fresh = count()
        for cluster in sorted({0, *home.values()}):
            old = Payload(under(f"{cluster}/", state.arrays))
            members = [client for client in moved if home.get(client, 0) == cluster]
            absent = [client for client in home if home[client] == cluster and client not in moved]
            for part in self._parts(members, moved, norms, number):
                place = next(fresh)
                merged = WeightedMean().merge(old, ((client, came[client]) for client in part))
                arrays |= {f"{place}/{name}": array for name, array in merged.arrays.items()}
                after |= dict.fromkeys([*part, *absent], place)
                absent = []  # those who were away go with the first half
        return Payload(arrays, {"round": number}, {"clusters": json.dumps(after, sort_keys=True)})

    def _parts(
        self,
        members: list[str],
        moved: Mapping[str, Flat],
        norms: Mapping[str, Flat],
        number: int,
    ) -> list[list[str]]:
        """The cluster as it is, or its two halves."""
        import networkx as nx  # takes a while to import

        updates = [moved[client] for client in members]
        if len(members) <= 2 or number <= self.clustering.quiet_rounds:
            return [members]
        whole = np.linalg.norm(np.mean(updates, axis=0))
        most = max(np.linalg.norm(update) for update in updates)
        if whole >= self.clustering.settled or most <= self.clustering.moving:
            return [members]
        weights = self.similarity(updates, [norms[client] for client in members])
        graph = nx.Graph()
        graph.add_nodes_from(range(len(members)))
        for a in range(len(members)):
            for b in range(a):
                graph.add_edge(a, b, weight=float(weights[a, b]))
        halves = nx.stoer_wagner(graph)[1]
        return sorted(sorted(members[place] for place in half) for half in halves)

    def _norms(self, state: Payload, moved: Mapping[str, Flat]) -> dict[str, Flat]:
        """Each client's last update norms, the newest last."""
        kept = under("norms/", state.arrays)
        for client, update in moved.items():
            before = kept.get(client, np.empty(0))
            kept[client] = np.append(before, np.linalg.norm(update))[-self.clustering.window :]
        return kept


def by_cosine(updates: list[Flat], norms: list[Flat]) -> NDArray[np.float64]:  # noqa: ARG001
    """1 + cosine of the updates."""
    stacked = np.stack(updates)
    unit = stacked / np.maximum(np.linalg.norm(stacked, axis=1, keepdims=True), 1e-12)
    weights: NDArray[np.float64] = np.clip(1 + unit @ unit.T, 0, 2)
    return weights


def by_warping(updates: list[Flat], norms: list[Flat]) -> NDArray[np.float64]:  # noqa: ARG001
    """How much nearer than the farthest pair two sequences of norms are, by time warping."""
    try:
        from dtaidistance import dtw
    except ImportError as error:
        raise RametError("gcfl+ needs DTW. Install it: pip install 'ramet[gcfl]'") from error
    distances = np.array([[dtw.distance(one, other) for other in norms] for one in norms])
    weights: NDArray[np.float64] = distances.max() - distances
    return weights


def gcfl(
    clustering: Clustering = Clustering(),  # noqa: B008 (frozen)
    network: GraphNetwork = GraphNetwork(),  # noqa: B008 (frozen)
    training: LocalTraining = LocalTraining(),  # noqa: B008 (frozen)
) -> Method:
    """Share the GIN layers inside clusters found by the direction of updates."""
    return replace(
        fedavg(network, training),
        name="gcfl",
        paper="arXiv:2106.13423",
        switchable=nothing,  # updates are compared as wholes
        merging=ClusteredMean(clustering, by_cosine),
    )


def gcfl_plus(
    clustering: Clustering = Clustering(),  # noqa: B008 (frozen)
    network: GraphNetwork = GraphNetwork(),  # noqa: B008 (frozen)
    training: LocalTraining = LocalTraining(),  # noqa: B008 (frozen)
) -> Method:
    """Share the GIN layers inside clusters found by how updates grow and shrink."""
    return replace(
        fedavg(network, training),
        name="gcfl+",
        paper="arXiv:2106.13423",
        switchable=nothing,  # updates are compared as wholes
        merging=ClusteredMean(clustering, by_warping),
    )


def _clusters(state: Payload) -> dict[str, int]:
    found: dict[str, int] = json.loads(state.notes.get("clusters", "{}"))
    return found


def _flat(arrays: Arrays) -> Flat:
    return np.concatenate([arrays[name].ravel().astype(np.float64) for name in sorted(arrays)])
