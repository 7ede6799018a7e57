"""Sums of columns leave a site once for each version of its data."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomli_w
from flwr.app import MessageType

from joined_sites import Joined, joined_site
from own_sites import messy_site
from ramet.data.own.preparation import SiteSums
from ramet.engine.site.audit import audit_entries
from ramet.flower.client_app import _cached_experiment
from ramet.policy import PolicyError


@pytest.fixture
def joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Joined:
    joined = joined_site(tmp_path, monkeypatch)
    messy_site(joined.site.settings.data.parent, 1, 50)
    return joined


def _told(joined: Joined) -> str:
    _cached_experiment.cache_clear()  # every message has a process of its own
    return joined.send(joined.config(), MessageType.QUERY).notes["columns"]


def _add_row(joined: Joined) -> None:
    with (joined.site.settings.data.parent / "patients.csv").open("a") as file:
        file.write("p50,99,31.5,surgery,2026-01-11,yes,,ill\n")


def test_the_same_data_get_the_same_answer(joined: Joined) -> None:
    first = _told(joined)
    kept = joined.site.folder / "state" / "told.json"
    before = kept.read_bytes()
    assert _told(joined) == first
    assert kept.read_bytes() == before


def test_two_answers_around_an_added_row_give_the_row_away_unless_the_policy_forbids(
    joined: Joined,
) -> None:
    """The documented leak, and the owner's way to close it."""
    first = SiteSums.parse(_told(joined), "north").types["patient"]["age"]
    _add_row(joined)
    policy = joined.site.folder / "policy.toml"
    policy.write_text(tomli_w.dumps({"versions": 1}))
    with pytest.raises(PolicyError, match=r"^`versions`: .* Two answers together reveal the rows"):
        _told(joined)
    state = joined.site.folder / "state"
    assert len(audit_entries(state)[0]) == 1
    policy.write_text(tomli_w.dumps({"versions": 2}))
    second = SiteSums.parse(_told(joined), "north").types["patient"]["age"]
    assert second.total - first.total == pytest.approx(99)
    assert len(audit_entries(state)[0]) == 2


def test_going_back_to_earlier_data_is_not_another_version(joined: Joined) -> None:
    table = joined.site.settings.data.parent / "patients.csv"
    before = table.read_bytes()
    first = _told(joined)
    _add_row(joined)
    assert _told(joined) != first
    table.write_bytes(before)
    (joined.site.folder / "policy.toml").write_text(tomli_w.dumps({"versions": 2}))
    assert _told(joined) == first


@pytest.mark.parametrize("ill", [2, 13])
def test_without_columns_a_policy_that_keeps_sums_hides_whether_a_class_is_rare(
    ill: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the answer nor a refusal may depend on it."""
    joined = joined_site(tmp_path, monkeypatch)
    table = joined.site.settings.data.parent / "patients.csv"
    head, *rows = table.read_text().splitlines()
    states = ["ill"] * ill + ["healthy"] * (len(rows) - ill)
    cells = [row.rpartition(",")[0] for row in rows]
    lines = [f"{own},{state}" for own, state in zip(cells, states, strict=True)]
    table.write_text("\n".join([head, *lines]) + "\n")
    (joined.site.folder / "policy.toml").write_text(tomli_w.dumps({"numbers": {"columns": False}}))
    _cached_experiment.cache_clear()
    assert "columns" not in joined.send(joined.config(), MessageType.QUERY).notes


def test_declared_columns_are_refused_by_a_policy_that_keeps_sums(joined: Joined) -> None:
    (joined.site.folder / "policy.toml").write_text(tomli_w.dumps({"numbers": {"columns": False}}))
    with pytest.raises(PolicyError, match=r"does not send the sums of its columns"):
        _told(joined)
