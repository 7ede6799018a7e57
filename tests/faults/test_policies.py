"""Random policies and random requests: nothing that a policy forbids leaves a site."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from federations import Federation, climbing, protected
from ramet.engine.messages import request
from ramet.engine.site.answered import Answered
from ramet.engine.site.audit import audit_entries
from ramet.engine.site.limit import SiteLimit
from ramet.errors import RametError
from ramet.payload import Payload, only
from ramet.policy import Policy

CASES = 10_000 if os.environ.get("RAMET_FAULTS") == "full" else 200
KINDS = {"loss": "loss", "weight": "weight", "memory": "work", "val": "scores", "test": "scores"}


def random_policy(draw: random.Random) -> Policy:
    def rule() -> Any:
        return draw.choice([True, False, 0.5, 3, 10])

    rules: dict[str, Any] = {
        "methods": draw.choice([None, ["climbing"], ["fedavg"], []]),
        "share": draw.choice([None, ["*"], ["slope"], ["other"], []]),
        "secure": draw.choice(["allowed", "allowed", "required"]),
        "members": draw.choice([1, 2, 3, 4]),
        "samples": draw.choice([1, 1, 2]),
        "rounds": draw.choice([None, None, 1, 2]),
        "bytes": draw.choice([None, 0, 3, 4, 8, 100]),
        "numbers": {
            "weight": rule(),
            "loss": rule(),
            "scores": rule(),
            "work": draw.choice([True, False]),
        },
    }
    return Policy.model_validate(rules)


def random_request(draw: random.Random) -> Payload:
    number = draw.choice([1, 1, 2, 3])
    message = request(number, draw.choice([True, True, False]), {}, draw.choice([0, number - 1]))
    notes = draw.choice([{}, {"withheld": ""}, {"spared": '["slope"]'}, {"policy": "none"}])
    numbers: dict[str, float] = draw.choice([{}, {"weight": 1e9}, {"members": 99}, {"secure": 1}])
    return replace(message, notes=notes, numbers={**message.numbers, **numbers})


def broken_rules(policy: Policy, reply: Payload, sent: int) -> list[str]:
    """What a reply of site a, which has one graph and one parameter, may not have."""
    broken = [key for key, _ in policy.refusals("climbing", None, 3, False)]
    if policy.share is not None and any(name not in only(*policy.share) for name in reply.arrays):
        broken.append("share")
    if policy.samples > 1:
        broken.append("samples")
    if policy.bytes is not None and sent > policy.bytes:
        broken.append("bytes")
    for name, value in reply.numbers.items():
        rule = getattr(policy.numbers, KINDS.get(name, "work"), True) if name != "up" else True
        if rule is False:
            broken.append(name)
        elif rule is not True and abs(value / rule - round(value / rule)) > 1e-9:
            broken.append(f"{name} is not rounded")
    return broken


@pytest.mark.parametrize("part", range(4))
def test_nothing_forbidden_leaves(part: int, tmp_path: Path) -> None:
    draw = random.Random(part)
    answered = 0
    for case in range(CASES // 4):
        policy = random_policy(draw)
        federation = Federation(climbing(), tmp_path / str(case))
        record = Answered(tmp_path / str(case) / "answered.json", "run")
        node = protected(federation.client("a"), answered=record)
        limit = None if policy.share is None else SiteLimit(node.method, (only(*policy.share),))
        for _ in range(3):
            try:
                policy.check("climbing", None, 3, False)
                reply = protected(node, policy=policy, limit=limit).answer(random_request(draw))
            except RametError:
                continue
            answered += 1
            entries, _ = audit_entries(tmp_path / str(case) / "a")
            sent = sum(tensor.bytes for entry in entries for tensor in entry.tensors)
            assert broken_rules(policy, reply, sent) == []
    assert answered > CASES // 100
