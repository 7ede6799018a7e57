"""Clients that evaluate and keep the network they have trained, before the merge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
import torch
from torch import nn

import ramet
from ramet.engine.messages import request
from ramet.engine.site.client import Client
from ramet.engine.store.checkpoint import Snapshots
from ramet.experiment import RunFolder
from ramet.methods import fedavg
from ramet.rules.method import assembled
from ramet.rules.site_model import SiteModel, with_site_model
from ramet.training.local import LocalTraining, Session

ClientMaker = Callable[..., Client]
LONG = LocalTraining(lr=0.01, epochs=20)


def scores(node: Client, folder: Path, received: float) -> dict[str, float]:
    """What the client finds in round 2, in which it is sent this multiple of its own reply."""
    node = replace(node, snapshots=Snapshots(folder))
    trained = node.answer(request(1, True, {}, last=0)).arrays
    sent = {name: np.asarray(received * array, array.dtype) for name, array in trained.items()}
    found = node.answer(request(2, True, sent, last=1)).numbers
    return {part: found[part] for part in ("val", "test")}


@pytest.mark.thorough
@pytest.mark.parametrize(("site_model", "same"), [("trained", True), ("merged", False)])
def test_scores_are_those_of_the_trained_network(
    site_model: SiteModel, same: bool, tiny_client: ClientMaker, tmp_path: Path
) -> None:
    node = tiny_client("rings", assembled(fedavg(site_model), training=LONG))
    alone, with_others = (scores(node, tmp_path / str(times), times) for times in (1.0, -1.0))
    assert (with_others == alone) == same


@pytest.mark.parametrize("method", ["fedavg", "fedprox", "scaffold", "moon", "gcfl+", "fedadam"])
def test_what_is_trained_and_merged_is_the_same(method: str, tmp_path: Path) -> None:
    ramet.run(method, "tiny", rounds=3, workers=1, out=tmp_path / "merged")
    ramet.run(method, "tiny", rounds=3, workers=1, out=tmp_path / "own", site_model="trained")
    merged, own = (RunFolder(tmp_path / name).records() for name in ("merged", "own"))
    assert [record.trained for record in merged] == [record.trained for record in own]
    assert [record.evaluated for record in merged] != [record.evaluated for record in own]


def test_what_a_method_does_after_training_is_still_done() -> None:
    def after(session: Session) -> None:
        session.memory["seen"] = torch.ones(1)

    both = with_site_model(replace(fedavg(), after=after), "trained").after
    session = SimpleNamespace(model=nn.Linear(1, 1), memory={})
    assert both is not None
    both(cast(Session, session))
    assert {*session.memory} == {"seen", "trained/weight", "trained/bias"}
