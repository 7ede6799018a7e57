"""systemd units, as systemd itself reads them."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

SYSTEMD = Path("/lib/systemd/systemd")
USER = 1000
"""systemd refuses to describe units to root."""
_FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10}


def as_systemd_reads(unit_text: str) -> str:
    """systemd's own description of a unit."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        (Path(folder) / "read.service").write_text(unit_text)
        done = subprocess.run(
            [SYSTEMD, "--test", "--system", "--unit=read.service"],
            env={"SYSTEMD_UNIT_PATH": f"{folder}:/lib/systemd/system"},
            user=USER if os.getuid() == 0 else None,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    described = re.search(r"-> Unit read\.service:\n(.*?)\n\t-> ", done.stdout, re.DOTALL)
    assert described, done.stdout
    return described[1]


def seccomp_profile(unit_text: str) -> dict[str, Any]:
    """A container's seccomp profile that allows the system calls and sockets of a unit."""
    listed = re.search(r"SystemCallFilter: (.+)", as_systemd_reads(unit_text))
    families = re.search(r"^RestrictAddressFamilies=(.+)$", unit_text, re.MULTILINE)
    assert listed
    assert families
    names = sorted({*listed[1].split()} - {"socket"})
    sockets: list[dict[str, Any]] = [
        {"names": ["socket"], "args": [{"index": 0, "value": _FAMILIES[name], "op": "SCMP_CMP_EQ"}]}
        for name in families[1].split()
    ]
    return {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": 1,
        "archMap": [{"architecture": "SCMP_ARCH_X86_64", "subArchitectures": []}],
        "syscalls": [{**rule, "action": "SCMP_ACT_ALLOW"} for rule in [{"names": names}, *sockets]],
    }
