"""Checks of a machine and of the coordinator or site on it, with a remedy for each problem."""

from __future__ import annotations

import importlib.metadata
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from ramet.data.own.problems import SiteDataError
from ramet.deploy import keys
from ramet.deploy.consortium import OWN
from ramet.deploy.coordinator import SETTINGS, SIGNING_CERTIFICATE, SIGNING_KEY, Coordinator
from ramet.deploy.health import check_services
from ramet.deploy.opening import find_party
from ramet.deploy.policy_check import answered_so_far
from ramet.deploy.probes import Check, check_connection, check_nginx, check_port
from ramet.deploy.registration import REACHED
from ramet.deploy.site import CLIENT_CERTIFICATE, POLICY, STATE, Site, SiteSettings
from ramet.engine.site.ledger import NAME as LEDGER
from ramet.engine.site.ledger import Ledger
from ramet.errors import RametError
from ramet.experiment import Experiment, checked_settings, default_data
from ramet.flower.guard import app_hash, read_accepted
from ramet.flower.patches import PATCHES, TESTED
from ramet.flower.thin_app import thin_app
from ramet.policy import PolicyError, checked_policy

_MIN_FREE_BYTES = 2 * 10**9
_WARN_DAYS = 30
_WARN_RUNS = 2
"""With a run each month, a site is told so many months before its policy ends them."""


def examine(folder: Path) -> Iterator[Check]:
    """Check this machine, then the coordinator or site in this folder, if there is one."""
    yield _check_python()
    yield _check_flower()
    yield _check_disk(folder)
    party = find_party(folder)
    if isinstance(party, Coordinator):
        yield from _check_coordinator(party)
    elif isinstance(party, Site):
        yield from _check_site(party)
    else:
        yield _check_exists(
            "data", default_data(), "Set RAMET_DATA or --data to the datasets' folder."
        )


def _check_coordinator(party: Coordinator) -> Iterator[Check]:
    yield check_nginx()
    if not party.is_initialised:
        remedy = f"Run `ramet deploy init {SETTINGS}`, then `ramet doctor {party.consortium.name}`."
        yield Check("setup", False, f"only {SETTINGS} exists; not set up yet", remedy)
        return
    for name in ("authority.key", "server.key", SIGNING_KEY, "superexec.secret"):
        yield _check_private(party.folder / name)
    renew = "Rerun `ramet deploy init`: it issues a new certificate for the same key."
    yield _check_certificate("server certificate", party.folder / "server.pem", renew)
    yield _check_certificate("coordinator certificate", party.folder / SIGNING_CERTIFICATE, renew)
    replace = "Replace it with `ramet deploy init --authority new`; see Operations in the docs."
    yield _check_certificate("authority", party.authority, replace)
    for file in party.members.certificates(party.consortium.sites):
        yield _check_certificate(f"certificate of {file.stem}", file, keys.RENEW_CLIENT)
    yield from party.check_ports()
    link, _, proxy, *_ = party.services()
    health = check_services(party)
    yield from health.values()
    if proxy.process():
        yield from check_connection(
            party.consortium.address, party.consortium.port, party.authority
        )
    if link.name in health and health[link.name].ok:  # not if systemd or Docker started it
        for member, status in party.site_statuses().items():
            remedy = f"Ask {member} to run `ramet doctor` and `ramet deploy start`."
            if not party.members.key(member).exists():
                remedy = f"Run `ramet deploy admit {member}.application.toml {party.folder}`."
            yield Check(f"site {member}", status in REACHED, status, remedy)


def _check_site(party: Site) -> Iterator[Check]:
    for name in ("node.key", "superexec.secret"):
        yield _check_private(party.folder / name)
    client = party.folder / CLIENT_CERTIFICATE
    yield _check_certificate("client certificate", client, keys.RENEW_CLIENT)
    if client.exists():
        yield _check_private(client)
    yield _check_certificate(
        "authority", party.authority, "Ask the coordinator for a new invitation."
    )
    yield check_port(
        party.services()[0], "127.0.0.1", party.settings.runtime_port, "--runtime-port"
    )
    yield from check_services(party).values()
    yield _check_app(party.accepted)
    yield from _check_policy(party)
    yield _check_data(party)
    yield from party.check_connection()


def _check_python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    return Check("Python", sys.version_info >= (3, 11), version, "Install Python 3.11 or newer.")


def _check_flower() -> Check:
    version = importlib.metadata.version("flwr")
    unfit = [name for name, patch in PATCHES.items() if patch.missing()]
    detail = f"{version}, without the parts for {', '.join(unfit)}" if unfit else version
    remedy = f"A consortium's protections need another: pip install 'flwr=={TESTED}*'."
    return Check("Flower", version.startswith(TESTED) and not unfit, detail, remedy)


def _check_disk(folder: Path) -> Check:
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    remedy = f"Free {_MIN_FREE_BYTES / 1e9:.0f} GB for states and logs."
    return Check("disk", free > _MIN_FREE_BYTES, f"{free / 1e9:.1f} GB free", remedy)


def _check_exists(name: str, path: Path, remedy: str) -> Check:
    return Check(name, path.exists(), f"{path}{'' if path.exists() else ' does not exist'}", remedy)


def _check_private(path: Path) -> Check:
    exists = _check_exists(path.name, path, "Restore it from a backup.")
    if not exists.ok:
        return exists
    mode = path.stat().st_mode & 0o777
    return Check(path.name, mode & 0o077 == 0, f"mode {mode:04o}", f"chmod 600 {path}")


def _check_certificate(name: str, path: Path, remedy: str) -> Check:
    exists = _check_exists(name, path, remedy)
    if not exists.ok:
        return exists
    days = keys.days_left(path.read_text())
    return Check(name, days > _WARN_DAYS, f"{days} days left", remedy)


def _check_app(accepted: Path) -> Check:
    """Check that the site's guard accepts the app of the installed Ramet."""
    exists = _check_exists(
        "accepted apps", accepted, "Rerun `ramet deploy join`: it writes the list."
    )
    if not exists.ok:
        return exists
    sha256 = app_hash(thin_app())
    ok = sha256 in read_accepted(accepted)
    detail = f"{accepted} {'lists' if ok else 'does not list'} the app of the installed Ramet"
    remedy = f"If you trust the Ramet installed here, add this line to the list: {sha256}"
    return Check("accepted apps", ok, detail, remedy)


def _check_policy(party: Site) -> Iterator[Check]:
    """Check that the site's policy can be read, and that it allows some more runs.

    Without a readable one, the site takes part in no run.
    """
    try:
        policy = checked_policy(party.folder / POLICY)
    except PolicyError as error:
        yield Check("policy", False, str(error), "Correct it; see `ramet policy show`.")
        return
    new = "not told" if policy.new_rows is None else f"told from {policy.new_rows} on"
    detail = f"secure sums {policy.secure}, sites in a run: {policy.members_sentence}"
    yield Check("policy", True, f"{detail}; new rows: {new}")
    if policy.runs is not None:
        left = max(0, policy.runs - answered_so_far(party).runs)
        detail = f"{left} left of the {policy.runs} that the policy allows"
        yield Check("runs", left > _WARN_RUNS, detail, "Raise `runs` in policy.toml, if you agree.")
    if policy.privacy is not None:
        ledger = Ledger(party.folder / STATE / LEDGER)
        more = ledger.more_runs(policy.privacy, _WARN_RUNS + 1)
        if more is not None:
            many = f"more than {_WARN_RUNS}" if more > _WARN_RUNS else str(more)
            yield Check(
                "privacy budget",
                more > _WARN_RUNS,
                f"{policy.privacy} allows {many} more runs like the last",
                "Raise `epsilon` under [privacy] in policy.toml, if you agree.",
            )


def _check_data(party: Site) -> Check:
    """Read this site's data in the same way as a run."""
    settings = party.settings
    try:
        experiment = Experiment(
            checked_settings(
                method=settings.method,
                network=settings.network,
                setting=settings.setting,
                data=settings.data,
                options=settings.run_options,
            )
        )
        manifest = experiment.samples(settings.site).manifest
    except RametError as error:
        return Check("data", False, str(error), _data_remedy(settings, error))
    return Check("data", True, ", ".join(f"{k} {v}" for k, v in manifest.items() if _is_number(v)))


def _data_remedy(settings: SiteSettings, error: RametError) -> str:
    if settings.setting != OWN or not settings.data.exists():
        return f"Put the site's data at {settings.data}."
    if isinstance(error, SiteDataError):
        return f"Run `ramet data check {settings.data}`, which lists the problems."
    return f"Ask the coordinator for a method that suits the data; {settings.method} does not."


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)
