"""`ramet forget` and `ramet certificate`: repeat runs without a site, and certify it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ramet.cli.arguments import PartyFolder
from ramet.cli.console import print_line, print_status
from ramet.errors import RametError

app = typer.Typer()
certificate_app = typer.Typer(
    help="Sign or verify the certificate that a site was forgotten.",
    no_args_is_help=True,
    suggest_commands=False,
)
app.add_typer(certificate_app, name="certificate")
File = Annotated[Path, typer.Argument(metavar="FILE", help="forgotten.json of a repeated run.")]


@app.command()
def forget(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    site: Annotated[str, typer.Option(help="Who is forgotten.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder of the repeated run. Default: beside RUN.")
    ] = None,
    search: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Where copies of the old models may be. Default: the folder of RUN."
        ),
    ] = None,
    repeated: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR",
            help="Certify this repetition, which was made elsewhere, such as in a consortium.",
        ),
    ] = None,
    rows: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Forget these people of the site only: a file with an id per line."
        ),
    ] = None,
    node_type: Annotated[
        str | None, typer.Option("--type", help="Of which node type the ids are, if of several.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be repeated, and what it costs.")
    ] = False,
) -> None:
    """Repeat the run in RUN without a site, or people of it, as if they had never taken part.

    If RUN was started from other runs that the site took part in, they are repeated first. The new
    run has the SHA-256 of a run that never had the site, and a certificate, forgotten.json, which
    also lists the runs and exports that still have the old model. Nothing is deleted.

    \b
    Examples:
    ramet forget runs/together --site north
    ramet forget runs/together --site north --rows ids.txt
    """
    from ramet.forget import People, Repetition
    from ramet.forget import forget as repeat
    from ramet.report.text import plural

    people = None if rows is None else People.read(rows, node_type)
    repetition = Repetition.of(run, site, out, people)
    names = ", ".join(one.path.name for one in repetition.runs)
    seconds = repetition.seconds
    took = "" if seconds is None else f"; with {site}, they took {seconds:.0f} s"
    start = f", from {repetition.base.path.name}" if repetition.base else ""
    print_status(f"To repeat: {names}{start}, {plural(repetition.rounds, 'round')}{took}.")
    if dry_run:
        return
    certificate, path = repeat(run, site, out, search, repeated or (), people)
    for pair in certificate.runs:
        print_line(f"{pair.before.name} → {pair.after.name}, sha256 {pair.after.learnt}")
    for one in certificate.descendants:
        print_line(f"still has the old model: the {one.kind} {one.folder}")
    print_line(f"certificate: {path}")


@certificate_app.command("sign")
def sign_certificate(file: File, folder: PartyFolder = Path()) -> None:
    """Sign the certificate FILE with the key of the site, or of the coordinator, in FOLDER.

    What the site has computed itself must be what the certificate says. The coordinator signs if
    the sites have the keys that it has admitted, and the forgotten one has none. Only repetitions
    of verified runs can be signed.

    Example: ramet certificate sign forgotten.json hospitals-south
    """
    from ramet.deploy.coordinator import SIGNING_CERTIFICATE, SIGNING_KEY
    from ramet.deploy.opening import open_party
    from ramet.deploy.site import NODE_KEY, STATE, Site
    from ramet.forget import Certificate
    from ramet.forget.own_copy import check_own_copies
    from ramet.secure.identity import Identity

    party, certificate = open_party(folder.absolute()), Certificate.read(file)
    if isinstance(party, Site):
        name, key = party.settings.site, Identity.read(party.folder / NODE_KEY)
        check_own_copies(certificate, name, party.folder / STATE)
        signed = certificate.signed_by(name, key)
    else:
        name, key = "the coordinator", Identity.read(party.folder / SIGNING_KEY)
        issued = (party.folder / SIGNING_CERTIFICATE).read_text()
        signed = certificate.signed_by_coordinator(key, issued, party.members.keys())
    signed.write(file)
    print_line(f"{name} has signed that {certificate.site} was forgotten on {certificate.date}.")


@certificate_app.command("verify")
def verify_certificate(
    file: File,
    folders: Annotated[
        list[Path] | None,
        typer.Argument(help="Folders with copies of the chains, as of `ramet audit verify`."),
    ] = None,
    authority: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="authority.pem of the consortium: the coordinator must sign, too."
        ),
    ] = None,
) -> None:
    """Check the certificate FILE, its signatures, and the copies of chains in FOLDERS.

    Example: ramet certificate verify forgotten.json runs/star-without-north south/state
    """
    from ramet.flower.chain_copies import chain_copies
    from ramet.forget import Certificate
    from ramet.secure.identity import fingerprint

    certificate = Certificate.read(file)
    certificate.check_signatures()
    if authority is not None:
        certificate.check_coordinator(authority)
    if not folders:
        raise RametError(
            "the signatures are valid, but no copy of a chain was compared. Name the folders of "
            "the repeated runs, or of sites' state."
        )
    by_coordinator = "" if authority is None else ", and the coordinator"
    signers = ", ".join(certificate.signatures)
    gone = f"{certificate.site} was forgotten on {certificate.date}"
    print_line(f"{gone}: signed by {signers}{by_coordinator}.")
    for site, member in certificate.charter.sites.items():
        print_line(f"  {site}: {fingerprint(member.key)}")
    for pair in certificate.runs:
        run, copies = pair.after, chain_copies(folders, pair.after.chain)
        run.check_chain(copies)
        print_line(f"{pair.before.name} → {run.name}, sha256 {run.learnt}")
        print_line(f"its chain: {', '.join(copy.holder for copy in copies)} agree.")
    if authority is None:
        print_status("Not checked: the coordinator's signature. Name its authority.pem.")
