"""A site's policy: its file, its rules, and what is left of a reply's numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ramet.metrics import WORK
from ramet.payload import Payload
from ramet.policy import (
    NO_RULES,
    WITHHELD,
    Ceiling,
    Numbers,
    Policy,
    PolicyError,
    checked_policy,
    expected_numbers,
    first_policy,
    read_policy,
)

NUMBERS = {"weight": 47, "loss": 0.6931, "val": 0.518, "test": 0.532, "memory": 7e8, "up": 96}
REPLY = Payload(numbers={**NUMBERS, **dict.fromkeys(WORK, 1e9)}, notes={"private": "ab"})


def test_without_rules_everything_leaves() -> None:
    assert NO_RULES.numbers.permitted(REPLY) == REPLY
    assert not [*NO_RULES.refusals("fedavg", None, 1, False)]


def test_the_file_that_join_writes_limits_runs_only(tmp_path: Path) -> None:
    text = first_policy(None, secure=False)
    (tmp_path / "policy.toml").write_text(text)
    assert checked_policy(tmp_path / "policy.toml") == Policy(runs=20)
    uncommented = re.sub(r"^# (?=[a-z]+ = |\[)", "", text, flags=re.MULTILINE)
    (tmp_path / "policy.toml").write_text(uncommented)
    policy = checked_policy(tmp_path / "policy.toml")
    assert policy.numbers.scores == 0.01
    assert policy.versions == 1
    assert policy.limits == {"runs": 20, "rounds": 500, "evaluations": 500, "bytes": 10**9}


def test_join_writes_the_budget_of_the_invitation_as_the_ceiling(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(first_policy("unit=site,epsilon=0.5,delta=1e-6", False))
    expected = Ceiling(unit="site", epsilon=0.5, delta=1e-6)
    assert checked_policy(tmp_path / "policy.toml") == Policy(runs=20, privacy=expected)


def test_join_requires_the_secure_sums_of_the_invitation(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(first_policy(None, secure=True))
    assert checked_policy(tmp_path / "policy.toml") == Policy(runs=20, secure="required")


def test_numbers_are_rounded_or_withheld() -> None:
    numbers = Numbers(weight=10, loss=False, scores=0.05, work=False)
    left = numbers.permitted(REPLY)
    assert left.numbers == {"weight": 50, "val": 0.5, "test": 0.55, "up": 96}
    assert left.notes == {"private": "ab", WITHHELD: "loss work"}
    assert numbers.permitted(left) == left
    assert numbers.permitted(Payload(numbers={"weight": 2})).numbers == {"weight": 10}


def test_the_server_does_not_wait_for_withheld_numbers() -> None:
    left = Numbers(scores=False).permitted(REPLY)
    assert expected_numbers(left, ("loss", "val", "test")) == ("loss",)
    assert expected_numbers(REPLY, ("loss", "val", "test")) == ("loss", "val", "test")


@pytest.mark.parametrize(
    ("rules", "key"),
    [
        ({"methods": ["fedprox"]}, "methods"),
        ({"methods": []}, "methods"),
        ({"secure": "required"}, "secure"),
        ({"members": 4}, "members"),
        ({"numbers": {"weight": False}}, "numbers.weight"),
    ],
)
def test_a_run_that_breaks_a_rule_is_refused_by_its_name(
    rules: dict[str, object], key: str
) -> None:
    policy = Policy.model_validate(rules)
    with pytest.raises(PolicyError, match=f"^`{key}`: this site's policy does not allow the run"):
        policy.check("fedavg", None, 3, False)


def test_user_defined_code_is_allowed_by_its_sha256() -> None:
    policy = Policy(methods=("fedavg", "ab" * 32))
    policy.check("mine.py:mine", "ab" * 32, 3, False)
    with pytest.raises(PolicyError, match=r"user-defined code cdcd"):
        policy.check("fedavg", "cd" * 32, 3, False)


@pytest.mark.parametrize(
    "text", ["epsilon = 4", "members = 0", "numbers = 3", "[numbers]\nloss = -1", "=", "secure = 1"]
)
def test_a_policy_that_cannot_be_read_closes_the_site(text: str, tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    for content in (text, None):
        path.write_text(content) if content else path.unlink()
        with pytest.raises(PolicyError, match=r"takes part in no run"):
            read_policy(path)
    with pytest.raises(PolicyError, match=r"policy.toml"):
        checked_policy(path)
