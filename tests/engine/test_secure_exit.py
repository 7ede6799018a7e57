"""What a site in a secure sum answers, whatever its terms are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from federations import protected
from ramet.engine.messages import request
from ramet.engine.secure_messages import BATCH, BATCH_ROUNDS, KEYS, STEP, SecureError
from ramet.engine.server.secure_steps import SecureState, with_keys
from ramet.engine.site.client import Client
from ramet.experiment import Experiment, checked_settings
from ramet.experiment.client_side import client_of
from ramet.payload import Arrays, Payload
from ramet.policy import Numbers, Policy


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    settings = checked_settings(
        method="fedavg",
        setting="tiny",
        rounds=3,
        secure=True,
        data=Path(),
        options={"dropout": "0"},
    )
    return Experiment(settings)


def nodes_of(experiment: Experiment, folder: Path) -> dict[str, Client]:
    return {
        client: client_of(experiment, client, folder / ("0" * 32)) for client in experiment.clients
    }


def message_to(nodes: Mapping[str, Client], arrays: Arrays) -> Payload:
    """A message to train in round 1, after the keys were exchanged."""

    def ask(_: str, requests: Mapping[str, Payload], *__: object) -> dict[str, Payload]:
        return {client: nodes[client].answer(message) for client, message in requests.items()}

    agreed = with_keys(SecureState(), tuple(nodes), 1, 3, ask)
    return replace(request(1, True, arrays), notes=agreed.notes())


def test_values_that_do_not_fit_are_no_reason_to_refuse(
    experiment: Experiment, tmp_path: Path
) -> None:
    """Otherwise a prepared model would tell whether a site has a graph of more than k nodes."""
    start, nodes = experiment.sizes.shared_start(), nodes_of(experiment, tmp_path)
    prepared = {name: np.zeros_like(array) for name, array in start.items()}
    prepared["layers.2.second.bias"][0] = np.finfo(np.float32).max / 20
    message = message_to(nodes, prepared)
    for node in nodes.values():
        assert node.answer(message).arrays.keys() >= {"numbers", "counts"}


def test_a_withheld_weight_is_inside_the_sum(experiment: Experiment, tmp_path: Path) -> None:
    policy = Policy(numbers=Numbers(weight=False))
    nodes = {
        client: protected(node, policy=policy)
        for client, node in nodes_of(experiment, tmp_path).items()
    }
    message = message_to(nodes, experiment.sizes.shared_start())
    for node in nodes.values():
        reply = node.answer(message)
        assert reply.arrays
        assert "weight" not in reply.numbers


def test_keys_are_kept_for_a_few_rounds_only(experiment: Experiment, tmp_path: Path) -> None:
    """A thief of the folder could unmask recorded replies of all rounds that it has keys for."""
    node = next(iter(nodes_of(experiment, tmp_path).values()))

    def answered(rounds: int) -> Payload:
        batch = json.dumps([f"{rounds:032x}", 1, rounds])
        message = request(1, True, {})
        return node.answer(replace(message, notes={STEP: KEYS, BATCH: batch}))

    assert KEYS in answered(BATCH_ROUNDS).extras
    with pytest.raises(SecureError, match="does not know these rounds"):
        answered(BATCH_ROUNDS + 1)
