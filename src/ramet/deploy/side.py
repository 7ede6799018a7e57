"""What the coordinator's and a site's folder have in common."""

from __future__ import annotations

import getpass
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ramet.deploy.services import Service
from ramet.errors import RametError
from ramet.events import NAME
from ramet.flower.programs import Flower

Tell = Callable[[str], None]
"""Where to say what is being done."""


@dataclass(frozen=True)
class Side(ABC):
    """A folder with keys, settings, scripts, logs and state; all paths inside it are relative."""

    folder: Path

    @property
    def flower(self) -> Flower:
        return Flower(self.folder / "flower", self.folder / "logs")

    @property
    def events(self) -> Path:
        """What happened on this side, one JSON object per line."""
        return self.folder / "logs" / NAME

    @abstractmethod
    def services(self) -> Sequence[Service]:
        """In the order in which they start."""

    def volumes(self) -> Sequence[Path]:
        """What containers see besides the folder itself, read-only."""
        return ()

    def stop(self, tell: Tell) -> None:
        for service in reversed(self.services()):
            tell(f"{service.name}: {'stopped' if service.stop() else 'did not run'}")
        self.flower.sweep()

    def write_scripts(self, consortium: str) -> None:
        """Start scripts, systemd units and the compose file."""
        services = self.services()
        for service in services:
            service.script.write_text(service.script_text())
            service.script.chmod(0o700)
            unit = self.folder / f"ramet-{self.folder.name}-{service.name}.service"
            unit.write_text(_unit(service, consortium))
        (self.folder / "compose.yaml").write_text(_compose(services, self.volumes()))


def make_private_folder(folder: Path) -> None:
    """A folder that only its owner may look into."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
    except OSError as error:
        raise RametError(
            f"cannot make {folder} ({error.strerror}). Give another folder."
        ) from error


def _unit(service: Service, consortium: str) -> str:
    capability = "AmbientCapabilities=CAP_NET_BIND_SERVICE\n" if service.low_port else ""
    return f"""\
# Written by `ramet deploy`, which overwrites it.
[Unit]
Description={service.about} ({consortium})
Wants=network-online.target
After=network-online.target

[Service]
User={getpass.getuser()}
ExecStart=/bin/sh "{service.script}"
Restart=always
RestartSec=15
NoNewPrivileges=true
PrivateTmp=true
ProtectSystem=strict
ReadWritePaths="{service.folder}"
{capability}
[Install]
WantedBy=multi-user.target
"""


def _compose(services: Sequence[Service], volumes: Sequence[Path]) -> str:
    """Host networking: what is bound to loopback stays on this machine's loopback.

    The folder has the same path inside: runs name it whole.
    """
    mounts = "".join(f'      - "{path}:{path}:ro"\n' for path in volumes)
    blocks = [
        f"""\
  {service.name}:
    image: ${{RAMET_IMAGE:-ramet}}
    command: ["/bin/sh", "{service.script}"]
    user: "{os.getuid()}:{os.getgid()}"
    network_mode: host
    restart: unless-stopped
    cap_drop: [ALL]
    cap_add: [{"NET_BIND_SERVICE" if service.low_port else ""}]
    security_opt: ["no-new-privileges:true"]
    volumes:
      - "{service.folder}:{service.folder}"
{mounts}{_healthcheck(service)}"""
        for service in services
    ]
    return "# Written by `ramet deploy`, which overwrites it.\nservices:\n" + "".join(blocks)


def _healthcheck(service: Service) -> str:
    if service.listens is None:
        return ""
    test = f"import socket; socket.create_connection({service.listens}, 5)"
    return (
        f"    healthcheck: {{test: {json.dumps(['CMD', 'python3', '-c', test])}, interval: 30s}}\n"
    )
