"""The command line as users see it: exit code and output."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from ramet.cli.main import main


@dataclass(frozen=True)
class Done:
    code: int
    stdout: str
    stderr: str


def ramet(*arguments: str | Path) -> Done:
    """Call the entry point in this process, since starting another one takes seconds."""
    out, err = io.StringIO(), io.StringIO()
    with (
        patch.object(sys, "argv", ["ramet", *map(str, arguments)]),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as stop:
            return Done(int(stop.code or 0), out.getvalue(), err.getvalue())
    return Done(0, out.getvalue(), err.getvalue())
