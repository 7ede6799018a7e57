"""A site's policy holds at the node's exit, and rounds go on without what sites withhold."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from federations import Federation, climbing, protected
from ramet.engine.messages import request
from ramet.engine.processes.local import LocalWire
from ramet.engine.site.answered import Answered, answered_totals
from ramet.engine.site.audit import audit_entries
from ramet.engine.site.client import Client
from ramet.errors import RametError
from ramet.policy import NO_RULES, Policy, PolicyError, Totals


@dataclass(frozen=True)
class Governed(Federation):
    """A federation in which site a has a policy."""

    policy: Policy = NO_RULES
    run_name: str = "one"

    def client(self, client: str) -> Client:
        node = super().client(client)
        if client != "a":
            return node
        answered = Answered(self.folder / "answered.json", self.run_name)
        return protected(node, policy=self.policy, answered=answered)


def governed(folder: Path, **rules: Any) -> Governed:
    return Governed(climbing(), folder, policy=Policy.model_validate(rules))


def test_withheld_numbers_are_missing_from_records_and_nothing_else(tmp_path: Path) -> None:
    open_sha256, _ = Federation(climbing(), tmp_path / "open").run(2)
    numbers = {"loss": False, "scores": False, "work": False}
    federation = governed(tmp_path / "closed", numbers=numbers)
    sha256, records = federation.run(2)
    assert sha256 == open_sha256
    assert [sorted(record.evaluated) for record in records] == [["b", "c"], ["b", "c"]]
    assert not records[0].failed
    trained = records[0].trained
    assert "loss" in trained["b"]
    assert "loss" not in trained["a"]
    entries, _ = audit_entries(tmp_path / "closed" / "a")
    assert {name for entry in entries for name in entry.numbers} == {"weight", "up"}


def test_a_rounded_weight_is_the_weight_in_the_mean(tmp_path: Path) -> None:
    """The weights are 2, 1 and 1 instead of 1 each: (2 * 1 + 1 * 2 + 1 * 4) / 4 = 2."""
    federation = governed(tmp_path, numbers={"weight": 2})
    federation.run(1)
    assert federation.slopes("server", "slope", 1) == [2.0]


def test_the_reply_that_would_exceed_the_bytes_does_not_leave(tmp_path: Path) -> None:
    federation = governed(tmp_path, bytes=8)  # a reply has 4 bytes
    for number in (1, 2):
        federation.client("a").answer(request(number, True, {}, last=number - 1))
    with pytest.raises(PolicyError, match=r"^`bytes`: .* 12 bytes .* allows 8"):
        federation.client("a").answer(request(3, True, {}, last=2))
    assert len(audit_entries(tmp_path / "a")[0]) == 2


def test_limits_hold_over_all_names_of_runs(tmp_path: Path) -> None:
    federation = governed(tmp_path, runs=2, rounds=3)
    train, again = request(1, True, {}), request(2, True, {}, last=1)
    federation.client("a").answer(train)
    other = replace(federation, run_name="two")
    other.client("a").answer(train)
    with pytest.raises(PolicyError, match=r"^`runs`: .* 3 runs .* allows 2.* raise `runs`"):
        replace(federation, run_name="three").client("a").answer(train)
    other.client("a").answer(again)
    with pytest.raises(PolicyError, match=r"^`rounds`: .* 4 rounds .* allows 3"):
        federation.client("a").answer(again)
    assert answered_totals(tmp_path / "answered.json") == Totals(
        runs=2, rounds=3, evaluations=1, bytes=12
    )


def test_a_message_that_is_sent_again_is_no_other_round(tmp_path: Path) -> None:
    federation = governed(tmp_path, rounds=1)
    for _ in range(3):
        federation.client("a").answer(request(1, True, {}))
    federation.client("a").answer(request(2, False, {}, last=1))  # the closing evaluation
    slope = np.ones(1, np.float32)
    with pytest.raises(PolicyError, match=r"^`rounds`: .* 2 rounds"):
        federation.client("a").answer(request(1, True, {"slope": slope}))
    with pytest.raises(PolicyError, match=r"^`rounds`: .* 2 rounds"):
        federation.client("a").answer(request(2, False, {"slope": slope}, last=1))


def test_a_killed_process_has_counted_the_round_that_it_began(tmp_path: Path) -> None:
    """The message is in the record before training, and the bytes before the reply leaves."""
    federation = governed(tmp_path, rounds=1, bytes=4)
    record, message = Answered(tmp_path / "answered.json", "one"), request(1, True, {})
    record.begin(message, NO_RULES)
    federation.client("a").answer(message)
    with pytest.raises(PolicyError, match=r"^`bytes`: .* 8 bytes .* allows 4"):
        federation.client("a").answer(message)


def test_processes_that_answer_at_once_do_not_exceed_a_limit(tmp_path: Path) -> None:
    record, policy = tmp_path / "answered.json", Policy(runs=5)

    def begin(run: int) -> bool:
        try:
            Answered(record, str(run)).begin(request(1, True, {}), policy)
        except PolicyError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(begin, range(20))) == 5
    assert answered_totals(record).runs == 5


def test_a_record_that_cannot_be_read_closes_the_site(tmp_path: Path) -> None:
    federation = governed(tmp_path)
    federation.client("a").answer(request(1, True, {}))
    (tmp_path / "answered.json").write_text('{"runs": ')
    with pytest.raises(RametError, match=r"cannot be read. Restore it .* takes part in no run"):
        federation.client("a").answer(request(2, True, {}, last=1))


def test_too_few_samples(tmp_path: Path) -> None:
    federation = governed(tmp_path, samples=2)
    with pytest.raises(PolicyError, match=r"^`samples`: this site has fewer"):
        federation.run(1, LocalWire(federation.client))
    assert not (tmp_path / "a").exists()
