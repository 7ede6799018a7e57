"""How much clients with one graph each differ."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.patches import Rectangle

from own_sites import link_site, node_site
from ramet.experiment.named import setting_named
from ramet.partition import Reading
from ramet.partition.inspection import LinkInspection, RelationInspection, inspect, to_json
from ramet.report.data_figures import class_shares
from ramet.report.data_tables import differences_table
from table_cells import headers, rows

READING = Reading(Path(), 123)


def inspected(*files: Path) -> LinkInspection | RelationInspection:
    found = inspect(setting_named("own", {"sites": shlex.join(map(str, files))}), READING)
    assert isinstance(found, LinkInspection | RelationInspection)
    return found


def test_equal_sites_do_not_differ(tmp_path: Path) -> None:
    found = inspected(node_site(tmp_path / "north"), node_site(tmp_path / "south"))
    assert [*found.divergences] == ["classes", "features", "structure"]
    for matrix in found.divergences.values():
        np.testing.assert_array_equal(matrix, np.zeros((2, 2)))


def test_each_difference_shows_where_it_is(tmp_path: Path) -> None:
    """South has more that are ill, east another age, west twice the contacts."""
    files = {name: node_site(tmp_path / name) for name in ("north", "south", "east", "west")}
    for name, column in (("south", "state"), ("east", "age")):
        table = pd.read_csv(tmp_path / name / "patients.csv")
        table[column] = ["ill"] * 30 + ["healthy"] * 10 if name == "south" else 9.0
        table.to_csv(tmp_path / name / "patients.csv", index=False)
    contacts = pd.read_csv(tmp_path / "west" / "contacts.csv")
    more = pd.DataFrame({"source": [f"p{n}" for n in range(20)], "target": "p39"})
    pd.concat([contacts, more]).to_csv(tmp_path / "west" / "contacts.csv", index=False)
    found = inspected(*files.values())
    assert isinstance(found, LinkInspection)
    assert found.classes["north"] == {"healthy": 26, "ill": 14}
    assert found.classes["south"] == {"healthy": 10, "ill": 30}
    assert to_json(found)["classes"]["south"] == {"healthy": 10, "ill": 30}
    bars = class_shares(found.classes).axes[0].patches
    widths = [round(bar.get_width()) for bar in bars if isinstance(bar, Rectangle)]
    assert widths == [65, 25, 65, 65, 35, 75, 35, 35]
    for kind, site in (("classes", 1), ("features", 2), ("structure", 3)):
        from_north = found.divergences[kind][0]
        assert from_north[site] > 0.05
        assert [*np.flatnonzero(from_north)] == [site]
        assert np.array_equal(found.divergences[kind], found.divergences[kind].T)
    assert (found.divergences["structure"] <= 1).all()
    shown = differences_table([*files], found.divergences, found.classes)
    assert headers(shown) == ["client", "nodes by class", "classes", "features", "structure"]
    assert rows(shown)[0][:2] == ("north", "26 14")


def test_classes_are_compared_by_hand(tmp_path: Path) -> None:
    """All healthy against all ill: nothing in common."""
    for name, state in (("north", "ill"), ("south", "healthy")):
        table = pd.read_csv(node_site(tmp_path / name).parent / "patients.csv")
        table["state"] = state
        table.to_csv(tmp_path / name / "patients.csv", index=False)
    found = inspected(*(tmp_path / name / "site.toml" for name in ("north", "south")))
    assert found.divergences["classes"][0, 1] == pytest.approx(1.0)


def test_sites_with_links_differ_in_relations(tmp_path: Path) -> None:
    found = inspected(link_site(tmp_path / "north"), link_site(tmp_path / "south"))
    assert isinstance(found, RelationInspection)
    assert {"relations", "structure"} <= {*found.divergences}
    assert found.divergences["relations"][0, 1] == pytest.approx(0.0)
    assert to_json(found)["divergences"]["structure"][0][0] == 0.0


def test_a_single_site_has_nothing_to_compare_with(tmp_path: Path) -> None:
    assert inspected(node_site(tmp_path / "north")).divergences == {}
