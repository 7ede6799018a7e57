"""Commands that sites run themselves: `ramet policy`, `audit`, `app` and `guard`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ramet.cli.arguments import Json, PartyFolder
from ramet.cli.console import out, print_error, print_json, print_line, print_table
from ramet.errors import RametError

app = typer.Typer()
audit_app = typer.Typer(
    help="Show or export what left a site.", no_args_is_help=True, suggest_commands=False
)
app.add_typer(audit_app, name="audit")
policy_app = typer.Typer(
    help="Show or check what may leave a site.", no_args_is_help=True, suggest_commands=False
)
app.add_typer(policy_app, name="policy")


@policy_app.command("show")
def show_policy(folder: PartyFolder = Path()) -> None:
    """Show the policy of the site in FOLDER, from its policy.toml."""
    from ramet.deploy.policy_check import answered_so_far, spent_privacy
    from ramet.deploy.site import POLICY, Site
    from ramet.policy import checked_policy

    site = Site.open(folder.absolute())
    policy = checked_policy(site.folder / POLICY)
    for line in policy.lines():
        print_line(line)
    so_far = answered_so_far(site)
    print_line(f"answered so far: {so_far}")
    if policy.privacy is not None:
        print_line(f"privacy spent so far: {spent_privacy(site, policy.privacy)}")


@policy_app.command("check")
def check_policy(
    run: Annotated[
        Path,
        typer.Argument(help="Folder of a run, a consortium's settings, or an invitation."),
    ],
    folder: PartyFolder = Path(),
    as_json: Json = False,
) -> None:
    """Say what the site in FOLDER would refuse of RUN, and why; exit with 1 if anything.

    RUN is the folder of a run, a consortium's settings or an invitation.

    Example: ramet policy check invitations/north.toml hospitals-north
    """
    from ramet.deploy.policy_check import check_run
    from ramet.deploy.site import Site

    checks = [*check_run(run, Site.open(folder.absolute()))]
    if as_json:
        print_json({f.name: {"allowed": f.ok, "detail": f.detail} for f in checks})
    for check in () if as_json else checks:
        print_line(f"{'allowed' if check.ok else 'REFUSED'} {check.name}: {check.detail}")
    if not all(check.ok for check in checks):
        raise typer.Exit(1)


@audit_app.command("show")
def show_audit(
    folder: Annotated[Path, typer.Argument(help="Run folder, or a site's state folder.")],
    every: Annotated[
        bool, typer.Option("--all", help="Show every tensor of every reply, with its SHA-256.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List what left the sites, from the audit logs below FOLDER.

    FOLDER is a run folder, or the state folder of a site.

    Example: ramet audit show runs/star --all
    """
    from ramet.engine.site.audit import audit_entries
    from ramet.report.run_tables import (
        audit_runs_table,
        audit_table,
        audit_told_table,
        audit_totals_table,
    )

    entries, unreadable = audit_entries(folder)
    if as_json:
        sys.stdout.writelines(entry.line() + "\n" for entry in entries)
    else:
        print_table(audit_runs_table(entries))
        print_table(audit_table(entries) if every else audit_totals_table(entries))
        told = audit_told_table(entries)
        if told is not None:
            print_table(told)
    _report_unreadable(unreadable)


@audit_app.command("export")
def export_audit(
    folder: Annotated[Path, typer.Argument(help="A site's state folder.")],
    cursor: Annotated[
        Path | None,
        typer.Option(help="File that stores what was exported, so that a rerun gives new entries."),
    ] = None,
) -> None:
    """Print what left the site as JSON lines, one per reply, for a SIEM.

    Example: ramet audit export hospitals-north/state --cursor shipped.json
    """
    from ramet.engine.site.audit_export import AuditExport

    export = AuditExport(folder, cursor)
    sys.stdout.writelines(line + "\n" for line in export.lines())
    sys.stdout.flush()
    export.commit()
    _report_unreadable(export.unreadable)


@audit_app.command("verify")
def verify_audit(
    folders: Annotated[
        list[Path],
        typer.Argument(help="Folders of the run at the coordinator, and of sites' state."),
    ],
    run: Annotated[
        str | None, typer.Option(help="The run, if the folders have chains of several.")
    ] = None,
) -> None:
    """Compare the copies of a run's chain in FOLDERS; exit with 1 if one is broken.

    Each site and the coordinator keep one, if the run's sites verify it. Without the copies of
    others, only signatures are checked, which say nothing of the last link.

    Example: ramet audit verify runs/star north/state south/state
    """
    from ramet.engine.chain_audit import compare
    from ramet.flower.chain_copies import chain_copies

    findings = [*compare(chain_copies(folders, run))]
    for finding in findings:
        print_line(f"{finding.state.upper():7} {finding.holder}: {finding.detail}")
    if any(finding.state == "broken" for finding in findings):
        raise typer.Exit(1)


def _report_unreadable(count: int) -> None:
    from ramet.report.text import plural

    if count:
        lines = plural(count, "log line")
        print_error(f"{lines} cannot be read: cut short by a crash, or modified.")


@app.command("app")
def write_app(
    folder: Annotated[Path, typer.Argument(help="New folder for the Flower app.")],
) -> None:
    """Write the thin Flower app into a new FOLDER, for `flwr run` on your own SuperLink."""
    from ramet.experiment.files import filling
    from ramet.flower.thin_app import write_app as write_app_into

    if folder.exists():
        raise RametError(f"{folder} already exists. Give a new folder.")
    with filling(folder):
        write_app_into(folder)
    out.print(
        f"Wrote {folder}. Start it with: flwr run {folder} CONNECTION --stream", soft_wrap=True
    )


@app.command()
def guard(
    folder: Annotated[Path, typer.Argument(help="Folder for the guard.")],
) -> None:
    """Write programs into FOLDER with which a site runs only the apps on its list.

    The list is FOLDER/accepted.txt. At first it contains the app that `ramet app` writes.
    """
    from ramet.experiment import output_folder
    from ramet.flower.guard import app_hash, write_guard
    from ramet.flower.thin_app import thin_app

    with output_folder(folder):
        accepted = write_guard(folder.absolute(), [app_hash(thin_app())])
    print_line(
        f"Wrote {folder}. Start the SuperNode with PATH={folder.absolute()}:$PATH; it then runs "
        f"only the apps listed in {accepted}."
    )
