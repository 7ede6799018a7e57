"""Figures of the clients' data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ramet.report.drawing import COLOURS, legend_right, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def class_shares(classes: Mapping[str, Mapping[str, int]]) -> Figure:
    """A bar per client, divided into the shares of its classes."""
    names = dict.fromkeys(name for own in classes.values() for name in own)
    counts = np.array([[own.get(name, 0) for name in names] for own in classes.values()])
    shares = 100 * counts / counts.sum(axis=1, keepdims=True).clip(min=1)
    with new_figure(7, 1.0 + 0.4 * len(classes)) as (figure, axes):
        left = np.zeros(len(classes))
        for index, name in enumerate(names):
            colour = COLOURS[(index + 1) % len(COLOURS)]
            axes.barh([*classes], shares[:, index], 0.7, left, color=colour, label=name)
            left += shares[:, index]
        axes.invert_yaxis()
        axes.set(xlabel="share of labelled nodes, %", xlim=(0, 100))
        axes.grid(axis="y", visible=False)
        legend_right(axes, "class")
    return figure
