from __future__ import annotations

from math import nan
from pathlib import Path

import pytest

from federations import with_all_states
from ramet.engine.site.audit import audit_entries
from ramet.experiment import RunFolder
from ramet.metrics import Summary
from ramet.metrics.summary import Flops
from ramet.report.run_tables import (
    audit_runs_table,
    audit_table,
    audit_totals_table,
    result_table,
)
from table_cells import columns, rows


@pytest.fixture(scope="module")
def summary(tiny_folder: Path) -> Summary:
    read = RunFolder(tiny_folder / "fedstar-1").summary()
    assert read is not None
    return read


def test_a_result_has_a_row_per_client_and_two_means(tiny_folder: Path, summary: Summary) -> None:
    last = RunFolder(tiny_folder / "fedstar-1").records()[-1].evaluated
    table = columns(result_table(summary))
    assert table["client"] == [
        *("rings", "trees", "blocks", "mean, last round"),
        f"mean, round {summary.scores.best_val_round} (best validation)",
    ]
    scores = [100 * last[client]["test"] for client in ("rings", "trees", "blocks")]
    shown = [*scores, sum(scores) / 3, 100 * summary.scores.test_at_best_val]
    assert table["test accuracy %"] == [f"{score:.2f}" for score in shown]
    # rings have 5 features, trees 3 and blocks 8; each has 64 weights in the first layer
    assert table["model scalars"] == ["64,770", "64,642", "64,962", "", ""]
    assert all(cell.endswith(" G") for cell in table["FLOPs per round"][:3])


def test_the_caption_of_a_result_has_the_traffic(summary: Summary) -> None:
    caption = str(result_table(summary).caption)
    # 14,592 float32 numbers are 58,368 bytes; three clients, two rounds, both ways
    assert caption.startswith(
        "14,592 scalars shared; 57.00 KB up and 57.00 KB down per client and round, "
        "684.00 KB in total; "
    )


def test_scores_that_all_sites_keep_are_named_as_such(summary: Summary) -> None:
    kept = {"test": nan, "test_at_best_val": nan, "clients": dict.fromkeys(summary.scores.clients)}
    scores = summary.scores.model_copy(update=kept)
    table = result_table(summary.model_copy(update={"scores": scores}))
    assert {*columns(table)["test accuracy %"]} == {"–"}
    assert str(table.caption).endswith(
        "no site sent its scores, so there is no best round and no early stop"
    )
    assert "no site" not in str(result_table(summary).caption)


def test_missing_scores_and_flops_are_dashes(summary: Summary) -> None:
    clients = {**summary.scores.clients, "trees": None}
    scores = summary.scores.model_copy(update={"clients": clients})
    older = summary.model_copy(update={"scores": scores, "flops": Flops()})
    table = columns(result_table(older))
    assert table["test accuracy %"][1] == "–"
    assert table["test accuracy %"][0] != "–"
    assert table["FLOPs per round"][:3] == ["–"] * 3


@pytest.fixture(scope="module")
def logged(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs with a log of what left their clients."""
    folder = tmp_path_factory.mktemp("logged")
    for name in ("fedstar-1", "local-1"):
        with_all_states(tiny_folder / name, folder / name)
    return folder


def test_the_audit_lists_every_tensor_that_left(logged: Path) -> None:
    entries, _ = audit_entries(logged / "fedstar-1")
    table = columns(audit_table(entries))
    # three clients, two rounds, eight tensors of the structure channel
    assert len(table["tensor"]) == 3 * 2 * 8
    assert all(name.startswith("structure.") for name in table["tensor"])
    assert set(table["client"]) == {"rings", "trees", "blocks"}
    assert set(table["round"]) == {"1", "2"}
    assert sum(int(cell.replace(",", "")) for cell in table["bytes"]) == 350_208
    assert table["SHA-256"][0] == entries[0].tensors[0].sha256
    assert table["run"][0] == entries[0].run[:8]


def test_the_audit_names_what_each_run_asked_for(logged: Path) -> None:
    folder = RunFolder(logged / "fedstar-1")
    entries, _ = audit_entries(folder.path)
    table = columns(audit_runs_table(entries))
    assert sorted(table["client"]) == ["blocks", "rings", "trees"]
    assert {*table["method"]} == {folder.experiment().settings.label}
    assert {*table["sharing"]} == {"structure.*"}
    assert {*table["data"]} == {str(folder.experiment().settings.data)}
    assert {*table["run config"]} == {""}  # only Flower's engines have one


def test_audit_totals_have_a_row_per_client_and_tensor(logged: Path) -> None:
    entries, _ = audit_entries(logged / "fedstar-1")
    own = [row[2:] for row in rows(audit_totals_table(entries)) if row[1] == "rings"]
    tensors, numbers = own[:-1], own[-1]
    assert len(tensors) == 8
    assert {times for _, _, times, _ in tensors} == {"2"}
    assert sum(int(size.replace(",", "")) for *_, size in tensors) == 2 * 58_368
    # two rounds of training, and the closing message, which has no tensors
    assert numbers[0].startswith("numbers: ")
    assert {"loss", "weight", "up", "private"} <= set(numbers[0][9:].split(", "))
    assert numbers[1:] == ("", "3", "")


def test_local_sends_numbers_only(logged: Path) -> None:
    entries, _ = audit_entries(logged / "local-1")
    assert rows(audit_table(entries)) == []
    assert len(rows(audit_totals_table(entries))) == 3
