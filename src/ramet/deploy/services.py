"""A side's programs: their start scripts, and starting and stopping them on this machine.

The same script serves `ramet deploy start`, systemd and compose.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from ramet.flower.programs import QUIET

SYSTEM_PROGRAMS = ("/usr/sbin", "/usr/local/sbin")
"""Where nginx lies; not in everybody's PATH."""
_STOPPING = 15.0


@dataclass(frozen=True)
class Service:
    """One program that keeps running, with paths relative to its side's folder."""

    folder: Path
    name: str
    about: str
    command: tuple[str, ...]
    listens: tuple[str, int] | None = None
    """The address and port at which this machine reaches it, if any."""
    programs: str = ""
    """A folder whose programs it finds before all others."""

    @property
    def script(self) -> Path:
        return self.folder / f"{self.name}.sh"

    @property
    def log(self) -> Path:
        return self.folder / "logs" / f"{self.name}.log"

    @property
    def low_port(self) -> bool:
        return self.listens is not None and self.listens[1] < 1024

    def script_text(self) -> str:
        exports = "".join(f"export {key}={value}\n" for key, value in QUIET.items())
        programs = shlex.quote(str(Path(sys.executable).parent))
        first = f'"$PWD/{self.programs}":' if self.programs else ""
        return (
            "#!/bin/sh\n"
            f"# {self.about}. Written by `ramet deploy`, which overwrites it.\n"
            "set -eu\n"
            "umask 077\n"
            'cd "$(dirname "$0")"\n'
            f'export PATH={first}{programs}:"$PATH":{":".join(SYSTEM_PROGRAMS)}\n'
            'export FLWR_HOME="$PWD/flower"\n'
            f"{exports}"
            f"exec {shlex.join(self.command)}\n"
        )

    def process(self) -> psutil.Process | None:
        """The running program, if it runs; a number that now is another's does not count."""
        try:
            number, born = self._note.read_text().split()
            found = psutil.Process(int(number))
            alive = found.create_time() == float(born) and found.status() != psutil.STATUS_ZOMBIE
        except (FileNotFoundError, ValueError, psutil.NoSuchProcess):
            return None
        return found if alive else None

    @property
    def is_wanted(self) -> bool:
        """It was started by `start`, and not stopped by `stop` since."""
        return self._note.exists()

    def start(self) -> bool:
        """False if it runs already."""
        if self.process():
            return False
        self.bury()
        self.log.parent.mkdir(exist_ok=True)
        with self.log.open("ab") as log:
            started = subprocess.Popen(
                ["/bin/sh", str(self.script)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        born = psutil.Process(started.pid).create_time()
        self._note.write_text(f"{started.pid} {born!r}")
        return True

    def stop(self) -> bool:
        """False if it did not run. Its children go with it."""
        found = self.process()
        if found is None:
            return False
        family = [*found.children(recursive=True), found]
        for one in family:
            with suppress(psutil.NoSuchProcess):  # it went with its parent
                one.terminate()
        for left in psutil.wait_procs(family, _STOPPING)[1]:
            left.kill()
        psutil.wait_procs(family, _STOPPING)
        self._note.unlink()
        return True

    def bury(self) -> None:
        """End what a program that was killed left behind: nginx's workers keep its port."""
        if not self._note.exists():
            return
        session = int(self._note.read_text().split()[0])
        left = []
        for one in psutil.process_iter():
            with suppress(ProcessLookupError, psutil.NoSuchProcess):  # it went meanwhile
                if os.getsid(one.pid) == session:
                    one.kill()
                    left.append(one)
        psutil.wait_procs(left, _STOPPING)

    @property
    def _note(self) -> Path:
        return self.folder / f"{self.name}.pid"


def exporter(folder: Path, port: int | None) -> tuple[Service, ...]:
    """Tells Prometheus what lies in the folder, if there is a port for it."""
    if port is None:
        return ()
    command = ("ramet", "deploy", "metrics", ".", "--port", str(port))
    about = "Ramet's metrics for Prometheus, on loopback"
    return (Service(folder, "metrics", about, command, listens=("127.0.0.1", port)),)


def superexec(folder: Path, runtime: str, trust: tuple[str, ...]) -> Service:
    """Starts the app's processes; shows the Runtime API that it knows the secret."""
    return Service(
        folder,
        "superexec",
        "Flower's SuperExec, which starts the app's processes",
        (
            *("flower-superexec", "--runtime-api-address", runtime),
            *("--superexec-auth-secret-file", "superexec.secret"),
            *trust,
        ),
    )
