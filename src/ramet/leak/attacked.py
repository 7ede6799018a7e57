"""What the attackers of a finished run see."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import nn

from ramet.engine.start import START
from ramet.engine.store.checkpoint import Snapshots
from ramet.engine.store.client_state import load_arrays
from ramet.experiment import Experiment, RunFolder
from ramet.experiment.run_models import model_of, saved_model_of, start_model_of
from ramet.leak.candidates import Candidates
from ramet.leak.capture import Repeated, Seen, repeated
from ramet.leak.findings import View
from ramet.leak.links import Pairs, pairs
from ramet.leak.membership import Shadows, shadows
from ramet.payload import Array, Arrays
from ramet.tasks import NodeSamples, Target, TargetTask
from ramet.tasks.targets import CLASSES

_KEPT = 20
"""For about how many rounds a member keeps the merged model."""


@dataclass(frozen=True)
class Effort:
    """How much the attackers may compute.

    Args:
        references: shadow runs; 0 for none. One alone cannot be compared with another.
        canaries: the largest number of canaries per site; 0 for none.
        small_sites: how often each site is repeated with one training sample.
        seed: of everything that the attackers draw.
    """

    references: int = 4
    canaries: int = 50
    small_sites: int = 4
    seed: int = 0

    @property
    def repeats(self) -> int:
        """How often a run is repeated: as it is, with canaries, and as a shadow."""
        return 1 + bool(self.canaries) + self.references


@dataclass(frozen=True)
class Sharing:
    """Which parameters leave a site, and which reach it."""

    experiment: Experiment

    @property
    def sent_up(self) -> dict[str, Array]:
        """The parameters that leave a site, as they are before round 1."""
        sizes, up = self.experiment.sizes, self.experiment.method.up
        names = [name for name in sizes.shared_names() if name in up]
        start = sizes.shared_start() if names else {}
        return {name: start[name] for name in names}

    @property
    def no_replies(self) -> str:
        return "" if self.sent_up else "no parameters leave a site"

    def no_network(self, view: View) -> str:
        """Why what is seen of a site is not a whole network; empty if it is one."""
        if view in ("model", "predictions"):
            return ""
        if self.no_replies:
            return self.no_replies
        sizes, method = self.experiment.sizes, self.experiment.method
        across = method.down if view == "rounds" else method.up
        known = {name for name in sizes.shared_names() if name in across}
        missing = sorted({*self._whole()} - known)
        verb = "reach" if view == "rounds" else "leave"
        return (
            f"needs the whole network, of which '{missing[0]}' does not {verb} a site"
            if missing
            else ""
        )

    @property
    def private(self) -> bool:
        """Whether sites have parameters that do not leave them."""
        return bool({*self._whole()} - {*self.experiment.sizes.shared_names()})

    def _whole(self) -> Mapping[str, Any]:
        return start_model_of(self.experiment, self.experiment.clients[0]).state_dict()


class Attacked(ABC):
    """What there is to attack, and what attackers may know besides."""

    def __init__(
        self, experiment: Experiment, sites: Mapping[str, Candidates], effort: Effort
    ) -> None:
        self.experiment, self.sites, self.effort = experiment, sites, effort
        self.sharing = Sharing(experiment)

    @property
    def target(self) -> Target:
        """What is predicted."""
        return next(iter(self.sites.values())).target

    @abstractmethod
    def first(
        self, samples: Mapping[str, Any] | None = None, prepared: Arrays | None = None
    ) -> Seen:
        """Round 1: with other samples, or after a message with arrays that the server chose."""

    @abstractmethod
    def networks(self, view: View) -> list[dict[str, nn.Module]]:
        """The networks that are seen, by the site about which they may tell."""

    @abstractmethod
    def trained(self, samples: Mapping[str, Any], number: int) -> dict[str, nn.Module]:
        """The final networks of the same run with other samples; ``number`` tells them apart."""

    @property
    def not_repeated(self) -> str:
        """Why the run cannot be repeated; empty if it can."""
        return ""

    @property
    def refuses_prepared(self) -> str:
        """Why sites do not train on what a server likes to send; empty if they do."""
        return ""

    @cached_property
    def pairs(self) -> dict[str, Pairs]:
        """Linked and other nodes of each site with a graph of nodes."""
        return {
            client: pairs(site.samples, client, self.effort.seed)
            for client, site in self.sites.items()
            if isinstance(site.samples, NodeSamples)
        }

    @cached_property
    def shadows(self) -> Shadows:
        return shadows(self.trained, self.sites, self.effort.references, self.effort.seed)


class FinishedRun(Attacked):
    """A finished run, each part repeated on first use."""

    def __init__(self, run: RunFolder, scratch: Path, effort: Effort) -> None:
        experiment = _unverified(run.experiment())
        super().__init__(experiment, sites_of(experiment), effort)
        self._run, self._scratch = run, scratch

    @property
    def not_repeated(self) -> str:
        if self._start and self.sharing.private:
            return "the run started from another one's private models, so it cannot be repeated"
        return ""

    @property
    def refuses_prepared(self) -> str:
        if self._run.experiment().settings.verified:
            return (
                "refused: sites of a verified run train on nothing but the step from the last model"
            )
        return ""

    def first(
        self, samples: Mapping[str, Any] | None = None, prepared: Arrays | None = None
    ) -> Seen:
        if samples is None and prepared is None:
            return self.repeat.first
        start = {**self._start, **(prepared or {})}
        return repeated(
            self.experiment, self._new_folder(), samples, first_only=True, prepared=start
        ).first

    def networks(self, view: View) -> list[dict[str, nn.Module]]:
        if view in ("model", "predictions"):
            return [{client: model_of(self._run, client) for client in self.sites}]
        if view == "rounds" and len(self.sites) > 2:
            return [self._loaded(self._to_others(sent)) for sent in self._merged]
        return [self._loaded(self.repeat.last.received)]  # of two, one knows the other's reply

    def trained(self, samples: Mapping[str, Any], number: int) -> dict[str, nn.Module]:
        experiment, folder = self.experiment, self._new_folder()
        if experiment.settings.dp:  # attackers do not know the noise
            seed = experiment.settings.seed + number
            other = experiment.settings.model_copy(update={"seed": seed})
            experiment = replace(experiment, settings=other)
        done = repeated(experiment, folder, samples, prepared=self._start)
        return {c: saved_model_of(experiment, c, done.states) for c in samples}

    @cached_property
    def repeat(self) -> Repeated:
        every = -(-self.experiment.settings.rounds // _KEPT)
        folder = self._new_folder()
        return repeated(self.experiment, folder, prepared=self._start, every=every)

    @property
    def _merged(self) -> list[dict[str, Arrays]]:
        """The merged arrays that all members received, by round."""
        delivered = self.repeat.recorder.delivered.values()
        return [sent for sent in delivered if {*self.sites} <= {*sent}]

    def _to_others(self, sent: Mapping[str, Arrays]) -> dict[str, Arrays]:
        """What the next member received, by the site that it attacks."""
        names = [*self.sites]
        return {name: sent[names[number - 1]] for number, name in enumerate(names)}

    def _loaded(self, arrays: Mapping[str, Arrays]) -> dict[str, nn.Module]:
        models = {}
        for client, own in arrays.items():
            models[client] = start_model_of(self.experiment, client)
            load_arrays(models[client], own)
        return models

    @cached_property
    def _start(self) -> Arrays:
        """The shared arrays before round 1, if the run took them from another one."""
        taken = Snapshots(self._run.path / "server" / START).latest_valid()
        return taken.arrays if taken else {}

    def _new_folder(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self._scratch))


def sites_of(experiment: Experiment) -> dict[str, Candidates]:
    """The samples of each client, with what is predicted for them."""
    task = experiment.method.task
    target = task.target if isinstance(task, TargetTask) else CLASSES
    return {c: Candidates(experiment.samples(c), target) for c in experiment.clients}


def _unverified(experiment: Experiment) -> Experiment:
    """The same run without a chain, which changes none of its numbers."""
    if not experiment.settings.verified:
        return experiment
    settings = experiment.settings.model_copy(update={"verified": False})
    return replace(experiment, settings=settings)
