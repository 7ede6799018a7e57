"""The page of that name: its script, its commands in their order, and what they say."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image
from sklearn.metrics import accuracy_score, roc_auc_score

from command_line import Done
from command_line import ramet as command

PAGE = Path(__file__).parents[1] / "docs" / "month-after-month.md"


def commands() -> list[str]:
    blocks = re.findall(r"```bash\n(.*?)```", PAGE.read_text(), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    return [line.removeprefix("ramet ") for line in lines if line.startswith("ramet ")]


def test_each_question_has_at_most_two_commands() -> None:
    questions = PAGE.read_text().split("\n## ")[1:]
    assert len(questions) == 5
    for one in questions:
        blocks = re.findall(r"```bash\n(.*?)```", one, re.DOTALL)
        assert 1 <= sum(len(block.splitlines()) for block in blocks) <= 2


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Done]]:
    """What the commands say, by their words; the long comparison is not run."""
    folder = tmp_path_factory.mktemp("banks")
    (script,) = re.findall(r"^python (\S+)$", PAGE.read_text(), re.MULTILINE)
    subprocess.run([sys.executable, PAGE.parents[1] / script], cwd=folder, check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        short = [line for line in commands() if not line.startswith("compare")]
        found = {line: command(*shlex.split(line)) for line in short}
        assert {line: one.stderr for line, one in found.items() if one.code} == {}
        yield found


def of(done: dict[str, Done], *words: str) -> str:
    (found,) = (one for line, one in done.items() if all(word in line for word in words))
    return found.stdout


def test_the_planted_drift_is_told(done: dict[str, Done]) -> None:
    text = of(done, "drift")
    assert "2 of 4 columns have changed: account.branch, account.balance." in text
    assert min(Image.open("drift.png").size) > 200


def test_the_score_of_june_is_that_of_scikit_learn(done: dict[str, Done]) -> None:
    predicted = pd.read_csv("june.csv").set_index("id")
    truth = pd.read_csv("north/june/accounts.csv").set_index("id")["state"]
    scored = command("evaluate", "together", "--new", "north/june", "--client", "north", "--json")
    lines = {one["metric"]: one["new"]["value"] for one in json.loads(scored.stdout)["lines"]}
    of_truth = predicted.loc[truth.index]
    assert lines["accuracy"] == accuracy_score(truth, of_truth["class"])
    assert lines["roc-auc"] == pytest.approx(roc_auc_score(truth == "mule", of_truth["p_mule"]))
    assert "north does worse on june, by accuracy" in of(done, "evaluate together", "june --client")


def test_the_retrained_model_is_recommended(done: dict[str, Done]) -> None:
    assert "may is better than together on june" in of(done, "--against together")
    assert "use may." in of(done, "--against together")


def test_three_months_in_one_picture(done: dict[str, Done]) -> None:
    text = of(done, "--against alone")
    for month in ("april", "may", "june"):
        assert re.search(rf"^{month} +100 ", text, re.MULTILINE)
    assert "differ no more than by chance in all 3 months, by accuracy." in text
    with Image.open("months.png") as picture:
        assert len(picture.convert("L").getcolors() or []) > 5
    both = ("--new", "north/april", "--new", "north/may")
    refused = command("evaluate", "together", *both, "--client", "north")
    assert "name the other run with --against" in refused.stderr
    told = command("evaluate", "may", *both, "--against", "alone", "--client", "north", "--json")
    facts = json.loads(told.stdout)
    assert [month["data"] for month in facts["months"]] == ["april", "may"]
    assert all(month["samples"] < 100 for month in facts["months"])  # most were trained on
