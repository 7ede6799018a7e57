"""A site without any program that waits: it answers files, and the numbers are the same."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import tomli_w
from test_secure_consortium import FIVE
from test_verified_consortium import know_each_other, run

from consortia import DeployRun, Members, consortium
from ramet.deploy.coordinator import Coordinator
from ramet.deploy.init import init
from ramet.experiment import RunFolder
from ramet.flower.file_drop import REPLIES, REQUESTS

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed"),
]
THREE = dict([*FIVE.items()][:3])


def exchange_files(members: Members, site: str, folder: Path) -> None:
    """The site stops its programs, and the coordinator writes to a folder instead."""
    members.site(site).stop(members.output.append)
    coordinator = members.coordinator.folder
    settings = Coordinator.open(coordinator).consortium
    given = settings.model_copy(update={"by_files": {site: folder}})
    file = coordinator.parent / "by-files.toml"
    file.write_text(tomli_w.dumps(given.model_dump(mode="json", exclude_none=True)))
    init(file, coordinator, members.output.append)


def answered(site: Path, folder: Path) -> str:
    """One job at the site."""
    words = [sys.executable, "-m", "ramet", "deploy", "answer", str(folder), str(site)]
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=300).stdout


def answered_in_slurm(site: Path, folder: Path) -> str:
    """One batch job of a real Slurm."""
    output = site / "slurm.out"
    words = [sys.executable, "-m", "ramet", "deploy", "answer", str(folder), str(site)]
    script = f"#!/bin/sh\nexec {shlex.join(words)}\n"
    submit = ["sbatch", "--wait", "--export=ALL", f"--chdir={site}", f"--output={output}"]
    subprocess.run(submit, check=True, input=script, text=True, timeout=300)
    return output.read_text()


def slurm_runs() -> bool:
    found = shutil.which("sinfo")
    return (
        found is not None
        and subprocess.run([found], check=False, capture_output=True).returncode == 0
    )


@pytest.mark.parametrize(
    ("options", "job"),
    [
        pytest.param({}, answered, id="plain"),
        pytest.param(
            {"secure": True, "verified": True},
            answered,
            marks=pytest.mark.thorough,
            id="secure and verified",
        ),
        pytest.param(
            {},
            answered_in_slurm,
            marks=[pytest.mark.thorough, pytest.mark.skipif(not slurm_runs(), reason="no Slurm")],
            id="jobs of Slurm",
        ),
    ],
)
def test_files_give_the_numbers_of_connections(
    tmp_path: Path, options: dict[str, bool], job: Callable[[Path, Path], str]
) -> None:
    given = {"method": "fedstar", "rounds": 2, "seed": 3, **options}
    with consortium(tmp_path, THREE, **given) as members:
        know_each_other(members)
        name = [*THREE][1]
        folder, site = tmp_path / "exchange", members.site(name)
        connected = run(members, tmp_path / "connected") if not options else None
        exchange_files(members, name, folder)
        started = DeployRun(members, tmp_path / "by-files")
        jobs = 0
        while started.process.poll() is None:
            if any((folder / REQUESTS).glob("*")):
                jobs += " answered" in job(site.folder, folder)
            assert not any(service.process() for service in site.services())
        result = started.result()
        assert jobs >= 3, started.output  # an introduction and two rounds
        assert not [*(folder / REPLIES).iterdir()]
        again = RunFolder.open(tmp_path / "by-files")
        assert {*again.experiment().clients} == {*THREE}
        assert not any(record.failed for record in again.records())
        if connected is not None:
            summary = connected.summary()
            assert summary is not None
            assert result["sha256"] == summary.sha256
