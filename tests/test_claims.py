"""Claims of papers, decided by the kept runs."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ramet.papers.wanted import RunsByFolder, kept_by_folder, papers
from ramet.studies.finished_run import Draw, FinishedRun, FinishedRuns

RESULTS = Path(__file__).parents[1] / "results"

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(RESULTS)
    book: Any = importlib.import_module("claims")
outcome, claims_markdown = book.outcome, book.claims_markdown


def claim(**facts: object) -> Any:
    plain = {"paper": "p", "says": "x", "better": "fedstar", "than": "local"}
    return book.Claim.model_validate({**plain, "setting": "single", "folder": "single", **facts})


@pytest.fixture(scope="module")
def single(single_runs: FinishedRuns) -> RunsByFolder:
    return {"single": single_runs}


def test_the_interval_decides_a_claim(single: RunsByFolder) -> None:
    # FedStar is above Local by 3.08 [1.20, 4.96] on five seeds of one split
    fedstar = outcome(claim(), single)
    assert (fedstar.status, fedstar.splits, fedstar.seeds) == ("holds", 1, 5)
    assert fedstar.gain is not None
    assert fedstar.gain.low == pytest.approx(0.0120, abs=1e-4)
    assert outcome(claim(at_least=1.5), single).status == "undecided"
    assert outcome(claim(at_least=5.0), single).status == "fails"
    assert outcome(claim(better="local", than="fedstar"), single).status == "fails"
    assert outcome(claim(better="feddense,width=32", than="fedstar"), single).status == "undecided"
    assert outcome(claim(folder="nowhere"), single).status == "not run"


def test_fewer_than_five_pairs_decide_nothing(single: RunsByFolder) -> None:
    runs = single["single"]
    four = {label: dict(list(own.items())[:4]) for label, own in runs.items()}
    assert outcome(claim(), {"single": four}).status == "undecided"
    one = outcome(claim(better="gcfl", than="local"), single)
    assert (one.status, one.seeds) == ("undecided", 1)


def test_a_claim_that_depends_on_the_round_is_flagged(single: RunsByFolder) -> None:
    assert not outcome(claim(), single).depends_on_round
    above_fedavg = outcome(claim(better="feddense,width=16", than="fedavg"), single)
    assert above_fedavg.status == "holds"
    assert above_fedavg.depends_on_round
    assert "**depends on the round**" in claims_markdown([above_fedavg])


def test_fewer_bytes_are_part_of_a_claim(single: RunsByFolder) -> None:
    # FedStar sends 57.00 KB where FedAvg sends 97.50
    facts = {"than": "fedavg", "at_least": -0.5}
    assert outcome(claim(**facts, share_of_bytes=0.6), single).status == "holds"
    assert outcome(claim(**facts, share_of_bytes=0.5), single).status == "fails"


def test_operations_are_counted() -> None:
    runs = kept_by_folder(RESULTS)
    (one,) = (outcome(c, runs) for c in book.claims() if c.fewer_operations is not None)
    assert one.status == "fails"
    assert one.times_fewer_operations == pytest.approx(3.30, abs=0.01)


def moved(run: FinishedRun, split: int) -> FinishedRun:
    return replace(run, command=f"{run.command} --split-seed {split}")


def test_splits_without_sizes_have_no_interval_and_decide_nothing(single: RunsByFolder) -> None:
    """Old runs do not tell the sizes of training and test set, which the correction needs."""
    runs = {
        label: {Draw(split, 1): moved(one, split) for split, one in enumerate(own.values(), 200)}
        for label, own in single["single"].items()
        if label in ("local", "fedstar")
    }
    found = outcome(claim(), {"single": runs})
    assert (found.splits, found.status) == (5, "undecided")
    assert found.gain is not None
    assert found.gain.low is None


def test_unequal_numbers_of_seeds_are_counted_as_runs(single: RunsByFolder) -> None:
    one = outcome(claim(), single)
    assert "5 seeds of one split" in claims_markdown([one])
    assert "| 2 splits × 3 seeds |" in claims_markdown([replace(one, splits=2, seeds=3, runs=6)])
    assert "| 6 runs on 2 splits |" in claims_markdown([replace(one, splits=2, seeds=5, runs=6)])


def test_every_claim_names_a_known_choice_and_setting() -> None:
    says = book.claims()
    assert {"fedstar", "feddense", "gcfl", "fedlit", "fedsage", "fedda"} <= {*papers()}
    assert len(says) == len({one.model_dump_json() for one in says}) > 100


def test_claims_that_were_not_run_are_only_counted() -> None:
    runs = kept_by_folder(RESULTS)
    outcomes = [outcome(claim, runs) for claim in book.claims()]
    text = claims_markdown(outcomes)
    assert text.count("**holds**") == sum(one.status == "holds" for one in outcomes)
    assert "**not run**" not in text
