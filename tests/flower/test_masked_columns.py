"""Sums of columns under masks, with the client apps of joined sites and a server in one process."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from flwr.app import MessageType

from joined_consortium import JoinedConsortium, joined_consortium
from own_sites import messy_site
from ramet.data.own.preparation import Preparation, SiteSums, agreed
from ramet.data.own.site import read_site
from ramet.deploy.site import POLICY
from ramet.engine.secure_messages import STEP, SecureError
from ramet.engine.server.asking import asker
from ramet.engine.server.tally import Counting
from ramet.engine.site.audit import audit_entries
from ramet.errors import RametError
from ramet.experiment import Experiment
from ramet.experiment.digests import agreed_digest
from ramet.flower.client_app import _cached_experiment
from ramet.flower.masked_columns import summed_columns, unmasked_sum
from ramet.flower.records import COLUMNS
from ramet.flower.wire import GridWire
from ramet.payload import Arrays, Payload

THREE = {"north": 50, "south": 33, "east": 41}


@dataclass
class Wired:
    """The wire of a server to joined sites, which it asks what it likes."""

    consortium: JoinedConsortium
    without: frozenset[str] = frozenset()
    seen: list[tuple[str, Payload, Payload]] = field(default_factory=list)
    name: str = ""
    columns: Sequence[str] = ()

    def begin_columns(self, name: str, columns: Sequence[str]) -> None:
        self.name, self.columns = name, columns

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[tuple[str, Any]]:
        for client, message in requests:
            if client in self.without:
                yield client, "its node is not connected"
                continue
            yield client, self.ask(client, message)

    def ask(self, client: str, message: Payload) -> Payload:
        _cached_experiment.cache_clear()  # every message has a process of its own
        notes = {**message.notes, COLUMNS: json.dumps(self.columns)}
        named = replace(message, notes=notes)
        reply = self.consortium.ask(client, named, self.name)
        self.seen.append((client, message, reply))
        return reply

    @property
    def sites(self) -> Any:
        return SimpleNamespace(sums={name: self.introduced(name) for name in THREE})

    def introduced(self, name: str) -> SiteSums:
        joined = self.consortium.joined
        own = type(joined)(joined.coordinator, self.consortium.sites[name])
        _cached_experiment.cache_clear()
        return SiteSums.parse(own.send(own.config(), MessageType.QUERY).notes[COLUMNS], name)

    def summed(self) -> Preparation:
        wire = cast("GridWire", self)
        return agreed(self.sites.sums, summed_columns(wire, config_of(self.consortium)))


def config_of(consortium: JoinedConsortium) -> Experiment:
    """The run as the coordinator knows it before columns are agreed; it asks nobody again."""
    settings = consortium.joined.coordinator.consortium.settings(Path("absent"))
    return Experiment(settings.model_copy(update={"engine": "local"}), None, Preparation())


@pytest.fixture
def consortium(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JoinedConsortium:
    found = joined_consortium(tmp_path, monkeypatch, tuple(THREE), secure=True)
    for seed, (name, rows) in enumerate(THREE.items()):
        messy_site(found.sites[name].settings.data.parent, seed, rows)
    return found


def in_the_open(consortium: JoinedConsortium) -> Preparation:
    files = {name: site.settings.data for name, site in consortium.sites.items()}
    return agreed({name: read_site(path).sums for name, path in files.items()})


def test_the_same_preparation_and_no_number_of_a_single_site(consortium: JoinedConsortium) -> None:
    wire = Wired(consortium)
    assert wire.summed() == in_the_open(consortium)
    for name in THREE:
        told = wire.introduced(name)
        assert all(not own.count and not own.total for own in told.numbers.values())
        assert told.types["patient"]["ward"].categories
    sent = [reply for _, message, reply in wire.seen if STEP not in message.notes]
    assert len(sent) == len(THREE)
    limbs = [array.view("u1") for reply in sent for array in reply.arrays.values()]
    ones = sum(int(bytes_.sum(dtype="u8")) for bytes_ in limbs) / sum(b.size for b in limbs)
    assert abs(ones - 127.5) < 3  # most limbs of what was summed are zero
    entries = audit_entries(consortium.sites["north"].folder / "state")[0]
    assert any("patient.age: count 50" in t and "under masks" in t for e in entries for t in e.told)


def test_each_version_of_the_data_is_in_sums_over_one_set_of_sites(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The difference of two sums over different sites is what one of them has told."""
    names = (*THREE, "west")
    four = joined_consortium(tmp_path, monkeypatch, names, secure=True)
    for site in four.sites.values():
        policy = site.folder / POLICY
        policy.write_text(f"members = 3\n{policy.read_text()}")

    def first_sum(clients: tuple[str, ...]) -> Arrays:
        wire = Wired(four)
        wire.begin_columns(secrets.token_hex(16), ["patient.age"])
        config = agreed_digest(config_of(four))
        ask = asker(cast("GridWire", wire), (), 1, Counting(1), "the run does not start")
        return unmasked_sum(clients, wire.columns, config, ask)

    total = first_sum(names)
    assert all((first_sum(names)[name] == array).all() for name, array in total.items())
    with pytest.raises(
        SecureError, match="about this version of its data in a sum over other sites"
    ):
        first_sum(names[:3])


def test_no_sums_without_a_site(consortium: JoinedConsortium) -> None:
    with pytest.raises(RametError, match=r"2 of 3 sites .* the run does not start"):
        Wired(consortium, without=frozenset(["east"])).summed()


def test_a_site_adds_to_a_sum_once(consortium: JoinedConsortium) -> None:
    """A killed server or site asks or answers again, and gets the same bytes."""
    wire = Wired(consortium)
    wire.summed()
    ((first, reply),) = [(m, r) for c, m, r in wire.seen if c == "north" and STEP not in m.notes]
    again = wire.ask("north", first)
    assert all((again.arrays[name] == array).all() for name, array in reply.arrays.items())
    wire.columns = wire.columns[:1]
    fewer = wire.ask("north", first)
    assert all((fewer.arrays[name] == array).all() for name, array in reply.arrays.items())
    with pytest.raises(RametError, match="already answered round 1, to another message"):
        wire.ask("north", replace(first, extras={"mean": np.zeros(1)}))


class OtherColumns(Wired):
    """A wire that asks one site for fewer columns."""

    def ask(self, client: str, message: Payload) -> Payload:
        columns = self.columns
        self.columns = columns[:1] if client == "north" else columns
        reply = super().ask(client, message)
        self.columns = columns
        return reply


def test_masks_do_not_cancel_if_one_site_is_asked_for_other_columns(
    consortium: JoinedConsortium,
) -> None:
    with pytest.raises(RametError, match="sent no sums of these columns"):
        OtherColumns(consortium).summed()


def test_keys_of_old_sums_are_forgotten(
    consortium: JoinedConsortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ramet.flower.masked_columns._KEPT", 2)
    sums = [Wired(consortium).summed() for _ in range(4)]
    assert len({one.text() for one in sums}) == 1
    names = [*(consortium.sites["north"].folder / "state" / "columns").iterdir()]
    assert len(names) == 2
