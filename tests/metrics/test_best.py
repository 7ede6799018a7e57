"""Which round is the best, by hand."""

from __future__ import annotations

from ramet.metrics import Record
from ramet.metrics.best import Evaluated, History, best_of


def record(number: int, **val: float) -> Record:
    evaluated = {client: {"val": score, "test": 0.0} for client, score in val.items()}
    return Record(number, 9, {}, evaluated, {}, {}, 0.1)


def history(*records: Record) -> History:
    evaluated = History(frozenset("ab"))
    for one in records:
        evaluated.add(one)
    return evaluated


def test_the_first_of_equal_rounds_is_the_best() -> None:
    rounds = [Evaluated.of(record(number, a=val)) for number, val in ((1, 0.5), (2, 0.7), (3, 0.7))]
    assert best_of(rounds).round == 2


def test_without_scores_the_last_round_is_the_best() -> None:
    """Its models are those that are kept."""
    assert best_of([Evaluated.of(record(number)) for number in (1, 2, 3)]).round == 3


def test_a_round_without_the_hard_client_is_not_better() -> None:
    rounds = [Evaluated.of(one) for one in (record(1, a=0.9), record(2, a=0.8, b=0.2))]
    assert best_of(rounds).round == 2


def test_the_best_round_of_all_clients_stays_a_candidate_while_one_is_away() -> None:
    evaluated = history(record(1, a=0.8, b=0.8), record(2, a=0.7, b=0.7), record(3, a=0.6))
    assert evaluated.candidates() == [1, 3]
    evaluated.add(record(4, a=0.7, b=0.8))
    assert evaluated.candidates() == [1]


def test_rounds_that_nobody_evaluated_are_left_out() -> None:
    assert history(record(1), record(2, a=0.5, b=0.5), record(3)).candidates() == [2]
    assert history().candidates() == []
