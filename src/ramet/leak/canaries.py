"""Canaries: samples with a wrong class, each trained with or not by the toss of a coin.

Whoever then tells from the final models which ones were trained with shows how much a single sample
can change them. See `epsilon_bound`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ramet.experiment.run_models import start_model_of
from ramet.leak.attacked import Attacked
from ramet.leak.candidates import Candidates
from ramet.leak.intervals import Scores
from ramet.randomness import Randomness


@dataclass(frozen=True)
class Guesses:
    """How many guesses were correct; the attacker guesses where it is surest."""

    correct: int
    made: int


@dataclass(frozen=True)
class _Site:
    """A site with canaries."""

    altered: Candidates
    canaries: torch.Tensor
    included: torch.Tensor

    def samples(self) -> object:
        """The site's samples, without the canaries that lost the toss."""
        lost = self.canaries[~self.included]
        members = self.altered.members
        return self.altered.trained_with(members[~torch.isin(members, lost)])


def guesses(run: Attacked) -> Guesses:
    """Repeat the run with canaries at every site, and guess which ones were trained with."""
    count, seed = run.effort.canaries, run.effort.seed
    sites = {
        client: _with_canaries(site, client, count, seed) for client, site in run.sites.items()
    }
    models = run.trained({client: site.samples() for client, site in sites.items()}, 0)
    scores, included = [], []
    for client, site in sites.items():
        margins = site.altered.margins(models[client], site.canaries)
        before = site.altered.margins(start_model_of(run.experiment, client), site.canaries)
        gain = margins - before
        scores.append(gain - np.median(gain))
        included.append(site.included.numpy())
    return _counted(np.concatenate(scores), np.concatenate(included))


def _with_canaries(site: Candidates, client: str, count: int, seed: int) -> _Site:
    randomness = Randomness(seed, client, 0)
    order = torch.randperm(site.members.numel(), generator=randomness.generator("canaries"))
    chosen = site.members[order[: min(count, site.members.numel() // 2)]]
    altered = site.with_wrong_labels(chosen, randomness.generator("classes of canaries"))
    tosses = torch.randint(0, 2, chosen.shape, generator=randomness.generator("tosses"))
    return _Site(altered, chosen, tosses.bool())


def _counted(scores: Scores, included: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Guesses:
    """Guess the upper quarter as trained with and the lower quarter as not."""
    order, part = np.argsort(scores, kind="stable"), max(1, scores.size // 4)
    correct = int(included[order[-part:]].sum()) + int((~included[order[:part]]).sum())
    return Guesses(correct, 2 * part)
