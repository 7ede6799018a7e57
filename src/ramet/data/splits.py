"""Seeded splits, and the manifest that proves which split a run used."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ramet.errors import RametError

PARTS = ("train", "val", "test")


@dataclass(frozen=True)
class Split:
    """Which samples train, which choose, which judge."""

    train: Tensor
    val: Tensor
    test: Tensor

    @cached_property
    def manifest(self) -> dict[str, Any]:
        indices = {part: getattr(self, part).tolist() for part in PARTS}
        text = json.dumps(indices, sort_keys=True)
        return {"sha256": hashlib.sha256(text.encode()).hexdigest(), **indices}

    def among(self, samples: Tensor, total: int) -> Split:
        """The split as those see it who hold only these samples, under numbers of their own."""
        place = torch.full((total,), -1, dtype=torch.int64)
        place[samples] = torch.arange(samples.numel())

        def here(chosen: Tensor) -> Tensor:
            found = place[chosen]
            return found[found >= 0]

        return Split(here(self.train), here(self.val), here(self.test))


def stratified(labels: Tensor, seed: int, members: Tensor | None = None) -> Split:
    """8:1:1 with the classes in even shares: a fifth is taken off, then halved.

    ``members`` limits the split to some samples (one client's part of a dataset).
    """
    chosen = torch.arange(labels.numel()) if members is None else members
    train, rest = _divide(chosen, labels, 0.2, seed)
    val, test = _divide(rest, labels, 0.5, seed)
    return Split(train, val, test)


def _divide(members: Tensor, labels: Tensor, share: float, seed: int) -> tuple[Tensor, Tensor]:
    classes = labels[members]
    if members.numel() < 2:
        raise RametError(
            f"a client with {members.numel()} graphs cannot be split 8:1:1; it needs 10 or more. "
            "Use fewer clients or a larger dataset."
        )
    from sklearn.model_selection import train_test_split  # takes a second to import

    counts = torch.bincount(classes)
    smaller_part = round(members.numel() * min(share, 1 - share))
    even = bool((counts[counts > 0] >= 2).all()) and smaller_part >= int((counts > 0).sum())
    kept, taken = train_test_split(
        np.arange(members.numel()),
        test_size=share,
        random_state=seed,
        shuffle=True,
        stratify=classes.numpy() if even else None,
    )
    return members[torch.from_numpy(kept)], members[torch.from_numpy(taken)]


def nodes_in_folds(labels: Tensor, seed: int, fold: int, folds: int = 10) -> Split:
    """A fifth of the nodes judges; of the rest one fold chooses and the others train."""
    rest, test = _divide(torch.arange(labels.numel()), labels, 0.2, seed)
    val = rest[fold::folds]
    held = torch.isin(rest, val)
    return Split(rest[~held], val, test)


def nodes_in_shares(labels: Tensor, seed: int) -> Split:
    """6:2:2 with the classes in even shares, as FedSage's authors split."""
    train, rest = _divide(torch.arange(labels.numel()), labels, 0.4, seed)
    val, test = _divide(rest, labels, 0.5, seed)
    return Split(train, val, test)
