"""What the attackers of a finished run see."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from torch import nn

from ramet.engine.store.client_state import load_arrays
from ramet.experiment import Experiment, RunFolder
from ramet.experiment.run_models import model_of, start_model_of
from ramet.leak.candidates import Candidates
from ramet.leak.capture import Seen, first_round, last_round, starts_anew
from ramet.leak.findings import View
from ramet.leak.intervals import Ranked
from ramet.leak.membership import References, references
from ramet.payload import Array


@dataclass(frozen=True)
class Effort:
    """How much the attackers may compute.

    Args:
        references: reference models per site; 0 for none.
        rounds: the largest number of rounds for which a reference model is trained.
        canaries: the largest number of canaries per site; 0 for none.
        small_sites: how often each site is repeated with one training sample.
        redrawn: how often masks are drawn anew, to see how much they alone make a number vary.
        seed: of everything that the attackers draw.
    """

    references: int = 4
    rounds: int = 20
    canaries: int = 50
    small_sites: int = 4
    redrawn: int = 50
    seed: int = 0


class Attacked:
    """A run with what its attackers see, each part computed on first use."""

    def __init__(
        self, run: RunFolder, experiment: Experiment, scratch: Path, effort: Effort
    ) -> None:
        self.run, self.experiment, self.effort = run, experiment, effort
        self.scratch = scratch
        self.sites = {
            client: Candidates(experiment.samples(client)) for client in experiment.clients
        }

    @cached_property
    def first(self) -> Seen:
        return first_round(self.experiment, self.scratch / "first")

    @cached_property
    def last(self) -> Seen:
        return last_round(self.run, self.experiment, self.scratch / "last")

    @cached_property
    def final(self) -> dict[str, nn.Module]:
        return {client: model_of(self.run, client) for client in self.experiment.clients}

    @cached_property
    def references(self) -> References:
        rounds = min(self.experiment.settings.rounds, self.effort.rounds)
        effort = self.effort
        return references(self.experiment, self.sites, effort.references, rounds, effort.seed)

    @property
    def round_one_is_lost(self) -> str:
        if not starts_anew(self.run):
            return "the run started from another one's models, so round 1 cannot be repeated"
        return ""

    @property
    def names(self) -> list[str]:
        """The names of the parameters that leave a site."""
        up = self.experiment.method.up
        return [name for name in self.experiment.sizes.shared_names() if name in up]

    @property
    def sent_up(self) -> dict[str, Array]:
        """The parameters that leave a site, as they are before round 1."""
        start = self.experiment.sizes.shared_start() if self.names else {}
        return {name: start[name] for name in self.names}

    @property
    def no_replies(self) -> str:
        return "" if self.names else "no parameters leave a site"

    @cached_property
    def no_network(self) -> str:
        """Why a reply is not a whole network; empty if it is one."""
        if self.no_replies:
            return self.no_replies
        whole = {*start_model_of(self.experiment, self.experiment.clients[0]).state_dict()}
        missing = sorted(whole - {*self.names})
        if missing:
            return f"needs the whole network, of which '{missing[0]}' does not leave a site"
        return ""

    def networks(self, seen: Seen) -> dict[str, nn.Module]:
        """The networks in the replies."""
        models = {}
        for client, arrays in seen.read().items():
            models[client] = start_model_of(self.experiment, client)
            load_arrays(models[client], arrays)
        return models

    def ranked(
        self, view: View, ranking: Callable[[Mapping[str, nn.Module]], list[Ranked]]
    ) -> tuple[list[Ranked], list[list[Ranked]]]:
        """What an attack on networks gets in a view, and what it gets from random numbers.

        The latter stand in for masked replies, many times; there are none for other replies.
        """
        if view != "replies":
            return ranking(self.final), []
        found = ranking(self.networks(self.last))
        draws = range(self.effort.redrawn if self.last.masked else 0)
        controls = [self.last.redrawn(self.effort.seed + number) for number in draws]
        return found, [ranking(self.networks(one)) for one in controls]
