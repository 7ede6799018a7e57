"""Files that repeat the version or the extras agree with the package."""

from __future__ import annotations

import re
from pathlib import Path

import ramet

ROOT = Path(__file__).parents[1]


def test_citation_and_changelog_have_the_version_of_the_package() -> None:
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited
    assert cited[1] == ramet.__version__
    assert f"## [{ramet.__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def test_ci_and_make_install_every_extra() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    extras = re.findall(
        r"^(\w+) = \[",
        text.partition("[project.optional-dependencies]")[2].partition("\n[")[0],
        re.MULTILINE,
    )
    assert {"flower", "mlflow", "dev"} <= set(extras)
    for file in (".ci/run", "Makefile"):
        installed = re.search(r"-e '\.\[(.+)\]'", (ROOT / file).read_text())
        assert installed
        assert set(installed[1].split(",")) == set(extras)
