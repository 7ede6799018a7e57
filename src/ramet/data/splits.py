"""Seeded splits, and the manifest that records which split a run used."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from ramet.data.shuffle_split import shuffle_split, stratified_shuffle_split
from ramet.errors import RametError

PARTS = ("train", "val", "test")
GRAPH_SHARES = (0.8, 0.1, 0.1)
NODE_SHARES = (0.6, 0.2, 0.2)
_RARE = 0.4


@dataclass(frozen=True)
class Split:
    """Indices of the training, validation and test samples."""

    train: Tensor
    val: Tensor
    test: Tensor

    @cached_property
    def manifest(self) -> dict[str, Any]:
        indices = {part: getattr(self, part).tolist() for part in PARTS}
        text = json.dumps(indices, sort_keys=True)
        return {"sha256": hashlib.sha256(text.encode()).hexdigest(), **indices}

    def restricted_to(self, samples: Tensor, total: int) -> Split:
        """Keep only these samples, out of ``total``, and renumber them in the order given."""
        new_index = torch.full((total,), -1, dtype=torch.int64)
        new_index[samples] = torch.arange(samples.numel())

        def renumber(indices: Tensor) -> Tensor:
            renumbered = new_index[indices]
            return renumbered[renumbered >= 0]

        return Split(renumber(self.train), renumber(self.val), renumber(self.test))


def stratified(labels: Tensor, seed: int, members: Tensor | None = None) -> Split:
    """Split 8:1:1, stratified by class where classes are large enough.

    ``members`` limits the split to some samples, such as one client's part of a dataset.
    """
    chosen = torch.arange(len(labels)) if members is None else members
    train, rest = _divide(chosen, labels, 0.2, seed)
    val, test = _divide(rest, labels, 0.5, seed)
    return Split(train, val, test)


def strata(labels: Tensor) -> Tensor:  # [samples]
    """What samples are drawn in equal shares of: classes; numbers and several labels are alike."""
    return torch.zeros(len(labels), dtype=torch.int64) if labels.is_floating_point() else labels


def counts_of(labels: Tensor, classes: int) -> Tensor:  # [classes or outputs]
    """How many samples have each class, or a known value of each number or label."""
    if labels.is_floating_point():
        return (~labels.isnan()).sum(dim=0)
    return torch.bincount(labels, minlength=classes)


def has_rare_class(labels: Tensor, classes: int) -> bool:
    """Whether a class has less than 40 % of an even share: of two classes, less than 20 %."""
    counts = torch.bincount(labels, minlength=classes)
    return classes > 1 and bool((counts < _RARE * labels.numel() / classes).any())


def _divide(members: Tensor, labels: Tensor, share: float, seed: int) -> tuple[Tensor, Tensor]:
    classes = strata(labels)[members]
    if members.numel() < 2:
        raise RametError(
            f"{members.numel()} samples are too few to split; a client needs 10 or more in all. "
            "Use fewer clients or a larger dataset."
        )
    counts = torch.bincount(classes)
    smaller_size = round(members.numel() * min(share, 1 - share))
    can_stratify = bool((counts[counts > 0] >= 2).all()) and smaller_size >= int((counts > 0).sum())
    if can_stratify:
        rest, taken = stratified_shuffle_split(classes.numpy(), share, seed)
    else:
        rest, taken = shuffle_split(members.numel(), share, seed)
    return members[torch.from_numpy(rest)], members[torch.from_numpy(taken)]


def node_fold_split(labels: Tensor, seed: int, fold: int, folds: int = 10) -> Split:
    """Hold out a fifth of the nodes for test; of the rest, use one fold for validation."""
    rest, test = _divide(torch.arange(len(labels)), labels, 0.2, seed)
    val = rest[fold::folds]
    is_val = torch.isin(rest, val)
    return Split(rest[~is_val], val, test)


def node_split(
    labels: Tensor, seed: int, share: float = 0.6, validation: float | None = None
) -> Split:
    """Split 6:2:2, stratified by class, as FedSage's authors do.

    ``share``: of the training nodes; ``validation``: of those for validation; without it, the rest
    is halved.
    """
    train, rest = _divide(torch.arange(len(labels)), labels, 1 - share, seed)
    tested = 0.5 if validation is None else 1 - validation / (1 - share)
    val, test = _divide(rest, labels, tested, seed)
    return Split(train, val, test)


def joined(splits: Sequence[Split], sizes: Sequence[int]) -> Split:
    """The split of several clients' samples in one place, one after the other."""
    starts = [0, *accumulate(sizes)]

    def join(part: str) -> Tensor:
        moved = (getattr(split, part) + first for split, first in zip(splits, starts, strict=False))
        return torch.cat([*moved])

    return Split(*map(join, PARTS))


def drawn_parts(labels: Tensor, shares: Sequence[float], seed: int) -> Tensor:  # [samples]
    """Draw the part of each sample, at the same shares in every class, however few there are."""
    draw = torch.Generator().manual_seed(seed)
    parts = torch.empty_like(labels)
    ends = torch.tensor(shares, dtype=torch.float64).cumsum(0)[:-1]
    for label in sorted({*labels.tolist()}):
        members = (labels == label).nonzero().flatten()
        shuffled = members[torch.randperm(members.numel(), generator=draw)]
        offset = torch.rand(1, generator=draw, dtype=torch.float64)  # a single sample may be in any
        places = (torch.arange(members.numel()) + offset) / members.numel()
        parts[shuffled] = torch.bucketize(places, ends, right=True)
    return parts
