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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import NonNegativeInt
from pydantic.dataclasses import dataclass

from ramet.methods.base import Method
from ramet.methods.merging import Reply, WeightedMean
from ramet.methods.training import LocalTraining
from ramet.models import (
    GCN,
    GCNNetwork,
    LinkClustering,
    MultiChannelGCN,
    MultiChannelNetwork,
)
from ramet.payload import Array, Arrays, Payload, everything, nothing, only, under
from ramet.tasks import NodeClassification

_CENTRES, _NODES, _CHANNELS = "kinds.centres", "kinds.nodes", "channels."
_NODE_TRAINING = LocalTraining(lr=0.01)
_MOST_TURNS = 50
Grouping = Literal["true", "matched", "common"]
Members: TypeAlias = Sequence[Sequence[tuple[str, int]]]
"""For each group the client and the channel of those in it that touch any node."""


@dataclass(frozen=True)
class ChannelMean:
    """A mean per group of channels.

    ``true`` takes channel c of all clients for group c. ``matched`` groups the clients' centres
    every round, one of each client in a group, as in the paper. ``common`` groups them once,
    freely, so that several of a client's clusters may fall into one group; from then on every
    client starts from the groups' centres, and has empty clusters for the kinds that it lacks.

    Grouping needs all centres of a round at once, so the server's memory grows with the clients.
    """

    grouping: Grouping = "matched"

    def start(self, shared: Arrays) -> Payload:
        return Payload(dict(shared))

    def ask(self, state: Payload, client: str) -> Arrays:
        """The merge, its channels in the client's own order if clients have such."""
        group_of = _groups(state).get(client)
        return state.arrays if group_of is None else _reordered(state.arrays, group_of)

    def merge(self, state: Payload, replies: Iterable[Reply]) -> Payload:
        came = dict(sorted(dict(replies).items()))
        if not came:
            return state
        known = _groups(state)
        group_of = self._grouped(state, came)
        members = [
            [
                (client, channel)
                for client, reply in came.items()
                for channel, group in enumerate(group_of[client])
                if group == wanted and reply.arrays[_NODES][channel] > 0
            ]
            for wanted in range(state.arrays[_NODES].size)
        ]
        merged = dict(WeightedMean().merge(state, came.items()).arrays)
        for group, inside in enumerate(members):
            merged |= _mean_channel(state, came, group, inside)
        merged[_NODES] = np.array(
            [sum(came[who].arrays[_NODES][at] for who, at in inside) for inside in members],
            np.float32,
        )
        merged[_CENTRES] = np.array(
            [
                np.mean([came[who].arrays[_CENTRES][at] for who, at in inside], axis=0, dtype=float)
                if inside
                else state.arrays[_CENTRES][group]
                for group, inside in enumerate(members)
            ],
            np.float32,
        )
        made = {
            client: _changed(self.ask(state, client), reply.arrays)
            for client, reply in came.items()
        }
        told = {
            **_agreement(came, members),
            **_changes(made, _changed(state.arrays, merged), members),
        }
        orders = {**known, **group_of} if self.grouping == "matched" else {}
        return Payload(merged, told, {"groups": json.dumps(orders, sort_keys=True)})

    def _grouped(self, state: Payload, came: Mapping[str, Payload]) -> dict[str, list[int]]:
        """For each client the group of each of its channels."""
        last = state.arrays[_CENTRES]
        centres = {client: reply.arrays[_CENTRES] for client, reply in came.items()}
        nodes = {client: reply.arrays[_NODES] for client, reply in came.items()}
        if self.grouping == "matched":
            return matched(last, centres, {client: n > 0 for client, n in nodes.items()})
        if self.grouping == "common" and not last.any():
            return common(len(last), centres, nodes)
        return {client: list(range(len(last))) for client in came}


def _mean_channel(
    state: Payload, replies: Mapping[str, Payload], group: int, members: Sequence[tuple[str, int]]
) -> Arrays:
    """A group's channel: the mean over its members, weighted by the nodes that each touches."""
    prefix = f"{_CHANNELS}{group}."
    inside = (
        (
            client,
            Payload(
                under(f"{_CHANNELS}{channel}.", replies[client].arrays),
                {"weight": float(replies[client].arrays[_NODES][channel])},
            ),
        )
        for client, channel in members
    )
    merged = WeightedMean().merge(Payload(under(prefix, state.arrays)), inside)
    return {prefix + name: array for name, array in merged.arrays.items()}


def common(
    count: int, centres: Mapping[str, Array], nodes: Mapping[str, Array]
) -> dict[str, list[int]]:
    """Group the clients' centres freely, by k-means on their directions, weighted by their nodes.

    With fewer centres than groups, each is a group of its own.
    """
    from sklearn.cluster import KMeans

    places = [
        (client, at) for client, own in centres.items() for at in np.flatnonzero(nodes[client])
    ]
    vectors = np.array([centres[client][at] for client, at in places], np.float64)
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    different = len(np.unique(unit, axis=0))
    means = KMeans(min(count, different), n_init=10, random_state=0)
    found = means.fit_predict(unit, sample_weight=[nodes[client][at] for client, at in places])
    groups = {client: [0] * len(own) for client, own in centres.items()}
    for (client, at), group in zip(places, found.tolist(), strict=True):
        groups[client][at] = group
    return groups


def matched(
    last: Array, centres: Mapping[str, Array], present: Mapping[str, NDArray[np.bool_]]
) -> dict[str, list[int]]:
    """Group the clients' centres, one of each client in a group.

    Kinds that a client lacks get the groups that are left over, which changes nothing: they have
    no weight.
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
    return groups


def _agreement(replies: Mapping[str, Payload], members: Members) -> dict[str, float]:
    """How alike the clients' centres of a group are (Fig. 3 of FedLIT).

    ``agreement/c`` is the mean cosine of all pairs in group c, ``silhouette`` that of all centres.
    """
    vectors = [[replies[who].arrays[_CENTRES][at] for who, at in inside] for inside in members]
    told = {}
    for group, inside in enumerate(vectors):
        sizes = np.linalg.norm(inside, axis=1) if inside else np.zeros(1)
        if len(inside) > 1 and sizes.all():
            total = (np.array(inside, np.float64) / sizes[:, None]).sum(axis=0)
            pairs = len(inside) * (len(inside) - 1)
            told[f"agreement/{group}"] = float(total @ total - len(inside)) / pairs
    groups = [group for group, inside in enumerate(vectors) for _ in inside]
    if told and 1 < len(set(groups)) < len(groups):
        from sklearn.metrics import silhouette_score  # takes a second to import

        every = np.array([vector for inside in vectors for vector in inside], np.float64)
        told["silhouette"] = float(silhouette_score(every, groups))
    return told


Changes: TypeAlias = Sequence[NDArray[np.float64]]
"""Of each channel, all its arrays in one row."""


def _changed(before: Arrays, after: Arrays) -> Changes:
    rows = []
    for kind in range(len(before[_NODES])):
        old, new = (under(f"{_CHANNELS}{kind}.", arrays) for arrays in (before, after))
        row = np.concatenate([(new[name] - old[name]).ravel() for name in old])
        rows.append(row.astype(np.float64))
    return rows


def _changes(made: Mapping[str, Changes], merged: Changes, members: Members) -> dict[str, float]:
    """What a round changed in each client's channels (Fig. 4 of FedLIT).

    ``change/client/c`` is the norm of the change that the client made to its channel of group c,
    ``distance/client/c`` its cosine distance to the change that the server's merge is.
    """
    told = {}
    for group, inside in enumerate(members):
        for client, channel in inside:
            own = made[client][channel]
            size = float(np.linalg.norm(own))
            told[f"change/{client}/{group}"] = size
            both = size * float(np.linalg.norm(merged[group]))
            likeness = float(own @ merged[group]) / both if both else 0.0
            told[f"distance/{client}/{group}"] = 1 - likeness
    return told


def fed_gcn(
    network: GCNNetwork = GCNNetwork(),  # noqa: B008 (frozen)
    sample: NonNegativeInt = 0,
    training: LocalTraining = _NODE_TRAINING,
) -> Method:
    """FedAvg of a GCN that takes all links alike."""
    return Method(
        name="fed-gcn",
        paper="doi:10.1145/3543507.3583471",
        model=partial(GCN, settings=network),
        shared=everything,
        training=training,
        merging=WeightedMean(),
        task=NodeClassification((sample,) * network.layers if sample else ()),
    )


def local_gcn(
    network: GCNNetwork = GCNNetwork(),  # noqa: B008 (frozen)
    sample: NonNegativeInt = 0,
    training: LocalTraining = _NODE_TRAINING,
) -> Method:
    """A GCN per client, nothing shared: the baseline for nodes."""
    return replace(fed_gcn(network, sample, training), name="local-gcn", shared=nothing)


def fed_mgcn(
    network: MultiChannelNetwork = MultiChannelNetwork(),  # noqa: B008 (frozen)
    sample: NonNegativeInt = 0,
    training: LocalTraining = _NODE_TRAINING,
) -> Method:
    """A channel for each true kind of link: what could be reached if the kinds were known."""
    return replace(
        fedlit(network, sample=sample, training=training),
        name="fed-mgcn",
        model=partial(MultiChannelGCN, settings=network),
        merging=ChannelMean("true"),
    )


def fedlit(
    network: MultiChannelNetwork = MultiChannelNetwork(),  # noqa: B008 (frozen)
    clustering: LinkClustering = LinkClustering(),  # noqa: B008 (frozen)
    grouping: Literal["matched", "common"] = "matched",
    sample: NonNegativeInt = 0,
    training: LocalTraining = _NODE_TRAINING,
) -> Method:
    """Find the kinds of links together, and learn each in a channel of its own."""
    return Method(
        name="fedlit",
        paper="doi:10.1145/3543507.3583471",
        model=partial(MultiChannelGCN, settings=network, clustering=clustering),
        shared=everything,
        training=training,
        switchable=only("project.*", "classify.*"),  # channels come with their centres
        merging=ChannelMean(grouping),
        flaw=_flaw_of_counts,
        task=NodeClassification((sample,) * network.layers if sample else ()),
    )


def _flaw_of_counts(arrays: Arrays) -> str | None:
    """Channels are weighted by the nodes that they touch."""
    counts = arrays[_NODES]
    sound = bool((counts >= 0).all() and (counts == np.round(counts)).all())
    return None if sound else f"{_NODES} are not numbers of nodes"


def _groups(state: Payload) -> dict[str, list[int]]:
    found: dict[str, list[int]] = json.loads(state.notes.get("groups", "{}"))
    return found


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
