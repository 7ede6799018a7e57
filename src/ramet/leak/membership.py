"""Membership: which samples a network was trained with.

By loss (Yeom et al., 2018): members have a smaller one. By likelihood ratios (LiRA; Carlini et al.,
2022): the loss is compared with that in shadow runs, in which each sample was trained with in one
half of the runs and not in the other. The attacker has the sites' own samples, so it is stronger
than most; with few shadow runs it is weaker than LiRA can be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ramet.leak.candidates import Candidates
from ramet.leak.intervals import Ranked, Scores
from ramet.randomness import Randomness


def by_loss(
    models: Sequence[Mapping[str, nn.Module]], sites: Mapping[str, Candidates]
) -> list[Ranked]:
    """The scores of members and others: the mean over all networks that were seen."""
    ranked = []
    for client, site in sites.items():
        known = [seen[client] for seen in models if client in seen]
        if known:
            members, others = (
                np.mean([site.margins(model, chosen) for model in known], axis=0)
                for chosen in (site.members, site.others)
            )
            ranked.append(Ranked(members, others))
    return [one for one in ranked if one.usable]


@dataclass(frozen=True)
class Expected:
    """The margins of a site's samples in shadow runs, with their spread over the runs."""

    trained: Scores
    """The mean of each sample over the runs in which it was trained with."""
    other: Scores
    deviations: tuple[float, float]

    @staticmethod
    def of(margins: Scores, included: NDArray[np.bool_]) -> Expected:  # both [runs, samples]
        """A sample's own difference is drawn towards that of all samples, as far as it is noise."""
        means, spreads = [], []
        half = margins.shape[0] // 2
        for which in (included, ~included):
            chosen = np.where(which, margins, np.nan)
            means.append(np.nanmean(chosen, axis=0))
            squares = np.nansum((chosen - means[-1]) ** 2) / max(1, (half - 1) * margins.shape[1])
            spreads.append(float(squares) or 1.0)
        difference, centre = means[0] - means[1], (means[0] + means[1]) / 2
        spread = float(difference.var())
        own = max(0.0, 1 - sum(spreads) / half / spread) if spread else 0.0
        difference = difference.mean() + own * (difference - difference.mean())
        return Expected(
            centre + difference / 2, centre - difference / 2, (spreads[0] ** 0.5, spreads[1] ** 0.5)
        )

    def ratios(self, margins: Scores) -> Scores:
        """The logarithm of how much more likely a margin is of a sample that was trained with."""
        inside, outside = self.deviations
        found: Scores = (
            ((margins - self.other) / outside) ** 2 / 2
            - ((margins - self.trained) / inside) ** 2 / 2
            + np.log(outside / inside)
        )
        return found


@dataclass(frozen=True)
class Shadows:
    """What shadow runs say about each site's members, then its other samples."""

    expected: Mapping[str, Expected]

    def ratios(
        self, models: Sequence[Mapping[str, nn.Module]], sites: Mapping[str, Candidates]
    ) -> list[Ranked]:
        """The likelihood ratios of members and others under the latest networks."""
        ranked = []
        for client, model in models[-1].items():
            site = sites[client]
            ratios = self.expected[client].ratios(site.margins(model, _everyone(site)))
            ranked.append(Ranked(*np.split(ratios, [site.members.numel()])))
        return [one for one in ranked if one.usable]


def shadows(
    trained: Callable[[Mapping[str, Any], int], Mapping[str, nn.Module]],
    sites: Mapping[str, Candidates],
    count: int,
    seed: int,
) -> Shadows:
    """Repeat the run with random halves of all sites' samples, then with the other halves."""
    margins: dict[str, list[Scores]] = {client: [] for client in sites}
    included: dict[str, list[NDArray[np.bool_]]] = {client: [] for client in sites}
    for number in range(count):
        halves = {client: _half(site, client, number, seed) for client, site in sites.items()}
        models = trained(
            {c: site.trained_with(_everyone(site)[halves[c]]) for c, site in sites.items()},
            number + 1,
        )
        for client, site in sites.items():
            margins[client].append(site.margins(models[client], _everyone(site)))
            included[client].append(halves[client].numpy())
    return Shadows(
        {c: Expected.of(np.stack(margins[c]), np.stack(included[c])) for c in sites if count}
    )


def _everyone(site: Candidates) -> torch.Tensor:
    return torch.cat([site.members, site.others])


def _half(site: Candidates, client: str, number: int, seed: int) -> torch.Tensor:
    """Which samples a shadow run is trained with; after an even number come the other ones."""
    samples = _everyone(site).numel()
    draw = Randomness(seed, client, number - number % 2).generator("halves")
    chosen = torch.randperm(samples, generator=draw) < samples // 2
    return ~chosen if number % 2 else chosen
