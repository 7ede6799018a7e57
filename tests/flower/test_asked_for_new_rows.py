"""A site is asked whether it has new rows, and says yes, no, or nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from flwr.app import MessageType

import ramet
from joined_sites import RUN, Joined, joined_site
from own_sites import messy_site, node_site
from ramet.engine.site.audit import audit_entries
from ramet.errors import RametError
from ramet.experiment import RunFolder
from ramet.experiment.accepted import keep_accepted
from ramet.flower.client_app import _cached_experiment
from ramet.flower.thin_app import NEW_ROWS
from ramet.payload import Payload

ENOUGH = 5


@pytest.fixture
def joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Joined:
    joined = joined_site(tmp_path, monkeypatch)
    agree(joined, {"new_rows": ENOUGH})
    return joined


def agree(joined: Joined, policy: dict[str, Any]) -> None:
    (joined.site.folder / "policy.toml").write_text(tomli_w.dumps(policy))


def asked(joined: Joined) -> Payload:
    _cached_experiment.cache_clear()  # every message has a process of its own
    question = joined.signed(Payload({}, {"round": 0}, {NEW_ROWS: RUN}))
    return joined.deliver(question, joined.config(new_rows=f"{RUN} north"))


def told(joined: Joined) -> str:
    return asked(joined).notes[NEW_ROWS]


def trained(joined: Joined, out: Path) -> str:
    """A run in which the site has taken part, as it keeps it."""
    sites = [joined.site.settings.data, node_site(out.parent / "graphs" / "south", 2)]
    run = RunFolder(ramet.run("fedavg", "own", rounds=1, sites=sites, out=out).folder)
    kept = joined.site.folder / "state" / "clients" / run.run_name / "north"
    shutil.copytree(run.clients / "north", kept)
    return run.run_name


def grow(joined: Joined, patients: int) -> None:
    node_site(joined.site.settings.data.parent, patients=patients)


def test_a_site_says_whether_as_many_rows_are_new_as_its_policy_names(
    joined: Joined, tmp_path: Path
) -> None:
    assert told(joined) == "yes"  # it has never trained
    first = trained(joined, tmp_path / "first")
    assert told(joined) == "no"
    grow(joined, 40 + ENOUGH - 1)
    assert told(joined) == "no"
    grow(joined, 40 + ENOUGH)
    assert told(joined) == "yes"
    trained(joined, tmp_path / "refused")
    assert told(joined) == "no"
    keep_accepted(joined.site.folder / "state", first)
    assert told(joined) == "yes"  # the run that counts has not seen them


def test_declared_columns_need_no_preparation(joined: Joined) -> None:
    messy_site(joined.site.settings.data.parent, 1, 50)
    assert told(joined) == "yes"


def test_the_answer_is_all_that_leaves_and_is_audited(joined: Joined) -> None:
    reply = asked(joined)
    assert not reply.arrays
    assert not reply.numbers
    assert reply.notes.keys() - {"signature"} == {"client", NEW_ROWS}
    entries, unreadable = audit_entries(joined.site.folder / "state")
    assert unreadable == 0
    assert [(one.stage, one.told) for one in entries] == [
        ("new rows", (f"new rows: at least {ENOUGH}",))
    ]


def test_nothing_is_told_unless_the_policy_says_so(joined: Joined) -> None:
    agree(joined, {})
    with pytest.raises(RametError, match="`new_rows`: this site does not tell"):
        asked(joined)
    assert not list((joined.site.folder / "state").rglob("audit.jsonl"))


@pytest.mark.parametrize(
    "protected",
    [
        {"secure": True, "sites": ["north", "south", "east"]},
        {"dp": "unit=site,epsilon=4,delta=1e-5"},
    ],
    ids=["sums", "dp"],
)
def test_protected_runs_have_no_such_question(
    protected: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined = joined_site(tmp_path, monkeypatch, **protected)
    agree(joined, {"new_rows": 1})
    with pytest.raises(RametError, match="without secure sums and noise"):
        asked(joined)


def test_only_the_coordinator_can_ask(joined: Joined) -> None:
    forged = Payload({}, {"round": 0}, {NEW_ROWS: RUN, "run": RUN, "nonce": "0" * 64})
    with pytest.raises(RametError, match="answers only its coordinator"):
        joined.deliver(forged, joined.config())


@pytest.mark.parametrize("key", ["new_rows", "accepted_run"])
def test_between_runs_a_site_does_not_describe_its_data(joined: Joined, key: str) -> None:
    described = joined.send(joined.config(), MessageType.QUERY).notes
    assert json.loads(described["form"])
    between = joined.send(joined.config(**{key: f"{RUN} north"}), MessageType.QUERY).notes
    assert between["client"] == "north"
    assert not between.keys() & {"form", "columns"}
