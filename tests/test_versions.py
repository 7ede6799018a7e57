"""Files that repeat the version or the extras agree with the package."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import ramet

ROOT = Path(__file__).parents[1]
KEPT = Path(__file__).parent / "kept_run"
"""A folder of a run, by the version that made it."""


def test_citation_and_changelog_have_the_version_of_the_package() -> None:
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited
    assert cited[1] == ramet.__version__
    assert f"## [{ramet.__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def test_the_chart_has_the_version_of_the_package() -> None:
    chart = (ROOT / "deploy" / "helm" / "ramet" / "Chart.yaml").read_text()
    versions = re.findall(r'^(?:version|appVersion): "?([^"\n]+)', chart, re.MULTILINE)
    assert versions == [ramet.__version__, ramet.__version__]


def test_actions_are_pinned_to_a_commit() -> None:
    used = [
        line
        for file in (ROOT / ".github" / "workflows").glob("*.yml")
        for line in file.read_text().splitlines()
        if "uses:" in line
    ]
    assert used
    assert not [line for line in used if not re.search(r"@[0-9a-f]{40} # v[0-9.]+$", line)]


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


@pytest.mark.parametrize("version", sorted(path.name for path in KEPT.iterdir()))
def test_a_run_of_each_version_is_read_and_goes_on(version: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(KEPT / version, folder)
    kept = ramet.resume(folder)
    expected = ramet.run("fedavg", "tiny", seed=5, hidden=4, layers=2, rounds=3, out=tmp_path / "n")
    assert kept.summary.rounds == 1
    assert kept.evaluation("rings")["test"].metrics
    assert ramet.resume(folder, rounds=3).summary.sha256 == expected.summary.sha256
