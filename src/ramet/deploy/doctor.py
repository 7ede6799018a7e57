"""Is this machine fit for its part? Each finding says what was seen and what to do."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from ramet.deploy import keys
from ramet.deploy.coordinator import SETTINGS, Coordinator
from ramet.deploy.opening import found_side
from ramet.deploy.probes import Finding, port, reach
from ramet.deploy.services import SYSTEM_PROGRAMS
from ramet.deploy.site import Site
from ramet.errors import RametError
from ramet.experiment import Experiment, checked_settings, default_data
from ramet.flower import THIN_APP
from ramet.flower.guard import app_hash, listed_in

_FLOWER = "1.41."
_SPACE = 2 * 10**9
_WARN_DAYS = 30


def examine(folder: Path) -> Iterator[Finding]:
    """This machine; then the side in this folder, if there is one."""
    yield _python()
    yield _flower()
    yield _disk(folder)
    side = found_side(folder)
    if isinstance(side, Coordinator):
        yield from _of_coordinator(side)
    elif isinstance(side, Site):
        yield from _of_site(side)
    else:
        yield _there("data", default_data(), "Name datasets' folder in RAMET_DATA, or by --data.")


def _of_coordinator(side: Coordinator) -> Iterator[Finding]:
    yield _nginx()
    if not side.is_made:
        todo = f"Do `ramet deploy init {SETTINGS}`, then `ramet doctor {side.consortium.name}`."
        yield Finding("side", False, f"{SETTINGS} is here, and no keys: not begun yet", todo)
        return
    for name in ("authority.key", "server.key", "superexec.secret"):
        yield _private(side.folder / name)
    again = "Do `ramet deploy init` again: it makes a new certificate for the same key."
    yield _certificate("server certificate", side.folder / "server.pem", again)
    long = "Make a new consortium: all sites must join anew."
    yield _certificate("authority", side.authority, long)
    link, _, proxy, *_ = side.services()
    yield port(link, "127.0.0.1", side.consortium.link_port, "link_port")
    yield port(proxy, str(side.consortium.listen), side.consortium.port, "port")
    if proxy.process():
        yield from reach(side.consortium.address, side.consortium.port, side.authority)
    if link.process():  # systemd's and Docker's are not seen as ours
        for member, status in side.online().items():
            remedy = f"Ask {member} to do `ramet doctor` and `ramet deploy start`."
            yield Finding(f"site {member}", status == "online", status, remedy)


def _of_site(side: Site) -> Iterator[Finding]:
    for name in ("node.key", "superexec.secret"):
        yield _private(side.folder / name)
    yield _certificate("authority", side.authority, "Ask the coordinator for a new invitation.")
    yield port(side.services()[0], "127.0.0.1", side.settings.runtime_port, "--runtime-port")
    yield _app(side.accepted)
    yield _data(side)
    yield from reach(side.settings.address, side.settings.port, side.authority)


def _python() -> Finding:
    seen = ".".join(map(str, sys.version_info[:3]))
    return Finding("Python", sys.version_info >= (3, 11), seen, "Install Python 3.11 or newer.")


def _flower() -> Finding:
    seen = importlib.metadata.version("flwr")
    remedy = "Every member needs the same: pip install 'ramet[flower]'."
    return Finding("Flower", seen.startswith(_FLOWER), seen, remedy)


def _disk(folder: Path) -> Finding:
    there = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(there).free
    remedy = f"Free {_SPACE / 1e9:.0f} GB: states and logs lie here."
    return Finding("disk", free > _SPACE, f"{free / 1e9:.1f} GB free", remedy)


def _nginx() -> Finding:
    remedy = "Install it (Debian: apt-get install nginx-light); ours runs with its own settings."
    found = shutil.which("nginx", path=os.pathsep.join([os.environ["PATH"], *SYSTEM_PROGRAMS]))
    if found is None:
        return Finding("nginx", False, "not found", remedy)
    told = subprocess.run([found, "-v"], capture_output=True, text=True, check=False)
    return Finding("nginx", told.returncode == 0, told.stderr.strip(), remedy)


def _there(what: str, path: Path, remedy: str) -> Finding:
    return Finding(what, path.exists(), f"{path}{'' if path.exists() else ' is not there'}", remedy)


def _private(path: Path) -> Finding:
    found = _there(path.name, path, "Restore it from a backup.")
    if not found.well:
        return found
    mode = path.stat().st_mode & 0o777
    return Finding(path.name, mode & 0o077 == 0, f"mode {mode:04o}", f"chmod 600 {path}")


def _certificate(what: str, path: Path, remedy: str) -> Finding:
    found = _there(what, path, remedy)
    if not found.well:
        return found
    days = keys.days_left(path.read_text())
    return Finding(what, days > _WARN_DAYS, f"{days} days left", remedy)


def _app(accepted: Path) -> Finding:
    """Whether the site's guard lets the app of this Ramet through."""
    found = _there("accepted apps", accepted, "Do `ramet deploy join` again: it writes the list.")
    if not found.well:
        return found
    sha256 = app_hash(THIN_APP)
    well = sha256 in listed_in(accepted)
    seen = f"{accepted} {'has' if well else 'lacks'} the app of this Ramet"
    remedy = f"If you trust the Ramet installed here, add this line to the list: {sha256}"
    return Finding("accepted apps", well, seen, remedy)


def _data(side: Site) -> Finding:
    """Read this site's data as the run will."""
    settings, remedy = side.settings, f"Put the site's data into {side.settings.data}."
    try:
        experiment = Experiment(
            checked_settings(
                method=settings.method,
                setting=settings.setting,
                data=settings.data,
                options=settings.options,
            )
        )
        if experiment.setting.user_defined:
            schema = experiment.setting.schema(settings.site, settings.data)
            remedy = (
                f"Ask the coordinator for a method that suits them; {settings.method} does not."
            )
            experiment.method.task.declared_shape(schema, experiment.method.inputs)
        manifest = experiment.samples(settings.site).manifest
    except RametError as error:
        return Finding("data", False, str(error), remedy)
    return Finding("data", True, ", ".join(f"{k} {v}" for k, v in manifest.items() if _short(v)))


def _short(value: object) -> bool:
    return isinstance(value, int | float)
