"""A site's policy holds at the node's exit, and rounds go on without what sites withhold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from federations import Federation, climbing
from ramet.engine import LocalWire, Node
from ramet.engine.audit import audit_entries
from ramet.engine.node import request
from ramet.policy import NO_RULES, Policy, PolicyError


@dataclass(frozen=True)
class Governed(Federation):
    """A federation in which site a has a policy."""

    policy: Policy = NO_RULES

    def node(self, client: str) -> Node:
        node = super().node(client)
        return replace(node, policy=self.policy) if client == "a" else node


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
        federation.node("a").answer(request(number, True, {}, last=number - 1))
    with pytest.raises(PolicyError, match=r"^`bytes`: .* 12 bytes .* allows 8"):
        federation.node("a").answer(request(3, True, {}, last=2))
    assert len(audit_entries(tmp_path / "a")[0]) == 2


def test_too_few_samples(tmp_path: Path) -> None:
    federation = governed(tmp_path, samples=2)
    with pytest.raises(PolicyError, match=r"^`samples`: this site has fewer"):
        federation.run(1, LocalWire(federation.node))
    assert not (tmp_path / "a").exists()
