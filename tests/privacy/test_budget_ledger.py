"""The ledger: runs add up, a ceiling holds, and no kill loses a round that was reported."""

from __future__ import annotations

import os
import random
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from ramet.engine.site.ledger import Ledger, RunEntry
from ramet.errors import RametError
from ramet.policy import Ceiling, PolicyError
from ramet.privacy.accounting import Mechanism, spent_epsilon

KILLS = 200 if os.environ.get("RAMET_FAULTS") == "full" else 25
ENTRY = RunEntry(unit="graph", terms="a", data="d", noise=40.0, sampling=1.0, steps=2)

SITE_ENTRY = RunEntry(unit="site", terms="a", data="d", noise=40.0, sampling=1.0, steps=1)


def test_two_runs_on_the_same_data_add_up(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "privacy.json")
    for number in (1, 2):
        ledger.spend("one", ENTRY, number, None)
    ledger.spend("two", ENTRY, 1, None)
    both = spent_epsilon([(Mechanism(40.0, 1.0, 2), 3)], 1e-5)
    assert ledger.spent("graph", 1e-5) == pytest.approx(both, abs=1e-6)
    assert ledger.spent("site", 1e-5) == 0
    assert (ledger.uncounted("site"), ledger.uncounted("graph")) == (2, 0)


def test_noise_for_sites_counts_for_graphs_too(tmp_path: Path) -> None:
    """A graph is part of a site, whose update changes by two clipping norms at most."""
    ledger = Ledger(tmp_path / "privacy.json")
    ledger.spend("one", ENTRY, 1, None)
    ledger.spend("two", SITE_ENTRY, 1, None)
    both = spent_epsilon([(Mechanism(40.0, 1.0, 2), 1), (Mechanism(20.0), 1)], 1e-5)
    assert ledger.spent("graph", 1e-5) == pytest.approx(both, abs=1e-6)
    ceiling = Ceiling(unit="graph", epsilon=both, delta=1e-5)
    with pytest.raises(PolicyError, match="would have spent"):
        ledger.spend("three", SITE_ENTRY, 1, ceiling)


def test_a_ceiling_per_site_cannot_be_kept_after_runs_per_graph(tmp_path: Path) -> None:
    ledger, ceiling = Ledger(tmp_path / "l.json"), Ceiling(unit="site", epsilon=100, delta=1e-5)
    ledger.spend("one", SITE_ENTRY, 1, ceiling)
    ledger.spend("two", ENTRY, 1, None)
    with pytest.raises(PolicyError, match="no ε per site can be stated"):
        ledger.spend("one", SITE_ENTRY, 2, ceiling)


def test_the_round_that_would_exceed_the_ceiling_is_refused(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "privacy.json")
    two = spent_epsilon([(Mechanism(40.0, 1.0, 2), 2)], 1e-5)
    ceiling = Ceiling(unit="graph", epsilon=two + 1e-6, delta=1e-5)
    ledger.spend("one", ENTRY, 1, ceiling)
    ledger.spend("two", ENTRY, 1, ceiling)
    with pytest.raises(PolicyError, match=r"`privacy`: with this round.* ε = "):
        ledger.spend("three", ENTRY, 1, ceiling)
    assert ledger.spent("graph", 1e-5) == pytest.approx(two, abs=1e-6)


def test_a_round_is_spent_once(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "privacy.json")
    for number in (1, 1, 2, 2):
        ledger.spend("one", ENTRY, number, None)
    assert ledger.runs()["one"].rounds == (1, 2)
    with pytest.raises(RametError, match="already answered round 1"):
        ledger.spend("one", ENTRY, 1, None)


def test_a_run_cannot_change_its_noise(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "privacy.json")
    ledger.spend("one", ENTRY, 1, None)
    with pytest.raises(RametError, match="terms of run one have changed"):
        ledger.spend("one", ENTRY.model_copy(update={"noise": 0.1}), 2, None)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"runs": {"a": {"unit": "graph"}}}'])
def test_a_damaged_ledger_is_no_empty_one(content: str, tmp_path: Path) -> None:
    path = tmp_path / "privacy.json"
    path.write_text(content)
    with pytest.raises(RametError, match="Restore it from a backup"):
        Ledger(path).spend("one", ENTRY, 1, None)


def _spend_on(path: Path, first: int, reported: Connection) -> None:
    for number in range(first, first + 10_000):
        Ledger(path).spend("one", ENTRY, number, None)
        reported.send(number)


def test_kills_while_it_is_written_lose_nothing(tmp_path: Path) -> None:
    path, last, draws = tmp_path / "privacy.json", 0, random.Random(1)
    fork = get_context("fork")
    for _ in range(KILLS):
        receiving, sending = fork.Pipe(duplex=False)
        process = fork.Process(target=_spend_on, args=(path, last + 1, sending))
        process.start()
        sending.close()
        assert receiving.poll(30)
        time.sleep(draws.uniform(0, 0.01))
        process.kill()
        process.join()
        reported = last
        try:
            while receiving.poll():
                reported = receiving.recv()
        except EOFError:
            pass
        rounds = Ledger(path).runs()["one"].rounds
        assert reported > last
        assert rounds == tuple(range(1, len(rounds) + 1))
        assert len(rounds) in (reported, reported + 1)
        last = len(rounds)
