"""With `final_clients`, a sample of the clients gets the final model; others get it on demand."""

from __future__ import annotations

from math import sqrt
from pathlib import Path
from typing import Any

import pytest
import torch

import ramet
from ramet.errors import RametError
from ramet.metrics.summary import sample_interval

CLIENTS, ASKED, FINAL = 40, 2, 5


def run(out: Path, **given: Any) -> ramet.Result:
    given |= {"activation": f"random-clients,count={ASKED}", "rounds": 2, "out": out}
    return ramet.run("fedper", "planted-hetero", clients=CLIENTS, nodes=40, links=150, **given)


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> ramet.Result:
    return run(tmp_path_factory.mktemp("final") / "sampled", final_clients=FINAL)


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> ramet.Result:
    return run(tmp_path_factory.mktemp("final") / "complete")


def test_only_the_sample_is_evaluated_and_only_clients_that_were_asked_have_files(
    sampled: ramet.Result, complete: ramet.Result
) -> None:
    scores = sampled.summary.scores
    assert len(scores.clients) == FINAL
    assert scores.clients.items() <= complete.summary.scores.clients.items()
    assert scores.interval is not None
    assert scores.interval[0] < scores.test < scores.interval[1]
    assert complete.summary.scores.interval is None
    (states,) = (sampled.folder / "clients").iterdir()
    assert FINAL <= len([*states.iterdir()]) <= 2 * ASKED + FINAL


def test_others_get_the_final_model_when_it_is_asked_for(
    sampled: ramet.Result, complete: ramet.Result
) -> None:
    (states,) = (sampled.folder / "clients").iterdir()
    asked = {state.name for state in states.iterdir()} - sampled.summary.scores.clients.keys()
    never_asked = next(
        client for client in complete.summary.scores.clients if not (states / client).exists()
    )
    for client in (*asked, never_asked):
        own, same = (one.model(client).state_dict() for one in (sampled, complete))
        assert all(torch.equal(own[name], same[name]) for name in same)


def test_secure_sums_are_over_all_clients(tmp_path: Path) -> None:
    with pytest.raises(RametError, match="sum over all clients"):
        ramet.run("fedstar", "tiny", secure=True, final_clients=2, out=tmp_path / "run")


def test_the_interval_by_hand() -> None:
    low, high = sample_interval([0.0, 1.0], 4) or (0, 0)
    margin = 12.7062 * sqrt(0.5) * sqrt((1 - 2 / 4) / 2)  # t, standard deviation, half are unseen
    assert (low, high) == pytest.approx((0.5 - margin, 0.5 + margin), abs=1e-4)
    assert sample_interval([0.5], 4) is None
