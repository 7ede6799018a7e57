"""Install from the wheels of `make bundle` without a network, with the commands of the docs."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.e2e, pytest.mark.thorough]


@pytest.fixture(scope="module")
def bundle() -> Path:
    """The folder RAMET_BUNDLE, or the one that `make bundle` writes."""
    given = os.environ.get("RAMET_BUNDLE")
    if given:
        return Path(given)
    subprocess.run(["make", "bundle"], cwd=ROOT, check=True)
    return ROOT / "dist" / "bundle"


def test_the_documented_commands_install_ramet_from_the_bundle(
    bundle: Path, tmp_path: Path
) -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    section = page.partition("## Machines without internet access\n")[2].partition("\n## ")[0]
    _, install = re.findall(r"^```bash\n(.*?)^```$", section, re.M | re.S)
    (tmp_path / "bundle").symlink_to(bundle)
    hidden = ("PYTHONPATH", "VIRTUAL_ENV")
    clean = {
        name: value
        for name, value in os.environ.items()
        if name not in hidden and not name.startswith("PIP_")
    }
    done = subprocess.run(
        ["bash", "-e", "-c", f"{install}ramet doctor"],
        cwd=tmp_path,
        env={**clean, "PIP_CONFIG_FILE": os.devnull, "RAMET_DATA": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok  Flower" in done.stdout
