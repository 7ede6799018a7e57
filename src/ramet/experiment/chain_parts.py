"""A run that its sites verify: its charter in a simulation, and the server's step at a site."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ramet.engine.chain import CLOSING, ChainError, Link, Slices
from ramet.engine.messages import omitted_arrays
from ramet.engine.server.journal import JOURNAL, Entries
from ramet.engine.server.plan import Plan
from ramet.engine.server.questions import Question, Questions, expected_reply
from ramet.engine.server.rules import ServerRules
from ramet.engine.server.state import RunState
from ramet.engine.server.tally import Tally
from ramet.engine.site.site_chain import FOLDER, SiteChain
from ramet.engine.start import start_extras, start_shared
from ramet.experiment.digests import agreed_facts
from ramet.experiment.experiment import Experiment
from ramet.payload import Arrays, Payload
from ramet.rules.activation import Everyone
from ramet.rules.extras import TRAINING
from ramet.rules.fixed_point import terms_of
from ramet.rules.fold import Fold, fold_of
from ramet.rules.method import AssembledMethod, step_of, switchable_arrays
from ramet.rules.networks import buffer_names
from ramet.secure.charter import (
    SIMULATED,
    ChainMember,
    CharterError,
    SignedCharter,
    SimulatedCharter,
    canonical,
    simulated_charter,
)
from ramet.tasks import Shape

CHARTER = "charter.json"
"""The file in the folder of a run with the charter that its sites have signed."""


def charter_terms(experiment: Experiment) -> dict[str, Any]:
    """Everything that decides what a run computes, besides data and the seed."""
    facts = agreed_facts(experiment)
    facts["settings"].pop("seed")
    return facts


def charter_quorum(experiment: Experiment) -> int:
    """How many sites must reply in a round: more than half, in secure sums more than two thirds.

    So no two groups of sites follow chains of their own, and a coordinator with a third of the
    sites cannot choose who else is in a sum. If an activation chooses clients, it is the run's.
    """
    sites, settings = len(experiment.clients), experiment.settings
    chooses = not isinstance(experiment.method.activation, Everyone)
    least = 1 if chooses and not settings.secure else sites // 2 + 1
    return max(settings.quorum, 2 * sites // 3 + 1 if settings.secure else least)


def charter_of_simulation(experiment: Experiment, run: str) -> SimulatedCharter:
    """The charter of a run whose sites' keys follow from its seed."""
    seed = experiment.settings.seed
    terms = canonical({**charter_terms(experiment), SIMULATED: {"seed": seed}})
    return simulated_charter(terms, charter_quorum(experiment), seed, experiment.clients, run)


def read_charter(folder: Path) -> SignedCharter:
    """The charter in the folder of a run, which all its sites have signed."""
    path = folder / CHARTER
    if not path.exists():
        raise CharterError(f"{folder} has no {CHARTER}: the sites of this run verify nothing.")
    signed = SignedCharter.parse(path.read_text())
    signed.check()
    return signed


def simulated_chain(experiment: Experiment, client: str, states: Path) -> SiteChain:
    """The chain at a client of a simulation."""
    member = charter_of_simulation(experiment, states.name).member(client)
    return site_chain(experiment, member, states)


def site_chain(experiment: Experiment, member: ChainMember, states: Path) -> SiteChain:
    """The chain at a site, which repeats what the server computes."""
    method = experiment.scored_method
    shape = method.task.shape(experiment.samples(member.site))
    seed, clients = experiment.settings.seed, experiment.clients
    step = RepeatedStep(method, shape, seed, clients, member.site)
    return SiteChain(member, step, states / member.site / FOLDER)


@dataclass(frozen=True)
class RepeatedStep:
    """What the server computes, repeated at a site from what the site itself knows."""

    method: AssembledMethod
    shape: Shape
    seed: int
    clients: tuple[str, ...]
    client: str

    @cached_property
    def rules(self) -> ServerRules:
        method, shape, seed = self.method, self.shape, self.seed
        return ServerRules(
            method,
            start_shared(method, shape, seed),
            start_extras(method, shape, seed),
            self.clients,
            seed,
            buffers=frozenset(buffer_names(method.model, shape)),
        )

    def first(self) -> Slices:
        return self.rules.first_state().from_sums()

    def fold(self, round_number: int, exchange: str) -> Fold:  # noqa: ARG002
        asked = None if exchange == CLOSING else exchange
        return fold_of(self.method, asked, len(self.clients))

    def next(self, slices: Slices, link: Link, fold: Fold) -> Slices:
        plan = self._plan(link.round, link.exchange)
        return self.rules.merged(RunState(slices), plan, fold.result()).from_sums()

    def due(self, link: Link | None) -> tuple[int, str]:
        """The round and the exchange that follow a link."""
        number, exchange = (0, TRAINING) if link is None else (link.round, link.exchange)
        if exchange == TRAINING:
            return number + 1, self._exchanges(number + 1)[0]
        later = self._exchanges(number)
        return number, later[later.index(exchange) + 1]

    def _exchanges(self, number: int) -> list[str]:
        """The exchanges of a round, in order."""
        return [*(s.name for s in self.method.stages if s.in_round(number)), TRAINING]

    def parts(self, exchange: str) -> Arrays:
        """The parts of a sum, with the names, shapes and types that they can have."""
        rules, method, fold = self.rules, self.method, self.fold(1, exchange)
        reply = expected_reply(rules, Question(self._plan(1, exchange), (), {}))
        reply = replace(reply, numbers={"weight": 1.0})
        if method.summation is not None:
            terms = terms_of(method.merging, method.extras, reply)
            reply = Payload(method.summation.form(terms))
        fold.add(self.client, reply)
        return fold.parts()

    def expected(self, slices: Slices, message: Payload, counted: int) -> Payload:
        """The message of the server in this state, as far as it depends on the state."""
        number = int(message.numbers["round"])
        training = message.notes.get("stage", TRAINING)
        plan = self._plan(number, training if message.numbers["train"] else CLOSING)
        known = Entries({}, {self.client: counted}, Tally()).payload()
        state = RunState({**slices, JOURNAL: known})
        omitted, activation = omitted_arrays(message), self.method.activation
        if omitted and not activation.asks_parts:
            raise ChainError(
                "the message asks for a part of the arrays, which this run never does."
            )
        if not {*omitted} <= {*switchable_arrays(self.method, self.rules.start)}:
            raise ChainError("the message leaves out arrays that every site sends.")
        return Questions(self.rules, state, plan).about(self.client, omitted)[1]

    def _plan(self, number: int, exchange: str) -> Plan:
        stages = {stage.name: stage for stage in self.method.stages}
        stage, last = stages.get(exchange), number - (exchange == CLOSING)
        return Plan(number, last, step_of(self.method, number, stage), stage)
