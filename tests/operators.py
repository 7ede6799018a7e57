"""The people at the coordinator and at the sites, who type what docs/operations.md says."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from consortia import DeployRun, Members
from ramet.deploy.services import SYSTEM_PROGRAMS

PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"], *SYSTEM_PROGRAMS])
PAGE = Path(__file__).parents[1] / "docs" / "operations.md"
NOT_RUN = ("pip", "sudo")
"""Programs that would change this machine."""


def blocks(title: str) -> list[str]:
    """The commands of a section, a text for each block."""
    section = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.M | re.S)
    assert section, title
    return re.findall(r"^```bash\n(.*?)^```$", section[1], re.M | re.S)


class Operators:
    """The people at the coordinator and at the sites, who follow the page literally."""

    def __init__(self, members: Members, root: Path) -> None:
        self.members, self.root = members, root
        self.runs = 0
        self.send_invitations(site.settings.site for site in members.sites)

    def send_invitations(self, sites: Iterable[str]) -> None:
        for site in sites:
            invitation = self.members.coordinator.folder / "invitations" / f"{site}.toml"
            shutil.copy(invitation, self.root / f"{site}.toml")

    def type(self, block: str, site: str = "north", **replaced: str) -> str:
        """Run a block in bash as this site would; return its output."""
        settings = self.members.site(site).settings
        own = f"{settings.data} --runtime-port {settings.runtime_port}"
        text = block.replace("/srv/graphs/site.toml", "DATA").replace("north", site)
        for old, new in {"DATA": own, **replaced}.items():
            text = text.replace(old, new)
        stubs = "".join(f"{program}() {{ :; }}\n" for program in NOT_RUN)
        done = subprocess.run(
            ["bash", "-e", "-c", stubs + text],
            cwd=self.root,
            env={**os.environ, "PATH": PATH},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def check_run(self) -> None:
        """A run with all sites."""
        self.runs += 1
        run = DeployRun(self.members, self.root / f"run-{self.runs}")
        assert run.process.wait(400) == 0, run.output
        result = json.loads((run.out / "result.json").read_text())
        assert len(result["sha256"]) == 64
        assert run.rounds()[-1]["failed"] == {}
