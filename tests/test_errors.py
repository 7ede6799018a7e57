"""Text of other parties stays on one line, and is no command for a terminal."""

from __future__ import annotations

import io

import pandas as pd
import pytest
from flwr.app import Error, Message, MessageType, RecordDict
from flwr.supercore.task_identity import TaskIdentity
from rich.console import Console

from ramet.cli import console
from ramet.engine.server.tally import Counting
from ramet.errors import RametError, one_line
from ramet.flower.signed_grid import content
from ramet.prediction.files import _for_spreadsheets
from ramet.report.plain_table import list_table, without_truncation

HOSTILE = "no\nramet: nothing to see\r\x1b[2J\x9b1m\u202egnp\u2028[red]x[/red]"
SHOWN = r"no\nramet: nothing to see\r\x1b[2J\x9b1m\u202egnp\u2028[red]x[/red]"


def test_an_error_is_one_line() -> None:
    assert str(RametError(HOSTILE)) == SHOWN
    assert one_line("Zürich\u00a0– 1\u202f000 🙂") == "Zürich\u00a0– 1\u202f000 🙂"


def test_a_sites_refusal_is_one_line_wherever_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
    question = Message(RecordDict(), 1, MessageType.TRAIN)
    refusal = content(Message(Error(1, HOSTILE * 1000), reply_to=question))
    assert isinstance(refusal, str)
    assert refusal.startswith(SHOWN)
    assert refusal.isprintable()
    assert len(refusal) < 3000
    counting = Counting(1)
    counting.fault("north", HOSTILE, received=True)
    assert counting.tally().failed == {"north": SHOWN}


def test_terminals_get_no_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    for name in ("out", "err"):
        terminal = Console(file=written, width=500, force_terminal=False)
        monkeypatch.setattr(console, name, terminal)
    console.print_line(HOSTILE)
    console.print_status(HOSTILE)
    console.print_error(HOSTILE)
    assert written.getvalue() == f"{SHOWN}\n{SHOWN}\nramet: {SHOWN}\n"
    table = list_table(("site", "reason"), [("north", HOSTILE.replace("\n", " "))])
    Console(file=written, width=500).print(without_truncation(table))
    assert SHOWN.replace(r"\n", " ") in written.getvalue()


def test_a_class_is_no_formula_in_a_spreadsheet() -> None:
    frame = pd.DataFrame({"id": ["=1", "-x"], "class": ["=cmd()", "-1"], "p_=cmd()": [0.5, 0.5]})
    told = _for_spreadsheets(frame.rename(columns={"p_=cmd()": "@p"}))
    assert [*told.columns] == ["id", "class", "'@p"]
    assert told["class"].tolist() == ["'=cmd()", "-1"]
    assert told["id"].tolist() == ["=1", "-x"]
