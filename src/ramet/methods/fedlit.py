r"""FedLIT: find the hidden kinds of links together, and learn each kind in a channel of its own.

Xie, Xiong and Yang, *Federated Node Classification over Graphs with Latent Link-type
Heterogeneity*, WWW 2023.

A client clusters its links (see :mod:`ramet.models.link_kinds`) and trains one channel per cluster.
Clusters have no common order, so the server first finds which of them belong together, one of each
client in a group, by their centres:

.. math:: \min_\phi \sum_{c} \sum_{\varphi \in \phi_c} \lVert \varphi - \tilde\varphi_c \rVert^2,
          \qquad \tilde\varphi_c = \frac{1}{|\phi_c|} \sum_{\varphi \in \phi_c} \varphi,

then averages channels inside their group, weighted by the nodes they touch.

==============================  ==============================================================
paper symbol                    name here
==============================  ==============================================================
:math:`k`                       ``kinds``
:math:`\varphi^c_n`             a client's ``kinds.centres``
:math:`\tilde\varphi_c`         ``kinds.centres`` of the server's state
:math:`\theta^s, \theta^t`      ``project``, ``classify``
:math:`\theta^c`                ``channels.c``
:math:`|V^c_n|`                 ``kinds.nodes``; 0 says that the client lacks this kind
:math:`\phi`                    the note ``groups``: client to the group of each of its channels
==============================  ==============================================================

Groups are found by alternating Hungarian assignment and means, from the last centres on. Every
client gets the merge in its own order, so its optimiser's moments stay with their channel. A kind
that a client lacks takes no part in grouping and has no weight.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import NonNegativeInt, PositiveInt
from pydantic.dataclasses import dataclass

from ramet.methods.base import Method
from ramet.methods.merging import Reply, WeightedMean
from ramet.methods.training import LocalTraining
from ramet.models import GCN, Chance, MultiChannelGCN
from ramet.payload import Array, Arrays, Payload, everything, only, under
from ramet.tasks import NodeClassification

_CENTRES, _NODES, _CHANNELS = "kinds.centres", "kinds.nodes", "channels."
_NODE_TRAINING = LocalTraining(lr=0.01)
_MOST_TURNS = 50
Degrees = Literal["graph", "channel"]


@dataclass(frozen=True)
class ChannelMean:
    """A mean per group of channels; with ``align`` groups are found by the centres.

    Grouping needs all centres of a round at once, so the server's memory grows with the clients.
    """

    align: bool = True

    def start(self, shared: Arrays) -> Payload:
        return Payload(dict(shared))

    def ask(self, state: Payload, client: str) -> Arrays:
        """The merge, its channels in the client's own order."""
        group_of = _groups(state).get(client)
        return state.arrays if group_of is None else _reordered(state.arrays, group_of)

    def merge(self, state: Payload, replies: Iterable[Reply]) -> Payload:
        came = dict(sorted(dict(replies).items()))
        if not came:
            return state
        kinds = state.arrays[_NODES].size
        known = _groups(state)
        if self.align:
            centres, found = group_centres(
                state.arrays[_CENTRES],
                {client: reply.arrays[_CENTRES] for client, reply in came.items()},
                {client: reply.arrays[_NODES] > 0 for client, reply in came.items()},
            )
            known |= found
        else:
            centres = state.arrays[_CENTRES]
            known |= {client: list(range(kinds)) for client in came}
        in_order = {
            client: Payload(_reordered(reply.arrays, _inverse(known[client])), reply.numbers)
            for client, reply in came.items()
        }
        merged = WeightedMean().merge(state, in_order.items()).arrays
        for kind in range(kinds):
            merged = {**merged, **self._channel(state, in_order, kind)}
        nodes = np.sum([reply.arrays[_NODES] for reply in in_order.values()], axis=0)
        arrays = {**merged, _CENTRES: centres, _NODES: nodes.astype(np.float32)}
        return Payload(arrays, notes={"groups": json.dumps(known, sort_keys=True)})

    def _channel(self, state: Payload, replies: Mapping[str, Payload], kind: int) -> Arrays:
        """One channel's mean over those who have its kind, weighted by the nodes it touches."""
        prefix = f"{_CHANNELS}{kind}."
        weights = {client: float(reply.arrays[_NODES][kind]) for client, reply in replies.items()}
        having = (
            (client, Payload(under(prefix, reply.arrays), {"weight": weights[client]}))
            for client, reply in replies.items()
            if weights[client] > 0
        )
        old = Payload(under(prefix, state.arrays))
        return {
            prefix + name: array for name, array in WeightedMean().merge(old, having).arrays.items()
        }


def group_centres(
    last: Array, centres: Mapping[str, Array], present: Mapping[str, NDArray[np.bool_]]
) -> tuple[Array, dict[str, list[int]]]:
    """Group the clients' centres, one of each client in a group; the groups' centres.

    A group that nobody is in keeps its centre. Kinds that a client lacks get the groups that are
    left over, which changes nothing: they have no weight.
    """
    from scipy.optimize import linear_sum_assignment

    middle = last.astype(np.float64)
    unset = ~middle.any(axis=1)
    if unset.any():
        richest = max(centres, key=lambda client: (int(present[client].sum()), client))
        spare = iter(centres[richest][present[richest]].astype(np.float64))
        for place in np.flatnonzero(unset):
            middle[place] = next(spare, middle[place])
    groups: dict[str, list[int]] = {}
    for _ in range(_MOST_TURNS):
        before = groups
        groups = {}
        for client, own in centres.items():
            here = np.flatnonzero(present[client])
            costs = ((own[here, None].astype(np.float64) - middle[None]) ** 2).sum(axis=2)
            chosen = linear_sum_assignment(costs)[1]
            left = iter(sorted({*range(len(middle))} - {*chosen.tolist()}))
            taken = dict(zip(here.tolist(), chosen.tolist(), strict=True))
            groups[client] = [
                taken[kind] if kind in taken else next(left) for kind in range(len(own))
            ]
        for group in range(len(middle)):
            members = [
                own[groups[client].index(group)].astype(np.float64)
                for client, own in centres.items()
                if present[client][groups[client].index(group)]
            ]
            if members:
                middle[group] = np.mean(members, axis=0)
        if groups == before:
            break
    return middle.astype(last.dtype), groups


def fed_gcn(
    hidden: PositiveInt = 64,
    layers: PositiveInt = 2,
    dropout: Chance = 0.5,
    activate: bool = True,
    loops: bool = False,
    training: LocalTraining = _NODE_TRAINING,
) -> Method:
    """FedAvg of a GCN that takes all links alike."""
    return Method(
        name="fed-gcn",
        paper="doi:10.1145/3543507.3583471",
        model=partial(
            GCN, hidden=hidden, layers=layers, dropout=dropout, activate=activate, loops=loops
        ),
        shared=everything,
        training=training,
        merging=WeightedMean(),
        task=NodeClassification(),
    )


def fed_mgcn(
    kinds: PositiveInt = 4,
    hidden: PositiveInt = 64,
    layers: PositiveInt = 2,
    dropout: Chance = 0.5,
    mean: bool = False,
    activate: bool = True,
    loops: bool = False,
    degrees: Degrees = "graph",
    training: LocalTraining = _NODE_TRAINING,
) -> Method:
    """A channel for each true kind of link: what could be reached if the kinds were known."""
    method = fedlit(
        kinds, hidden, layers, dropout, mean, activate, loops, degrees, 0, training=training
    )
    return replace(
        method,
        name="fed-mgcn",
        model=partial(method.model, cluster=False),  # type: ignore[call-arg]  # a MultiChannelGCN
        merging=ChannelMean(align=False),
    )


def fedlit(
    kinds: PositiveInt = 4,
    hidden: PositiveInt = 64,
    layers: PositiveInt = 2,
    dropout: Chance = 0.5,
    mean: bool = False,
    activate: bool = True,
    loops: bool = False,
    degrees: Degrees = "graph",
    smallest: NonNegativeInt = 10,
    steps: PositiveInt = 1,
    training: LocalTraining = _NODE_TRAINING,
) -> Method:
    """Find the kinds of links together, and learn each in a channel of its own."""
    return Method(
        name="fedlit",
        paper="doi:10.1145/3543507.3583471",
        model=partial(
            MultiChannelGCN,
            kinds=kinds,
            cluster=True,
            hidden=hidden,
            layers=layers,
            dropout=dropout,
            mean=mean,
            activate=activate,
            loops=loops,
            degrees=degrees,
            smallest=smallest,
            steps=steps,
        ),
        shared=everything,
        training=training,
        switchable=only("project.*", "classify.*"),  # channels come with their centres
        merging=ChannelMean(),
        task=NodeClassification(),
    )


def _groups(state: Payload) -> dict[str, list[int]]:
    found: dict[str, list[int]] = json.loads(state.notes.get("groups", "{}"))
    return found


def _inverse(group_of: list[int]) -> list[int]:
    return [group_of.index(group) for group in range(len(group_of))]


def _reordered(arrays: Arrays, source: list[int]) -> Arrays:
    """Channel i of the result is channel ``source[i]`` of what is given."""
    moved: dict[str, Array] = {}
    for name, array in arrays.items():
        if name in (_CENTRES, _NODES):
            moved[name] = array[source]
        elif name.startswith(_CHANNELS):
            kind, _, rest = name.removeprefix(_CHANNELS).partition(".")
            moved[name] = arrays[f"{_CHANNELS}{source[int(kind)]}.{rest}"]
        else:
            moved[name] = array
    return moved
