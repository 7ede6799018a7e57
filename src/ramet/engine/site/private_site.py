"""A site's side of differential privacy: its noise, its ledger, and which numbers leave.

A site answers each round once (:mod:`ramet.engine.site.run_answers`): two answers with different
noise would reveal more than one.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from safetensors import safe_open
from safetensors.numpy import save

from ramet.disk import write_atomically
from ramet.engine.site.ledger import Ledger, RunEntry
from ramet.errors import RametError
from ramet.models.hops import summed_hops
from ramet.payload import Array, Arrays
from ramet.policy import Ceiling, Numbers
from ramet.privacy.accounting import Mechanism, needed_noise
from ramet.privacy.budget import SENSITIVITY, Budget, NoiseShare
from ramet.privacy.draws import Draws, SeededDraws, SystemDraws
from ramet.randomness import Randomness
from ramet.tasks import NodeSamples
from ramet.training.local import LocalTraining, Training
from ramet.training.private import training_steps


@dataclass(frozen=True)
class Noise:
    """How much noise a round has, and where it is drawn from."""

    mechanism: Mechanism
    draws: Draws


@dataclass(frozen=True)
class PrivateSite:
    """One site in one run with differential privacy.

    Args:
        budget: what the run may reveal.
        rounds: the number of rounds that share the budget.
        run: the run's name.
        data: SHA-256 of the site's data.
        folder: where noisy sums over neighbours are kept.
        ledger: what the site has spent, over all its runs.
        ceiling: the most that the site's policy allows.
        deployed: whether noise comes from the operating system; otherwise from the run's seed.
        share: among how many sites the noise of a sum in fixed point is divided; None without.
    """

    budget: Budget
    rounds: int
    run: str
    data: str
    folder: Path
    ledger: Ledger
    ceiling: Ceiling | None = None
    deployed: bool = False
    share: NoiseShare | None = None

    @property
    def of_graphs(self) -> bool:
        """Whether single graphs are protected, by noise in every step of training."""
        return self.budget.unit == "graph"

    def numbers(self, allowed: Numbers) -> Numbers:
        """Which numbers may leave: none that depend on the data and that no noise covers.

        These are the loss and counted work, which depend on training data, and scores, which depend
        on held-out data. Only scores of networks that never see links are covered, and leave a
        deployed site if its policy says so explicitly. A simulation shows scores.
        """
        is_covered = self.budget.unit == "link" and "scores" in allowed.model_fields_set
        scores = is_covered or not self.deployed
        return Numbers(loss=False, work=False, scores=scores, log=False)

    def without_links(self, samples: Any, hops: int, randomness: Randomness) -> NodeSamples:
        """The samples with noisy sums over neighbours in place of links: the same in all rounds.

        The sums are on disk before they are in the ledger, and in the ledger before they are used.
        So sums that are in the ledger but not on disk are lost, and are not drawn again: two
        draws would reveal more than one.
        """
        assert isinstance(samples, NodeSamples)
        if samples.evaluated_on is not None and not samples.evaluated_elsewhere:
            raise RametError(
                '--dp unit=link draws noise for one graph, but [split] by = "time" has another '
                "graph for validation and for test. Use --dp unit=site, or a split that is not by "
                "time."
            )
        if samples.evaluated_elsewhere:
            raise RametError(
                "--dp unit=link covers the links of a client's own graph, but this client is "
                "evaluated on another. Set evaluated_on=own."
            )
        entry = self._entry(sampling=1.0, steps=hops, rounds=1)
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with FileLock(self.folder / ".hops.lock"):
            path, terms = self.folder / "hops.safetensors", f"{entry.terms} data={self.data}"
            if not path.exists():
                if self.run in self.ledger.runs():
                    raise RametError(
                        f"this site has lost its noisy sums of run {self.run}, and drawing noise "
                        "again would reveal more than the budget allows. Start a new run."
                    )
                draws = self.draws(randomness)
                kept = summed_hops(
                    samples.graph, hops, lambda shape: entry.noise * draws.normal(shape)
                )
                write_atomically(path, save({"hops": kept.numpy()}, metadata={"terms": terms}))
            with safe_open(path, framework="pt") as file:
                kept, known = file.get_tensor("hops"), file.metadata()["terms"]
            if known != terms:
                raise RametError(
                    f"the terms or the data of run {self.run} have changed since this site's "
                    "noise was drawn. Start a new run."
                )
            self.ledger.spend(self.run, entry, 1, self.ceiling)
        return replace(samples, graph=samples.graph.without_links(kept))

    def noise(self, randomness: Randomness, training: Training, samples: Any) -> Noise:
        """The noise of a round, once it is in the site's ledger."""
        mechanism = self.spend(randomness.round, training, samples)
        return Noise(mechanism, self.draws(randomness))

    def spend(self, number: int, training: Training, samples: Any) -> Mechanism:
        """Enter a round into the ledger, and return the noise of its steps, in clipping norms."""
        if not 1 <= number <= self.rounds:
            raise RametError(
                f"this run has {self.rounds} rounds; round {number} is not one of them."
            )
        sampling, steps = 1.0, 1
        if self.of_graphs:
            assert isinstance(training, LocalTraining)
            sampling, steps = training_steps(training, samples)
        entry = self._entry(sampling, steps, self.rounds)
        self.ledger.spend(self.run, entry, number, self.ceiling)
        return Mechanism(entry.noise, sampling, steps, entry.discrete)

    def _entry(self, sampling: float, steps: int, rounds: int) -> RunEntry:
        """The run in the ledger, with the noise that its budget needs."""
        sensitivity = SENSITIVITY[self.budget.unit]
        terms = f"{self.budget} rounds={rounds} sampling={sampling} steps={steps}"
        terms += f" sensitivity={sensitivity}" if sensitivity > 1 else ""
        if self.share is not None:
            terms += f" survivors={self.share.survivors} colluders={self.share.colluders} discrete"
        discrete = self.share is not None
        known = self.ledger.runs().get(self.run)
        if known is not None and known.terms == terms:
            noise = known.noise
        else:
            of_run = self.budget.epsilon, self.budget.delta
            noise = sensitivity * needed_noise(*of_run, sampling, steps * rounds, discrete)
        return RunEntry(
            unit=self.budget.unit,
            terms=terms,
            data=self.data,
            noise=noise,
            sampling=sampling,
            steps=steps,
            discrete=discrete,
        )

    def draws(self, randomness: Randomness) -> Draws:
        """The source of noise and of the choice of graphs."""
        if self.deployed:
            return SystemDraws()
        return SeededDraws(randomness.generator("simulated privacy"))

    def other_draws(self, randomness: Randomness) -> Randomness:
        """The source of training's other draws, such as dropout.

        A graph in the batch shifts the draws of those after it. If the coordinator could repeat
        them, it would see more than one graph's clipped gradient change.
        """
        return replace(randomness, seed=secrets.randbits(128)) if self.deployed else randomness

    def noisy(self, arrays: Arrays, sent: Arrays, noise: Noise) -> dict[str, Array]:
        """The arrays of a reply, their change since they were sent clipped and with noise."""
        clip, noisy = self.budget.clip, dict[str, Array]()
        for name, change in clipped_changes(arrays, sent, clip).items():
            drawn = noise.mechanism.noise * clip * noise.draws.normal(change.shape).numpy()
            noisy[name] = (sent.get(name, 0.0) + (change + drawn)).astype(arrays[name].dtype)
        return noisy


def clipped_changes(arrays: Arrays, sent: Arrays, clip: float) -> dict[str, Array]:
    """How arrays have changed since they were sent, in float64; zeros if that is not finite."""
    changes = {name: array.astype(np.float64) for name, array in arrays.items()}
    for name in changes.keys() & sent.keys():
        changes[name] = changes[name] - sent[name]
    norm = np.sqrt(sum(float(np.square(change).sum()) for change in changes.values()))
    factor = min(1.0, clip / norm) if np.isfinite(norm) and norm > 0 else 0.0
    return {
        n: change * factor if factor else np.zeros_like(change) for n, change in changes.items()
    }
