from __future__ import annotations

import pytest

from ramet.report.text import operations, operations_unit, percent, plural, size


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KB"),
        (58_368, "57.00 KB"),  # FedStar's 14,592 numbers of four bytes
        (1024**2, "1.00 MB"),
        (5.5 * 1024**3, "5.50 GB"),
        (3000 * 1024**3, "3000.00 GB"),
    ],
)
def test_bytes_use_the_largest_unit_that_fits(count: float, text: str) -> None:
    assert size(count) == text


def test_plural() -> None:
    assert plural(1, "seed") == "1 seed"
    assert plural(0, "seed") == "0 seeds"
    assert plural(1200, "round") == "1,200 rounds"


def test_shares_are_percentages_and_none_is_a_dash() -> None:
    assert percent(0.82224) == "82.22"
    assert percent(0.0) == "0.00"
    assert percent(None) == "–"


def test_operations_use_the_largest_unit_of_which_they_are_a_tenth() -> None:
    assert operations(603_928_256) == "0.60 G"
    assert operations(10_600_000) == "10.60 M"
    assert operations(41_000) == "41.00 k"
    assert operations(0) == "0.00 G"
    assert operations_unit([9.32e9, None, 10_600_000]) == ("M", 1e6)
    assert operations(9.32e9) == "9.32 G"
    assert operations(None) == "–"
