"""Commands for a consortium on real machines: `ramet deploy` and `ramet doctor`."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from ramet.cli.arguments import Data, Json, PartyFolder, RunOut, Track, data_folder, option
from ramet.cli.console import out, print_line, print_status, progress, show_result, watch_lines
from ramet.cli.schedule import due, releases, roll_back
from ramet.errors import RametError, one_line, unknown

app = typer.Typer()
deploy_app = typer.Typer(
    help="Set up, start and run a consortium on real machines.",
    no_args_is_help=True,
    suggest_commands=False,
)
app.add_typer(deploy_app, name="deploy")
_COORDINATOR, _SITE, _EITHER = "Coordinator", "Site", "Coordinator or site"


@deploy_app.command("init", rich_help_panel=_COORDINATOR)
def deploy_init(
    consortium: Annotated[
        Path,
        typer.Argument(help="TOML file with the consortium's name, address, sites and method."),
    ],
    folder: Annotated[
        Path | None, typer.Option("--out", help="Folder to create. Default: the consortium's name.")
    ] = None,
    authority: Annotated[
        str | None,
        typer.Option(help="Replace the authority: `new`, and when sites have rejoined, `switch`."),
    ] = None,
) -> None:
    """Create the coordinator's folder, with an invitation for each site.

    CONSORTIUM is a TOML file with the consortium's name, address, sites and method. Rerun to renew
    certificates and settings; keys are kept.
    """
    from ramet.deploy.authority import AuthorityChange
    from ramet.deploy.init import init

    if authority and authority not in list(AuthorityChange):
        raise unknown("step", authority, AuthorityChange)
    change = AuthorityChange(authority) if authority else None
    party = init(consortium, folder, print_line, change)
    print_line(f"Send each site its file in {party.folder / 'invitations'}.")
    if party.was_started:
        restart = f"ramet deploy stop {party.folder}, then start"
        print_line(
            f"Its programs are running. For new certificates, ports or an address: {restart}"
        )
    else:
        print_line(f"Then: ramet deploy start {party.folder}")


@deploy_app.command("join", rich_help_panel=_SITE)
def deploy_join(
    invitation: Annotated[Path, typer.Argument(help="Invitation file from the coordinator.")],
    data: Annotated[
        Path | None,
        typer.Option(
            help="The site's TOML file, or for a built-in setting the folder with the datasets."
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="Folder to create. Default: the consortium's and site's names."),
    ] = None,
    runtime_port: Annotated[
        int, typer.Option(help="Free port on loopback for Flower's SuperNode.")
    ] = 9094,
    metrics_port: Annotated[
        int | None, typer.Option(help="Serve metrics for Prometheus on this loopback port.")
    ] = None,
    trust_new_authority: Annotated[
        bool,
        typer.Option("--trust-new-authority", help="Accept an authority that is new to this site."),
    ] = False,
) -> None:
    """Create this site's folder from the file INVITATION. Only its public key is sent back."""
    from ramet.deploy.site import join

    party, application = join(
        invitation,
        data_folder(data),
        folder,
        runtime_port,
        print_line,
        metrics_port=metrics_port,
        trust_new_authority=trust_new_authority,
    )
    print_line(f"Send {application} to the coordinator. No other file may leave this site.")
    print_line(f"Once the coordinator has admitted you: ramet deploy start {party.folder}")


@deploy_app.command("admit", rich_help_panel=_COORDINATOR)
def deploy_admit(
    application: Annotated[Path, typer.Argument(help="File that the site sent back.")],
    folder: PartyFolder = Path(),
) -> None:
    """Admit the site that sent the file APPLICATION. Compare its fingerprint first."""
    from ramet.deploy.coordinator import Coordinator

    Coordinator.open(folder.absolute()).admit(application, print_line)


@deploy_app.command("member", rich_help_panel=_SITE)
def deploy_member(
    application: Annotated[Path, typer.Argument(help="Application of another site.")],
    folder: PartyFolder = Path(),
) -> None:
    """At a site: accept the site that wrote the file APPLICATION in secure sums.

    Get the file from that site, not from the coordinator, or compare the fingerprint by telephone.
    """
    from ramet.deploy.site import add_member

    fingerprint = add_member(application, folder.absolute())
    print_line(f"accepted in secure sums, fingerprint {fingerprint}")


@deploy_app.command("remove-member", rich_help_panel=_SITE)
def deploy_remove_member(
    site: Annotated[str, typer.Argument(help="The name of the site that has left.")],
    folder: PartyFolder = Path(),
) -> None:
    """At a site: no longer expect the site called SITE in secure sums."""
    from ramet.deploy.site import remove_member

    remove_member(site, folder.absolute())
    print_line(f"{site}: no longer expected in secure sums")


@deploy_app.command("revoke", rich_help_panel=_COORDINATOR)
def deploy_revoke(
    site: Annotated[str, typer.Argument(help="The site's name.")], folder: PartyFolder = Path()
) -> None:
    """Refuse the site called SITE, and its key, from now on."""
    from ramet.deploy.coordinator import Coordinator

    Coordinator.open(folder.absolute()).revoke(site, print_line)


@deploy_app.command("start", rich_help_panel=_EITHER)
def deploy_start(folder: PartyFolder = Path()) -> None:
    """Start the programs of the coordinator or site in FOLDER that are not running yet."""
    from ramet.deploy.opening import open_party

    open_party(folder.absolute()).start(print_line)


@deploy_app.command("answer", rich_help_panel=_SITE)
def deploy_answer(
    messages: Annotated[
        Path, typer.Argument(help="The folder that the coordinator and this site exchange.")
    ],
    folder: PartyFolder = Path(),
) -> None:
    """At a site: answer the requests in the folder MESSAGES, and end.

    For a site where no program may connect to the coordinator, such as one of batch jobs.

    Example: ramet deploy answer /exchange/north hospitals-north
    """
    from ramet.deploy.site import Site

    for line in Site.open(folder.absolute()).answer(messages):
        print_line(line)


@deploy_app.command("status", rich_help_panel=_EITHER)
def deploy_status(
    folder: PartyFolder = Path(),
    watch: Annotated[
        bool, typer.Option("--watch", help="Keep showing changes until Ctrl-C.")
    ] = False,
) -> None:
    """Show running programs, the last run and, at the coordinator, which sites are online."""
    from ramet.deploy.opening import open_party
    from ramet.deploy.snapshot import Monitor
    from ramet.deploy.status import status_lines

    monitor = Monitor(open_party(folder.absolute()))
    if watch:
        monitor.keep_querying()
        watch_lines(lambda: status_lines(monitor.facts()))
        return
    monitor.query_superlink()
    facts = monitor.facts()
    for line in status_lines(facts):
        print_line(line)
    works = all(check.ok for check in facts.health.values())
    if facts.superlink_error or not works or not all(facts.processes.values()):
        raise typer.Exit(1)


@deploy_app.command("alive", rich_help_panel=_EITHER)
def deploy_alive(folder: PartyFolder = Path()) -> None:
    """Exit with 0 if the services in FOLDER work, for health checks.

    A site's SuperNode works if the coordinator has accepted a heartbeat in the last minute.
    """
    from ramet.deploy.health import check_services
    from ramet.deploy.opening import open_party

    checks = check_services(open_party(folder.absolute()))
    for check in checks.values():
        print_line(f"{check.name}: {check.detail}")
    if not checks:
        print_line("nothing was started")
    if not checks or not all(check.ok for check in checks.values()):
        raise typer.Exit(1)


@deploy_app.command("metrics", rich_help_panel=_EITHER)
def deploy_metrics(
    folder: PartyFolder = Path(),
    port: Annotated[int, typer.Option(help="Loopback port to serve on.")] = 9464,
    textfile: Annotated[
        Path | None,
        typer.Option(help="Write this file once instead, for node_exporter's textfile collector."),
    ] = None,
) -> None:
    """Serve Prometheus metrics of the coordinator or site in FOLDER; needs the extra `metrics`."""
    from ramet.deploy.opening import open_party
    from ramet.deploy.snapshot import Monitor

    try:
        from ramet.deploy import prometheus
    except ModuleNotFoundError as error:
        raise RametError(
            f"metrics need {error.name}. Install it: pip install 'ramet[metrics]'."
        ) from error

    monitor = Monitor(open_party(folder.absolute()))
    if textfile:
        monitor.query_superlink()
        prometheus.write(monitor.facts, textfile)
        return
    _, server = prometheus.serve(monitor.facts, port)
    monitor.keep_querying()
    print_line(f"http://{prometheus.HOST}:{port}/metrics")
    with suppress(KeyboardInterrupt):
        server.join()


@deploy_app.command("monitoring", rich_help_panel=_COORDINATOR)
def deploy_monitoring(
    folder: Annotated[Path, typer.Argument(help="Folder to write to.")],
) -> None:
    """Write alerts for Prometheus, its configuration and a Grafana dashboard into FOLDER."""
    from ramet.deploy import MONITORING
    from ramet.disk import write_atomically
    from ramet.experiment import output_folder

    files = sorted(MONITORING.iterdir())
    with output_folder(folder):
        for file in files:
            write_atomically(folder / file.name, file.read_bytes())
    for file in files:
        print_line(f"Wrote {folder / file.name}")


@deploy_app.command("stop", rich_help_panel=_EITHER)
def deploy_stop(folder: PartyFolder = Path()) -> None:
    """Stop the programs of the coordinator or site in FOLDER."""
    from ramet.deploy.opening import open_party

    open_party(folder.absolute()).stop(print_line)


@deploy_app.command("run", rich_help_panel=_COORDINATOR)
def deploy_run(
    folder: PartyFolder = Path(),
    runs: RunOut = None,
    data: Data = None,
    start_from: Annotated[Path | None, option("start_from")] = None,
    deadline: Annotated[
        float, typer.Option(help="Give up after this many seconds without a finished round.")
    ] = 1200.0,
    track: Track = None,
    as_json: Json = False,
) -> None:
    """Run the consortium's method with all sites, from the coordinator.

    To resume a stopped run, give its folder with --out.
    """
    from ramet.deploy.coordinator import Coordinator
    from ramet.deploy.run import run_consortium
    from ramet.experiment import RunFolder
    from ramet.runs import finished
    from ramet.tracking import tracking

    party = Coordinator.open(folder.absolute())
    path = runs or party.new_run_folder()
    resume_command = f"ramet deploy run {folder} --out {path}"
    tracked = tracking(RunFolder(path.absolute()), track or ())
    with progress() as observe, tracked as trackers:
        observer = trackers.wrap(observe)
        try:
            done = run_consortium(
                party, path, data_folder(data), deadline, observer, print_status, start_from
            )
        except KeyboardInterrupt as stop:
            stop.add_note(f"stopped. Continue with `{resume_command}`.")
            raise
    show_result(finished(done, resume_command, trackers.failures), as_json)


@app.command()
def doctor(folder: PartyFolder = Path()) -> None:
    """Check this machine, and the coordinator or site in FOLDER, and suggest fixes."""
    from ramet.deploy.doctor import examine

    failures = 0
    for check in examine(folder.absolute()):
        failures += not check.ok
        out.print(
            f"[{'green' if check.ok else 'red'}]{'ok ' if check.ok else 'BAD'}[/] "
            f"{escape(one_line(f'{check.name}: {check.detail}'))}",
            highlight=False,
            soft_wrap=True,
        )
        if not check.ok:
            print_line(f"    {check.remedy}")
    if failures:
        raise typer.Exit(1)


for command in (due, releases, roll_back):
    deploy_app.command(command.__name__.replace("_", "-"), rich_help_panel=_COORDINATOR)(command)
