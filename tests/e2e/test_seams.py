"""Extras, memory, releases, stages and pace over real engines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest

import ramet
from ramet.engine.server.paced import PACE
from ramet.engine.server.state import RunState
from ramet.engine.store.checkpoint import Snapshots

pytestmark = [pytest.mark.e2e, pytest.mark.thorough]

METHOD = '''
"""SCAFFOLD with a stage before training, sent in 8 bits."""

from dataclasses import dataclass, replace

import torch

from ramet import scaffold
from ramet.rules.eight_bit import EightBit
from ramet.rules.extras import Extras, Stage
from ramet.rules.merging import Summing
from ramet.payload import Payload


@dataclass(frozen=True)
class Sum(Summing):
    def term(self, reply):
        return reply.extras

    def step(self, state, total, server):
        return Payload({name: total[name].astype("float32") for name in total})


def count(session):
    session.sending["samples"] = torch.tensor(float(session.task.weight(session.samples)))


def every_seam():
    method = scaffold()

    def after(session):
        session.memory["total"] = session.received["samples"]
        method.after(session)

    samples = Extras(lambda model, shared: {"samples": torch.tensor(0.0)}, Sum())
    stages = (Stage("count", samples, count, last=2),)
    return replace(method, name="every-seam", stages=stages, after=after, release=(EightBit(),))
'''


@pytest.mark.parametrize("engine", ["ray", "superlink"])
def test_engines_agree_on_every_seam(engine: Literal["ray", "superlink"], tmp_path: Path) -> None:
    (tmp_path / "seams.py").write_text(METHOD)
    method = f"{tmp_path / 'seams.py'}:every_seam"
    expected = ramet.run(method, "tiny", rounds=3, seed=3, out=tmp_path / "local")
    result = ramet.run(method, "tiny", rounds=3, seed=3, engine=engine, out=tmp_path / engine)
    for fact in ("sha256", "scores", "traffic", "model"):
        assert getattr(result.summary, fact) == getattr(expected.summary, fact)
    assert result.frame.equals(expected.frame)


def test_a_superlink_takes_the_first_replies(tmp_path: Path) -> None:
    out = tmp_path / "run"
    options: dict[str, Any] = {"count": 2, "simulated": False}
    result = ramet.run("fedbuff", "tiny", rounds=4, engine="superlink", out=out, **options)
    lines = (out / "rounds.jsonl").read_text().splitlines()
    trained = [sorted(json.loads(line)["trained"]) for line in lines]
    assert [len(clients) for clients in trained] == [2] * 4
    assert {client for clients in trained for client in clients} == {"rings", "trees", "blocks"}
    assert len(result.summary.scores.clients) == 3
    assert not any(json.loads(line)["failed"] for line in lines)
    state = RunState.restored(Snapshots(out / "server").load(4))
    assert sorted(json.loads(state[PACE].notes["arrived"])) == trained[-1]


def test_other_engines_have_no_pace_of_their_own(tmp_path: Path) -> None:
    with pytest.raises(ramet.RametError, match="only a SuperLink"):
        ramet.run("fedbuff", "tiny", rounds=1, out=tmp_path / "run", simulated=False)
