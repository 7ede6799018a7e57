"""A site whose disk is full: nothing leaves, and the coordinator learns only that."""

from __future__ import annotations

from pathlib import Path

import pytest

from disks import filled, small_disk
from joined_sites import RUN, Joined, joined_site
from ramet.engine.site.audit import audit_entries
from ramet.errors import RametError

TEXT = "the site could not write its state; see its log."


@pytest.fixture
def joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Joined:
    return joined_site(tmp_path, monkeypatch)


def test_no_state_can_be_written(joined: Joined, caplog: pytest.LogCaptureFixture) -> None:
    state = joined.site.folder / "state"
    with small_disk(state) as mounted:
        if not mounted:
            pytest.skip("mounting a small disk needs root")
        with filled(state), pytest.raises(RametError) as told:
            joined.send(joined.config())
        assert str(told.value) == TEXT
        assert told.value.__suppress_context__
        assert "No space left on device" in caplog.text
        assert not [*state.rglob("audit.jsonl")]
        assert joined.send(joined.config()).arrays
        assert len(audit_entries(state)[0]) == 1


def test_the_audit_log_cannot_be_written(joined: Joined, caplog: pytest.LogCaptureFixture) -> None:
    folder = joined.site.folder / "state" / "clients" / RUN / "north"
    folder.mkdir(parents=True)
    (folder / "audit.jsonl").symlink_to("/dev/full")
    with pytest.raises(RametError) as told:
        joined.send(joined.config())
    assert str(told.value) == TEXT
    assert "No space left on device" in caplog.text
