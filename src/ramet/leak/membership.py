"""Membership: which samples a network was trained with.

By loss (Yeom et al., 2018): members have a smaller one. By reference models (Watson et al., 2022;
the offline attack of Carlini et al., 2022): the loss is compared with that of networks which were
trained on random halves of the site's samples, without the sample in question. This attacker knows
other samples of the site, so it is stronger than most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from ramet.engine.start import start_model
from ramet.experiment import Experiment
from ramet.leak.candidates import Candidates
from ramet.leak.intervals import Ranked, Scores
from ramet.randomness import Randomness
from ramet.training.local import Session


def by_loss(models: Mapping[str, nn.Module], sites: Mapping[str, Candidates]) -> list[Ranked]:
    """The scores of members and others under each site's network."""
    ranked = [
        Ranked(
            site.margins(models[client], site.members), site.margins(models[client], site.others)
        )
        for client, site in sites.items()
        if client in models
    ]
    return [one for one in ranked if one.usable]


@dataclass(frozen=True)
class References:
    """What reference models that were not trained with a sample say about it, by site."""

    members: Mapping[str, Scores]
    others: Mapping[str, Scores]

    def calibrated(
        self, models: Mapping[str, nn.Module], sites: Mapping[str, Candidates]
    ) -> list[Ranked]:
        """By how much a network knows a sample better than the reference models do."""
        ranked = []
        for client, site in sites.items():
            if client not in models:
                continue
            members = site.margins(models[client], site.members) - self.members[client]
            others = site.margins(models[client], site.others) - self.others[client]
            ranked.append(Ranked(members[np.isfinite(members)], others[np.isfinite(others)]))
        return [one for one in ranked if one.usable]


def references(
    experiment: Experiment, sites: Mapping[str, Candidates], count: int, rounds: int, seed: int
) -> References:
    """Train reference models for each site, half of them without any given sample."""
    members, others = {}, {}
    for client, site in sites.items():
        everyone = torch.cat([site.members, site.others])
        total, seen = np.zeros(everyone.numel()), np.zeros(everyone.numel())
        for number in range(count):
            randomness = Randomness(seed, client, number)
            order = torch.randperm(everyone.numel(), generator=randomness.generator("halves"))
            if number % 2:  # the other half of the reference before
                earlier = Randomness(seed, client, number - 1).generator("halves")
                order = torch.randperm(everyone.numel(), generator=earlier).flip(0)
            half, rest = order.tensor_split(2)
            model = _trained(experiment, client, site, everyone[half], rounds, seed + number)
            total[rest.numpy()] += site.margins(model, everyone[rest])
            seen[rest.numpy()] += 1
        with np.errstate(invalid="ignore"):
            means = total / np.where(seen > 0, seen, np.nan)
        members[client], others[client] = np.split(means, [site.members.numel()])
    return References(members, others)


def _trained(
    experiment: Experiment,
    client: str,
    site: Candidates,
    chosen: torch.Tensor,
    rounds: int,
    seed: int,
) -> nn.Module:
    """A network that was trained on the chosen samples alone, as often as in the run."""
    method, samples = experiment.method, site.trained_with(chosen)
    model = start_model(method, method.task.shape(samples), seed, client)
    optimiser = method.training.optimiser(model)
    for number in range(1, rounds + 1):
        randomness = Randomness(seed, client, number)
        session = Session(
            model, optimiser, method.training, method.task, samples, (), randomness, _CPU
        )
        method.training.fit(session)
    return model


_CPU = torch.device("cpu")
