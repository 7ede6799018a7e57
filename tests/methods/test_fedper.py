from __future__ import annotations

import pytest

from ramet.errors import RametError
from ramet.methods import fedper
from ramet.models import GraphNetwork


def test_the_last_layers_are_private() -> None:
    shared = fedper().shared
    assert "layers.1.second.bias" in shared
    assert "layers.2.first.weight" not in shared
    assert "layers.1.first.weight" not in fedper(personal=2).shared


def test_sharing_no_layer_is_refused() -> None:
    with pytest.raises(RametError, match="leaves none of 2 layers"):
        fedper(personal=2, network=GraphNetwork(layers=2))
