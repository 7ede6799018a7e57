"""Claims of papers and the ledger of printed cells, from the kept runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ramet.errors import RametError
from ramet.papers.claims import Claim, RunsByFolder, kept_by_folder, outcome, papers
from ramet.papers.ledger import STATUSES, Ledger, _seconds, ledger
from ramet.papers.ledger_tables import claims_markdown, ledger_markdown, totals
from ramet.studies.finished_run import Draw, FinishedRun, FinishedRuns

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture(scope="module")
def found() -> Ledger:
    return ledger(RESULTS)


def claim(**facts: object) -> Claim:
    plain = {"paper": "p", "says": "x", "better": "fedstar", "than": "local"}
    return Claim.model_validate({**plain, "setting": "single", "folder": "single", **facts})


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


def test_operations_are_counted(found: Ledger) -> None:
    (one,) = (o for o in found.claims if o.claim.fewer_operations is not None)
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


def test_folders_of_splits_belong_together() -> None:
    runs = kept_by_folder(RESULTS)
    assert {draw.split_seed for draw in runs["cora-10"]["fedavg,clients=10"]} == {1, 2, 3, 4, 5}


def test_every_claim_names_a_known_choice_and_setting() -> None:
    known = papers()
    assert {"fedstar", "feddense", "gcfl", "fedlit", "fedsage", "fedda"} <= set(known)
    says = [one for paper in known.values() for one in paper.claims]
    assert len(says) == len({one.model_dump_json() for one in says}) > 100


def test_the_main_tables_have_56_cells(found: Ledger) -> None:
    main = found.main_cells()
    assert len(main) == 56
    run = [cell for cell in main if cell.status != "not run"]
    assert len(run) >= 23
    assert all(cell.seeds and cell.splits for cell in run)
    assert all(cell.hours for cell in main if cell.status == "not run")
    assert {cell.status for cell in found.cells} <= set(STATUSES)


def test_one_seed_decides_no_cell(found: Ledger) -> None:
    assert not [
        cell
        for cell in found.cells
        if cell.seeds * cell.splits in (1, 2, 3, 4)
        and cell.status in ("holds", "fails", "exact")
        and "tensors" not in cell.column
    ]


def test_what_cannot_be_compared_or_had_has_a_reason(found: Ledger) -> None:
    unmeasured = [cell for cell in found.cells if cell.status in ("other data", "not available")]
    assert unmeasured
    assert all(cell.reason for cell in unmeasured)


def test_the_queue_has_a_command_for_every_cell_that_lacks_runs(found: Ledger) -> None:
    texts = [one.text for one in found.queue]
    assert len(texts) == len(set(texts))
    for cell in found.main_cells():
        command = f"ramet compare {cell.row} --setting {cell.column} --seeds 1 --splits 5"
        assert (f"{command} --keep results/{cell.column}" in texts) == bool(cell.hours)
    comparable = [one for one in found.queue if "share=" not in one.text]
    hours = [one.hours for one in comparable if "bio-sm-sn" in one.text]
    assert hours == sorted(hours, key=lambda one: one or 0.0)


def test_the_queue_has_the_runs_under_authors_protocols(found: Ledger) -> None:
    texts = {one.text: one for one in found.queue}
    wanted = [
        *(f"fedda,protocol=authors,epochs=1{rule} --setting amazon --set clients={clients} "
          f"--seeds 1-5 --keep results/amazon-{clients}"
          for rule in ("", ",activation=explore") for clients in (8, 16)),
        "gcfl,protocol=authors --setting single --seeds 1 --splits 5 --keep results/single",
        "gcfl+,protocol=authors --setting single --seeds 1 --splits 5 --keep results/single",
        "feddense,width=16,protocol=authors --setting single --seeds 1 --splits 5 "
        "--keep results/single",
        "fedper,protocol=authors --setting single --seeds 1 --splits 5 --keep results/single",
        "'fedstar,share=structure.* layers.*' --setting single --seeds 1 --splits 5 "
        "--keep results/single",
        "fedlit,protocol=authors --setting acm-links --set partition=distinct --seeds 1 "
        "--splits 10 --keep results/acm-links",
    ]  # fmt: skip
    runs = kept_by_folder(RESULTS)
    done = {label for by_label in runs.values() for label in by_label if "authors" in label}
    missing = [text for text in wanted if f"ramet compare {text}" not in texts]
    assert len(missing) <= len(done) + len(
        runs["single"].get("fedstar,share=structure.* layers.*", {})
    )


def test_runs_that_train_for_longer_have_no_estimate_without_a_kept_one() -> None:
    other = kept_by_folder(RESULTS)["amazon-8"]["fedda,clients=8"]
    runs = {"amazon-8": {"fedda,clients=8": other}}
    assert _seconds("amazon-8", "fedda,clients=8", runs) == pytest.approx(
        sum(run.summary.seconds for run in other.values()) / len(other)
    )
    assert _seconds("amazon-8", "fedda,clients=8,protocol=authors,epochs=1", runs) is None
    assert _seconds("amazon-8", "fedda,clients=8,alpha=0.4", runs) is not None


def test_the_json_has_the_documented_keys(found: Ledger) -> None:
    first = found.to_json()["cells"][0]
    assert {"table", "row", "column", "status", "seeds", "splits", "hours"} <= set(first)


def test_pages_repeat_what_the_ledger_says(found: Ledger) -> None:
    text = ledger_markdown(found)
    assert totals(found) in text
    assert "### feddense table2" in text
    claims = claims_markdown(found.claims)
    decided = [one for one in found.claims if one.status == "holds"]
    assert claims.count("**holds**") == len(decided)
    assert "**not run**" not in claims


def test_an_unknown_folder_is_an_error() -> None:
    from ramet.cli.reproduce import _print_ledger

    with pytest.raises(RametError, match="not a folder of kept runs"):
        _print_ledger(Path("nowhere"), status=True, queue=False, as_json=False)
    with pytest.raises(RametError, match="either --status or --queue"):
        _print_ledger(RESULTS, status=True, queue=True, as_json=False)
