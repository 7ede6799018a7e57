"""The systemd units, as systemd reads them; systemd does not run where we test."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from own_sites import CONSORTIUM_TOML
from ramet.deploy.init import init
from ramet.deploy.party import Party
from ramet.deploy.services import Service
from ramet.deploy.site import join
from ramet.deploy.systemd import unit_text
from units import SYSTEMD, USER, as_systemd_reads

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None or not SYSTEMD.exists(),
    reason="systemd is not installed",
)
PATH = "/usr/bin:/bin"
ODD_NAME = "a \"b\" 'c' \\new $HOME ${HOME} %h é #;"


def _parties(root: Path, more: str = "") -> tuple[Party, Party]:
    settings = root / "consortium.toml"
    settings.write_text(f"{CONSORTIUM_TOML}metrics_port = 9464\n{more}")
    coordinator = init(settings, root / "coordinator", print)
    invitation = coordinator.folder / "invitations" / "rings.toml"
    site, _ = join(invitation, root / "data", root / "site", 9094, print, metrics_port=9465)
    return coordinator, site


def _units(root: Path, more: str = "") -> dict[str, Path]:
    """The units of folders that belong to an ordinary user."""
    units: dict[str, Path] = {}
    for party in _parties(root, more):
        if os.getuid() == 0:
            os.chown(party.folder, USER, USER)
            party.write_scripts()
        units |= {path.stem: path for path in party.folder.glob("*.service")}
    return units


def test_units_are_named_after_the_member_and_the_program(tmp_path: Path) -> None:
    (tmp_path / "coordinator").mkdir()
    (tmp_path / "coordinator" / "ramet-three-former.service").touch()
    assert _units(tmp_path).keys() == {
        *(f"ramet-three-{name}" for name in ("superlink", "superexec", "proxy", "metrics")),
        *(f"ramet-three-rings-{name}" for name in ("supernode", "superexec", "metrics")),
    }


@needs_systemd
def test_systemd_finds_no_mistake_in_the_units(tmp_path: Path) -> None:
    done = subprocess.run(
        ["systemd-analyze", "verify", *_units(tmp_path).values()],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@needs_systemd
@pytest.mark.parametrize("more", ["", "port = 443\n"])
def test_the_exposure_of_every_unit_is_below_three(tmp_path: Path, more: str) -> None:
    exposures = {name: _exposure(unit) for name, unit in _units(tmp_path, more).items()}
    assert len(exposures) == 7
    assert all(exposure < 3.0 for exposure in exposures.values()), exposures


def _exposure(unit: Path) -> float:
    """The exposure from 0 (safe) to 10 (unsafe)."""
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", unit],
        capture_output=True,
        text=True,
        check=True,
    )
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert found, done.stdout
    return float(found[1])


@needs_systemd
def test_systemd_reads_odd_folder_names_as_they_are(tmp_path: Path) -> None:
    folder = tmp_path / ODD_NAME
    folder.mkdir()
    service = Service(folder, "supernode", "A test", ("true",))
    read = as_systemd_reads(unit_text(service, "A test"))
    assert f"ReadWritePaths: {folder}\n" in read
    # systemd shows `$` as `\$`, and turns `$$` into `$` when it starts the program.
    shown = str(folder).replace("\\", "\\\\").replace('"', '\\"').replace("$", r"\$\$")
    assert f'Command Line: /bin/sh "{shown}/supernode.sh"\n' in read


def test_units_restart_soon_and_without_limit(tmp_path: Path) -> None:
    for unit in _units(tmp_path).values():
        text = unit.read_text()
        assert "\nRestart=always\nRestartSec=5\n" in text
        assert "\nStartLimitIntervalSec=0\n" in text
        assert "\nUser=0\n" not in text


def test_only_the_proxy_and_the_supernode_reach_other_machines(tmp_path: Path) -> None:
    networked = {
        name
        for name, unit in _units(tmp_path).items()
        if "IPAddressDeny=any\nIPAddressAllow=localhost\n" not in unit.read_text()
    }
    assert networked == {"ramet-three-proxy", "ramet-three-rings-supernode"}


def test_only_a_low_port_needs_a_capability(tmp_path: Path) -> None:
    capable = {
        name
        for name, unit in _units(tmp_path, "port = 443\n").items()
        if "CAP_NET_BIND_SERVICE" in unit.read_text()
    }
    assert capable == {"ramet-three-proxy"}


def test_a_timer_starts_the_schedule_every_day(tmp_path: Path) -> None:
    coordinator, _ = _parties(tmp_path)
    assert not list(coordinator.folder.glob("*.timer"))
    (tmp_path / "scheduled").mkdir()
    coordinator, _ = _parties(tmp_path / "scheduled", '[schedule]\nevery = "month"\n')
    unit, timer = (coordinator.folder / f"ramet-three-due.{kind}" for kind in ("service", "timer"))
    assert "\nType=oneshot\n" in unit.read_text()
    assert "Restart=always" not in unit.read_text()
    assert "[Install]" not in unit.read_text()
    assert "\nOnCalendar=daily\nPersistent=true\n" in timer.read_text()
    script = coordinator.folder / "due.sh"
    assert f'ExecStart=/bin/sh "{script}"\n' in unit.read_text()
    assert script.read_text().endswith("exec ramet deploy due .\n")
    said = subprocess.run([script], capture_output=True, text=True, check=False, env={"PATH": PATH})
    assert (said.returncode, "the SuperLink is not running" in said.stderr) == (2, True)
    _parties(tmp_path / "scheduled")
    assert not unit.exists()
    assert not timer.exists()


@needs_systemd
def test_systemd_finds_no_mistake_in_the_timer(tmp_path: Path) -> None:
    coordinator, _ = _parties(tmp_path, '[schedule]\nevery = "week"\n')
    if os.getuid() == 0:
        os.chown(coordinator.folder, USER, USER)
        coordinator.write_scripts()
    units = coordinator.folder.glob("ramet-three-due.*")
    done = subprocess.run(
        ["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
