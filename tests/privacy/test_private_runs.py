"""Runs with `--dp`: what they say of themselves, what they refuse, and that they can be resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ramet
from command_line import ramet as command
from ramet.errors import RametError
from ramet.experiment import RunFolder
from ramet.report.page import write_report
from ramet.studies.archive import finished_runs

GRAPH = "unit=graph,epsilon=2,delta=1e-3"
SITE = "unit=site,epsilon=2,delta=1e-3,clip=0.5"


@pytest.mark.parametrize("method", ["fedavg", "fedstar", "feddense", "local"])
def test_a_run_states_its_budget(method: str, tmp_path: Path) -> None:
    result = ramet.run(method, rounds=2, dp=GRAPH, out=tmp_path / "r")
    privacy = result.summary.privacy
    assert privacy is not None
    assert privacy.sentence == (
        "ε = 2, δ = 0.001 for each training graph (simulated: no guarantee)"
    )
    assert result.summary.to_json()["privacy"]["epsilon"] == 2
    command_of_run = RunFolder(result.folder).experiment().settings.command
    assert "--dp unit=graph,epsilon=2,delta=0.001,clip=1" in command_of_run


def test_noise_changes_a_run(tmp_path: Path) -> None:
    plain = ramet.run("fedavg", rounds=2, out=tmp_path / "plain")
    runs = [
        ramet.run("fedavg", rounds=2, dp=dp, out=tmp_path / str(number))
        for number, dp in enumerate((GRAPH, SITE, "unit=graph,epsilon=1,delta=1e-3"))
    ]
    assert len({run.summary.sha256 for run in (plain, *runs)}) == 4
    assert plain.summary.privacy is None


@pytest.mark.parametrize(("dp", "secure"), [(GRAPH, False), (SITE, False), (SITE, True)])
def test_a_stopped_run_ends_as_if_it_had_not_stopped(dp: str, secure: bool, tmp_path: Path) -> None:
    given: Any = {"rounds": 3, "dp": dp, "secure": secure}
    whole = ramet.run("fedavg", out=tmp_path / "whole", **given)

    def stop(record: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ramet.run("fedavg", out=tmp_path / "r", observe=stop, **given)
    assert ramet.resume(tmp_path / "r").summary.sha256 == whole.summary.sha256


def test_a_round_that_the_server_forgot_is_answered_with_the_same_bytes(tmp_path: Path) -> None:
    run = ramet.run("fedavg", rounds=3, dp=GRAPH, out=tmp_path / "r")
    (run.folder / "result.json").unlink()
    sorted((run.folder / "server").glob("*.safetensors"))[-1].unlink()
    assert ramet.resume(run.folder).summary.sha256 == run.summary.sha256


@pytest.mark.parametrize(
    ("method", "dp", "reason"),
    [
        ("scaffold", SITE, "sends extras"),
        ("scaffold", GRAPH, "sends extras"),
        ("fedprox", GRAPH, "adds a term to the loss"),
        ("ditto", GRAPH, "after training"),
        ("local", SITE, "shares nothing"),
    ],
)
def test_methods_that_noise_cannot_cover_are_refused(method: str, dp: str, reason: str) -> None:
    with pytest.raises(RametError, match=rf"{method} does not work with --dp .*{reason}"):
        ramet.run(method, rounds=1, dp=dp)


def test_units_of_graphs_need_many_graphs() -> None:
    with pytest.raises(RametError, match="a client has one graph only"):
        ramet.run("fedavg", "planted", rounds=1, dp=GRAPH)


def test_stages_and_buffers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RametError, match="fedlit does not work with --dp unit=site"):
        ramet.run("fedlit", "planted", rounds=1, dp=SITE)
    (tmp_path / "normed.py").write_text(
        "from torch import nn\n"
        "class Normed(nn.Module):\n"
        "    def __init__(self, shape):\n"
        "        super().__init__()\n"
        "        self.norm = nn.BatchNorm1d(4)\n"
    )
    with pytest.raises(RametError, match=r"buffers \(norm\.running_mean\)"):
        ramet.run("fedavg", rounds=1, dp=GRAPH, network=f"{tmp_path}/normed.py:Normed")


def test_more_rounds_and_other_models_are_refused(tmp_path: Path) -> None:
    run = ramet.run("fedavg", rounds=1, dp=GRAPH, out=tmp_path / "r")
    with pytest.raises(RametError, match="chosen for 1 rounds"):
        ramet.resume(run.folder, rounds=2)
    with pytest.raises(RametError, match="cannot start with the models of another run"):
        ramet.run("fedavg", rounds=1, dp=GRAPH, start_from=run.folder, out=tmp_path / "n")


def test_the_command_line(tmp_path: Path) -> None:
    out = str(tmp_path / "r")
    done = command("run", "fedavg", "--rounds", "1", "--dp", GRAPH, "--out", out)
    assert "Simulated: no guarantee" in done.stderr + done.stdout
    assert "ε = 2, δ = 0.001 for each" in " ".join(done.stdout.split())


def test_report_and_card_state_the_budget(tmp_path: Path) -> None:
    result = ramet.run("fedstar", rounds=1, dp=GRAPH, out=tmp_path / "r")
    page = write_report(finished_runs([result.folder]), tmp_path)
    sentence = "ε = 2, δ = 0.001 for each training graph"
    assert f"fedstar: {sentence} (simulated: no guarantee)" in page.read_text()
    result.export("rings", tmp_path / "model", programs=False)
    card = (tmp_path / "model" / "README.md").read_text()
    assert f"Differential privacy of what left in this run: {sentence}." in card
    assert "so there is no guarantee" in card
    assert "the loss" not in card
