"""Keep a SuperNode running on this machine, as a supervisor would in production."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ramet.errors import RametError
from ramet.flower.programs import LOOPBACK, Flower, free_ports, node_config_text

_INTERVAL = 0.5
_RESTART_PAUSES = (0.0, 1.0, 5.0, 15.0)
"""Seconds before a SuperNode that has ended is started again."""
_STEADY = 60.0
"""A SuperNode that has run for this many seconds could be started."""
Check = Callable[[], None]
"""Raises a RametError if something is wrong."""


@contextmanager
def kept_supernode(flower: Flower, client: str, port: int, node: dict[str, str]) -> Iterator[Check]:
    """Keep a SuperNode running that connects to the SuperLink on this port.

    Yields a function that raises an error if the SuperNode cannot be started.
    """
    stopped = threading.Event()
    arguments = (flower, client, port, node, stopped)
    keeper = threading.Thread(target=_keep_running, args=arguments, daemon=True)
    keeper.start()

    def check() -> None:
        if not keeper.is_alive():
            raise RametError(
                f"the SuperNode of {client} was started {len(_RESTART_PAUSES) + 1} times, and "
                f"ended soon each time. See {flower.logs / f'supernode-{client}.log'}."
            )

    try:
        yield check
    finally:
        stopped.set()
        keeper.join()


def _keep_running(
    flower: Flower, client: str, port: int, node: dict[str, str], stopped: threading.Event
) -> None:
    """Start a SuperNode, and start it again on another port whenever it ends.

    Give up if it ends soon several times in a row.
    """
    arguments = ["-c", "from ramet.flower.supernode import main; main()"]
    arguments += ["--insecure", "--superlink", f"{LOOPBACK}:{port}", "--host", LOOPBACK]
    arguments += ["--node-config", node_config_text(node), "--port"]
    pauses = iter(_RESTART_PAUSES)
    pause: float | None = 0.0
    while pause is not None and not stopped.wait(pause):
        (own_port,) = free_ports(1)
        command, started = (sys.executable, *arguments, str(own_port)), time.monotonic()
        with flower.process(f"supernode-{client}", *command) as process:
            while process.poll() is None and not stopped.wait(_INTERVAL):
                pass
        if time.monotonic() - started > _STEADY:
            pauses = iter(_RESTART_PAUSES)
        pause = next(pauses, None)
