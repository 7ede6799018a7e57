"""Runs with secure sums: the same SHA-256 as without masks, with drop-outs, kills and resumes."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import ramet
from federations import (
    CLIMBERS,
    Climb,
    Federation,
    StopsAfter,
    Watched,
    climbing,
    graphs_of,
    protected,
    stopped_and_resumed,
)
from ramet.engine.server.secure_steps import SecureState
from ramet.engine.site.audit import audit_entries
from ramet.engine.site.client import Client
from ramet.engine.site.secure_site import simulated_site
from ramet.errors import RametError
from ramet.experiment import RunFolder
from ramet.metrics.best import History
from ramet.payload import Payload
from ramet.policy import Policy, PolicyError
from ramet.rules.fixed_point import FixedPoint
from ramet.rules.method import AssembledMethod
from ramet.scale import Scale
from ramet.studies.trial.wires import StoppedError

FIVE = {**CLIMBERS, "d": graphs_of([8], [0]), "e": graphs_of([16], [0])}


@dataclass(frozen=True)
class Secure(Federation):
    """A federation whose server learns sums only."""

    def client(self, client: str) -> Client:
        folder = self.folder / client / "secure"
        site = simulated_site(client, "run", folder, 0, tuple(self.samples))
        return protected(super().client(client), secure=site, clients=len(self.samples))


def method() -> AssembledMethod:
    return climbing(summation=FixedPoint())


def away(*times: tuple[str, int, str]) -> object:
    """Which clients are away: name, round, and the step, "" for training."""

    def is_away(client: str, message: Payload) -> bool:
        step = message.notes.get("secure", "")
        return (client, int(message.numbers["round"]), step) in times

    return is_away


def plain(folder: Path, rounds: int, *missing: tuple[str, int]) -> str:
    """The SHA-256 of the run without masks, in which some clients miss some rounds."""
    federation = Federation(method(), folder, FIVE)
    away_in = away(*((client, number, "") for client, number in missing))
    return federation.run(rounds, Watched(federation, away=away_in))[0]  # type: ignore[arg-type]


def test_the_sum_is_that_without_masks_and_records_hold_means_only(tmp_path: Path) -> None:
    expected, plain_records = Federation(method(), tmp_path / "plain", FIVE).run(3)
    sha256, records = Secure(method(), tmp_path / "secure", FIVE).run(3, secure=True)
    assert sha256 == expected
    for record, plain_record in zip(records, plain_records, strict=True):
        assert record.evaluated == {}
        assert all(n.keys() == {"up", "tensors", "scalars"} for n in record.trained.values())
        assert record.mean("val") == pytest.approx(plain_record.mean("val"), abs=1e-6)
        losses = [numbers["loss"] for numbers in plain_record.trained.values()]
        assert record.trained_mean["loss"] == pytest.approx(sum(losses) / 5, abs=1e-6)


def test_a_mean_that_cannot_be_right_is_left_out(tmp_path: Path) -> None:
    _, known = Federation(method(), tmp_path / "plain", FIVE).run(3)
    slopes = [record.mean("val") for record in known]
    bound = (slopes[0] + slopes[1]) / 2

    @dataclass(frozen=True)
    class Bounded(Climb):
        @property
        def scale(self) -> Scale:
            return Scale(low=0.0, high=bound)

    bounded = replace(method(), task=Bounded())
    _, records = Secure(bounded, tmp_path / "secure", FIVE).run(3, secure=True)
    assert [record.mean("val") for record in records] == pytest.approx(
        [slopes[0], math.nan, math.nan], abs=1e-6, nan_ok=True
    )
    history = History(frozenset(FIVE))
    for record in records:
        history.add(record)
    assert history.candidates() == [1]


def test_no_reply_holds_an_array_that_an_audit_of_the_plain_run_shows(tmp_path: Path) -> None:
    Federation(method(), tmp_path / "plain", FIVE).run(2)
    Secure(method(), tmp_path / "secure", FIVE).run(2, secure=True)
    seen = {t.sha256 for e in audit_entries(tmp_path / "secure")[0] for t in e.tensors}
    clear = {t.sha256 for e in audit_entries(tmp_path / "plain")[0] for t in e.tensors}
    assert clear
    assert not seen & clear
    entries = audit_entries(tmp_path / "secure" / "a")[0]
    assert [entry.stage for entry in entries[:4]] == ["keys", "shares", "", "unmask"]
    assert all(entry.numbers == ("up",) for entry in entries)


def test_drop_outs_in_every_step(tmp_path: Path) -> None:
    expected = plain(tmp_path / "plain", 3, ("a", 1), ("b", 2), ("c", 2))
    federation = Secure(method(), tmp_path / "secure", FIVE)
    times = away(("a", 1, ""), ("b", 1, "unmask"), ("b", 2, ""), ("c", 2, ""), ("d", 3, "unmask"))
    wire = Watched(federation, away=times)  # type: ignore[arg-type]
    sha256, records = federation.run(3, wire, secure=True)
    assert sha256 == expected
    assert [sorted(record.failed) for record in records] == [["a"], ["b", "c"], []]


def test_a_site_without_keys_misses_the_batch_and_nothing_else(tmp_path: Path) -> None:
    rounds = [("e", number) for number in (1, 2, 3)]
    federation = Secure(method(), tmp_path / "secure", FIVE)
    wire = Watched(federation, away=away(("e", 1, "keys")))  # type: ignore[arg-type]
    sha256, records = federation.run(2, wire, secure=True)
    assert "no keys" in records[1].failed["e"]
    assert sha256 == plain(tmp_path / "plain", 2, *rounds)


def test_too_many_drop_outs_commit_nothing_and_the_run_goes_on_later(tmp_path: Path) -> None:
    expected = Federation(method(), tmp_path / "plain", FIVE).run(2)[0]
    federation = Secure(method(), tmp_path / "secure", FIVE)
    for step in ("", "unmask"):
        times = away(*((client, 2, step) for client in "abc"))
        reason = r"2 of 5 .* below the quorum of 3 .* The round is not|Nothing was unmasked"
        with pytest.raises(RametError, match=reason):
            federation.run(2, Watched(federation, away=times), secure=True)  # type: ignore[arg-type]
    assert federation.state(1)["merging"].arrays["slope"].item() == pytest.approx(31 / 5)
    assert federation.run(2, secure=True)[0] == expected


def late_by(seconds: float) -> Callable[[str, Payload], bool]:
    """Nobody is away, but every message takes a while."""

    def is_away(client: str, message: Payload) -> bool:
        time.sleep(seconds)
        return False

    return is_away


def test_a_round_lasts_from_the_first_key_to_the_last_share(tmp_path: Path) -> None:
    """Every step of a client takes a while, so the seconds of a round tell which it counts."""
    federation = Secure(method(), tmp_path)
    wire = Watched(federation, away=late_by(0.02))
    _, records = federation.run(2, wire, secure=True)
    steps = {"keys", "shares", "training", "unmask"}
    assert records[0].seconds > 0.02 * len(steps) * len(CLIMBERS)
    assert records[1].seconds > 0.02 * len({"training", "unmask"}) * len(CLIMBERS)


def test_a_round_that_is_resumed_counts_the_time_before(tmp_path: Path) -> None:
    federation = Secure(method(), tmp_path)
    slow = Watched(federation, away=late_by(0.05))
    with pytest.raises(StoppedError):
        federation.run(1, StopsAfter(slow, 3 * len(CLIMBERS) + 1), secure=True)
    _, records = federation.run(1, secure=True)
    assert records[0].seconds > 0.05 * 3 * len(CLIMBERS)


def test_the_state_of_the_sum_is_read_as_often_for_few_clients_as_for_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[Payload] = []
    read = SecureState.restored

    def counted(saved: Payload) -> SecureState:
        reads.append(saved)
        return read(saved)

    monkeypatch.setattr(SecureState, "restored", staticmethod(counted))
    Secure(method(), tmp_path / "three").run(2, secure=True)
    few = len(reads)
    Secure(method(), tmp_path / "five", FIVE).run(2, secure=True)
    assert len(reads) == 2 * few


@pytest.mark.parametrize("replies", [1, 4, 7, 11, 14, 17, 19, 22, 26, 29])
def test_stopped_anywhere_the_run_ends_the_same(replies: int, tmp_path: Path) -> None:
    expected = Federation(method(), tmp_path / "plain").run(3)[0]
    federation = Stopped(method(), tmp_path / "secure")
    assert federation.resumed(3, replies) == expected


@dataclass(frozen=True)
class Stopped(Secure):
    def run(self, rounds: int, wire: object = None, **settings: object) -> object:  # type: ignore[override]
        return super().run(rounds, wire, secure=True, **settings)  # type: ignore[arg-type]


def test_a_policy_that_requires_secure_sums(tmp_path: Path) -> None:
    policy = Policy(secure="required")
    node = protected(Federation(method(), tmp_path).client("a"), policy=policy)
    with pytest.raises(PolicyError, match=r"^`secure`: this site's replies leave inside"):
        node.answer(Payload(numbers={"round": 1, "train": 1, "last": 0}))
    secure = protected(Secure(method(), tmp_path).client("a"), policy=policy)
    with pytest.raises(RametError, match=r"a answers in secure sums only"):
        secure.answer(Payload(numbers={"round": 1, "train": 1, "last": 0}))


@pytest.mark.parametrize("name", ["fedstar", "scaffold"])
def test_secure_runs_of_real_methods(name: str, tmp_path: Path) -> None:
    fixed = ramet.run(name, "tiny", rounds=2, merge="fixed-point", out=tmp_path / "fixed")
    secure = ramet.run(name, "tiny", rounds=2, secure=True, out=tmp_path / "secure")
    assert secure.summary.sha256 == fixed.summary.sha256
    assert secure.summary.scores.test == pytest.approx(fixed.summary.scores.test, abs=1e-6)
    assert {*secure.summary.scores.clients.values()} == {None}
    assert stopped_and_resumed(secure, tmp_path / "resumed") == fixed.summary.sha256
    assert "--secure" in RunFolder(secure.folder).experiment().settings.command
    settings = json.loads((secure.folder / "settings.json").read_text())
    assert settings["secure"] is True


def test_two_clients_are_too_few(tmp_path: Path) -> None:
    with pytest.raises(RametError, match=r"a secure sum needs at least 3 clients"):
        ramet.run("fedavg", "planted", clients=2, secure=True, out=tmp_path / "run")
