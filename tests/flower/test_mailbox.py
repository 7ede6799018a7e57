"""Messages between the two programs of a regional coordinator."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest

from ramet.errors import RametError
from ramet.flower.mailbox import Mailbox
from ramet.payload import Payload


def answering(mailbox: Mailbox, reply: Payload | RametError) -> threading.Thread:
    """Answer the first request in another thread."""

    def answer() -> None:
        while not (requests := [*mailbox.requests()]):
            time.sleep(0.01)
        ((name, request),) = requests
        assert request.notes == {"run": "r"}
        assert request.arrays["w"].tolist() == [1, 2]
        mailbox.reply(name, reply)

    thread = threading.Thread(target=answer)
    thread.start()
    return thread


REQUEST = Payload({"w": np.array([1, 2], np.float32)}, {"round": 1, "train": 1}, {"run": "r"})


def test_a_reply_reaches_the_program_that_asked(tmp_path: Path) -> None:
    mailbox = Mailbox(tmp_path)
    reply = Payload({"coarse/w": np.array(0.1), "ring": np.array([2**63], np.uint64)}, {"n": 0.1})
    thread = answering(mailbox, reply)
    received = mailbox.ask(REQUEST, seconds=60)
    thread.join()
    assert received.arrays["coarse/w"].tobytes() == reply.arrays["coarse/w"].tobytes()
    assert received.arrays["coarse/w"].shape == ()
    assert received.arrays["ring"].tolist() == [2**63]
    assert received.numbers == {"n": 0.1}
    assert not [*tmp_path.glob("*/*")], "messages are left behind"


def test_an_error_reaches_the_program_that_asked(tmp_path: Path) -> None:
    mailbox = Mailbox(tmp_path)
    thread = answering(mailbox, RametError("not a message to a region"))
    with pytest.raises(RametError, match="not a message to a region"):
        mailbox.ask(REQUEST, seconds=60)
    thread.join()


def test_a_request_that_nobody_answers_is_withdrawn(tmp_path: Path) -> None:
    mailbox = Mailbox(tmp_path)
    with pytest.raises(RametError, match="nobody answered"):
        mailbox.ask(REQUEST, seconds=0.1)
    assert not [*mailbox.requests()]
