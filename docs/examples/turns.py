"""An activation: clients take turns."""

from __future__ import annotations

from dataclasses import dataclass

from ramet import Asked, Payload, ReplyScores, Server, WithoutMemory


@dataclass(frozen=True)
class Turns(WithoutMemory):
    """``count`` clients per round, in turn."""

    count: int = 2

    def ask(self, state: Payload, server: Server) -> Asked:
        first = int(state.numbers.get("first", 0))
        turn = [*server.clients, *server.clients][first : first + self.count]
        return dict.fromkeys(turn, ())

    def settle(self, state: Payload, server: Server, scores: ReplyScores) -> Payload:
        first = state.numbers.get("first", 0) + self.count
        return Payload(numbers={"first": first % len(server.clients)})
