"""Commands for one run: `ramet run` and `ramet resume`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ramet.cli import completion
from ramet.cli.arguments import (
    Activation,
    Best,
    Data,
    Device,
    Dp,
    Engine,
    FinalClients,
    Json,
    Merge,
    Metric,
    Network,
    Options,
    Patience,
    RayAddress,
    Regions,
    Release,
    Rounds,
    RunOut,
    Secure,
    Setting,
    Sites,
    SplitSeed,
    Track,
    Workers,
    data_folder,
    setting_and_options,
)
from ramet.cli.console import (
    print_json,
    print_line,
    print_status,
    print_table,
    progress,
    show_result,
    warnings_as_lines,
)
from ramet.errors import RametError

app = typer.Typer()


@app.command()
def run(
    method: Annotated[
        str,
        typer.Argument(
            autocompletion=completion.method,
            help="Name from `ramet methods`, or file.py:factory.",
        ),
    ],
    setting: Setting = None,
    rounds: Rounds = None,
    patience: Patience = None,
    start_from: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="RUN",
            help="Start with the models of the finished run in this folder.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of weights, dropout and batch order.")] = 0,
    engine: Engine = "local",
    device: Device = "cpu",
    data: Data = None,
    folder: RunOut = None,
    network: Network = None,
    option: Options = None,
    share: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="Share the matching parameters instead of the method's choice; '' shares nothing; "
            "repeatable.",
        ),
    ] = None,
    activation: Activation = None,
    merge: Merge = None,
    release: Release = None,
    metric: Metric = None,
    quorum: Annotated[
        int, typer.Option(min=1, help="Minimum number of valid replies for a round to count.")
    ] = 1,
    deadline: Annotated[
        float,
        typer.Option(
            help="Seconds without a reply after which a round continues without the missing nodes."
        ),
    ] = 600.0,
    norm_bound: Annotated[
        float | None,
        typer.Option(
            help="Refuse replies further than this (L2) from what was sent. Default: no bound."
        ),
    ] = None,
    secure: Secure = False,
    dp: Dp = None,
    threads: Annotated[int, typer.Option(help="PyTorch threads per client.")] = 1,
    workers: Workers = None,
    ray_address: RayAddress = None,
    split_seed: SplitSeed = 123,
    final_clients: FinalClients = None,
    regions: Regions = None,
    site: Sites = None,
    track: Track = None,
    as_json: Json = False,
) -> None:
    """Run a method on a setting.

    METHOD is a name from `ramet methods`, or file.py:factory for a method of your own. Press Ctrl-C
    to stop; `ramet resume` continues after the last finished round.

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
    from ramet.experiment import checked_settings
    from ramet.options import allow_code
    from ramet.runs import start

    name, options = setting_and_options(setting, site, option)
    allow_code(method, network, activation, merge, release)
    settings = checked_settings(
        method=method,
        setting=name,
        rounds=rounds,
        patience=patience,
        seed=seed,
        engine=engine,
        device=device,
        data=data_folder(data),
        network=network,
        options=options,
        share=None if share is None else tuple(filter(None, share)),
        activation=activation,
        merge=merge,
        release=release,
        metric=metric,
        quorum=quorum,
        deadline=deadline,
        norm_bound=norm_bound,
        secure=secure,
        dp=dp,
        threads=threads,
        split_seed=split_seed,
        final_clients=final_clients,
        regions=regions,
    )
    if secure:
        print_status("Secure sums: keys are drawn from the seed, so this run protects nothing.")
    if dp:
        print_status("Differential privacy: noise follows from the seed. Simulated: no guarantee.")
    with progress() as observe:
        result = start(
            settings,
            folder,
            start_from=start_from,
            track=track or (),
            observe=observe,
            workers=workers,
            ray_address=ray_address,
            tell=print_status,
        )
    show_result(result, as_json)


@app.command()
def evaluate(
    folder: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    client: Annotated[
        list[str] | None, typer.Option(help="Evaluate only this client; repeatable.")
    ] = None,
    best: Best = False,
    as_json: Json = False,
) -> None:
    """Evaluate the models of the finished run in FOLDER with all metrics.

    For each client: accuracy, balanced accuracy, macro-F1, ROC-AUC, average precision, calibration
    (ECE, Brier score), and precision and recall of each class, on its test data. In brackets: the
    same metric for always predicting the most frequent training class. Needs the clients' data.

    Example: ramet evaluate runs/together --client north
    """
    from ramet.experiment import RunFolder
    from ramet.report.run_tables import classes_table, metrics_table
    from ramet.runs import resume as finished_run

    run = RunFolder.open(folder.absolute())
    if run.summary() is None:
        raise RametError(f"{folder} is not finished. Continue it with `ramet resume {folder}`.")
    result = finished_run(folder)
    clients = client or [*run.experiment().clients]
    with warnings_as_lines():
        found = {name: result.evaluation(name, best) for name in clients}
    if as_json:
        print_json(
            {
                name: {part: e.to_json() for part, e in parts.items()}
                for name, parts in found.items()
            }
        )
        return
    tests = {name: parts["test"] for name, parts in found.items() if "test" in parts}
    if tests:
        print_table(metrics_table(tests))
        print_table(classes_table(tests))
    for name in (name for name in found if name not in tests):
        print_line(f"{name} has no test samples, and so no scores.")


@app.command()
def resume(
    folder: Annotated[Path, typer.Argument(help="Folder of a run.")],
    rounds: Annotated[
        int | None,
        typer.Option(
            min=1, help="Continue to this number of rounds in total, also if the run is finished."
        ),
    ] = None,
    workers: Workers = None,
    ray_address: RayAddress = None,
    track: Track = None,
    as_json: Json = False,
) -> None:
    """Resume the stopped run in FOLDER, with the same result as if it had not stopped.

    With --rounds, go on with a finished run: the result is the same as if it had been started with
    that number. The run's trackers continue. --track adds another one and sends it all earlier
    rounds.

    Example: ramet resume runs/star --rounds 50
    """
    from ramet.runs import resume as resume_run

    with progress() as observe:
        result = resume_run(
            folder,
            rounds=rounds,
            track=track or (),
            observe=observe,
            workers=workers,
            ray_address=ray_address,
        )
    show_result(result, as_json)
