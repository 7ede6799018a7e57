from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ramet.data import StructureEncoding
from ramet.errors import RametError
from ramet.partition import Reading
from ramet.partition.by_relation import Sampling, planted_hetero, specialities

READING = Reading(Path(), 123, StructureEncoding(0, 0))


def test_a_client_holds_more_of_its_specialities_and_learns_only_those() -> None:
    setting = planted_hetero(Sampling(clients=8), links=400)
    whole = setting.overview(READING).content
    seen = set()
    for client in setting.clients:
        graph = setting.client_data(client, READING).content
        shares = torch.bincount(graph.links.kinds, minlength=3) / torch.bincount(whole.links.kinds)
        learned = torch.bincount(graph.links.kinds[graph.learned], minlength=3) > 0
        assert torch.allclose(shares, torch.where(learned, 0.3, 0.05), atol=0.005)
        assert 1 <= int(learned.sum()) <= 2
        assert bool((graph.learned == learned[graph.links.kinds]).all())
        seen.add(tuple(learned.tolist()))
    assert len(seen) > 2


def test_parts_are_reproducible_and_share_the_held_out_links() -> None:
    setting = planted_hetero()
    one, again, other = (
        setting.client_data(c, READING) for c in ("part-0001", "part-0001", "part-0002")
    )
    assert torch.equal(one.content.links.heads, again.content.links.heads)
    assert not torch.equal(one.content.links.heads, other.content.links.heads)
    assert torch.equal(one.split.test.pairs.tails, other.split.test.pairs.tails)


def test_even_and_central_partitions() -> None:
    even = planted_hetero(Sampling("even", clients=4))
    assert even.client_data("part-0000", READING).content.learned.all()
    central = planted_hetero(Sampling("central"))
    assert central.clients == ("part-0000",)
    held = central.client_data("part-0000", READING).content
    assert len(held.links) == len(central.overview(READING).content.links)


def test_a_single_relation_is_every_clients_speciality() -> None:
    assert specialities(1, torch.Generator().manual_seed(0)).tolist() == [True]
    two = [int(specialities(2, torch.Generator().manual_seed(n)).sum()) for n in range(20)]
    assert set(two) == {1}


def test_a_client_without_links_is_refused() -> None:
    with pytest.raises(RametError, match="part-0000 gets no links to learn from"):
        planted_hetero(Sampling(clients=4, own=0.0)).client_data("part-0000", READING)
