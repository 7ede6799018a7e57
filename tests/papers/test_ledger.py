"""The ledger of printed cells, from the kept runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ramet.errors import RametError
from ramet.papers.ledger import STATUSES, Ledger, _duration, _seconds, ledger
from ramet.papers.wanted import kept_by_folder
from result_modules import imported

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture(scope="module")
def found() -> Ledger:
    return ledger(RESULTS)


def test_folders_of_splits_belong_together() -> None:
    runs = kept_by_folder(RESULTS)
    assert {draw.split_seed for draw in runs["cora-10"]["fedavg,clients=10"]} == {1, 2, 3, 4, 5}


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


def test_an_unknown_folder_is_an_error() -> None:
    from ramet.cli.reproduce import _print_ledger

    with pytest.raises(RametError, match="not a folder of kept runs"):
        _print_ledger(Path("nowhere"), status=True, queue=False, as_json=False)
    with pytest.raises(RametError, match="either --status or --queue"):
        _print_ledger(RESULTS, status=True, queue=True, as_json=False)


def test_the_queue_does_a_setting_split_by_split_and_the_main_tables_first(found: Ledger) -> None:
    with imported("missing_runs") as (missing_runs,):
        commands = missing_runs.commands(found)
    assert len(commands) == sum(len(one.by_split) for one in found.queue)
    main = sum(len(one.by_split) for one in found.queue if one.in_main_tables)
    places = [_place(text) for text in commands[:main]]
    assert places == sorted(places)
    assert not any("authors" in text or "acm" in text for text in commands[:main])


def _place(command: str) -> tuple[int, int]:
    words = command.split()
    settings = ["single", "bio-sm", "cross-diff", "bio-sn-cv", "cross-sim", "bio-sm-sn", "multi"]
    return settings.index(words[words.index("--setting") + 1]), int(
        words[words.index("--split-seed") + 1]
    )


def test_the_missing_runs_are_kept_and_stop_on_a_flag(tmp_path: Path) -> None:
    command = f"ramet compare local --setting tiny --rounds 2 --seeds 1 --keep {tmp_path / 'kept'}"
    with imported("missing_runs") as (missing_runs,):
        assert missing_runs.run(command, tmp_path, tmp_path / "stop")
        (kept,) = (tmp_path / "kept").iterdir()
        (tmp_path / "stop").touch()
        assert missing_runs.run(command.replace("seeds 1", "seeds 2"), tmp_path, tmp_path / "stop")
        assert [*(tmp_path / "kept").iterdir()] == [kept]
        (tmp_path / "stop").unlink()
        assert not missing_runs.run(f"{command} --splits 0", tmp_path, tmp_path / "stop")


def test_core_hours_are_cpu_seconds_where_runs_counted_them() -> None:
    runs = kept_by_folder(RESULTS)["single"]["local"]
    draw, run = next(iter(runs.items()))
    counted = replace(run, summary=run.summary.model_copy(update={"cpu_seconds": 36.0}))
    assert _duration({**runs, draw: counted}) == 36.0
