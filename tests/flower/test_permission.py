"""A run config can narrow what a site allows, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from flwr.app import MessageType

from joined_sites import Joined, joined_site
from own_sites import node_site
from ramet.deploy.site import SETTINGS, Site
from ramet.engine.site.audit import audit_entries
from ramet.errors import RametError
from ramet.events import read_lines
from ramet.experiment import checked_settings
from ramet.flower.permission import NotAllowedError, permitted_settings
from ramet.flower.run_config import run_config_digest, to_run_config
from ramet.flower.terms import SiteTerms


@pytest.fixture
def joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Joined:
    return joined_site(tmp_path, monkeypatch)


def events(joined: Joined) -> list[str]:
    return [event["event"] for event in read_lines(joined.site.events)]


def test_the_run_of_the_invitation_is_permitted_and_audited(joined: Joined) -> None:
    config = joined.config()
    assert joined.send(config, MessageType.QUERY).notes["client"] == "north"
    reply = joined.send(config)
    assert {name.partition(".")[0] for name in reply.arrays} == {"layers"}
    (entry,) = audit_entries(joined.site.folder / "state")[0]
    assert (entry.method, entry.sharing) == ("fedavg,task=node-classification,network=gcn", "*")
    assert entry.data == str(joined.site.settings.data)
    assert entry.run_config == run_config_digest(config)
    assert events(joined) == ["message answered", "message answered"]


OTHER_OPTIONS = "task=node-classification sites='north south' "


@pytest.mark.parametrize(
    ("changes", "setting"),
    [
        ({"method": "local-gcn", "network": "", "share": "*"}, "method"),
        ({"method": "local", "share": "*"}, "method"),
        ({"method": "fedsage+", "network": ""}, "method"),
        ({"network": "sage"}, "network"),
        ({"network": ""}, "network"),
        ({"setting": "cora"}, "setting"),
        ({"device": "cuda"}, "device"),
        ({"threads": 2}, "threads"),
        ({"rounds": 4}, "rounds"),
        ({"rounds": 0}, "rounds"),
        ({"split_seed": 124}, "split-seed"),
        ({"options": OTHER_OPTIONS + "negatives=hard"}, "negatives"),
        ({"options": "task=link-prediction sites=north"}, "task"),
        ({"options": "task=node-classification sites=south"}, "sites"),
    ],
)
def test_anything_else_is_refused_by_name(
    joined: Joined, changes: dict[str, Any], setting: str
) -> None:
    for kind in (MessageType.QUERY, MessageType.TRAIN):
        with pytest.raises(NotAllowedError, match=f"^`{setting}`: this site does not allow"):
            joined.send(joined.config(**changes), kind)
    assert events(joined) == ["run refused", "message failed"] * 2
    assert f"`{setting}`" in read_lines(joined.site.events)[0]["reason"]
    assert not (joined.site.folder / "state" / "clients").exists()


def test_no_coordinator_names_code_that_reads_the_data(joined: Joined, tmp_path: Path) -> None:
    """Not even code that the site has listed, or whose name is in its own settings."""
    (tmp_path / "evil.py").write_text(
        "from pathlib import Path\nPath(__file__).with_name('ran').touch()\n"
    )
    name = f"{tmp_path}/evil.py:Evil"
    with pytest.raises(RametError, match="does not accept the setting"):
        joined.send(joined.config(setting=name))
    with joined.site.accepted.open("a") as listed:
        listed.write(f"{name}\n")
    with pytest.raises(NotAllowedError, match=r"^`setting`: this site does not allow"):
        joined.send(joined.config(setting=name))
    settings = joined.site.folder / SETTINGS
    settings.write_text(settings.read_text().replace('setting = "own"', f'setting = "{name}"'))
    with pytest.raises(RametError, match="settings cannot be read, so it takes part in no run"):
        joined.send(joined.config(setting=name))
    with pytest.raises(RametError, match="cannot name code that reads a site's data"):
        Site.open(joined.site.folder)
    assert not (tmp_path / "ran").exists()


def test_another_data_file_is_never_read(joined: Joined, tmp_path: Path) -> None:
    other = node_site(tmp_path / "other" / "north", seed=2)
    expected = joined.send(joined.config())
    same = joined.send(joined.config(data=str(other)))
    assert all((same.arrays[name] == expected.arrays[name]).all() for name in expected.arrays)
    for sites in (str(other), f"north {other}", os.path.relpath(other, joined.site.folder)):
        with pytest.raises(NotAllowedError, match=r"^`sites`: this site does not allow"):
            joined.send(joined.config(options=f"task=node-classification sites='{sites}'"))


def test_a_run_may_share_less_and_not_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    joined = joined_site(tmp_path, monkeypatch, method="fedper")
    assert {*joined.send(joined.config()).arrays} == {"layers.0.weight", "layers.0.bias"}
    narrower = joined.send(joined.config(share="layers.0.bias"), notes={"run": "1" * 32})
    assert [*narrower.arrays] == ["layers.0.bias"]
    with pytest.raises(NotAllowedError, match=r"`share`: .* 'layers.1.\w+' among them; it allows"):
        joined.send(joined.config(share="*"))
    joined.allow(share=["layers.*"])
    assert len(joined.send(joined.config(share="*"), notes={"run": "2" * 32}).arrays) == 4
    joined.allow(share=["layers.0.bias"])
    with pytest.raises(NotAllowedError, match=r"it allows layers.0.bias in a run of fedper"):
        joined.send(joined.config())


def test_an_option_cannot_widen_what_the_method_shares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined = joined_site(tmp_path, monkeypatch, method="fedper", options={"layers": "3"})
    joined.allow(options=["layers"])
    options = joined.config()["options"].replace("layers=3", "layers=5")
    with pytest.raises(NotAllowedError, match=r"'layers.2.\w+' among them; it allows layers.0"):
        joined.send(joined.config(options=options))
    assert len(joined.send(joined.config()).arrays) == 4


def test_extras_of_arrays_that_may_not_leave_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined = joined_site(tmp_path, monkeypatch, method="scaffold")
    reply = joined.send(joined.config())
    assert len(reply.extras) == len(reply.arrays) == 4
    joined.allow(share=["layers.0.*"])
    with pytest.raises(NotAllowedError, match=r"^`share`: .* 4 arrays of this run"):
        joined.send(joined.config())
    narrowed = joined.send(joined.config(share="layers.0.*"), notes={"run": "1" * 32})
    assert len(narrowed.extras) == len(narrowed.arrays) == 2


def test_the_owner_can_allow_more(joined: Joined) -> None:
    joined.allow(methods=["fedprox"], networks=["sage"], rounds=9, threads=2)
    changes = {"method": "fedprox", "network": "sage", "rounds": 9, "threads": 2}
    assert joined.send(joined.config(**changes), round=9).arrays
    with pytest.raises(NotAllowedError, match=r"`rounds`: .* 10 rounds; it allows at most 9"):
        joined.send(joined.config(rounds=10))


def test_options_of_the_invitation_are_binding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined = joined_site(tmp_path, monkeypatch, options={"hidden": "8"})
    options = joined.config()["options"]
    assert joined.send(joined.config(options=f"{options} lr=0.5")).arrays
    for changed in (options.replace("hidden=8", "hidden=16"), options.replace("hidden=8", "")):
        with pytest.raises(NotAllowedError, match=r"`hidden`: .* it allows hidden=8"):
            joined.send(joined.config(options=changed))
    joined.allow(options=["hidden"])
    wider = joined.config(options=options.replace("hidden=8", "hidden=16"))
    assert joined.send(wider, notes={"run": "1" * 32}).arrays
    with pytest.raises(NotAllowedError, match=r"^`lr`: this site does not allow"):
        joined.send(joined.config(options=f"{options} lr=0.5"))


def test_the_release_of_the_invitation_is_binding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined = joined_site(tmp_path, monkeypatch, release="8-bit")
    assert "layers.0.weight/scale" in joined.send(joined.config()).arrays
    with pytest.raises(NotAllowedError, match=r"^`release`: this site does not allow"):
        joined.send(joined.config(release=""))


@pytest.mark.parametrize("numbers", [{"round": 4}, {"round": 0}, {"round": -1}, {"round": 1e30}])
def test_only_rounds_of_the_run_are_answered(joined: Joined, numbers: dict[str, Any]) -> None:
    with pytest.raises(NotAllowedError, match=r"the run has 3 rounds"):
        joined.send(joined.config(), **numbers)
    assert "val" in joined.send(joined.config(), round=4, train=0).numbers


@pytest.mark.parametrize(
    "changes", [{"options": "'"}, {"options": 7}, {"share": 1.5}, {"seed": "x"}]
)
def test_a_run_config_that_cannot_be_read(joined: Joined, changes: dict[str, Any]) -> None:
    with pytest.raises(RametError, match=r"cannot read the run config|seed: Input should be"):
        joined.send(joined.config(**changes))


def test_a_site_with_a_built_in_setting(tmp_path: Path) -> None:
    terms = SiteTerms(
        site="rings", data=tmp_path, method="fedstar", setting="tiny", options={"degrees": "4"}
    )
    options = {"degrees": "4", "clients": "3"}
    settings = checked_settings(
        method="fedstar", setting="tiny", engine="superlink", data=Path("absent"), options=options
    )
    config = {**to_run_config(settings, tmp_path / "folder"), "keys": ""}
    assert permitted_settings(config, terms).data == tmp_path
    for changed, setting in (("clients=4 degrees=4", "clients"), ("clients=3", "degrees")):
        with pytest.raises(NotAllowedError, match=f"^`{setting}`: this site does not allow"):
            permitted_settings({**config, "options": changed}, terms)
    with pytest.raises(NotAllowedError, match=r"`rounds`: .* at most 30"):
        permitted_settings({**config, "rounds": 31}, terms)


def test_unreadable_settings_permit_nothing(joined: Joined) -> None:
    (joined.site.folder / "site.toml").write_text("allow = 'everything'")
    with pytest.raises(RametError, match=r"the site's settings cannot be read"):
        joined.send(joined.config())


def test_changed_data_is_refused_until_it_is_restored(joined: Joined) -> None:
    table = joined.site.settings.data.parent / "patients.csv"
    before = table.read_text()
    first = joined.send(joined.config())
    table.write_text(before.replace("ill", "healthy", 1))
    with pytest.raises(NotAllowedError, match=r"the site's data has changed since this run"):
        joined.send(joined.config(), round=2, last=1)
    assert events(joined)[-2:] == ["run refused", "message failed"]
    table.write_text(before)
    again = joined.send(joined.config())
    assert all((first.arrays[name] == again.arrays[name]).all() for name in first.arrays)
    (table.parent / "unrelated.csv").write_text("")
    assert joined.send(joined.config(), round=2, last=1).arrays


def test_other_errors_are_told_without_their_text(
    joined: Joined, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(RametError, match=r"^the site failed \(OverflowError\); see its log.$"):
        joined.send(joined.config(), last=float("inf"))
    assert "cannot convert float infinity to integer" in caplog.text
