"""A SuperNode's configuration, as Flower reads it."""

from __future__ import annotations

import pytest
from flwr.common.config import parse_config_args

from ramet.flower.programs import node_config_text


@pytest.mark.parametrize("path", ["/a b", "/a\\new", '/a "b"', "/a 'b'", "/$HOME", "/é", "/a\\"])
def test_flower_reads_any_path_as_it_is(path: str) -> None:
    node = {"client": "north", "data": path, "state": "state"}
    assert parse_config_args([node_config_text(node)]) == node
