"""Whether some class of a site is so rare that accuracy hides how well it is found."""

from __future__ import annotations

from torch import Tensor, bincount

_SHARE = 0.4


def has_rare_class(labels: Tensor, classes: int) -> bool:
    """Whether a class has less than 40 % of an even share: of two classes, less than 20 %."""
    counts = bincount(labels, minlength=classes)
    return classes > 1 and bool((counts < _SHARE * labels.numel() / classes).any())
