"""Every tutorial runs as a script, draws its figure, and its claims hold."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

FOLDER = Path(__file__).parents[1] / "docs" / "tutorials"
_NUMBER = re.compile(r"[-+]?\d[\d,.]*%?")


def numbers(line: str) -> list[float]:
    return [float(word.strip("%.,").replace(",", "")) for word in _NUMBER.findall(line)]


def line(output: str, begin: str, inside: str = "") -> list[float]:
    """The numbers in the first line that starts with ``begin`` and has ``inside``, after it."""
    lines = (text for text in output.splitlines() if inside in text)
    match = next(text for text in lines if text.startswith(begin))
    return numbers(match.removeprefix(begin))


def fedstar(output: str) -> None:
    assert line(output, "fedstar shares")[0] == 14_592 < line(output, "fedavg shares")[0]
    assert line(output, "fedstar  ")[2] == 57.0  # KB, after mean and spread


def feddense(output: str) -> None:
    star, narrow = line(output, "FedStar"), line(output, "FedDense, r = 10")
    assert all(less < more for less, more in zip(narrow[:3], star[:3], strict=True))
    assert line(output, "r = 10 sends")[0] == pytest.approx(star[1] / narrow[1], abs=0.1)


def fedlit(output: str) -> None:
    assert line(output, "NMI of fedlit,common:")[2] > 0.9 > line(output, "NMI of fedlit:")[2]
    assert line(output, "fedlit,common ")[-1] > line(output, "fed-gcn ")[-1]


def fedda(output: str) -> None:
    everyone, restart, explore = (line(output, f"{r} ") for r in ("everyone", "restart", "explore"))
    assert explore[0] < restart[0] < everyone[0] == 8 * 20 * 47  # clients, rounds, tensors
    assert explore[1] < restart[1] < 100


def three_hospitals(output: str) -> None:
    assert "patients.csv, row 7, column 'age': 'old' is not a number." in output
    alone, together = line(output, "alone"), line(output, "together  ")
    assert sum(together) > sum(alone)
    assert together[1] > alone[1]


def three_clinics(output: str) -> None:
    assert line(output, "  crp:")[:2] == [120, 120]  # a column that only one clinic has
    assert "'dermatology'" in output
    found = next(text for text in output.splitlines() if "of the first ten came back" in text)
    hits, by_chance = numbers(found)
    assert hits > by_chance
    assert line(output, "The colleague's list is the same:") == [40]


def twenty_hospitals(output: str) -> None:
    alone, together = line(output, "  alone")[0], line(output, "  together")[0]
    assert alone + 5 < together < 95
    assert line(output, "joining is better at")[0] > 10


def three_banks(output: str) -> None:
    of_fraud = output.split("fraud: average precision on the test, %")[1]
    alone, together = line(of_fraud, "  alone"), line(of_fraud, "  together")
    assert together[1] > alone[1]
    assert together[2] > alone[2]
    for bank, share in (("north", 0.06), ("south", 0.05), ("east", 0.055)):
        _, alerts, right, frauds = line(output, f"{bank}: ", "in July, ")
        assert right / frauds > 0.4
        assert right / alerts > 4 * share


CLAIMS: dict[str, Callable[[str], None]] = {
    claim.__name__: claim
    for claim in (
        fedstar,
        feddense,
        fedlit,
        fedda,
        three_hospitals,
        three_clinics,
        twenty_hospitals,
        three_banks,
    )
}


def test_every_tutorial_is_tested() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == set(CLAIMS)


SLOW = (pytest.mark.e2e, pytest.mark.thorough)
IN_CI = ("three_clinics",)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in IN_CI else SLOW) for name in CLAIMS]
)
def test_a_tutorial_draws_its_figure_and_its_claims_hold(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, FOLDER / f"{name}.py", f"{name}.png"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    with Image.open(tmp_path / f"{name}.png") as picture:
        assert min(picture.size) > 400
        assert len(picture.convert("L").getcolors() or []) > 5  # not blank
    CLAIMS[name](done.stdout)
    shown = (FOLDER / f"{name}.txt").read_text()
    # Numbers may differ on other machines.
    assert without_numbers(done.stdout) == without_numbers(shown)


def without_numbers(text: str) -> list[list[str]]:
    return [_NUMBER.sub("#", line).split() for line in text.splitlines()]
