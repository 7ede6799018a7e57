"""A consortium on real machines: `ramet deploy` and `ramet doctor`."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from ramet.cli.arguments import Data, Json, RunOut, Side, Track, data_folder
from ramet.cli.console import out, progress, remark, say, show_result, watch_lines
from ramet.errors import RametError

app = typer.Typer()
deploy_app = typer.Typer(
    help="A consortium on real machines: set it up, start it, run together.",
    no_args_is_help=True,
    suggest_commands=False,
)
app.add_typer(deploy_app, name="deploy")


@deploy_app.command("init")
def deploy_init(
    consortium: Annotated[Path, typer.Argument(help="Its name, address, sites, method.")],
    folder: Annotated[
        Path | None, typer.Option("--out", help="Default: the consortium's name.")
    ] = None,
) -> None:
    """Make the coordinator's side of CONSORTIUM (a TOML file), and an invitation per site.

    Rerun to renew certificates and settings; keys are kept.
    """
    from ramet.deploy.coordinator import init

    side = init(consortium, folder, say)
    say(f"Send each site its file in {side.folder / 'invitations'}.")
    say(f"Then: ramet deploy start {side.folder}")


@deploy_app.command("join")
def deploy_join(
    invitation: Annotated[Path, typer.Argument(help="The file from the coordinator.")],
    data: Data = None,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Default: the consortium's and the site's name.")
    ] = None,
    runtime_port: Annotated[int, typer.Option(help="A free port on this site's loopback.")] = 9094,
    metrics_port: Annotated[
        int | None, typer.Option(help="Let Prometheus ask on this port of loopback.")
    ] = None,
) -> None:
    """Make this site's side from INVITATION; only its public key goes back."""
    from ramet.deploy.site import join

    side, application = join(
        invitation, data_folder(data), folder, runtime_port, say, metrics_port=metrics_port
    )
    say(f"Send the coordinator {application}; no other file may leave.")
    say(f"Once you are admitted: ramet deploy start {side.folder}")


@deploy_app.command("admit")
def deploy_admit(
    application: Annotated[Path, typer.Argument(help="The file that a site sent back.")],
    folder: Side = Path(),
) -> None:
    """Let the site of APPLICATION take part. Compare its fingerprint first."""
    from ramet.deploy.coordinator import Coordinator

    Coordinator.open(folder.absolute()).admit(application, say)


@deploy_app.command("revoke")
def deploy_revoke(
    site: Annotated[str, typer.Argument(help="The site's name.")], folder: Side = Path()
) -> None:
    """Refuse SITE and its key from now on."""
    from ramet.deploy.coordinator import Coordinator

    Coordinator.open(folder.absolute()).revoke(site, say)


@deploy_app.command("start")
def deploy_start(folder: Side = Path()) -> None:
    """Start this side's programs; those that run are left alone."""
    from ramet.deploy.opening import side_of

    side_of(folder.absolute()).start(say)


@deploy_app.command("status")
def deploy_status(
    folder: Side = Path(),
    watch: Annotated[
        bool, typer.Option("--watch", help="Stay, and show what changes, until Ctrl-C.")
    ] = False,
) -> None:
    """Say what runs here, how the last run goes, and at the coordinator which sites are online."""
    from ramet.deploy.opening import side_of
    from ramet.deploy.snapshot import Look
    from ramet.deploy.status import status_lines

    look = Look(side_of(folder.absolute()))
    if watch:
        look.keep_asking()
        watch_lines(lambda: status_lines(look.facts()))
        return
    look.ask()
    facts = look.facts()
    for line in status_lines(facts):
        say(line)
    if facts.trouble or not all(facts.processes.values()):
        raise typer.Exit(1)


@deploy_app.command("metrics")
def deploy_metrics(
    folder: Side = Path(),
    port: Annotated[int, typer.Option(help="Answer on this port of loopback.")] = 9464,
    textfile: Annotated[
        Path | None,
        typer.Option(help="Write this file once instead, for node_exporter's textfile collector."),
    ] = None,
) -> None:
    """Tell Prometheus what is known of the side in FOLDER; needs the extra `metrics`."""
    from ramet.deploy.opening import side_of
    from ramet.deploy.snapshot import Look

    try:
        from ramet.deploy import prometheus
    except ModuleNotFoundError as error:
        raise RametError(
            f"metrics need {error.name}. Install it: pip install 'ramet[metrics]'"
        ) from error

    look = Look(side_of(folder.absolute()))
    if textfile:
        look.ask()
        prometheus.write(look.facts, textfile)
        return
    _, answering = prometheus.serve(look.facts, port)
    look.keep_asking()
    say(f"http://{prometheus.HOST}:{port}/metrics")
    with suppress(KeyboardInterrupt):
        answering.join()


@deploy_app.command("stop")
def deploy_stop(folder: Side = Path()) -> None:
    """Stop this side's programs."""
    from ramet.deploy.opening import side_of

    side_of(folder.absolute()).stop(say)


@deploy_app.command("run")
def deploy_run(
    folder: Side = Path(),
    runs: RunOut = None,
    data: Data = None,
    deadline: Annotated[
        float, typer.Option(help="Give up when no round ends for so many seconds.")
    ] = 1200.0,
    track: Track = None,
    as_json: Json = False,
) -> None:
    """Run the consortium's method with all sites, from the coordinator.

    With --out of a run that was stopped, it goes on where it stopped.
    """
    from ramet.deploy.coordinator import Coordinator
    from ramet.deploy.run import run_together
    from ramet.experiment import RunFolder
    from ramet.runs import finished
    from ramet.tracking import tracking

    side = Coordinator.open(folder.absolute())
    where = runs or side.fresh_run()
    again = f"ramet deploy run {folder} --out {where}"
    followed = tracking(RunFolder(where.absolute()), track or ())
    with progress() as observe, followed as trackers:
        watch = trackers.watching(observe)
        try:
            done = run_together(side, where, data_folder(data), deadline, watch, remark)
        except KeyboardInterrupt as stop:
            stop.add_note(f"stopped. Go on with `{again}`.")
            raise
    show_result(finished(done, again, trackers.lost), as_json)


@app.command()
def doctor(folder: Side = Path()) -> None:
    """Check this machine, and the side of a consortium in FOLDER, and say what to do."""
    from ramet.deploy.doctor import examine

    sick = 0
    for finding in examine(folder.absolute()):
        sick += not finding.well
        out.print(
            f"[{'green' if finding.well else 'red'}]{'ok ' if finding.well else 'BAD'}[/] "
            f"{finding.what}: {finding.seen}",
            highlight=False,
            soft_wrap=True,
        )
        if not finding.well:
            out.print(f"    {finding.remedy}", highlight=False, soft_wrap=True, markup=False)
    if sick:
        raise typer.Exit(1)
