"""A site of a consortium predicts from its own folder, after its client app has answered a run."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from command_line import ramet as command
from joined_sites import RUN, joined_site


def test_a_site_predicts_without_its_coordinator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined = joined_site(tmp_path, monkeypatch)
    site, data = joined.site, joined.site.settings.data
    out = tmp_path / "predictions.csv"
    joined.send(joined.config())
    unfinished = command("predict", site.folder, "--site", data, "--out", out)
    assert unfinished.code == 2
    assert "neither a run nor a site's final model" in unfinished.stderr

    closing = joined.send(joined.config(), round=2, train=0, last=1)
    assert "ranges" not in str(closing.notes)
    for folder in (site.folder, site.folder / "state" / "clients" / RUN):
        done = command("predict", folder, "--site", data, "--out", out)
        assert done.code == 0, done.stderr
        frame = pd.read_csv(out)
        assert frame["id"].tolist() == [f"p{number}" for number in range(40)]
        assert {*frame["class"]} <= {"healthy", "ill"}
    other = command("predict", site.folder, "--site", data, "--client", "south")
    assert "unknown client 'south'" in other.stderr
