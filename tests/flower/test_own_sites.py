"""What a site with its own graphs sends to the server, and what it keeps local."""

from __future__ import annotations

from pathlib import Path

import pytest

from own_sites import node_site
from ramet.data.own.problems import SiteDataError
from ramet.data.own.site import read_site
from ramet.errors import RametError
from ramet.experiment import Experiment, checked_settings
from ramet.flower.client_app import _described
from ramet.policy import NO_RULES


def _experiment(toml: Path) -> Experiment:
    """An experiment as at a SuperNode, which knows the sites' names but only its own file."""
    settings = checked_settings(
        method="fed-gcn", setting="own", rounds=1, data=toml, options={"sites": "north south"}
    )
    return Experiment(settings)


def test_the_schema_is_sent_and_data_problems_are_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    toml = node_site(tmp_path / "north")
    assert _described(_experiment(toml), "north", NO_RULES) == {
        "form": read_site(toml).schema.text()
    }
    table = toml.parent / "patients.csv"
    table.write_text(table.read_text().replace("p1,", "secret,", 1))
    with pytest.raises(SiteDataError, match="there is no patient 'p1'"):
        read_site(toml)
    assert _described(_experiment(toml), "north", NO_RULES) == {"form": ""}
    assert "there is no patient 'p1'" in caplog.text


def test_a_node_cannot_use_the_data_of_another_site(tmp_path: Path) -> None:
    toml = node_site(tmp_path / "north")
    with pytest.raises(RametError, match="describes north, but the client is south"):
        _experiment(toml).samples("south")
