"""Each part of a client's data changes its hash."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from ramet.data import ClientData, GraphBlock, Split
from ramet.data.fingerprint import data_sha256
from ramet.partition import SETTINGS, Reading


def graphs() -> ClientData[GraphBlock, Split]:
    block = GraphBlock.from_links(
        rows=torch.tensor([0, 1]),
        columns=torch.tensor([1, 0]),
        node_starts=torch.tensor([0, 3]),
        features=torch.tensor([0, 1, 2]),
        feature_width=3,
        labels=torch.tensor([1]),
        name="one graph",
    )
    none = torch.zeros(0, dtype=torch.int64)
    return ClientData(block, Split(torch.tensor([0]), none, none))


CHANGES: dict[str, dict[str, Any]] = {
    "features": {"features": torch.tensor([0, 1, 1])},
    "labels": {"labels": torch.tensor([0])},
    "links": {"columns": torch.tensor([2, 0], dtype=torch.int32)},
    "type": {"features": torch.tensor([0.0, 1.0, 2.0])},
}


def test_equal_data_have_equal_hashes() -> None:
    assert data_sha256(graphs()) == data_sha256(graphs())


@pytest.mark.parametrize("part", CHANGES)
def test_a_changed_part_changes_the_hash(part: str) -> None:
    data = graphs()
    changed = replace(data, content=replace(data.content, **CHANGES[part]))
    assert data_sha256(changed) != data_sha256(data)


def test_structure_encodings_do_not_count() -> None:
    data = graphs()
    encoded = replace(data, content=data.content.with_structure(torch.ones(3, 2)))
    assert data_sha256(encoded) == data_sha256(data)


def test_clients_have_different_hashes(tmp_path: Any) -> None:
    setting, reading = SETTINGS["tiny"](), Reading(tmp_path, 1)
    hashes = {data_sha256(setting.client_data(client, reading)) for client in setting.clients}
    assert len(hashes) == len(setting.clients)
