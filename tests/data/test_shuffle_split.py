"""The split has scikit-learn's indices."""

from __future__ import annotations

import numpy as np
from sklearn.model_selection import train_test_split

from ramet.data.shuffle_split import shuffle_split, stratified_shuffle_split


def test_random_splits_equal_scikit_learns() -> None:
    draw = np.random.default_rng(7)
    for _ in range(200):
        samples, seed = int(draw.integers(2, 400)), int(draw.integers(2**31))
        share = float(draw.choice([0.1, 0.2, 0.4, 0.5]))
        expected = train_test_split(np.arange(samples), test_size=share, random_state=seed)
        for mine, theirs in zip(shuffle_split(samples, share, seed), expected, strict=True):
            assert mine.tolist() == theirs.tolist()


def test_stratified_splits_equal_scikit_learns() -> None:
    draw = np.random.default_rng(8)
    for _ in range(300):
        count, seed = int(draw.integers(1, 12)), int(draw.integers(2**31))
        names = draw.choice(30, size=count, replace=False)
        classes = np.concatenate([names, names, draw.choice(names, size=draw.integers(8, 600))])
        share = float(draw.choice([0.1, 0.2, 0.4, 0.5]))
        if classes.size * min(share, 1 - share) < count:
            continue
        draw.shuffle(classes)
        expected = train_test_split(
            np.arange(classes.size), test_size=share, random_state=seed, stratify=classes
        )
        split = stratified_shuffle_split(classes, share, seed)
        for mine, theirs in zip(split, expected, strict=True):
            assert mine.tolist() == theirs.tolist()
