"""The client's side of a round: load the merge, evaluate, train, send only what is declared."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from ramet.engine.check import form_fault, same_form
from ramet.engine.messages import candidates, spared_arrays
from ramet.engine.secure_messages import QUESTIONS, STEP
from ramet.engine.site.answered import Answered
from ramet.engine.site.audit import AuditLog
from ramet.engine.site.kept_models import save_evaluated, save_final, steps_with_models
from ramet.engine.site.limit import SiteLimit
from ramet.engine.site.private_site import Noise, PrivateSite
from ramet.engine.site.run_answers import RunAnswers
from ramet.engine.start import extras_up, new_model, start_extras, start_model, state_names
from ramet.engine.store.checkpoint import Snapshots
from ramet.engine.store.client_state import (
    MODEL,
    ClientState,
    Memory,
    Unsaved,
    full_state,
    load_arrays,
    model_arrays,
    numpy_arrays,
    restore,
    snapshot,
    to_tensors,
)
from ramet.engine.store.recent_snapshots import RecentSnapshots
from ramet.errors import RametError
from ramet.metrics import count_operations, peak_memory
from ramet.metrics.work import Work, is_counted
from ramet.models.node_hops import NodeHops
from ramet.payload import Array, Arrays, Payload, digest, everything
from ramet.policy import NO_RULES, WITHHELD, Policy, PolicyError
from ramet.randomness import Randomness
from ramet.rules.activation import requested
from ramet.rules.extras import TRAINING, Stage
from ramet.rules.fixed_point import terms_of
from ramet.rules.method import AssembledMethod, declared_extras, sent_up, step_of
from ramet.rules.release import Exit
from ramet.rules.server import CPU
from ramet.tasks import Samples
from ramet.training.local import Session
from ramet.training.private import fit_privately

if TYPE_CHECKING:
    from ramet.engine.site.secure_site import SecureSite  # needs an extra

_METHOD = "method"
"""The owner of the memory that training uses."""


class NotSharedError(RametError):
    """An array that is not shared was about to leave the site or to be loaded."""


@dataclass(frozen=True)
class Node:
    """A client: its samples, its method and its private state.

    The state is on disk, so any process can answer the next message.
    """

    client: str
    method: AssembledMethod
    samples: Samples
    seed: int
    snapshots: Snapshots
    device: torch.device
    audit: AuditLog | None = None
    limit: SiteLimit | None = None
    """What the site lets out, whatever the run shares; None for all that the run shares."""
    clients: int = 1
    """The number of clients of the run."""
    secure: SecureSite | None = None
    """The site's side of secure sums, if the run has them."""
    private: PrivateSite | None = None
    """The site's side of differential privacy, if the run has it."""
    policy: Policy = NO_RULES
    """What may leave, and under which conditions."""
    answered: Answered | None = None
    """What the site has answered over all runs, which its policy may limit."""
    run_answers: RunAnswers | None = None
    """What was answered before, so that each question is answered once; None for no limit."""
    deployed: bool = False
    """Whether the client is a site of its own; otherwise it is one of a simulation."""
    recent: RecentSnapshots = field(default_factory=RecentSnapshots)
    """Snapshots that are also in this process's memory."""

    def answer(self, message: Payload) -> Payload:
        """Handle a message from the server and return the reply."""
        self._check_policy()
        stage = message.notes.get("stage", message.notes.get(STEP, ""))
        if self.answered is not None:
            self.answered.begin(message, self.policy)
        with _denormals_flushed():
            reply = self._reply(message)
        counts = {"up": reply.nbytes} | ({} if self.secure else {"memory": peak_memory()})
        reply = replace(reply, numbers={**reply.numbers, **counts})
        reply = self._with_permitted_numbers(reply)
        if self.answered is not None:
            self.answered.leave(reply.nbytes, self.policy)
        if self.audit is not None:
            self.audit.add(int(message.numbers["round"]), reply, stage)
        return reply

    def _check_policy(self) -> None:
        self.policy.check_samples(lambda: self.samples.manifest)
        if self.policy.secure == "required" and self.secure is None:
            raise PolicyError("`secure`: this site's replies leave inside secure sums only.")
        if self.policy.privacy is not None and self.private is None:
            raise PolicyError(
                "`privacy`: this site's replies leave with differential privacy only."
            )
        for key in self.policy.limits if self.answered is None else ():
            raise PolicyError(f"`{key}`: this site does not keep what it has answered.")

    def _reply(self, message: Payload) -> Payload:
        """The answer to a message: a step of a secure sum, or one that is given once."""
        if self.secure is not None and STEP in message.notes:
            return self.secure.answer(message)
        if self.secure is not None:
            return self.secure.once(message, lambda: self._answer(message))
        if self.run_answers is not None:
            return self.run_answers.once(message, lambda: (self._answer(message), {}))
        return self._answer(message)

    def _with_permitted_numbers(self, reply: Payload) -> Payload:
        """The reply with the numbers that the site's policy lets out."""
        if self.private is not None:
            reply = self.private.numbers(self.policy.numbers).permitted(reply, ("loss",))
        return self.policy.numbers.permitted(reply)

    def _answer(self, message: Payload) -> Payload:
        return self._without_links()._computed(message)

    def _without_links(self) -> Node:
        """The client with noisy sums in place of links, if these are protected."""
        if self.private is None or not self.private.of_links:
            return self
        model = new_model(self.method, self.method.task.shape(self.samples), self.seed)
        if not isinstance(model, NodeHops) or not model.hops:
            raise RametError("--dp unit=link needs --network hops, with at least one hop.")
        randomness = Randomness(self.seed, self.client, 0)
        samples = self.private.without_links(self.samples, model.hops, randomness)
        return replace(self, samples=samples)

    def _computed(self, message: Payload) -> Payload:
        number, stage = int(message.numbers["round"]), self._stage(message)
        for name in message.arrays:
            if name not in self.method.shared or name not in self.method.down:
                raise self._not_shared("accept", name)
        step = step_of(self.method, number, stage)
        client = self._restored(step, int(message.numbers["last"]))
        load_arrays(client.model, message.arrays)
        asked = self._asked(client, message)
        best, evaluated = candidates(message), dict[str, Array]()
        randomness = Randomness(self.seed, self.client, number)
        if not message.numbers["train"]:
            save_evaluated(self.snapshots.folder, self._used(client), number - 1, best)
            reply = self._scored(Payload({}, {}, self._finish(client)), client)
            reply = self._released(reply, {}, client.memory, randomness)
            return self._summand(reply, asked)
        session = self._session(client, message, randomness)
        if stage is not None:
            reply = Payload({}, {"weight": self.method.task.weight(self.samples)})
            self._work(stage, session)
            reply = self._with_extras(reply, stage.name, session)
            reply = self._released(reply, {}, client.memory, randomness)
        else:
            client.begin_training(number)
            if number > 1:
                arrays = model_arrays(self._used(client))
                evaluated = {name: array.copy() for name, array in arrays.items()}
            scored = self._scored(Payload({}, {}), client) if number > 1 else Payload({}, {})
            numbers = {**scored.numbers, "weight": self._weight()}  # round 1: nothing to evaluate
            count = is_counted(number, int(message.numbers["last"]), self.method.phases)
            noise = self._noise(randomness)
            numbers |= self._train(client, session, count, noise)
            state = model_arrays(client.model)
            declared = sent_up(self.method, self.method.shared.pick(state))
            names = requested(declared, spared_arrays(message))
            arrays = {name: state[name].copy() for name in names}
            reply = Payload(arrays, numbers, scored.notes)
            reply = self._with_extras(reply, TRAINING, session)
            sent = message.arrays if number > 1 else numpy_arrays(session.start)
            trained = {name for name in session.shared_parameters() if name in self.method.down}
            sent = {name: array for name, array in sent.items() if name in trained}
            reply = self._with_noise(reply, sent, noise)
            reply = self._released(reply, sent, client.memory, randomness)
            reply = self._summand(reply, asked)
        kept = steps_with_models(self.method, best) if stage is None else self.snapshots.steps()
        self.recent.save(self.snapshots, snapshot(step, client, evaluated), kept)
        return reply

    def _weight(self) -> float:
        """The weight in means; 1 if all of the site's data is protected, also their number."""
        whole_site = self.private is not None and self.private.of_site
        return 1 if whole_site else self.method.task.weight(self.samples)

    def _noise(self, randomness: Randomness) -> Noise | None:
        """The noise of this round, once it is in the site's ledger; that of links came before."""
        if self.private is None or self.private.of_links:
            return None
        mechanism = self.private.spend(randomness.round, self.method.training, self.samples)
        return Noise(mechanism, self.private.draws(randomness))

    def _with_noise(self, reply: Payload, sent: Arrays, noise: Noise | None) -> Payload:
        """The reply with a noisy update, if all of the site's data is protected."""
        if self.private is None or noise is None or not self.private.of_site:
            return reply
        return replace(reply, arrays=self.private.noisy(reply.arrays, sent, noise))

    def _work(self, stage: Stage, session: Session) -> None:
        """Do a stage's work, which must leave the shared arrays as they are."""
        unsaved = Unsaved(session.model, session.optimiser)
        stage.work(session)
        unsaved.check_unchanged()
        state = session.model.state_dict()
        changed = [name for name in session.shared if not state[name].equal(session.start[name])]
        if changed:
            raise RametError(
                f"the stage '{stage.name}' changed the shared array '{changed[0]}'. Only training "
                "may change what is shared; use `session.memory` for other tensors."
            )

    def _stage(self, message: Payload) -> Stage | None:
        name = message.notes.get("stage")
        if name is None:
            return None
        for stage in self.method.stages:
            if stage.name == name and stage.in_round(int(message.numbers["round"])):
                return stage
        raise NotSharedError(
            f"client {self.client} refuses the stage '{name}': {self.method.name} "
            "has no such stage in this round."
        )

    def _session(self, client: ClientState, message: Payload, randomness: Randomness) -> Session:
        declared = declared_extras(self.method)
        start = {name: a for arrays in self._start_extras.values() for name, a in arrays.items()}
        accepted = {
            name
            for key, arrays in self._start_extras.items()
            for name in arrays
            if name in declared[key].down
        }
        for name, array in message.extras.items():
            if name not in accepted or not same_form(array, start[name]):
                raise NotSharedError(
                    f"client {self.client} refuses to accept the extra '{name}' "
                    f"({array.dtype}{list(array.shape)}): {self.method.name} does not declare it."
                )
        state = client.model.state_dict()
        shared = self.method.shared.pick(state)
        return Session(
            model=client.model,
            optimiser=client.optimiser,
            training=self.method.training,
            task=self.method.task,
            samples=self.samples if self.device == CPU else self.samples.to(self.device),
            shared=shared,
            randomness=randomness,
            device=self.device,
            start={name: state[name].detach().clone() for name in shared},
            received=to_tensors({**start, **message.extras}, self.device),
            memory=client.memory[_METHOD],
        )

    @cached_property
    def _start_extras(self) -> dict[str, dict[str, Array]]:
        return start_extras(self.method, self.method.task.shape(self.samples), self.seed)

    def _with_extras(self, reply: Payload, exchange: str, session: Session) -> Payload:
        """Add the extras that the method has set, each of which must be declared."""
        due = extras_up(self.method, self._start_extras, exchange)
        for name in session.sending:
            if name not in due:
                raise NotSharedError(
                    f"client {self.client} refuses to send the extra '{name}': {self.method.name} "
                    "does not declare it here."
                )
        for name, like in due.items():
            value = session.sending.get(name)
            if value is not None and not isinstance(value, torch.Tensor):
                raise RametError(
                    f"the extra '{name}' in session.sending is of type {type(value).__name__}. "
                    "Convert it to a tensor, for example with torch.as_tensor."
                )
            if value is None or value.shape != like.shape:
                found = "is missing" if value is None else f"has shape {list(value.shape)}"
                raise RametError(
                    f"the extra '{name}' {found} in session.sending, but {self.method.name} "
                    f"declares it with shape {list(like.shape)}."
                )
        sent = {
            name: array.astype(due[name].dtype)
            for name, array in numpy_arrays(session.sending).items()
        }
        return replace(reply, extras=sent)

    def _released(
        self, reply: Payload, sent: Arrays, memory: Memory, randomness: Randomness
    ) -> Payload:
        """Refuse undeclared arrays, then let releases change the rest; every reply passes here."""
        self._check_declared(reply)
        for index, release in enumerate(self.method.release):
            form = release.form(_zeros(reply), _zero_arrays(sent))
            reply = release.leave(reply, Exit(sent, memory[f"release {index}"], randomness))
            fault = form_fault(reply, form)
            if fault:
                raise NotSharedError(
                    f"client {self.client} refuses to send {fault}, which "
                    f"{type(release).__name__}.form does not declare."
                )
        return reply

    def _asked(self, client: ClientState, message: Payload) -> dict[str, str]:
        """A note for the site's side of secure sums: what is asked about which network."""
        if self.secure is None:
            return {}
        train, number = message.numbers["train"], int(message.numbers["round"])
        kinds = [*(["training"] if train else []), *(["scores"] if number > 1 or not train else [])]
        return {QUESTIONS: json.dumps({kind: digest(model_arrays(client.model)) for kind in kinds})}

    def _summand(self, reply: Payload, asked: Mapping[str, str]) -> Payload:
        """What the reply adds to the sums of the run, if the server learns only those."""
        if self.method.summation is None:
            return reply
        permitted = self._with_permitted_numbers(reply)
        if self.secure is not None:  # the weight may leave inside the sum
            weight = {name: reply.numbers[name] for name in ("weight",) if name in reply.numbers}
            permitted = replace(permitted, numbers={**weight, **permitted.numbers})
        terms = terms_of(self.method, permitted)
        encoded = self.method.summation.encode(terms, self.clients, clip=self.secure is not None)
        notes = {**permitted.notes, **asked}
        return replace(permitted, arrays=encoded, extras={}, notes=notes)

    def _check_declared(self, reply: Payload) -> None:
        for name in reply.arrays:
            if name not in self.method.shared or name not in self.method.up:
                raise self._not_shared("send", name)
        if self.limit is not None:
            shape = self.method.task.shape(self.samples)
            for name in self.limit.forbidden(reply, shape, self.seed):
                raise NotSharedError(
                    f"client {self.client} refuses to send '{name}', which the site's own settings "
                    "do not allow."
                )

    def _restored(self, step: int, known_round: int) -> ClientState:
        """The latest state from before this step; a new one if the client never trained."""
        latest_step = self.snapshots.latest_step(before=step)
        if (latest_step or 0) < step_of(self.method, known_round):
            raise RametError(
                f"client {self.client} has lost its private state of round {known_round}. Restore "
                f"{self.snapshots.folder} from a backup, or start a new run in another folder."
            )
        shape = self.method.task.shape(self.samples)
        new = start_model if latest_step is None else new_model
        model = new(self.method, shape, self.seed, self.client).to(self.device)
        client = ClientState(model, self.method.training.optimiser(model))
        if latest_step is not None:
            restore(self.recent.load(self.snapshots, latest_step), client, self.device)
            client.forget_lost_reply(known_round)
        return client

    def _used(self, client: ClientState) -> nn.Module:
        """The network that the client evaluates and keeps."""
        if self.method.personal is None:
            return client.model
        return self.method.personal(client.model, client.memory[_METHOD])

    def _scored(self, reply: Payload, client: ClientState) -> Payload:
        """The reply with the network's scores; a note names those for which there are no samples.

        ``val`` and ``test`` must be among what the task returns.
        """
        scores = self.method.task.evaluate(self._used(client), self.samples, self.device)
        for name in ("val", "test"):
            if name not in scores:
                raise RametError(
                    f"{type(self.method.task).__name__}.evaluate returned no '{name}', only "
                    f"{', '.join(scores) or 'nothing'}. It must return `val` and `test`."
                )
        known = {name: score for name, score in scores.items() if score is not None}
        lacking = " ".join(name for name in ("val", "test") if name not in known)
        notes = {WITHHELD: lacking} if lacking else {}
        return replace(reply, numbers={**reply.numbers, **known}, notes={**reply.notes, **notes})

    def _train(
        self, client: ClientState, session: Session, count: bool, noise: Noise | None
    ) -> dict[str, float]:
        if self.private is not None and self.private.of_graphs and noise is not None:
            session.randomness = self.private.other_draws(session.randomness)
            fit_privately(session, noise.mechanism, self.private.budget.clip, noise.draws)
            return {}
        unsaved = Unsaved(client.model, client.optimiser)
        counting: AbstractContextManager[Work] = count_operations() if count else nullcontext({})
        with counting as work:
            loss = self.method.training.fit(session, self.method.penalty)
            if self.method.after is not None:
                self.method.after(session)
        unsaved.check_unchanged()
        return {"loss": self._number(loss), **work}

    def _number(self, loss: Any) -> float:
        try:
            return float(loss)
        except (TypeError, ValueError) as error:
            raise RametError(
                f"{type(self.method.training).__name__}.fit returned a {type(loss).__name__} "
                "instead of the mean loss, a number."
            ) from error

    def _finish(self, client: ClientState) -> dict[str, str]:
        """Save the final model, and return a digest of the private part of the state.

        A deployed site tells no digest: whoever guesses its data could compute the same, and know
        that the guess is right.
        """
        state = full_state(client)
        save_final(self.snapshots.folder, self._used(client))
        merged = {
            MODEL + name
            for name in state_names(client.model)
            if name in self.method.shared and name in self.method.down
        }
        if self.deployed or (self.private is not None and self.private.of_site):
            return {}
        return {"private": digest({k: v for k, v in state.items() if k not in merged})}

    def _not_shared(self, action: str, name: str) -> NotSharedError:
        method = self.method
        field, way = ("up", method.up) if action == "send" else ("down", method.down)
        limited = "" if way == everything else f", of which clients {action} {way}"
        missing = field if name in method.shared else "shared"
        return NotSharedError(
            f"client {self.client} refuses to {action} '{name}': {method.name} shares "
            f"{method.shared}{limited}. Declare it in the method's `{missing}`."
        )


@contextmanager
def _denormals_flushed() -> Iterator[None]:
    """Flush denormals to 0.

    Weight decay shrinks unused weights below 1e-38, where CPUs are many times slower.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def _zeros(reply: Payload) -> Payload:
    """A payload of the same form, so that a form cannot depend on values."""
    return Payload(
        _zero_arrays(reply.arrays),
        dict.fromkeys(reply.numbers, 0.0),
        dict.fromkeys(reply.notes, ""),
        _zero_arrays(reply.extras),
    )


def _zero_arrays(arrays: Arrays) -> dict[str, Array]:
    return {name: np.zeros_like(array) for name, array in arrays.items()}
