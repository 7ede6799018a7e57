"""Asking all sites for a step of secure sums, until enough of them have answered."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from logging import WARNING
from typing import TypeAlias

from ramet.engine.secure_messages import KEYS, SHARES
from ramet.engine.server.tally import Counting
from ramet.engine.server.wire import Wire
from ramet.errors import RametError
from ramet.events import log_event
from ramet.payload import Payload

Check: TypeAlias = Callable[[str, Payload], str | None]
"""Returns what is wrong with a site's reply, or None."""
Ask: TypeAlias = Callable[[str, Mapping[str, Payload], Check, int], Mapping[str, Payload]]
"""Sends a step's messages and returns the valid replies, at least as many as are needed."""


def asker(
    wire: Wire, retry_delays: Sequence[float], number: int, counting: Counting, otherwise: str
) -> Ask:
    """A function that sends the messages of a step, and counts them.

    For keys and shares, all sites are asked again until all have answered, because by default
    sites take part only if all of their list do. ``otherwise`` says what follows if too few do.
    """

    def ask(
        step: str, requests: Mapping[str, Payload], fault: Check, needed: int
    ) -> Mapping[str, Payload]:
        valid: dict[str, Payload] = {}
        for attempt, delay in enumerate((0.0, *retry_delays)):
            missing = {c: message for c, message in requests.items() if c not in valid}
            if attempt:
                facts = {"round": number, "attempt": attempt, "clients": [*missing]}
                log_event(WARNING, "asked again", step=step, **facts)
            time.sleep(delay)
            for client, reply in wire.exchange(_counted(missing.items(), counting)):
                reason = reply if isinstance(reply, str) else fault(client, reply)
                if isinstance(reply, str) or reason:
                    counting.fault(client, str(reason), not isinstance(reply, str))
                else:
                    valid[client] = reply
                    counting.reply(client, reply, number)
            if len(valid) >= (len(requests) if step in (KEYS, SHARES) else needed):
                return valid
        if len(valid) >= needed:
            return valid
        reasons = "; ".join(f"{c}: {counting.failed[c]}" for c in requests if c not in valid)
        raise RametError(
            f"{len(valid)} of {len(requests)} sites answered the step '{step}' of the secure "
            f"sum of round {number}, but {needed} are needed ({reasons}). Nothing was "
            f"unmasked, and {otherwise}."
        )

    return ask


def _counted(
    requests: Iterable[tuple[str, Payload]], counting: Counting
) -> Iterator[tuple[str, Payload]]:
    for client, message in requests:
        counting.request(client, message)
        yield client, message
