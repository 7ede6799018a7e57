r"""FedLIT: cluster links into latent kinds, and learn a separate channel for each kind.

Xie, Xiong and Yang, *Federated Node Classification over Graphs with Latent Link-type
Heterogeneity*, WWW 2023.

Each client clusters its links (see :mod:`ramet.models.link_kinds`) and trains one channel per
cluster. The order of clusters differs between clients. So the server first groups them by their
centres, with one cluster of each client per group:

.. math:: \min_\phi \sum_{c} \sum_{\varphi \in \phi_c} \lVert \varphi - \tilde\varphi_c \rVert^2,
          \qquad \tilde\varphi_c = \frac{1}{|\phi_c|} \sum_{\varphi \in \phi_c} \varphi,

and then averages the channels of each group, weighted by the number of nodes they touch.

==============================  ==============================================================
paper symbol                    name here
==============================  ==============================================================
:math:`k`                       ``kinds``
:math:`\varphi^c_n`             a client's ``kinds.centres``
:math:`\tilde\varphi_c`         ``kinds.centres`` of the server's state
:math:`\theta^s, \theta^t`      ``project``, ``classify``
:math:`\theta^c`                ``channels.c``
:math:`|V^c_n|`                 ``kinds.nodes``; 0 if the client has no links of this kind
:math:`\phi`                    the note ``groups``: client to the group of each of its channels
==============================  ==============================================================

Grouping alternates Hungarian assignment and means, starting from the last centres. Every client
receives the merge in its own order of channels, so its optimiser's moments stay with their channel.
A kind without links at a client is left out of the grouping and has no weight.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import NonNegativeInt
from pydantic.dataclasses import dataclass

from ramet.methods.authors import Authors, Deviation
from ramet.models.multi_channel_gcn import MultiChannelGCN
from ramet.models.settings import LinkClustering, MultiChannelNetwork
from ramet.payload import Array, Arrays, Payload, everything, only, under
from ramet.rules.extras import are_counts
from ramet.rules.merging import Comparing, weighted_mean
from ramet.rules.method import Method
from ramet.rules.server import Server
from ramet.tasks import node_classification

_CENTRES, _NODES, _CHANNELS = "kinds.centres", "kinds.nodes", "channels."
_MAX_ITERATIONS = 50
Grouping = Literal["true", "matched", "common"]
Members: TypeAlias = Sequence[Sequence[tuple[str, int]]]
"""For each group its channels that touch any node, as pairs of client and channel."""


@dataclass(frozen=True)
class ChannelMean(Comparing):
    """A weighted mean per group of channels.

    With ``true``, group c is channel c of all clients. With ``matched``, the clients' centres are
    grouped every round, one of each client per group, as in the paper. With ``common``, they are
    grouped once and without that constraint, so several clusters of a client may share a group.
    From then on every client starts from the groups' centres, and kinds that it does not have are
    empty clusters.
    """

    grouping: Grouping = "matched"

    def send(self, state: Payload, client: str) -> Arrays:
        """Return the merge, with channels in the client's own order if clients differ in it."""
        group_of = _groups(state).get(client)
        return state.arrays if group_of is None else _reordered(state.arrays, group_of)

    def compared(self, state: Payload, replies: Mapping[str, Payload], server: Server) -> Payload:  # noqa: ARG002
        before = _groups(state)
        groups = self._grouped(state, replies)
        members = [
            [
                (client, channel)
                for client, reply in replies.items()
                for channel, own_group in enumerate(groups[client])
                if own_group == group and reply.arrays[_NODES][channel] > 0
            ]
            for group in range(state.arrays[_NODES].size)
        ]
        merged = weighted_mean(state.arrays, replies.items())
        for group, inside in enumerate(members):
            merged |= _mean_channel(state, replies, group, inside)
        merged[_NODES] = np.array(
            [sum(replies[c].arrays[_NODES][i] for c, i in inside) for inside in members],
            np.float32,
        )
        merged[_CENTRES] = np.array(
            [
                np.mean([replies[c].arrays[_CENTRES][i] for c, i in inside], axis=0, dtype=float)
                if inside
                else state.arrays[_CENTRES][group]
                for group, inside in enumerate(members)
            ],
            np.float32,
        )
        updates = {
            client: _channel_updates(self.send(state, client), reply.arrays)
            for client, reply in replies.items()
        }
        metrics = {
            **_agreement(replies, members),
            **_update_metrics(updates, _channel_updates(state.arrays, merged), members),
        }
        orders = {**before, **groups} if self.grouping == "matched" else {}
        return Payload(merged, metrics, {"groups": json.dumps(orders, sort_keys=True)})

    def _grouped(self, state: Payload, replies: Mapping[str, Payload]) -> dict[str, list[int]]:
        """For each client, the group of each of its channels."""
        last = state.arrays[_CENTRES]
        centres = {client: reply.arrays[_CENTRES] for client, reply in replies.items()}
        nodes = {client: reply.arrays[_NODES] for client, reply in replies.items()}
        if self.grouping == "matched":
            return match_centres(last, centres, {client: n > 0 for client, n in nodes.items()})
        if self.grouping == "common" and not last.any():
            return cluster_centres(len(last), centres, nodes)
        return {client: list(range(len(last))) for client in replies}


def _mean_channel(
    state: Payload, replies: Mapping[str, Payload], group: int, members: Sequence[tuple[str, int]]
) -> Arrays:
    """Average the channels of a group, weighted by the number of nodes that each touches."""
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
    merged = weighted_mean(under(prefix, state.arrays), inside)
    return {prefix + name: array for name, array in merged.items()}


def cluster_centres(
    count: int, centres: Mapping[str, Array], nodes: Mapping[str, Array]
) -> dict[str, list[int]]:
    """Group the clients' centres by k-means on their directions, weighted by their nodes.

    With fewer different centres than groups, each is its own group.
    """
    from sklearn.cluster import KMeans

    present = [
        (client, kind) for client, own in centres.items() for kind in np.flatnonzero(nodes[client])
    ]
    vectors = np.array([centres[client][kind] for client, kind in present], np.float64)
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    different = len(np.unique(unit, axis=0))
    means = KMeans(min(count, different), n_init=10, random_state=0)
    labels = means.fit_predict(
        unit, sample_weight=[nodes[client][kind] for client, kind in present]
    )
    groups = {client: [0] * len(own) for client, own in centres.items()}
    for (client, kind), group in zip(present, labels.tolist(), strict=True):
        groups[client][kind] = group
    return groups


def match_centres(
    last: Array, centres: Mapping[str, Array], present: Mapping[str, NDArray[np.bool_]]
) -> dict[str, list[int]]:
    """Group the clients' centres, with one centre of each client per group.

    Kinds that a client does not have get the remaining groups. They have no weight, so this does
    not change the merge.
    """
    from scipy.optimize import linear_sum_assignment

    means = last.astype(np.float64)
    unset = ~means.any(axis=1)
    if unset.any():
        richest = max(centres, key=lambda client: (int(present[client].sum()), client))
        spare = iter(centres[richest][present[richest]].astype(np.float64))
        for empty in np.flatnonzero(unset):
            means[empty] = next(spare, means[empty])
    groups: dict[str, list[int]] = {}
    for _ in range(_MAX_ITERATIONS):
        before = groups
        groups = {}
        for client, own in centres.items():
            kinds = np.flatnonzero(present[client])
            costs = ((own[kinds, None].astype(np.float64) - means[None]) ** 2).sum(axis=2)
            assigned = linear_sum_assignment(costs)[1]
            remaining = iter(sorted({*range(len(means))} - {*assigned.tolist()}))
            group_of = dict(zip(kinds.tolist(), assigned.tolist(), strict=True))
            groups[client] = [
                group_of[kind] if kind in group_of else next(remaining) for kind in range(len(own))
            ]
        for group in range(len(means)):
            members = [
                own[groups[client].index(group)].astype(np.float64)
                for client, own in centres.items()
                if present[client][groups[client].index(group)]
            ]
            if members:
                means[group] = np.mean(members, axis=0)
        if groups == before:
            break
    return groups


def _agreement(replies: Mapping[str, Payload], members: Members) -> dict[str, float]:
    """How similar the clients' centres within groups are (Fig. 3 of FedLIT).

    ``agreement/c`` is the mean cosine over all pairs in group c. ``silhouette`` is the silhouette
    score of all centres.
    """
    vectors = [[replies[c].arrays[_CENTRES][i] for c, i in inside] for inside in members]
    metrics = {}
    for group, inside in enumerate(vectors):
        norms = np.linalg.norm(inside, axis=1) if inside else np.zeros(1)
        if len(inside) > 1 and norms.all():
            total = (np.array(inside, np.float64) / norms[:, None]).sum(axis=0)
            pairs = len(inside) * (len(inside) - 1)
            metrics[f"agreement/{group}"] = float(total @ total - len(inside)) / pairs
    groups = [group for group, inside in enumerate(vectors) for _ in inside]
    if metrics and 1 < len(set(groups)) < len(groups):
        from sklearn.metrics import silhouette_score  # takes a second to import

        centres = np.array([vector for inside in vectors for vector in inside], np.float64)
        metrics["silhouette"] = float(silhouette_score(centres, groups))
    return metrics


Updates: TypeAlias = Sequence[NDArray[np.float64]]
"""The update of each channel, all its arrays flattened into one."""


def _channel_updates(before: Arrays, after: Arrays) -> Updates:
    rows = []
    for kind in range(len(before[_NODES])):
        old, new = (under(f"{_CHANNELS}{kind}.", arrays) for arrays in (before, after))
        row = np.concatenate([(new[name] - old[name]).ravel() for name in old])
        rows.append(row.astype(np.float64))
    return rows


def _update_metrics(
    updates: Mapping[str, Updates], merged: Updates, members: Members
) -> dict[str, float]:
    """Norms and directions of the clients' channel updates (Fig. 4 of FedLIT).

    ``change/client/c`` is the norm of the client's update of its channel of group c.
    ``distance/client/c`` is the cosine distance between that update and the update of the merge.
    """
    metrics = {}
    for group, inside in enumerate(members):
        for client, channel in inside:
            update = updates[client][channel]
            norm = float(np.linalg.norm(update))
            metrics[f"change/{client}/{group}"] = norm
            norms = norm * float(np.linalg.norm(merged[group]))
            cosine = float(update @ merged[group]) / norms if norms else 0.0
            metrics[f"distance/{client}/{group}"] = 1 - cosine
    return metrics


def fed_mgcn(
    network: MultiChannelNetwork = MultiChannelNetwork(),  # noqa: B008 (frozen)
    sample: NonNegativeInt = 0,
) -> Method:
    """A channel for each true kind of link, as a reference in which the kinds are known."""
    return replace(
        fedlit(network, sample=sample),
        name="fed-mgcn",
        model=partial(MultiChannelGCN, settings=network),
        merging=ChannelMean("true"),
    )


def fedlit(
    network: MultiChannelNetwork = MultiChannelNetwork(),  # noqa: B008 (frozen)
    clustering: LinkClustering = LinkClustering(),  # noqa: B008 (frozen)
    grouping: Literal["matched", "common"] = "matched",
    sample: NonNegativeInt = 0,
) -> Method:
    """Cluster links into latent kinds across clients, and learn a channel for each kind."""
    return Method(
        name="fedlit",
        paper="doi:10.1145/3543507.3583471",
        model=partial(MultiChannelGCN, settings=network, clustering=clustering),
        shared=everything,
        switchable=only("project.*", "classify.*"),  # channels must arrive with their centres
        merging=ChannelMean(grouping),
        fault=_invalid_counts,
        task=node_classification(sample, network.layers),
    )


AUTHORS = Authors(
    setting="acm-links",
    deviations=(
        Deviation("fold", "split", "the paper's experimental settings: 10 folds; use --splits 10"),
        Deviation("activate", "false", "the program has no activation after the projections"),
        Deviation("degrees", "channel", "the program normalises by degrees in the channel"),
    ),
    not_followed=(
        "The program matches clusters greedily and with a transposed index: an error.",
        "The authors' graphs are not available.",
    ),
)
"""For FedLIT, Fed-mGCN and their baselines."""


def _invalid_counts(arrays: Arrays) -> str | None:
    """Check the node counts, which are the weights of the channels."""
    return None if are_counts(arrays[_NODES]) else f"{_NODES} has values that are not node counts"


def _groups(state: Payload) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = json.loads(state.notes.get("groups", "{}"))
    return groups


def _reordered(arrays: Arrays, source: list[int]) -> Arrays:
    """Reorder channels: channel i of the result is channel ``source[i]`` of the input."""
    reordered: dict[str, Array] = {}
    for name, array in arrays.items():
        if name in (_CENTRES, _NODES):
            reordered[name] = array[source]
        elif name.startswith(_CHANNELS):
            kind, _, rest = name.removeprefix(_CHANNELS).partition(".")
            reordered[name] = arrays[f"{_CHANNELS}{source[int(kind)]}.{rest}"]
        else:
            reordered[name] = array
    return reordered
