"""A site's part of a run that starts with the models of an earlier one."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ramet
from joined_sites import RUN, Joined, joined_site
from own_sites import node_site
from ramet.engine.messages import request
from ramet.engine.site.kept_models import FINAL
from ramet.engine.store.checkpoint import Snapshots
from ramet.errors import RametError
from ramet.experiment import RunFolder
from ramet.experiment.site_record import load_parts
from ramet.payload import Arrays, Payload

OTHER = "f" * 32
"""A run in which the site took no part."""


@pytest.fixture
def joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Joined:
    return joined_site(tmp_path, monkeypatch)


@pytest.fixture
def before(joined: Joined, tmp_path: Path) -> RunFolder:
    """A finished run, of which the site has its part; then the site gets 20 more rows."""
    sites = [joined.site.settings.data, node_site(tmp_path / "graphs" / "south", 2)]
    given: dict[str, Any] = {"network": "gcn", "rounds": 2}
    run = RunFolder(ramet.run("fedavg", "own", sites=sites, out=tmp_path / "run", **given).folder)
    own = joined.site.folder / "state" / "clients" / run.run_name / "north"
    shutil.copytree(run.clients / "north", own)
    node_site(tmp_path / "graphs" / "north", patients=60)
    return run


def begin(joined: Joined, label: str, arrays: Arrays, **changes: str) -> Payload:
    """Send round 1, as the coordinator does."""
    message = joined.signed(replace(request(1, True, arrays), notes={"run": RUN}))
    return joined.deliver(message, joined.config(start_from=label, **changes))


def final_arrays(run: RunFolder) -> Arrays:
    saved = Snapshots(run.clients / "north" / FINAL).latest_valid()
    assert saved is not None
    return saved.arrays


@pytest.mark.parametrize("named", [True, False], ids=["took part", "was away"])
def test_known_rows_keep_their_part_and_the_model_is_scored_before_training(
    named: bool, joined: Joined, before: RunFolder
) -> None:
    label = f"{before.run_name if named else OTHER}@{'0' * 64}"
    reply = begin(joined, label, final_arrays(before))
    assert {"val", "test", "loss"} <= reply.numbers.keys()
    known = load_parts(before.clients / "north")
    now = load_parts(joined.site.folder / "state" / "clients" / RUN / "north")
    assert known is not None
    assert now is not None
    assert known.part_of.items() <= now.part_of.items()
    assert len(now.part_of) == 60


def test_without_a_model_in_round_1_there_is_nothing_to_score(joined: Joined) -> None:
    assert "val" not in begin(joined, "", {}).numbers


def test_a_new_site_has_no_earlier_rows(joined: Joined) -> None:
    assert "val" not in begin(joined, f"{OTHER}@{'0' * 64}", {}).numbers
    now = load_parts(joined.site.folder / "state" / "clients" / RUN / "north")
    assert now is not None
    assert len(now.part_of) == 40


def test_a_site_does_not_start_a_private_run_from_another(
    joined: Joined, before: RunFolder
) -> None:
    label = f"{before.run_name}@{'0' * 64}"
    with pytest.raises(RametError, match="is not in its budget"):
        begin(joined, label, {}, dp="unit=graph,epsilon=4.0,delta=1e-05")
