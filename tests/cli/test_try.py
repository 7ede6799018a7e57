"""`ramet try` on the command line: table, JSON, progress and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import ramet

BROKEN = Path(__file__).parents[1] / "broken_methods.py"
QUICK = ("--engine", "local", "--rounds", "2", "--set", "hidden=4")


@pytest.fixture(autouse=True)
def _wide_and_without_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.delenv("RAMET_DATA", raising=False)


def rows(stdout: str) -> dict[str, str]:
    """The outcome column of the printed table, by check."""
    lines = stdout.splitlines()[2:-1]
    return {line[:12].strip(): line[13:].split()[0] for line in lines if line.strip()}


@pytest.mark.thorough
def test_a_method_that_passes(tmp_path: Path) -> None:
    done = ramet("try", "fedavg", *QUICK, "--data", tmp_path)
    assert done.code == 0, done.stdout
    local = ("reference", "cold", "resumed", "reversed", "missing", "many clients", "declared")
    assert rows(done.stdout) == {
        **dict.fromkeys(local, "ok"),
        **dict.fromkeys(("ray", "superlink"), "skipped"),
    }
    assert done.stdout.splitlines()[-1] == (
        "fedavg keeps Ramet's promises in 2 rounds on tiny. Not checked: ray, superlink."
    )
    assert done.stderr.splitlines() == [f"checking: {check}" for check in local]
    assert not [*tmp_path.iterdir()]


def test_a_method_that_fails_as_json(tmp_path: Path) -> None:
    method = f"{BROKEN}:pair_of_losses"
    done = ramet("try", method, *QUICK, "--data", tmp_path, "--json")
    assert done.code == 1
    report = json.loads(done.stdout)
    assert report["method"] == "broken_methods.py:pair_of_losses"
    assert (report["setting"], report["rounds"]) == ("tiny", 2)
    reference, cold, *_ = report["outcomes"]
    assert reference["verdict"] == "failed"
    assert "returned a tuple" in reference["detail"]
    assert cold == {
        "check": "cold",
        "verdict": "skipped",
        "detail": "there is no reference run to compare with",
    }


def test_a_failure_is_named_in_the_last_line(tmp_path: Path) -> None:
    done = ramet("try", f"{BROKEN}:scheduled_rate", "--data", tmp_path, "--engine", "local")
    assert done.code == 1
    assert rows(done.stdout)["reference"] == "FAILED"
    assert "Traceback" not in done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith(
        "broken_methods.py:scheduled_rate fails in 3 rounds on tiny: reference, missing"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fedavgg",), "ramet: unknown method 'fedavgg'"),
        (("fedavg", "--set", "rate=1"), "ramet: unknown option 'rate'"),
        ((f"{BROKEN}:failing_factory",), "ramet: cannot build the run: NameError: name 'missing"),
    ],
)
def test_wrong_names_exit_with_2(arguments: tuple[str, ...], message: str) -> None:
    done = ramet("try", *arguments)
    assert done.code == 2
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == 1


def test_one_round_is_too_few() -> None:
    done = ramet("try", "fedavg", "--rounds", "1")
    assert done.code == 2
    assert "--rounds" in done.stderr
