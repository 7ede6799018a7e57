"""What the coordinator sees of a round, from repeating it with the run's own settings and data."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ramet.engine.processes.local import LocalWire
from ramet.engine.secure_messages import STEP
from ramet.engine.server.state import RunState
from ramet.engine.server.wire import Answer, Wire
from ramet.engine.site.client import Client
from ramet.engine.start import START
from ramet.engine.store.checkpoint import Snapshots
from ramet.errors import RametWarning
from ramet.experiment import Experiment, RunFolder
from ramet.experiment.client_side import client_of
from ramet.experiment.run_models import saved_model_of
from ramet.experiment.server_side import rounds_of
from ramet.payload import Array, Arrays, Payload, under
from ramet.rules.fixed_point import PARAMETERS
from ramet.rules.method import AssembledMethod, step_of

_WEIGHT = "weight/"


class _SeenEnoughError(Exception):
    """All replies of the round have been seen, so the rest of the run need not be repeated."""


@dataclass
class _Recorder:
    """A wire that keeps the requests to train in one round and the replies, and ends there."""

    wire: Wire
    round: int
    requests: dict[str, Payload] = field(default_factory=dict)
    replies: dict[str, Payload] = field(default_factory=dict)

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]:
        def kept() -> Iterator[tuple[str, Payload]]:
            for client, message in requests:
                if self._is_training(message):
                    self.requests[client] = message
                yield client, message

        for client, reply in self.wire.exchange(kept()):
            if client in self.requests and client not in self.replies and _is_reply(reply):
                assert isinstance(reply, Payload)
                self.replies[client] = reply
            yield client, reply
        if self.replies:
            raise _SeenEnoughError

    def _is_training(self, message: Payload) -> bool:
        return (
            int(message.numbers.get("round", 0)) == self.round
            and bool(message.numbers.get("train", 0))
            and not {"stage", STEP} & message.notes.keys()
        )


def _is_reply(reply: Payload | str) -> bool:
    return isinstance(reply, Payload) and bool(reply.arrays)


@dataclass(frozen=True)
class Seen:
    """The replies of a round, and what each client began it with.

    Args:
        method: of the run.
        sent: shared arrays by client, from before its training.
        replies: as they left the sites.
        masked: whether they left under masks.
        buffers: names of arrays that are not trained.
    """

    method: AssembledMethod
    sent: Mapping[str, Arrays]
    replies: Mapping[str, Payload]
    masked: bool
    buffers: frozenset[str] = frozenset()

    def read(self) -> dict[str, dict[str, Array]]:
        """Each client's parameters, as an attacker would read them from its reply."""
        return {client: self._read(client, reply) for client, reply in self.replies.items()}

    def redrawn(self, seed: int) -> Seen:
        """The same with uniformly random numbers in place of masked replies."""
        draw = np.random.default_rng(seed)

        def drawn(reply: Payload) -> Payload:
            arrays = {
                name: draw.integers(0, np.iinfo(array.dtype).max, array.shape, array.dtype, True)
                for name, array in reply.arrays.items()
            }
            return replace(reply, arrays=arrays)

        return replace(self, replies={c: drawn(reply) for c, reply in self.replies.items()})

    def _read(self, client: str, reply: Payload) -> dict[str, Array]:
        sent = self.sent[client]
        if self.method.summation is None:
            begun = {name: sent[name] for name in sent if name not in self.buffers}
            for release in reversed(self.method.release):
                reply = release.arrive(reply, begun)
            return dict(reply.arrays)
        signed = np.int64 if self.method.summation.ring == 64 else np.int32
        scale = self.method.summation.scale
        terms = {
            name: np.asarray(array).view(signed).astype(np.float64) / scale
            for name, array in under(PARAMETERS, reply.arrays).items()
        }
        weights = under(_WEIGHT, terms)
        arrays = {name: terms[name] / weights.get(name, 1.0) for name in terms if name in sent}
        if self.masked:
            arrays = {name: _rescaled(array, sent[name]) for name, array in arrays.items()}
        return {name: array.astype(sent[name].dtype) for name, array in arrays.items()}


def _rescaled(array: Array, like: Array) -> Array:
    """Numbers of the usual size, so that a network can compute with them."""
    size, usual = float(np.sqrt((array**2).mean())), float(np.sqrt((like**2).mean()))
    scaled: Array = array / (size or 1.0) * (usual or 1.0)
    return scaled


def first_round(
    experiment: Experiment, folder: Path, samples: Mapping[str, Any] | None = None
) -> Seen:
    """Round 1 of a run, repeated in a new folder; with other ``samples`` if they are given."""
    recorder = _repeated(experiment, folder, samples, rounds=1)
    start = experiment.sizes.shared_start()
    return _seen(experiment, recorder, dict.fromkeys(recorder.replies, start))


def last_round(run: RunFolder, experiment: Experiment, folder: Path) -> Seen:
    """The last round of a run, repeated on a copy of its folder."""
    summary = run.summary()
    assert summary is not None
    number = summary.rounds
    server, states = folder / "server", folder / run.run_name
    shutil.copytree(run.path / "server", server)
    shutil.copytree(run.clients, states)
    _rewind(Snapshots(server, keep=1), step_of(experiment.method, number - 1))
    with _quiet():
        recorder = _Recorder(_wire(experiment, states, None), number)
        earlier = [record for record in run.records() if record.round < number - 1]
        again = replace(rounds_of(experiment, server), rounds=number, patience=None)
        with suppress(_SeenEnoughError):
            again.run(recorder, lambda _: None, earlier)
    start = experiment.sizes.shared_start()
    sent = {client: asked.arrays or start for client, asked in recorder.requests.items()}
    return _seen(experiment, recorder, sent)


def _rewind(server: Snapshots, step: int) -> None:
    """Go back to the state after a step, from before any reply of the next round."""
    latest = server.latest_step(before=step + 1)
    if latest is None:
        shutil.rmtree(server.folder)
        return
    state = RunState.restored(server.load(latest))
    if "secure" in state.slices:
        from ramet.engine.server.masked_sums import SECURE  # needs an extra
        from ramet.engine.server.secure_steps import SecureState

        secure = SecureState.restored(state[SECURE])
        state = state.having(SECURE, replace(secure, pending=None).to_payload())
    server.save(state.snapshot())  # removes all later ones


def trained(experiment: Experiment, folder: Path, samples: Mapping[str, Any]) -> dict[str, Any]:
    """The final models of the run, repeated with other samples."""
    _repeated(experiment, folder, samples)
    states = folder / "clients"
    return {client: saved_model_of(experiment, client, states) for client in experiment.clients}


def starts_anew(run: RunFolder) -> bool:
    """Whether the run began with arrays drawn from its seed, so that round 1 can be repeated."""
    return not (run.path / "server" / START).exists()


def _repeated(
    experiment: Experiment,
    folder: Path,
    samples: Mapping[str, Any] | None,
    rounds: int | None = None,
) -> _Recorder:
    """Repeat a run, or its first rounds, in a new folder; the settings stay those of the run."""
    with _quiet():
        recorder = _Recorder(_wire(experiment, folder / "clients", samples), rounds or 0)
        server = rounds_of(experiment, folder / "server")
        if rounds is not None:
            server = replace(server, rounds=rounds, patience=None)
        with suppress(_SeenEnoughError):
            server.run(recorder, lambda _: None)
    return recorder


def _wire(experiment: Experiment, states: Path, samples: Mapping[str, Any] | None) -> LocalWire:
    return LocalWire(_clients(experiment, states, samples))


def _clients(
    experiment: Experiment, states: Path, samples: Mapping[str, Any] | None
) -> Callable[[str], Client]:
    def client(name: str) -> Client:
        own = client_of(experiment, name, states)
        return own if samples is None else replace(own, samples=samples[name])

    return client


def _seen(experiment: Experiment, recorder: _Recorder, sent: Mapping[str, Arrays]) -> Seen:
    method, secure = experiment.method, experiment.settings.secure
    return Seen(method, sent, recorder.replies, secure, experiment.sizes.buffers())


@contextmanager
def _quiet() -> Iterator[None]:
    """Repeated rounds warn of nothing that the run has not warned of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RametWarning)
        yield
