"""`ramet link`: which ids a site shares with others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ramet.cli.arguments import PartyFolder
from ramet.cli.console import print_line

if TYPE_CHECKING:
    from ramet.deploy.links import Links

app = typer.Typer()
link_app = typer.Typer(
    help="Find the ids that two sites share, such as common customers, and no others.",
    no_args_is_help=True,
    suggest_commands=False,
)
app.add_typer(link_app, name="link")
Ids = Annotated[Path, typer.Argument(help="CSV file with the site's own ids.")]
Column = Annotated[str, typer.Option(help="The column of IDS with the ids.")]
Message = Annotated[Path, typer.Argument(help="File from the other site.")]
Most = Annotated[
    int, typer.Option(min=1, help="How many ids the other site's list may have, at most.")
]
Again = Annotated[
    bool, typer.Option("--again", help="Although there was an exchange with this site before.")
]
_MOST = 1_000_000


@link_app.command("start")
def link_start(
    peer: Annotated[str, typer.Argument(help="Name of the other site.")],
    ids: Ids,
    folder: PartyFolder = Path(),
    column: Column = "id",
) -> None:
    """Begin an exchange with PEER about the ids in the file IDS, at the site in FOLDER.

    Writes a file to send to PEER over any channel. It has no ids and no hashes of them.

    Example: ramet link start bank-b accounts.csv consortium-bank-a --column iban
    """
    from ramet.deploy.links import Links, read_ids

    sent = Links.open(folder).start(peer, read_ids(ids, column))
    print_line(f"Send {sent} to {peer}, which runs: ramet link answer {sent.name} IDS")


@link_app.command("answer")
def link_answer(
    message: Message,
    ids: Ids,
    folder: PartyFolder = Path(),
    column: Column = "id",
    most: Most = _MOST,
    again: Again = False,
) -> None:
    """Answer the MESSAGE with which another site has begun, at the site in FOLDER.

    The other site then learns which of its ids are in IDS.

    Example: ramet link answer bank-a-to-bank-b.start.json customers.csv consortium-bank-b
    """
    from ramet.deploy.links import Links, read_ids

    sent = Links.open(folder).answer(message, read_ids(ids, column), most, again)
    print_line(f"Send {sent} to the other site, which runs: ramet link finish {sent.name}")


@link_app.command("finish")
def link_finish(
    message: Message, folder: PartyFolder = Path(), most: Most = _MOST, again: Again = False
) -> None:
    """Read the answer in MESSAGE, or what follows it, and write the table of shared ids.

    The site that has begun gets one more file to send, with which the other site does the same.

    Example: ramet link finish bank-b-to-bank-a.answer.json consortium-bank-a
    """
    from ramet.deploy.links import Links

    links = Links.open(folder)
    peer, sent = links.finish(message, most, again)
    _summary(links)
    if sent is not None:
        print_line(f"Send {sent} to {peer}, which runs: ramet link finish {sent.name}")


def _summary(links: Links) -> None:
    for peer, count in links.counts().items():
        print_line(f"{count:,} ids shared with {peer}")
    print_line(f"{links.in_all():,} ids shared with all of them; see {links.shared}")
