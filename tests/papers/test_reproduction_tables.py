from __future__ import annotations

from pathlib import Path

import pytest

from ramet.papers import printed
from ramet.papers.reproduction import Order, ReproducedCell, Reproduction, exact_cell
from ramet.papers.reproduction_tables import order_table, reproduced_table, saving_table
from ramet.papers.savings import Saving
from ramet.studies.finished_run import Draw
from ramet.studies.gains import Gain
from table_cells import headers, rows

RESULTS = Path(__file__).parents[2] / "results"


def reproduction(paper: str, table: str, *only: str) -> Reproduction:
    """From kept runs only."""
    cells = printed.table(paper, table, only)
    return Reproduction(cells, (1, 2, 3, 4, 5), Path("no sweeps"), kept=RESULTS)


def test_printed_numbers_are_compared_with_ours() -> None:
    cells = reproduction("feddense", "table2", "single", "fedstar", "local").reproduced()
    table = reproduced_table(cells, "feddense table2")
    assert headers(table) == ["method", "number", "printed", "ours", "off by", ""]
    by_method = {row[0]: row[1:] for row in rows(table)}
    # FedDense's Table 2 prints 79.32 ± 2.47; our five seeds give 78.59 ± 0.90
    assert by_method["fedstar"] == ("single", "79.32 ± 2.47", "78.59 ± 0.90 (5)", "-0.73", "holds")
    assert "off by at most 2." in str(table.caption)


def test_sizes_are_exact_and_missing_runs_are_dashes() -> None:
    size = printed.Printed.parse(
        "fedstar", {"table": "a paper's", "setting": "tiny", "payload_kb": 57.0}
    )
    score = printed.Printed.parse(
        "fedstar",
        {"table": "a paper's", "setting": "tiny", "accuracy": 80.0, "std": 1.0, "tolerance": 3.0},
    )
    tensors = printed.Printed.parse(
        "fedda", {"table": "a paper's", "setting": "amazon", "tensors": 12000, "note": "rounded"}
    )
    cells = [
        exact_cell(size, 57.0),
        ReproducedCell(score, {}),
        ReproducedCell(score, {Draw(123, 1): 70.0, Draw(123, 2): 72.0}),
        exact_cell(tensors, 12000.0),
    ]
    table = reproduced_table(cells, "sizes")
    assert rows(table) == [
        ("fedstar", "payload KB", "57.00", "14,592: 57.000", "+0.00", "exact"),
        ("fedstar", "tiny", "80.00 ± 1.00", "–", "–", "not run"),
        ("fedstar", "tiny", "80.00 ± 1.00", "71.00 ± 1.41 (2)", "-9.00", "undecided"),
        ("fedda", "amazon tensors", "12,000", "12,000 (1)", "+0", "exact"),
    ]
    assert str(table.caption).endswith("off by at most 0.005 or 3. fedda, allowed 0: rounded.")


def test_the_order_table_has_differences_and_verdicts() -> None:
    table = order_table(
        [
            Order("amazon-8", "fedda", "fed-hgn", Gain(1.234, 0.5, 2.0, pairs=5)),
            Order("amazon-8", "fed-hgn", "local-hgn", Gain(-0.5, -0.7, -0.3, pairs=5)),
            Order("amazon-8", "fed-hgn", "fedavg", Gain(-0.5)),
            Order("amazon-16", "fedda", "fed-hgn", None),
        ]
    )
    assert rows(table) == [
        ("amazon-8", "fedda", "fed-hgn", "+1.23 [+0.50, +2.00]", "holds"),
        ("amazon-8", "fed-hgn", "local-hgn", "-0.50 [-0.70, -0.30]", "fails"),
        ("amazon-8", "fed-hgn", "fedavg", "-0.50", "undecided"),
        ("amazon-16", "fedda", "fed-hgn", "–", "not run"),
    ]


def test_the_kept_runs_give_the_published_savings() -> None:
    """As in docs/results-links.md."""
    savings = reproduction("fedda", "table2", "acm-hetero").savings()
    table = saving_table(savings, "compared with FedAvg")
    assert headers(table) == [
        *("runs", "method", "seeds", "points", "worst seed", "tensors up", "bytes up"),
        *("both ways", "as good for less"),
    ]
    by_run = {row[:2]: row[2:] for row in rows(table)}
    shares = ("79.5 %", "64.7 %", "77.8 %")
    assert by_run["acm-hetero-8", "fedda"] == (
        *("5", "+0.63 [-1.08, +2.35]", "+0.49", *shares, "fails"),
    )
    shares = ("52.2 %", "45.6 %", "53.0 %")
    assert by_run["acm-hetero-8", "fedda,activation=explore"] == (
        *("5", "-0.03 [-0.24, +0.18]", "+0.15", *shares, "holds"),
    )


def saved(gain: float, low: float, high: float, share: float, seeds: int = 5) -> Saving:
    return Saving("acm", "fedda", seeds, Gain(gain, low, high), 0.0, 0.5, 0.456, share)


def test_the_column_of_the_claim_can_be_left_out() -> None:
    row = saved(-0.123, -0.4, 0.2, 0.75)
    cells = ("acm", "fedda", "5", "-0.12 [-0.40, +0.20]", "+0.00", "50.0 %", "45.6 %", "75.0 %")
    without = saving_table([row], "x", claim=False)
    assert rows(without) == [cells]
    assert without.caption is None
    # the interval is above −0.5, and 75 % are at most 75 %
    assert rows(saving_table([row], "x")) == [(*cells, "holds")]


@pytest.mark.parametrize(
    ("row", "status"),
    [
        (saved(-0.4, -0.6, 0.2, 0.5), "undecided"),
        (saved(-0.8, -1.0, -0.6, 0.5), "fails"),
        (saved(1.0, 0.5, 1.5, 0.76), "fails"),
        (saved(1.0, 0.5, 1.5, 0.5, seeds=4), "undecided"),
    ],
)
def test_each_part_of_the_claim_can_fail(row: Saving, status: str) -> None:
    assert rows(saving_table([row], "x"))[0][-1] == status
