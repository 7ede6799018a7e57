"""The server's state between exchanges: named slices, each of which belongs to one layer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ramet.engine.store.checkpoint import Snapshot
from ramet.payload import Payload, digest, under
from ramet.rules.fixed_point import prefixed

MERGING, ACTIVITY, LOGGED = "merging", "activity", "logged"
_EXTRAS, _SLICES = "extras/", "slices"


def extras_slice(exchange: str) -> str:
    """The slice of the rule for the extras that clients send in an exchange."""
    return _EXTRAS + exchange


@dataclass(frozen=True)
class RunState:
    """What the server knows after a step: all that it needs to continue the run."""

    slices: Mapping[str, Payload]
    """The state of each layer; none of them has extras."""
    step: int = 0
    """The last step that is done."""

    def __getitem__(self, name: str) -> Payload:
        """The state of a layer; an empty one if it has none yet."""
        return self.slices.get(name, Payload())

    def having(self, name: str, own: Payload) -> RunState:
        """The state with another slice."""
        return replace(self, slices={**self.slices, name: own})

    @property
    def extras(self) -> dict[str, Payload]:
        """The states of the rules for extras, by the exchange in which clients send them."""
        known = [name for name in self.slices if name.startswith(_EXTRAS)]
        return {name.removeprefix(_EXTRAS): self.slices[name] for name in known}

    def from_sums(self) -> dict[str, Payload]:
        """What the rules for parameters and extras know, which sites can compute themselves."""
        names = [name for name in self.slices if name == MERGING or name.startswith(_EXTRAS)]
        return {name: self.slices[name] for name in sorted(names)}

    def sha256(self, private: Mapping[str, str]) -> str:
        """SHA-256 of everything that was learned.

        ``private`` are the digests of clients' private state, in a simulation. Deployed sites send
        none, so that the SHA-256 is of what the server has.
        """
        extras = [[f"extras of {key}", digest(own.arrays)] for key, own in self.extras.items()]
        shared = ["shared", digest(self[MERGING].arrays)]
        everything = [shared, *extras, *sorted(private.items())]
        return hashlib.sha256(json.dumps(everything).encode()).hexdigest()

    def snapshot(self) -> Snapshot:
        arrays = {
            name: array
            for key, own in self.slices.items()
            for name, array in prefixed(f"{key}/", own.arrays).items()
        }
        facts = [[key, dict(own.numbers), dict(own.notes)] for key, own in self.slices.items()]
        return Snapshot(self.step, arrays, {_SLICES: facts})

    @staticmethod
    def restored(saved: Snapshot) -> RunState:
        slices = {
            key: Payload(under(f"{key}/", saved.arrays), numbers, notes)
            for key, numbers, notes in saved.facts[_SLICES]
        }
        return RunState(slices, saved.step)
