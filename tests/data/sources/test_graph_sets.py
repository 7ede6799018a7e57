from __future__ import annotations

import socket
from pathlib import Path

import pytest
import torch

from ramet.data import StructureEncoding, stratified
from ramet.data.sources import tiny
from ramet.data.sources.graph_sets import read_block
from ramet.errors import RametError

SIZES = {  # features and training graphs, from FedDense's appendix
    "MUTAG": (7, 150),
    "BZR": (53, 324),
    "COX2": (35, 373),
    "DHFR": (53, 604),
    "PTC_MR": (18, 275),
    "AIDS": (38, 1600),
    "NCI1": (37, 3288),
    "ENZYMES": (3, 480),
    "DD": (89, 942),
    "PROTEINS": (3, 890),
    "IMDB-BINARY": (136, 800),
    "IMDB-MULTI": (89, 1200),
    "Letter-low": (2, 1800),
    "Letter-med": (2, 1800),
    "Letter-high": (2, 1800),
}
FEATURES_ONLY = StructureEncoding(0, 0)


@pytest.mark.data
@pytest.mark.parametrize("name", SIZES)
def test_feature_widths_and_training_sizes(name: str, data_root: Path) -> None:
    block = read_block(f"tu:{name}", FEATURES_ONLY, data_root)
    split = stratified(block.labels, 123)
    assert (block.feature_width, split.train.numel()) == SIZES[name]
    if not block.features.is_floating_point():
        assert 0 <= int(block.features.min()) <= int(block.features.max()) < block.feature_width


def test_a_split_is_stratified_complete_and_reproducible() -> None:
    labels = torch.arange(200) % 4
    split = stratified(labels, 123)
    joined = torch.cat([split.train, split.val, split.test])
    assert torch.equal(joined.sort().values, torch.arange(200))
    assert [split.train.numel(), split.val.numel(), split.test.numel()] == [160, 20, 20]
    assert torch.bincount(labels[split.test]).tolist() == [5, 5, 5, 5]
    assert split.manifest == stratified(labels, 123).manifest
    assert split.manifest["sha256"] != stratified(labels, 124).manifest["sha256"]


def test_too_few_graphs_are_refused_with_advice() -> None:
    with pytest.raises(RametError, match="needs 10 or more"):
        stratified(torch.zeros(1, dtype=torch.int64), 1)


@pytest.mark.parametrize("name", tiny.NAMES)
def test_tiny_is_deterministic(name: str) -> None:
    one, two = tiny.make(name), tiny.make(name)
    assert all(torch.equal(a, two.tensors()[key]) for key, a in one.tensors().items())
    assert one.graphs == tiny.GRAPHS
    assert torch.bincount(one.labels).tolist() == [75, 75]


def test_missing_data_without_a_network_are_refused_with_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no network")

    # Tests must not download anything.
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    with pytest.raises(RametError, match=r"MUTAG is not in .* could not be downloaded.*--data"):
        read_block("tu:MUTAG", FEATURES_ONLY, tmp_path)


def test_unknown_sources_list_the_choices(tmp_path: Path) -> None:
    with pytest.raises(RametError, match="Did you mean 'MUTAG'"):
        read_block("tu:MUTAGG", FEATURES_ONLY, tmp_path)
    with pytest.raises(RametError, match="tu:NAME or tiny:NAME"):
        read_block("nci1", FEATURES_ONLY, tmp_path)
