from __future__ import annotations

import pytest

from ramet.errors import RametError
from ramet.studies.search_space import Choices, Range, parse_dimension


def test_ranges_and_choices_are_parsed_and_written() -> None:
    assert parse_dimension("0.001..0.1:log") == Range(0.001, 0.1, log=True)
    assert parse_dimension("0..0.7") == Range(0, 0.7)
    assert parse_dimension("1e-4..1e-1:log") == Range(0.0001, 0.1, log=True)
    assert parse_dimension("1..4") == Range(1, 4)
    assert parse_dimension("32,64,128") == Choices(("32", "64", "128"))
    for text in ("0.001..0.1:log", "1..4", "adam,sgd"):
        assert str(parse_dimension(text)) == text


@pytest.mark.parametrize(
    "text", ["", "0.1", "0.1..0.01", "0..1:log", "a..b", "1..inf", "1..", "x,"]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(RametError, match=r"neither a range nor a list.*0\.001\.\.0\.1.*32,64,128"):
        parse_dimension(text)


def test_values_have_three_digits_and_stay_in_the_range() -> None:
    space = Range(0.00123456, 0.1, log=True)
    assert space.option(0.0456789) == "0.0457"
    assert space.option(0.00123457) == "0.00123456"
    assert space.value("0.05") == 0.05
    assert space.value("0.2") is None
    assert space.value("adam") is None
    assert Range(1, 4).option(3) == "3"
    assert Range(1, 4).value("3") == 3
    assert Choices(("a", "b")).value("c") is None
    assert Choices(("a", "b")).value("b") == "b"
    assert Choices(("8", "16", "32")).value("32") == 2
    assert Choices(("8", "16", "32")).option(1) == "16"


def test_integers_are_integers_for_the_sampler() -> None:
    pytest.importorskip("optuna")
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    assert Range(1, 4).distribution() == IntDistribution(1, 4)
    assert Range(0.1, 4, log=True).distribution() == FloatDistribution(0.1, 4, log=True)
    assert Choices(("adam", "sgd")).distribution() == CategoricalDistribution(("adam", "sgd"))
    assert Choices(("8", "16", "32")).distribution() == IntDistribution(0, 2)
