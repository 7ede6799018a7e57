"""Restrict a site to the apps on its own list; no other app is unpacked or imported.

A SuperNode fetches whatever app a run names and starts `flwr-clientapp` from PATH, which unpacks
and imports the app. Flower has no list of accepted apps. So `ramet guard FOLDER` writes a program
of that name that checks the app's SHA-256 first; FOLDER must come first in the site's PATH. It also
writes a `flower-superexec` that forks client apps (see :mod:`ramet.flower.warm`) and makes the same
check, and a `flower-supernode` that reconnects (see :mod:`ramet.flower.supernode`). Flower's
programs for other kinds of apps are replaced by scripts that fail.

The list has one line per app, its SHA-256, and one line per user-defined method, network,
setting or rule (`file.py:factory`) that runs may name. Without such a line only
built-in ones run.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import entry_points
from logging import ERROR
from pathlib import Path

from ramet.disk import write_atomically
from ramet.errors import RametError
from ramet.events import NAME, events_written_to, log_event
from ramet.flower import QUIET
from ramet.flower.patches import applied

LIST_VARIABLE = "RAMET_ACCEPTED_APPS"
"""The environment variable with the path of the list."""
EVENTS_VARIABLE = "RAMET_EVENTS"
"""The environment variable with the path of the site's event log."""
HEARTBEAT_VARIABLE = "RAMET_NEWS"
"""The environment variable with the path of the file that every accepted heartbeat touches."""
CERTIFICATE_VARIABLE = "RAMET_CLIENT_CERTIFICATE"
"""The environment variable with the path of the site's TLS certificate and key, in one PEM file."""
KEY_VARIABLE = "RAMET_COORDINATOR_KEY"
"""The environment variable with the path of the coordinator's key; its certificate is beside it."""
_GUARDED = {
    "flwr-clientapp": "ramet.flower.guard",
    "flower-superexec": "ramet.flower.warm",
    "flower-supernode": "ramet.flower.supernode",
}
_DISABLED = ("flwr-agentapp", "flwr-connector", "flwr-model")


@cache
def app_hash(app: Path) -> str:
    """The SHA-256 of a Flower app in the form in which sites receive it, built once."""
    command = [str(Path(sys.executable).parent / "flwr"), "build", "--app", str(app.absolute())]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, **QUIET, "FLWR_HOME": folder}
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        bundles = [*Path(folder).glob("*.fab")]
        if len(bundles) != 1:
            raise RametError(f"`{' '.join(command)}` failed: {done.stderr or done.stdout}")
        return hashlib.sha256(bundles[0].read_bytes()).hexdigest()


def write_guard(folder: Path, accepted: Iterable[str], events: Path | None = None) -> Path:
    """Write the programs, and the list if there is none yet; return the list's path.

    Events are logged to `events`, or by default to a file next to the list.
    """
    listed = folder / "accepted.txt"
    if not listed.exists():
        comment = "# SHA-256 of apps, and names of user-defined methods, that may run here"
        write_atomically(listed, "\n".join([comment, *accepted]) + "\n")
    for name, module in _GUARDED.items():
        write_program(
            folder / name, module, {LIST_VARIABLE: listed, EVENTS_VARIABLE: events or folder / NAME}
        )
    for name in _DISABLED:
        _write_script(folder / name, f"echo '{name} is closed at this site' >&2; exit 1")
    return listed


def write_program(path: Path, module: str, variables: Mapping[str, Path] | None = None) -> None:
    """Write a script that runs a module of Ramet, with paths in environment `variables`.

    The paths are stored relative to the script. In a container this Python may not exist; the
    script then uses the container's.
    """
    exports = [
        f'{key}="$here"/{shlex.quote(os.path.relpath(value, path.parent))}'
        for key, value in (variables or {}).items()
    ]
    lines = [
        'here=$(cd "$(dirname "$0")" && pwd)',
        *(f"export {export}" for export in exports),
        f"python={shlex.quote(sys.executable)}",
        '[ -x "$python" ] || python=python3',
        f'exec "$python" -c "from {module} import main; main()" "$@"',
    ]
    _write_script(path, "\n".join(lines))


def check_accepted(given: Mapping[str, str]) -> None:
    """Refuse a user-defined method, network, rule or setting that is not on this site's list.

    Without a list everything is accepted.
    """
    from ramet.experiment.code import BUILT_IN  # slow import, not needed by `main`
    from ramet.options import allow_code, name_and_options

    path = os.environ.get(LIST_VARIABLE)
    for kind, built_in in BUILT_IN.items():
        name, _ = name_and_options(given.get(kind, ""))
        if path and name and name not in built_in and name not in read_accepted(Path(path)):
            raise RametError(
                f"this site does not accept the {kind} '{name}'. Ask the site to list it."
            )
        allow_code(name, remember=False)


def check_app(content: bytes, accepted: Path) -> None:
    """Refuse an app that is not on the list."""
    sha256 = hashlib.sha256(content).hexdigest()
    if sha256 not in read_accepted(accepted):
        log_event(ERROR, "app refused", sha256=sha256)
        raise RametError(f"this site does not accept the app with the SHA-256 {sha256}.")


@contextmanager
def site_events() -> Iterator[None]:
    """Write events to the site's event log, if it has one."""
    path = os.environ.get(EVENTS_VARIABLE)
    if not path:
        yield
        return
    with events_written_to(Path(path)):
        yield


def main() -> None:
    """Run Flower's `flwr-clientapp`, with a check before it unpacks an app."""
    _enable_guard(Path(os.environ[LIST_VARIABLE]))
    flowers_program("flwr-clientapp")()


def enable_guard_if_configured() -> None:
    """Make this process refuse to unpack apps that are not on the site's list, if it has one."""
    if LIST_VARIABLE in os.environ:
        _enable_guard(Path(os.environ[LIST_VARIABLE]))


def _enable_guard(accepted: Path) -> None:
    @contextmanager
    def checked(app: bytes) -> Iterator[None]:
        with write_errors_kept_local("unpack the app"), site_events():
            check_app(app, accepted)
            yield

    applied("accepted-apps", checked, needed=True)


def is_consortium() -> bool:
    """Whether this process is a site's, which has a list, or the coordinator's, which has a key."""
    return LIST_VARIABLE in os.environ or KEY_VARIABLE in os.environ


def flowers_program(name: str) -> Callable[[], None]:
    """The function that Flower runs as the program of this name."""
    (program,) = entry_points(group="console_scripts", name=name)
    main: Callable[[], None] = program.load()
    return main


@contextmanager
def write_errors_kept_local(action: str) -> Iterator[None]:
    """Log why a file cannot be written, and tell the server only which action failed."""
    try:
        yield
    except OSError as error:
        from flwr.common import log

        log(ERROR, "This site could not %s.", action, exc_info=error)
        raise RametError(f"the site could not {action}; see its log.") from None


def read_accepted(path: Path) -> set[str]:
    lines = (line.partition("#")[0].strip() for line in path.read_text().splitlines())
    return {line for line in lines if line}


def _write_script(path: Path, command: str) -> None:
    """Write a script at once: a shell that is just starting must not read half of it."""
    write_atomically(path, f"#!/bin/sh\n{command}\n", mode=0o777)


if __name__ == "__main__":
    main()
