from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ramet.errors import RametError
from ramet.partition import SETTINGS
from ramet.partition.cuts import AtRandom, ByLabel, BySize, Cut

LABELS = torch.arange(1200) % 3
CUTS: list[Cut] = [AtRandom(20), BySize(20, 1.2), ByLabel(20, 0.5)]


@pytest.mark.parametrize(
    ("name", "clients"),
    [
        *(("single", 7), ("cross-sim", 9), ("cross-diff", 8), ("multi", 15), ("tiny", 3)),
        *(("bio-sm", 10), ("bio-sm-sn", 13), ("bio-sn-cv", 9), ("by-label", 10)),
    ],
)
def test_settings_have_as_many_clients_as_in_the_papers(name: str, clients: int) -> None:
    setting = SETTINGS[name]()
    assert len(setting.clients) == len(set(setting.clients)) == clients
    assert list(setting.source_of) == list(setting.clients)


def test_generated_domains_repeat_under_numbered_names() -> None:
    setting = SETTINGS["tiny"](clients=7)
    assert setting.clients == (
        *("rings", "trees", "blocks"),
        *("rings-2", "trees-2", "blocks-2"),
        "rings-3",
    )
    assert setting.source_of["rings-3"] == setting.source_of["rings"] == "tiny:rings"
    assert SETTINGS["tiny"]().clients == setting.clients[:3]


@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: type(cut).__name__)
def test_parts_are_disjoint_complete_and_reproducible(cut: Cut) -> None:
    parts = cut(LABELS, 7)
    assert len(parts) == 20
    assert torch.equal(torch.cat(parts).sort().values, torch.arange(1200))
    assert min(part.numel() for part in parts) >= 10
    assert all(torch.equal(a, b) for a, b in zip(parts, cut(LABELS, 7), strict=True))
    assert any(not torch.equal(a, b) for a, b in zip(parts, cut(LABELS, 8), strict=True))


@settings(max_examples=40, deadline=None)
@given(clients=st.integers(1, 60), skew=st.floats(0, 3), seed=st.integers(0, 2**31))
def test_size_skew_works_for_any_number_of_clients(clients: int, skew: float, seed: int) -> None:
    sizes = [part.numel() for part in BySize(clients, skew)(LABELS, seed)]
    assert sum(sizes) == 1200
    assert min(sizes) >= 10
    assert sizes[0] >= sizes[-1] - 1


def test_a_small_alpha_gives_few_classes() -> None:
    def share_of_largest_class(alpha: float) -> float:
        parts = ByLabel(8, alpha)(LABELS, 3)
        tops = [torch.bincount(LABELS[p], minlength=3).max() / p.numel() for p in parts]
        return float(torch.stack(tops).mean())

    assert share_of_largest_class(0.3) > share_of_largest_class(100.0) + 0.2


def test_impossible_cuts_are_refused_with_advice() -> None:
    with pytest.raises(RametError, match="Use fewer clients"):
        AtRandom(200)(LABELS, 1)
    with pytest.raises(RametError, match="larger alpha"):
        ByLabel(100, 0.01)(LABELS, 1)
