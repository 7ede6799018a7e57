"""A SuperNode that reconnects after every failure and records when the coordinator last answered.

The last accepted heartbeat is the modification time of a file, and a process that no longer calls
the coordinator ends, so that its supervisor restarts it. Everything else is Flower's
`flower-supernode` (see :mod:`ramet.flower.patches`).
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from pathlib import Path

from ramet.flower.contact import Contact, end_on_problem
from ramet.flower.guard import CERTIFICATE_VARIABLE, HEARTBEAT_VARIABLE, flowers_program
from ramet.flower.patches import applied


def main() -> None:
    """Run `flower-supernode`; when its main thread ends, the whole process ends."""
    contact, certificate = Contact(_path(HEARTBEAT_VARIABLE)), _path(CERTIFICATE_VARIABLE)
    contact.begin()
    _apply_patches(contact, certificate)
    code = 1
    try:
        flowers_program("flower-supernode")()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 (the process ends below)
        traceback.print_exc()
    finally:
        contact.end()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _apply_patches(contact: Contact, certificate: Path | None) -> None:
    is_noted = bool(certificate) and applied("site-connection", contact, certificate, needed=True)
    if applied("steady-connection", contact, certificate) or is_noted:
        threading.Thread(target=end_on_problem, args=(contact,), daemon=True).start()
    for name in ("steady-state", "quick-replies", "quick-node-objects"):
        applied(name)


def _path(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return Path(value) if value else None


if __name__ == "__main__":
    main()
