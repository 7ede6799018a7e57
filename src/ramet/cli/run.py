"""Commands for one run: `ramet run` and `ramet resume`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ramet.cli.arguments import (
    Json,
    Method,
    Options,
    RunOut,
    Setting,
    Sites,
    option,
    run_options,
    setting_and_options,
)
from ramet.cli.console import (
    print_status,
    progress,
    show_result,
)
from ramet.run_options import COMPUTING, KEYWORDS, Computing

app = typer.Typer()


@app.command()
@run_options(*KEYWORDS)
def run(
    method: Method,
    setting: Setting = None,
    site: Sites = None,
    options: Options = None,
    start_from: Annotated[Path | None, option("start_from")] = None,
    folder: RunOut = None,
    as_json: Json = False,
    **given: Any,
) -> None:
    """Run a method on a setting.

    METHOD is a name from `ramet list methods`, or file.py:factory for a method of your own.
    Press Ctrl-C to stop; `ramet resume` continues after the last finished round.

    \b
    Examples:
    ramet run fedstar
    ramet run fedstar --setting single --rounds 200 --seed 1 --out runs/star
    ramet run fedavg --setting cora --rounds 300 --patience 20
    ramet run fedprox --setting cora --network sage --set mu=0.1 --set hidden=128
    ramet run fedavg --setting by-label --set dataset=NCI1 --set clients=20
    ramet run fedavg --setting cora --set clients=50 --final-clients 10
    ramet run fedavg --setting cora --set clients=50 --regions 5
    ramet run feddense --activation restart,alpha=0.4
    ramet run fedavg --merge trimmed-mean,share=0.3
    ramet run feddense --release 8-bit
    ramet run fedstar --secure
    ramet run fedstar --dp unit=graph,epsilon=4,delta=1e-5
    ramet run fedstar --engine superlink --rounds 5 --quorum 2
    ramet run fedavg --site north/site.toml --site south/site.toml
    ramet run fedstar --setting single --workers 4
    ramet run fedstar --engine ray --ray-address 10.0.0.1:6379 --out shared/star
    ramet run fedstar --track tensorboard --track mlflow
    ramet run fedavg --site north/2027.toml --from runs/together
    ramet run mine.py:mine --set count=2 --json
    """
    from ramet.runs import given_experiment, start

    name, chosen = setting_and_options(setting, site, options)
    computing = Computing.taken_from(given)
    experiment = given_experiment(method, name, chosen, given)
    if experiment.settings.secure:
        print_status("Secure sums: keys are drawn from the seed, so this run protects nothing.")
    if experiment.settings.verified:
        print_status("Verified rounds: keys follow from the seed, so this run proves nothing.")
    if experiment.settings.dp:
        print_status("Differential privacy: noise follows from the seed. Simulated: no guarantee.")
    with progress() as observe:
        result = start(experiment, folder, computing, start_from, observe, print_status)
    show_result(result, as_json)


@app.command()
@run_options(*COMPUTING)
def resume(
    folder: Annotated[Path, typer.Argument(help="Folder of a run.")],
    rounds: Annotated[
        int | None,
        typer.Option(
            min=1, help="Continue to this number of rounds in total, also if the run is finished."
        ),
    ] = None,
    as_json: Json = False,
    **given: Any,
) -> None:
    """Resume the stopped run in FOLDER, with the same result as if it had not stopped.

    With --rounds, go on with a finished run: the result is the same as if it had been started with
    that number. The run's trackers continue. --track adds another one and sends it all earlier
    rounds.

    Example: ramet resume runs/star --rounds 50
    """
    from ramet.runs import resume as resume_run

    with progress() as observe:
        result = resume_run(folder, rounds=rounds, observe=observe, **given)
    show_result(result, as_json)
