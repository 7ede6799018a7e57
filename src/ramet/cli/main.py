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
    dossier,
    evaluate,
    export,
    forget,
    leak,
    link,
    new,
    predict,
    report,
    reproduce,
    run,
    site,
    trial,
    tune,
    watch,
)
from ramet.cli.console import out, print_error, print_line
from ramet.errors import RametError
from ramet.version import __version__

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
app = typer.Typer(
    help="Federated learning on graphs: train across sites while each keeps its own data.",
    pretty_exceptions_enable=False,
    suggest_commands=False,  # Click already does
    context_settings={"help_option_names": ["-h", "--help"]},
)
PANELS = {
    "Run": (run, watch, trial, new),
    "Use the model": (evaluate, predict, export),
    "Study": (compare, tune, report, board, reproduce),
    "Your data": (data, link),
    "Privacy and consortium": (leak, site, charter, forget, dossier, deploy),
    "Lists": (catalogue,),
}
for panel, modules in PANELS.items():
    for module in modules:
        for command in (*module.app.registered_commands, *module.app.registered_groups):
            command.rich_help_panel = panel
        app.add_typer(module.app)
_NEXT = """What next?
  ramet run fedstar                    train three clients on a tiny dataset, in seconds
  ramet new site my-bank               write a site with tables, to fill in yours
  ramet compare local fedavg fedstar   does training together help?
`ramet --help` lists all commands."""


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        out.print(__version__)
        raise typer.Exit
    if context.invoked_subcommand is None:
        for line in _NEXT.splitlines():
            print_line(line)


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
