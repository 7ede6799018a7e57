"""FGSSL against numbers that were derived by hand."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from federations import planted_run, stopped_and_resumed
from ramet.data import NodeGraph
from ramet.experiment.capabilities import Can
from ramet.experiment.compatibility import why_not
from ramet.methods import fgssl
from ramet.methods.fgssl import contrast, distilled
from ramet.models.random_views import random_view
from ramet.rules.method import assembled


def test_the_contrast_by_hand() -> None:
    """All embeddings are e1; those of the teacher e1, e2, e2; classes 0, 0, 1; temperature 1.

    So each node has cosines 1, 0, 0, and L = ln(e + 2). Nodes 0 and 1 have the first two as their
    class: L - 1/2. Node 2 has the third: L. The mean is L - 1/3.
    """
    own, common = torch.eye(2)[[0, 0, 0]], torch.eye(2)[[0, 1, 1]]
    loss = contrast(5 * own, common, torch.tensor([0, 0, 1]), 1.0)
    assert loss.item() == pytest.approx(math.log(math.e + 2) - 1 / 3)
    assert contrast(own[:0], common[:0], torch.zeros(0, dtype=torch.long), 1.0).item() == 0


def test_the_distillation_by_hand() -> None:
    """Two linked nodes. For the teacher both are the same, so each has shares 1/2 of itself and of
    its neighbour. For the client they are orthogonal: e / (e + 1) and 1 / (e + 1).

    KL = 1/2 ln((e + 1) / 2e) + 1/2 ln((e + 1) / 2) = ln(e + 1) - 1/2 - ln 2, for both nodes.
    """
    links = torch.tensor([[1, 0], [0, 1]])
    now, then = 100 * torch.eye(2), torch.zeros(2, 2)
    expected = math.log(math.e + 1) - 1 / 2 - math.log(2)
    assert distilled(now, then, links).item() == pytest.approx(expected, abs=1e-6)
    assert distilled(then, then, links).item() == pytest.approx(0, abs=1e-6)


def test_a_node_without_links_is_its_own_neighbour() -> None:
    now, then = torch.tensor([[9.0, 0.0]]), torch.tensor([[0.0, 9.0]])
    assert distilled(now, then, torch.zeros(2, 0, dtype=torch.long)).item() == 0


def test_views_drop_links_and_whole_features() -> None:
    ends = torch.arange(1000, dtype=torch.int32)
    graph = NodeGraph(
        features=torch.ones(1001, 400),
        labels=torch.zeros(1001, dtype=torch.long),
        classes=1,
        left=ends,
        right=ends + 1,
        kinds=torch.zeros(1000, dtype=torch.uint8),
        kind_names=("link",),
        trained=torch.zeros(1001, dtype=torch.bool),
    )
    torch.manual_seed(0)
    view = random_view(graph, links=0.8, features=0.3)
    assert 150 < view.links < 250
    assert 240 < view.features[0].sum() < 320
    assert bool((view.features == view.features[0]).all())
    same = random_view(graph, links=0.0, features=0.0)
    assert torch.equal(same.left, graph.left)
    assert torch.equal(same.features, graph.features)


def test_without_its_terms_it_is_fedavg(tmp_path: Path) -> None:
    """Without dropout, because the views take random numbers too."""
    plain = planted_run("fedavg", tmp_path / "plain", dropout=0.0)
    bare = planted_run("fgssl", tmp_path / "bare", dropout=0.0, semantic=0.0, structural=0.0)
    assert bare.summary.sha256 == plain.summary.sha256


def test_a_stopped_run_ends_with_the_same_result_and_can_be_summed(tmp_path: Path) -> None:
    whole = planted_run("fgssl", tmp_path / "whole")
    assert stopped_and_resumed(whole, tmp_path / "stopped") == whole.summary.sha256
    assert why_not(assembled(fgssl()), Can.SECURE) is None
