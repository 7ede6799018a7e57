"""`ramet charter`: what the sites of a run have signed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ramet.cli.arguments import PartyFolder
from ramet.cli.console import print_line
from ramet.errors import RametError

if TYPE_CHECKING:
    from ramet.flower.site_charters import SiteCharters
    from ramet.secure.charter import SignedCharter

app = typer.Typer()
charter_app = typer.Typer(
    help="Show, sign or verify the charter of a run.", no_args_is_help=True, suggest_commands=False
)
app.add_typer(charter_app, name="charter")
Run = Annotated[Path, typer.Argument(help="Folder of a run, or of a site.")]


@charter_app.command("show")
def show_charter(folder: Run = Path()) -> None:
    """Show the charter of the run in FOLDER, or those that wait at the site in FOLDER.

    Example: ramet charter show hospitals-north
    """
    from ramet.report.charters import charter_lines, proposal_lines

    for signed in _signed(folder):
        for line in charter_lines(signed):
            print_line(line)
    for proposal in _site_charters(folder).waiting() if _is_site(folder) else ():
        for line in proposal_lines(proposal):
            print_line(line)


Agreement = Annotated[str, typer.Argument(help="All digits after 'waits for a signature'.")]


@charter_app.command("sign")
def sign_charter(agreement: Agreement, folder: PartyFolder = Path()) -> None:
    """Sign a charter that waits at the site in FOLDER, for one run.

    A site signs by hand if its policy says so. `ramet charter show` shows what waits, with the
    digits of each. The site then answers when the coordinator asks again.

    Example: ramet charter sign "$DIGITS" hospitals-north
    """
    charters = _site_charters(folder)
    waiting = {proposal.agreement: proposal for proposal in charters.waiting()}
    if agreement not in waiting:
        raise RametError(
            f"no charter with the digits '{agreement}' waits at {folder}. Copy all of them from "
            "`ramet charter show`; the coordinator proposes charters with a run."
        )
    charters.approve(waiting[agreement])
    method = waiting[agreement].terms["settings"]["method"]
    print_line(f"signed for one run: {method} ({agreement})")


@charter_app.command("verify")
def verify_charter(folder: Run = Path()) -> None:
    """Check the signatures of all sites on the charters in FOLDER, and print their SHA-256.

    At a site, each key is also compared with its own list of members.
    """
    from ramet.secure.charter import CharterError
    from ramet.secure.identity import Peers

    found = [*_signed(folder)]
    if not found:
        raise RametError(f"{folder} has no signed charter.")
    peers = None
    if _is_site(folder):
        from ramet.deploy.site import MEMBERS

        peers = Peers.read(folder / MEMBERS)
    for signed in found:
        signed.check()
        for site, member in signed.charter.sites.items():
            if peers is not None and not peers.accepts(site, member.key):
                raise CharterError(f"this site does not know the key of {site}.")
        print_line(f"{signed.charter.identity}: signed by {', '.join(signed.charter.sites)}")


def _is_site(folder: Path) -> bool:
    from ramet.deploy.site import SETTINGS

    return (folder / SETTINGS).exists()


def _site_charters(folder: Path) -> SiteCharters:
    from ramet.deploy.site import STATE, Site
    from ramet.flower.site_charters import FOLDER, SiteCharters

    site = Site.open(folder.absolute())
    return SiteCharters(site.folder / STATE / FOLDER, site.settings.site)


def _signed(folder: Path) -> list[SignedCharter]:
    if _is_site(folder):
        return _site_charters(folder).all_signed()
    from ramet.experiment.chain_parts import read_charter

    return [read_charter(folder)]
