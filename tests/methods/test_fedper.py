from __future__ import annotations

from functools import partial

import pytest

from ramet.errors import RametError
from ramet.methods import fedper
from ramet.models.settings import GraphNetwork
from ramet.models.single_channel import GIN
from ramet.rules.method import assembled


def test_the_last_layers_are_private() -> None:
    shared = assembled(fedper()).shared
    assert "layers.1.second.bias" in shared
    assert "layers.2.first.weight" not in shared
    assert "layers.1.first.weight" not in assembled(fedper(personal=2)).shared


def test_sharing_no_layer_is_refused() -> None:
    network = partial(GIN, settings=GraphNetwork(layers=2))
    with pytest.raises(RametError, match="leaves none of 2 message-passing layers"):
        assembled(fedper(personal=2), network=network)
