"""Entry point of `ramet`. Commands import heavy packages only when they run."""

from __future__ import annotations

import errno
import gc
import sys
from typing import Annotated

import typer

from ramet.cli import (
    board,
    catalogue,
    charter,
    compare,
    data,
    deploy,
    evaluate,
    export,
    leak,
    link,
    predict,
    report,
    reproduce,
    run,
    site,
    trial,
    tune,
)
from ramet.cli.console import out, print_error
from ramet.errors import RametError
from ramet.version import __version__

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
app = typer.Typer(
    help="Federated learning on graphs: train across sites while each keeps its own data.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    suggest_commands=False,  # Click already does
    context_settings={"help_option_names": ["-h", "--help"]},
)
GROUPS = (
    *(run, evaluate, predict, export, leak, trial, compare, reproduce, report, board, tune, data),
    *(catalogue, site, charter, link, deploy),
)
for group in GROUPS:
    app.add_typer(group.app)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        out.print(__version__)
        raise typer.Exit


def main() -> None:
    """Run the command line. Errors that users can fix end with one line and exit code 2."""
    try:
        app(prog_name="ramet")
    except RametError as error:
        print_error(str(error))
        sys.exit(2)
    except OSError as error:
        if error.errno not in _NO_SPACE:
            raise
        print_error(f"cannot write {error.filename or 'a file'} ({error.strerror}). Make room.")
        sys.exit(2)
    finally:
        gc.freeze()  # at exit, to look for garbage in all of PyTorch would take half a second
