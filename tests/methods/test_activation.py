from __future__ import annotations

from ramet.methods.activation import Everyone, RandomClients
from ramet.randomness import Randomness

CLIENTS = [f"c{number}" for number in range(50)]


def test_everyone_is_everyone() -> None:
    assert Everyone().ask(CLIENTS, Randomness(0, "server", 1)) == CLIENTS


def test_random_clients_are_distinct_repeatable_and_change_by_round() -> None:
    rule = RandomClients(10)
    first = rule.ask(CLIENTS, Randomness(0, "server", 1))
    assert len(set(first)) == 10
    assert set(first) <= set(CLIENTS)
    assert first == rule.ask(CLIENTS, Randomness(0, "server", 1))
    assert first != rule.ask(CLIENTS, Randomness(0, "server", 2))
    assert len(RandomClients(90).ask(CLIENTS, Randomness(0, "server", 1))) == 50
