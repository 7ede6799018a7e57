"""A site's own list of apps: no other is unpacked or imported there.

A SuperNode fetches whatever app a run names and starts `flwr-clientapp`, found through PATH, which
unpacks and imports it. Flower has no list of accepted apps. So `ramet guard FOLDER` writes a
program of that name that looks at the app's SHA-256 first; the site's PATH starts with FOLDER.
`flower-superexec` gets a namesake there that forks client apps (see :mod:`ramet.flower.warm`), with
the same look at the app. Flower's programs for other kinds of apps get one that ends at once.

The list has a line per app, its SHA-256, and a line per method, activation or merging of one's own
(`file.py:factory`) that runs may name: without that line only those that Ramet has itself are run.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from logging import ERROR
from pathlib import Path
from typing import Any

from ramet.errors import RametError
from ramet.events import NAME, tell, written_to

LIST = "RAMET_ACCEPTED_APPS"
"""The environment variable that names the list's file."""
EVENTS = "RAMET_EVENTS"
"""The one that names the file in which the site notes what happens."""
_GUARDED = {"flwr-clientapp": "ramet.flower.guard", "flower-superexec": "ramet.flower.warm"}
_CLOSED = ("flwr-agentapp", "flwr-connector", "flwr-model")


def app_hash(app: Path) -> str:
    """The SHA-256 of a Flower app as it reaches the sites."""
    from flwr.cli.build import build_fab_from_disk

    return hashlib.sha256(build_fab_from_disk(app)).hexdigest()


def write_guard(folder: Path, accepted: Iterable[str], events: Path | None = None) -> Path:
    """Write the programs, and the list unless there is one already; gives the list's path.

    What happens is noted in `events`; if that is not given, beside the list.
    """
    listed = folder / "accepted.txt"
    if not listed.exists():
        about = "# SHA-256 of the apps, and names of own methods, that may run here"
        listed.write_text("\n".join([about, *accepted]) + "\n")
    for name, module in _GUARDED.items():
        write_program(folder / name, module, {LIST: listed, EVENTS: events or folder / NAME})
    for name in _CLOSED:
        _write_script(folder / name, f"echo '{name} is closed at this site' >&2; exit 1")
    return listed


def write_program(path: Path, module: str, places: Mapping[str, Path] | None = None) -> None:
    """A program that runs a module of ours; `places` are variables with paths near the program.

    In a container this Python is not there, and the container's own is taken.
    """
    exports = [
        f'{key}="$here"/{shlex.quote(os.path.relpath(place, path.parent))}'
        for key, place in (places or {}).items()
    ]
    lines = [
        'here=$(cd "$(dirname "$0")" && pwd)',
        *(f"export {export}" for export in exports),
        f"python={shlex.quote(sys.executable)}",
        '[ -x "$python" ] || python=python3',
        f'exec "$python" -m {module} "$@"',
    ]
    _write_script(path, "\n".join(lines))


def check_accepted(method: str, activation: str = "", merge: str = "") -> None:
    """Refuse somebody's own method or rule that this site's list does not have.

    Without a list all may run.
    """
    from ramet.methods import ACTIVATIONS, MERGES, METHODS  # heavy: the guard must start at once
    from ramet.options import name_and_options

    path = os.environ.get(LIST)
    if not path:
        return
    asked = (
        ("method", method, [*METHODS]),
        ("activation", activation, [*ACTIVATIONS]),
        ("merge", merge, [*MERGES]),
    )
    for kind, text, ours in asked:
        name, _ = name_and_options(text)
        if name and name not in ours and name not in listed_in(Path(path)):
            raise RametError(
                f"this site does not accept the {kind} '{name}'. It lists those it does."
            )


def check_app(content: bytes, accepted: Path) -> None:
    """Refuse an app that the list does not have."""
    sha256 = hashlib.sha256(content).hexdigest()
    if sha256 not in listed_in(accepted):
        tell(ERROR, "app refused", sha256=sha256)
        raise RametError(f"this site does not accept the app with the SHA-256 {sha256}.")


@contextmanager
def site_events() -> Iterator[None]:
    """Note what happens meanwhile, where this site has a file for it."""
    path = os.environ.get(EVENTS)
    if not path:
        yield
        return
    with written_to(Path(path)):
        yield


def main() -> None:
    """Flower's `flwr-clientapp`, which asks before it unpacks."""
    _guard(Path(os.environ[LIST]))
    importlib.import_module("flwr.supernode.cli").flwr_clientapp()


def guard_if_listed() -> None:
    """From now on this process unpacks only what the site's list has, if there is a list."""
    if LIST in os.environ:
        _guard(Path(os.environ[LIST]))


def _guard(accepted: Path) -> None:
    flower = importlib.import_module("flwr.supernode.runtime.run_clientapp")
    unpack = flower.install_from_fab

    def unpack_if_accepted(fab_file: bytes, *others: Any, **named: Any) -> Path:
        with site_events():
            check_app(fab_file, accepted)
        found: Path = unpack(fab_file, *others, **named)
        return found

    flower.install_from_fab = unpack_if_accepted  # type: ignore[attr-defined]


def listed_in(path: Path) -> set[str]:
    lines = (line.partition("#")[0].strip() for line in path.read_text().splitlines())
    return {line for line in lines if line}


def _write_script(path: Path, command: str) -> None:
    path.write_text(f"#!/bin/sh\n{command}\n")
    path.chmod(0o755)


if __name__ == "__main__":
    main()
