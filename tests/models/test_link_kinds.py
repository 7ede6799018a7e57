"""Clustering of links: the factored form against the direct one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from ramet.models import link_kinds
from ramet.models.link_kinds import assign, means, seeded


def direct(nodes: Tensor, left: Tensor, right: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    """Kinds and means from a vector per link."""
    links = torch.cat([nodes[left.long()], nodes[right.long()]], dim=1)
    cosines = functional.normalize(links) @ functional.normalize(centres).T
    kinds = cosines.argmax(dim=1)
    new = [
        links[kinds == kind].mean(dim=0) if (kinds == kind).any() else centres[kind]
        for kind in range(centres.size(0))
    ]
    return kinds, torch.stack(new)


@pytest.mark.parametrize("kinds", [1, 4, 12])
@pytest.mark.parametrize("at_once", [7, 2**19])
def test_factored_form_equals_direct_form(
    kinds: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_kinds, "LINKS_AT_ONCE", at_once)
    generator = torch.Generator().manual_seed(3)
    nodes = torch.randn(50, 6, generator=generator).relu()
    left, right = torch.randint(50, (2, 300), generator=generator, dtype=torch.int32)
    centres = torch.randn(kinds, 12, generator=generator)
    expected_kinds, expected_centres = direct(nodes, left, right, centres)
    actual = assign(nodes, left, right, centres)
    assert torch.equal(actual.long(), expected_kinds)
    assert torch.allclose(means(nodes, left, right, actual, centres), expected_centres, atol=1e-5)


def test_unset_centres_get_no_links_and_are_seeded_far_apart() -> None:
    torch.manual_seed(0)
    corners = torch.eye(4).repeat_interleave(5, dim=0)  # five nodes at each of four corners
    numbers = torch.arange(20, dtype=torch.int32)
    left, right = numbers[:-1], numbers[1:]
    inside = left.div(5, rounding_mode="floor") == right.div(5, rounding_mode="floor")
    left, right = left[inside], right[inside]
    centres = torch.zeros(4, 8)
    centres[2] = torch.cat([corners[0], corners[0]])
    assert set(assign(corners, left, right, centres).tolist()) == {2}
    filled = seeded(corners, left, right, centres)
    assert torch.equal(filled[2], centres[2])
    assert len({tuple(row) for row in filled.tolist()}) == 4
    assert sorted(assign(corners, left, right, filled).bincount().tolist()) == [4, 4, 4, 4]


def test_centres_stay_unset_with_too_few_different_links() -> None:
    nodes = torch.ones(3, 2)
    left, right = torch.tensor([0, 1], dtype=torch.int32), torch.tensor([1, 2], dtype=torch.int32)
    filled = seeded(nodes, left, right, torch.zeros(3, 4))
    assert link_kinds.unset(filled).sum() == 2
    none = torch.empty(0, dtype=torch.int32)
    assert link_kinds.unset(seeded(nodes, none, none, torch.zeros(3, 4))).all()
    assert assign(nodes, none, none, torch.zeros(3, 4)).numel() == 0
