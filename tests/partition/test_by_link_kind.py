"""One graph distributed over clients by the kind of its links."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ramet.data import StructureEncoding
from ramet.errors import RametError
from ramet.partition import SETTINGS, Reading
from ramet.partition.by_link_kind import deal, kind_of_client, planted_links

KINDS = torch.arange(4, dtype=torch.uint8).repeat_interleave(1000)
READING = Reading(Path(), 123, StructureEncoding(0, 0))


def test_ten_clients_have_kinds_as_in_the_paper() -> None:
    assert torch.bincount(torch.tensor(kind_of_client(10, 4))).tolist() == [2, 3, 2, 3]


def test_distinct_clients_hold_one_kind_and_balanced_ones_all() -> None:
    distinct = deal(KINDS, "distinct", 10, 0.7, 1)
    balanced = deal(KINDS, "balanced", 10, 0.7, 1)
    for client in range(10):
        assert len(set(KINDS[distinct == client].tolist())) == 1
        counts = torch.bincount(KINDS[balanced == client], minlength=4)
        assert (counts > 60).all()
        assert (counts < 140).all()
    assert torch.equal(distinct, deal(KINDS, "distinct", 10, 0.7, 1))


def test_dominant_clients_hold_most_links_of_their_kind() -> None:
    owners = deal(KINDS, "dominant", 10, 0.7, 1)
    own_kind = torch.tensor(kind_of_client(10, 4))
    for kind in range(4):
        share = (own_kind[owners[kind == KINDS]] == kind).float().mean()
        assert float(share) == pytest.approx(0.7, abs=0.05)


def test_no_client_trains_on_a_test_node_of_another() -> None:
    setting = planted_links(clients=4, nodes=200, links=300)
    whole = setting.overview(READING)
    test_rows = {tuple(row) for row in whole.content.features[whole.split.test].tolist()}
    for client in setting.clients:
        held = setting.client_data(client, READING)
        rows = held.content.features
        assert {tuple(row) for row in rows[held.split.test].tolist()} <= test_rows
        assert not {tuple(row) for row in rows[held.split.train].tolist()} & test_rows


def test_too_few_clients_or_links_are_refused() -> None:
    with pytest.raises(RametError, match="too few for 4 kinds"):
        planted_links(clients=3, nodes=200, links=300).client_data("part-00", READING)
    crowded = planted_links(clients=90, nodes=200, links=10)
    with pytest.raises(RametError, match="gets no link"):
        [crowded.client_data(client, READING) for client in crowded.clients]


def test_a_central_client_holds_everything() -> None:
    setting = SETTINGS["planted"](partition="central", nodes=200, links=300)
    assert setting.clients == ("part-00",)
    assert setting.client_data("part-00", READING).content.nodes == 200
