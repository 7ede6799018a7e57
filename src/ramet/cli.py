"""The command `ramet`. Heavy imports wait until a command needs them."""

from __future__ import annotations

import json
import shlex
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TextIO

import typer
from rich.console import Console

import ramet.completion as completion
from ramet import __version__
from ramet.errors import RametError

if TYPE_CHECKING:
    from rich.table import Table

    from ramet.methods import Method
    from ramet.metrics import Record
    from ramet.reproduction import Reproduction
    from ramet.runs import Result
    from ramet.sweeps import Sweep

app = typer.Typer(
    help="Federated learning on graphs: each site keeps its data and shares what helps the others.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    suggest_commands=False,  # Click does
    context_settings={"help_option_names": ["-h", "--help"]},
)
out, err = Console(), Console(stderr=True)
_SETTING, _OWN = "tiny", "own"
_ANY_WIDTH = 10_000

Setting = Annotated[
    str | None,
    typer.Option(
        autocompletion=completion.setting,
        help="A name from `ramet settings`.",
        show_default=_SETTING,
    ),
]
Sites = Annotated[
    list[Path] | None,
    typer.Option(
        "--site", metavar="FILE", help="A site's own graphs, as a TOML; once for each site."
    ),
]
Active = Annotated[
    str | None,
    typer.Option(
        "--activation",
        metavar="NAME[,KEY=VALUE]",
        autocompletion=completion.activation,
        help="Who is asked for what, instead of the method's rule: a name from "
        "`ramet activations`, or file.py:rule.",
    ),
]
Merge = Annotated[
    str | None,
    typer.Option(
        "--merge",
        metavar="NAME[,KEY=VALUE]",
        autocompletion=completion.merge,
        help="How replies are merged, instead of by the weighted mean: a name from `ramet merges`, "
        "or file.py:rule.",
    ),
]
_ALIKE = 20
"""So many problems of one column are shown; further ones are more likely the same mistake."""
SplitSeed = Annotated[int, typer.Option(min=0, help="Draws which samples train, choose and judge.")]
Track = Annotated[
    list[str] | None,
    typer.Option(
        "--track",
        metavar="NAME",
        autocompletion=completion.tracker,
        help="Follow the rounds with tensorboard, mlflow or wandb; may be repeated.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        out.print(__version__)
        raise typer.Exit


@app.command()
def run(
    method: Annotated[
        str,
        typer.Argument(
            autocompletion=completion.method,
            help="A name from `ramet methods`, or file.py:factory.",
        ),
    ],
    setting: Setting = None,
    rounds: Annotated[int | None, typer.Option(help="Default: the setting's own.")] = None,
    seed: Annotated[int, typer.Option(help="Moves weights, dropout and batch order.")] = 0,
    engine: Annotated[
        Literal["local", "ray", "superlink"],
        typer.Option(help="This process, Flower's simulation, or a real SuperLink on loopback."),
    ] = "local",
    device: Annotated[
        Literal["cpu", "cuda", "mps"], typer.Option(help="Where clients compute; cpu is tested.")
    ] = "cpu",
    data: Annotated[
        Path | None,
        typer.Option(help="Datasets' folder. Default: $RAMET_DATA or ~/.cache/ramet."),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--out", help="The run's folder. Default: a new one in runs/.")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="An argument of the method or setting."),
    ] = None,
    share: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Share these parameters instead of the method's."),
    ] = None,
    activation: Active = None,
    merge: Merge = None,
    quorum: Annotated[
        int, typer.Option(min=1, help="A round counts with so many sound replies.")
    ] = 1,
    deadline: Annotated[
        float, typer.Option(help="Seconds without news until a node is given up for the round.")
    ] = 600.0,
    norm_bound: Annotated[
        float | None, typer.Option(help="Refuse replies that moved further. Default: any.")
    ] = None,
    threads: Annotated[int, typer.Option(help="PyTorch threads per client.")] = 1,
    split_seed: SplitSeed = 123,
    site: Sites = None,
    track: Track = None,
    as_json: Json = False,
) -> None:
    """Run a method on a setting. METHOD is a name from `ramet methods`, or file.py:factory.

    Ctrl-C stops it at any moment; `ramet resume` goes on from its last round.

    \b
    Examples:
    ramet run fedstar
    ramet run fedstar --setting single --rounds 200 --seed 1 --out runs/star
    ramet run fedavg --setting by-label --set dataset=NCI1 --set clients=20 --share '*'
    ramet run feddense --activation restart,alpha=0.4
    ramet run fedavg --merge trimmed-mean,share=0.3
    ramet run fedstar --engine superlink --rounds 5 --quorum 2
    ramet run fed-gcn --site north/site.toml --site south/site.toml
    ramet run fedstar --track tensorboard --track mlflow
    ramet run mine.py:mine --set count=2 --json
    """
    from ramet import runs

    setting, options = _setting(setting, site, option)
    with _progress() as observe:
        result = runs.run(
            method,
            setting,
            rounds=rounds,
            seed=seed,
            engine=engine,
            device=device,
            data=data,
            out=folder,
            share=share,
            activation=activation,
            merge=merge,
            quorum=quorum,
            deadline=deadline,
            norm_bound=norm_bound,
            threads=threads,
            split_seed=split_seed,
            track=track or (),
            observe=observe,
            **options,
        )
    _show(result, as_json)


@app.command()
def resume(
    folder: Annotated[Path, typer.Argument(help="The folder of a run that was stopped.")],
    track: Track = None,
    as_json: Json = False,
) -> None:
    """Finish the stopped run of FOLDER; the numbers are those of one that never stopped.

    Trackers that the run has go on with it; --track tells another one all rounds so far.
    """
    from ramet import runs

    with _progress() as observe:
        result = runs.resume(folder, track=track or (), observe=observe)
    _show(result, as_json)


@app.command()
def compare(
    contenders: Annotated[
        list[str], typer.Argument(metavar="METHOD...", autocompletion=completion.method)
    ],
    setting: Setting = None,
    site: Sites = None,
    seeds: Annotated[str, typer.Option(help="1-5, or 1,2,3.")] = "1-5",
    rounds: Annotated[int | None, typer.Option(help="Default: the setting's own.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Runs at a time, one core each.")] = 2,
    target: Annotated[
        float | None, typer.Option(help="Count the rounds to this test score, in %.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="As for `ramet run`.")] = None,
    folder: Annotated[
        Path | None, typer.Option("--out", help="The sweep's folder. Default: sweeps/SETTING.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="For all methods.")
    ] = None,
    activation: Active = None,
    merge: Merge = None,
    split_seed: SplitSeed = 123,
    archive: Annotated[
        Path | None,
        typer.Option(
            "--keep",
            metavar="DIR",
            help="Write each finished run in short into DIR; those there are not done again.",
        ),
    ] = None,
    match: Annotated[
        bool,
        typer.Option(
            "--match-parameters",
            help="Then widen every smaller method to the winner's size, and run those too.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Run several METHODs over several seeds, in parallel, and compare them.

    Doing it again goes on where it stopped. Options of one method follow a comma, its merging and
    its activation last.

    \b
    Examples:
    ramet compare local feddense,width=16 feddense,activation=restart --setting single
    ramet compare local-gcn fed-gcn --site north/site.toml --site south/site.toml
    """
    from dataclasses import asdict

    from ramet.archive import keep, kept
    from ramet.metrics import standings
    from ramet.report import comparison_table
    from ramet.sweeps import Contender, Sweep, parse_seeds

    setting, options = _setting(setting, site, option)
    sweep = Sweep(
        contenders=tuple(Contender.parse(text) for text in contenders),
        setting=setting,
        seeds=parse_seeds(seeds),
        folder=(folder or Path("sweeps") / setting).absolute(),
        rounds=rounds,
        data=data,
        options=options,
        activation=activation,
        merge=merge,
        split_seed=split_seed,
        kept={} if archive is None else kept(archive),
    )
    sweep.check()
    failed = _run_sweep(sweep, jobs)
    if match and not failed:
        sweep = sweep.matched(sweep.winner())
        failed = _run_sweep(sweep, jobs)
    stories, goal = sweep.stories(), None if target is None else target / 100
    rows = standings(stories, goal)
    if archive is not None:
        keep((story for runs in stories.values() for story in runs.values()), archive)
    if as_json:
        sys.stdout.write(json.dumps([asdict(row) for row in rows]) + "\n")
    else:
        _print_table(comparison_table(rows, setting, goal))
        out.print(f"runs: {sweep.folder}", highlight=False, soft_wrap=True)
    _complain_of(failed)


@app.command()
def reproduce(
    paper: Annotated[str, typer.Argument(help="feddense, fedstar or fedda.")],
    table: Annotated[str, typer.Argument(help="table2, table3; of fedda also figure2, 5, 6.")],
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A method or a setting of the table; may be repeated."),
    ] = None,
    seeds: Annotated[str, typer.Option(help="1-5, or 1,2,3.")] = "1-5",
    rounds: Annotated[int | None, typer.Option(help="Default: the paper's.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Runs at a time, one core each.")] = 2,
    finished: Annotated[
        bool, typer.Option("--finished", help="Judge the runs that are there; start none.")
    ] = False,
    data: Annotated[Path | None, typer.Option(help="As for `ramet run`.")] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="Where the sweeps lie, and figures go. Default: sweeps."),
    ] = None,
    archive: Annotated[
        Path | None,
        typer.Option(
            "--kept",
            metavar="DIR",
            help="Use what `compare --keep DIR/SETTING` wrote, and keep new runs there too.",
        ),
    ] = None,
) -> None:
    """Do TABLE, or a figure, of PAPER again and set our figures beside the printed ones.

    Ends with exit code 1 if a figure is further off than allowed, or a claim does not hold. Doing
    it again goes on where it stopped. Runs of `amazon` with 8 clients lie in amazon-8, and so on.

    Example: ramet reproduce feddense table2 --only single --only fedstar --seeds 1-3
    """
    from ramet.reproduction import Reproduction, figure, is_figure
    from ramet.reproduction import table as cells_of
    from ramet.sweeps import parse_seeds

    drawn = is_figure(paper, table)
    plan = Reproduction(
        cells=[] if drawn else cells_of(paper, table, only or []),
        panels=figure(paper, table, only or []) if drawn else [],
        seeds=parse_seeds(seeds),
        folder=(folder or Path("sweeps")).absolute(),
        rounds=rounds,
        data=data,
        kept=archive,
    )
    failed: dict[str, str] = {}
    for sweep in plan.sweeps():
        sweep.check()
    if not finished:
        for sweep in plan.sweeps():
            failed |= _run_sweep(sweep, jobs)
        plan.keep()
    reached = _draw_again(plan, paper, table) if drawn else _judge(plan, f"{paper} {table}")
    _complain_of(failed)
    if not reached:
        raise typer.Exit(1)


def _judge(plan: Reproduction, name: str) -> bool:
    """Show a table's figures and claims; whether none is missed."""
    from ramet.report import order_table, saving_table, verdict_table

    verdicts = plan.verdicts()
    about = "scores in % ± std (seeds); sizes in scalars and KB"
    _print_table(verdict_table(verdicts, f"{name}: {about}"))
    counts = {
        word: sum(verdict.judged == word for verdict in verdicts)
        for word in ("inside", "outside", "beside", "not run")
    }
    if not counts["beside"]:
        del counts["beside"]
    out.print(", ".join(f"{n} {word}" for word, n in counts.items()), highlight=False)
    exact, orders, savings = plan.by_shape(), plan.orders(), plan.savings()
    if exact:
        everything = "FedAvg's tensors: all of them × rounds × clients, and what was sent"
        _print_table(verdict_table(exact, everything, stated="by shape"))
    if orders:
        _print_table(order_table(orders))
    if savings:
        _print_table(saving_table(savings, "beside FedAvg, on common seeds"))
    missed = [
        *(verdict for verdict in (*verdicts, *exact) if verdict.judged == "outside"),
        *(order for order in orders if order.holds is False),
        *(row for row in savings if not (row.as_good_for_less and row.steadier)),
    ]
    return not missed


def _draw_again(plan: Reproduction, paper: str, name: str) -> bool:
    """Draw a figure's curves from the finished runs, with a table of where they end."""
    from ramet.report import figures, saving_table
    from ramet.run_folder import make_folder

    curves = [(panel, runs) for panel, runs in plan.curves() if any(runs.values())]
    if not curves:
        raise RametError(f"no run of {paper} {name} is finished. Leave --finished out.")
    drawn = figures.curves_again(
        [(panel.panel, runs, panel.lines == "best and worst") for panel, runs in curves]
    )
    make_folder(plan.folder)
    figures.save(drawn, plan.folder, f"{paper}-{name}")
    rows = plan.beside_the_first()
    if rows:
        title = f"{paper} {name}: last round, beside the first of each panel"
        _print_table(saving_table(rows, title, judged=False))
    out.print(f"Wrote {plan.folder / f'{paper}-{name}'}.png and .svg.", soft_wrap=True)
    return True


@app.command()
def report(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...")],
    folder: Annotated[Path, typer.Option("--out", help="The report's folder.")] = Path("report"),
    target: Annotated[
        float | None, typer.Option(help="Count the rounds to this test score, in %.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="As for `ramet run`.")] = None,
) -> None:
    """Show the finished runs below each PATH as one HTML page, with figures as PNG and SVG.

    PATH is a sweep's folder, a run's folder, or a folder that `ramet compare --keep` wrote.

    Example: ramet report sweeps/single --target 75
    """
    from ramet.archive import found
    from ramet.inspection import inspect
    from ramet.report.page import Heterogeneity, write_report
    from ramet.run_folder import make_folder

    stories = found(paths)
    every = [story for runs in stories.values() for story in runs.values()]
    apart, left_out = None, []
    if every[0].setting == _OWN:
        left_out.append("what the sites hold; `ramet data inspect --site FILE …` shows it.")
    elif all("overview" not in story.result["scores"] for story in every):  # many graphs each
        try:
            seen = inspect(every[0].setting, data)
            apart = Heterogeneity(list(seen.clients), seen.divergences)
        except RametError as reason:
            left_out.append(f"how far the clients are apart; {reason}")
    make_folder(folder)
    page = write_report(stories, folder, None if target is None else target / 100, apart, left_out)
    out.print(f"Wrote {page} and its figures.", highlight=False, soft_wrap=True)


data_app = typer.Typer(
    help="Look at the clients' data.", no_args_is_help=True, suggest_commands=False
)
app.add_typer(data_app, name="data")


@data_app.command("inspect")
def inspect_data(
    setting: Setting = None,
    site: Sites = None,
    data: Annotated[Path | None, typer.Option(help="As for `ramet run`.")] = None,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Draw the divergences into this folder, too.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="For the setting.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Describe each client's graphs and how far the clients are apart, or the kinds of links.

    Of graphs with several node types: types, relations, held-out pairs, and who learns what.

    \b
    Examples:
    ramet data inspect --setting cross-diff --out pictures
    ramet data inspect --site north/site.toml --site south/site.toml
    """
    from ramet import report as shown
    from ramet.inspection import inspect, inspect_links, inspect_relations
    from ramet.report import figures
    from ramet.run_folder import make_folder

    def show(facts: dict[str, Any], *tables: Table) -> None:
        if as_json:
            sys.stdout.write(json.dumps(facts) + "\n")
            return
        for table in tables:
            _print_table(table)

    setting, options = _setting(setting, site, option)
    relations = inspect_relations(setting, data, options)
    if relations is not None:
        types = shown.types_table(relations.types, setting)
        between = shown.relations_table(relations.relations)
        show(relations.facts(), types, between, shown.specialities_table(relations.clients))
        return
    links = inspect_links(setting, data, options)
    if links is not None:
        kinds = shown.kinds_table(links.kinds, setting)
        show(links.facts(), kinds, shown.links_table(links.clients))
        return
    seen = inspect(setting, data, options)
    if folder is not None:
        make_folder(folder)
        drawn = figures.heterogeneity(list(seen.clients), seen.divergences)
        figures.save(drawn, folder, "heterogeneity")
    show(seen.facts(), shown.portrait_table(seen.clients, seen.divergences, setting))


@data_app.command("check")
def check_data(
    file: Annotated[Path, typer.Argument(help="The TOML that describes a site's graphs.")],
    as_json: Json = False,
) -> None:
    """Look for problems in a site's own graphs, show what there is, write their fingerprint.

    The fingerprint has names of types, features and classes, and no data. It is what sites compare
    before the first round. Ends with exit code 1 if there are problems.

    Example: ramet data check north/site.toml
    """
    from dataclasses import asdict

    from ramet.data.own import check_site, statistics
    from ramet.experiment import SPLIT_SEED
    from ramet.report import several, site_table

    if not file.is_file():
        raise RametError(
            f"there is no file {file}. Give the TOML that describes the site's graphs."
        )
    checked = check_site(file)
    site, fingerprint = checked.site, file.with_suffix(".fingerprint.json")
    counted = statistics(site, SPLIT_SEED) if site else None
    if site is not None:
        try:
            fingerprint.write_text(site.schema.text())
        except OSError as error:
            raise RametError(
                f"cannot write {fingerprint} ({error.strerror}). Make its folder writable."
            ) from error
    if as_json:
        problems = [asdict(problem) for problem in checked.problems]
        facts = {"problems": problems, "statistics": counted}
        sys.stdout.write(json.dumps(facts) + "\n")
    elif site is not None and counted is not None:
        _print_table(site_table(site.name, site.schema.task, counted))
        out.print(f"No problems. Fingerprint: {fingerprint}", highlight=False, soft_wrap=True)
    else:
        alike: Counter[tuple[str, str | None]] = Counter()
        for problem in checked.problems:
            alike[problem.file, problem.column] += 1
            if alike[problem.file, problem.column] <= _ALIKE:
                out.print(str(problem), markup=False, highlight=False, soft_wrap=True)
        for (name, column), found in alike.items():
            if found > _ALIKE:
                place = name if column is None else f"{name}, column '{column}'"
                text = f"{place}: {found - _ALIKE:,} more; --json tells them all."
                out.print(text, markup=False, highlight=False, soft_wrap=True)
    if site is None:
        count = several(checked.count, "problem")
        more = f" The first {len(checked.problems):,} are shown." if checked.hidden else ""
        _complain(f"{file} and its files have {count}.{more}")
        raise typer.Exit(1)


audit_app = typer.Typer(
    help="Look at what left a site.", no_args_is_help=True, suggest_commands=False
)
app.add_typer(audit_app, name="audit")


@audit_app.command("show")
def show_audit(
    folder: Annotated[Path, typer.Argument(help="A run's folder, or a site's state folder.")],
    every: Annotated[
        bool, typer.Option("--all", help="Every tensor of every reply, with its SHA-256.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List what left the sites whose logs lie below FOLDER.

    Example: ramet audit show site-rings --all
    """
    from ramet.engine.audit import departures
    from ramet.report import departures_table, totals_of_departures

    found, cut_short = departures(folder)
    if as_json:
        sys.stdout.writelines(departure.line() + "\n" for departure in found)
    else:
        _print_table(departures_table(found) if every else totals_of_departures(found))
    if cut_short:
        _complain(f"{cut_short} lines cannot be read: a crash cut them short, or they were changed")


@app.command()
def methods(
    name: Annotated[
        str | None,
        typer.Argument(
            autocompletion=completion.method,
            help="One of them, or file.py:factory.",
            metavar="NAME",
        ),
    ] = None,
) -> None:
    """List the methods, or all about the one called NAME: its paper, and what --set may set."""
    from ramet.experiment import method_factory
    from ramet.methods import METHODS
    from ramet.options import arguments
    from ramet.report import list_table

    def shares(factory: Callable[..., Method]) -> str:
        return ", ".join(factory().shared.patterns) or "nothing"

    if name is None:
        rows = [(key, _idea(factory), shares(factory)) for key, factory in METHODS.items()]
        _print_table(list_table(("method", "idea", "shares"), rows))
        _tell("`ramet methods NAME` tells a method's paper, and what --set may set.")
        return
    factory = method_factory(name)
    _tell(f"{factory().name}: {_idea(factory)}")
    _tell(f"paper: {factory().paper}")
    _tell(f"shares: {shares(factory)}")
    _tell("--set:")
    for key, default in arguments(factory).items():
        _tell(f"  {key}={default}")


@app.command()
def activations() -> None:
    """List who may be asked for what in a round, for --activation."""
    from ramet.methods import ACTIVATIONS
    from ramet.report import list_table

    rows = [(name, _idea(rule), _settable(rule)) for name, rule in ACTIVATIONS.items()]
    _print_table(list_table(("activation", "rule", "options"), rows))


@app.command()
def merges() -> None:
    """List how replies may be merged, for --merge."""
    from ramet.methods import MERGES
    from ramet.report import list_table

    rows = [(name, _idea(rule), _settable(rule)) for name, rule in MERGES.items()]
    _print_table(list_table(("merge", "rule", "options"), rows))


@app.command()
def settings() -> None:
    """List the settings and their clients."""
    from ramet.partition import SETTINGS
    from ramet.report import list_table

    rows = []
    for name, factory in SETTINGS.items():
        made = factory()
        alone = len(set(made.source_of.values())) > 1
        clients = " ".join(made.clients) if alone else f"{len(made.clients)} parts"
        rows.append((name, made.about, clients, _settable(factory)))
    _print_table(list_table(("setting", "about", "clients", "--set"), rows))


@app.command("app")
def write_app(
    folder: Annotated[Path, typer.Argument(help="A new folder for the Flower app.")],
) -> None:
    """Write the thin Flower app into a new FOLDER, to `flwr run` it on a SuperLink of your own."""
    import shutil

    from ramet.flower import THIN_APP
    from ramet.run_folder import make_folder

    if folder.exists():
        raise RametError(f"{folder} is there already. Give a new folder.")
    make_folder(folder)
    shutil.copytree(THIN_APP, folder, dirs_exist_ok=True)
    out.print(
        f"Wrote {folder}. Start it with: flwr run {folder} CONNECTION --stream", soft_wrap=True
    )


@app.command()
def guard(
    folder: Annotated[Path, typer.Argument(help="A folder for the site's guard.")],
) -> None:
    """Write programs into FOLDER that keep a site from running apps that it has not listed.

    The list, FOLDER/accepted.txt, starts with the app that `ramet app` writes.
    """
    from ramet.flower import THIN_APP
    from ramet.flower.guard import app_hash, write_guard
    from ramet.run_folder import make_folder

    make_folder(folder)
    listed = write_guard(folder.absolute(), [app_hash(THIN_APP)])
    out.print(
        f"Wrote {folder}. Start the SuperNode with PATH={folder.absolute()}:$PATH; it then runs "
        f"only the apps in {listed}.",
        highlight=False,
        soft_wrap=True,
    )


deploy_app = typer.Typer(
    help="A consortium on real machines: set it up, start it, run together.",
    no_args_is_help=True,
    suggest_commands=False,
)
app.add_typer(deploy_app, name="deploy")
Folder = Annotated[
    Path, typer.Argument(metavar="[FOLDER]", help="What `init` or `join` made. Default: here.")
]


@deploy_app.command("init")
def deploy_init(
    consortium: Annotated[Path, typer.Argument(help="Its name, address, sites, method.")],
    folder: Annotated[
        Path | None, typer.Option("--out", help="Default: the consortium's name.")
    ] = None,
) -> None:
    """Make the coordinator's side of CONSORTIUM (a TOML file), and an invitation per site.

    Doing it again keeps all keys, and writes certificates and settings anew.
    """
    from ramet.deploy.coordinator import init

    side = init(consortium, folder, _tell)
    _tell(f"Send each site its file in {side.folder / 'invitations'}.")
    _tell(f"Then: ramet deploy start {side.folder}")


@deploy_app.command("join")
def deploy_join(
    invitation: Annotated[Path, typer.Argument(help="The file from the coordinator.")],
    data: Annotated[Path | None, typer.Option(help="As for `ramet run`.")] = None,
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
        invitation, _data(data), folder, runtime_port, _tell, metrics_port=metrics_port
    )
    _tell(f"Send the coordinator {application}; no other file may leave.")
    _tell(f"Once you are admitted: ramet deploy start {side.folder}")


@deploy_app.command("admit")
def deploy_admit(
    application: Annotated[Path, typer.Argument(help="The file that a site sent back.")],
    folder: Folder = Path(),
) -> None:
    """Let the site of APPLICATION take part. Compare its fingerprint first."""
    from ramet.deploy.coordinator import Coordinator

    Coordinator.open(folder.absolute()).admit(application, _tell)


@deploy_app.command("revoke")
def deploy_revoke(
    site: Annotated[str, typer.Argument(help="The site's name.")], folder: Folder = Path()
) -> None:
    """Refuse SITE and its key from now on."""
    from ramet.deploy.coordinator import Coordinator

    Coordinator.open(folder.absolute()).revoke(site, _tell)


@deploy_app.command("start")
def deploy_start(folder: Folder = Path()) -> None:
    """Start this side's programs; those that run are left alone."""
    from ramet.deploy.opening import side_of

    side_of(folder.absolute()).start(_tell)


@deploy_app.command("status")
def deploy_status(
    folder: Folder = Path(),
    watch: Annotated[
        bool, typer.Option("--watch", help="Stay, and show what changes, until Ctrl-C.")
    ] = False,
) -> None:
    """Say what runs here, how the last run goes, and at the coordinator which sites are online."""
    from ramet.deploy.facts import Look
    from ramet.deploy.opening import side_of
    from ramet.deploy.status import status_lines

    look = Look(side_of(folder.absolute()))
    if watch:
        look.keep_asking()
        _watch(lambda: status_lines(look.facts()))
        return
    look.ask()
    facts = look.facts()
    for line in status_lines(facts):
        _tell(line)
    if facts.trouble or not all(facts.processes.values()):
        raise typer.Exit(1)


def _watch(lines: Callable[[], list[str]]) -> None:
    """All lines, every two seconds; where there is no terminal, those that are new."""
    import time

    from rich.live import Live
    from rich.text import Text

    told: list[str] = []
    shown = Live(console=out, auto_refresh=False) if out.is_terminal else None
    with suppress(KeyboardInterrupt), shown or nullcontext():
        while True:
            now = lines()
            if shown:
                shown.update(Text("\n".join(now)), refresh=True)
            else:
                for line in (line for line in now if line not in told):
                    _tell(line)
            told = now
            time.sleep(2.0)


@deploy_app.command("metrics")
def deploy_metrics(
    folder: Folder = Path(),
    port: Annotated[int, typer.Option(help="Answer on this port of loopback.")] = 9464,
    textfile: Annotated[
        Path | None,
        typer.Option(help="Write this file once instead, for node_exporter's textfile collector."),
    ] = None,
) -> None:
    """Tell Prometheus what is known of the side in FOLDER; needs the extra `metrics`."""
    from ramet.deploy.facts import Look
    from ramet.deploy.opening import side_of

    try:
        from ramet.deploy import metrics
    except ModuleNotFoundError as error:
        raise RametError(
            f"metrics need {error.name}. Install it: pip install 'ramet[metrics]'"
        ) from error

    look = Look(side_of(folder.absolute()))
    if textfile:
        look.ask()
        metrics.write(look.facts, textfile)
        return
    _, answering = metrics.serve(look.facts, port)
    look.keep_asking()
    _tell(f"http://{metrics.HOST}:{port}/metrics")
    with suppress(KeyboardInterrupt):
        answering.join()


@deploy_app.command("stop")
def deploy_stop(folder: Folder = Path()) -> None:
    """Stop this side's programs."""
    from ramet.deploy.opening import side_of

    side_of(folder.absolute()).stop(_tell)


@deploy_app.command("run")
def deploy_run(
    folder: Folder = Path(),
    runs: Annotated[
        Path | None, typer.Option("--out", help="The run's folder. Default: a new one in runs/.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="As for `ramet run`.")] = None,
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
    from ramet.deploy.together import run_together
    from ramet.run_folder import RunFolder
    from ramet.runs import finished
    from ramet.tracking import tracking

    side = Coordinator.open(folder.absolute())
    where = runs or side.fresh_run()
    again = f"ramet deploy run {folder} --out {where}"
    followed = tracking(RunFolder(where.absolute()), track or ())
    with _progress() as observe, followed as trackers:
        watch = trackers.watching(observe)
        try:
            done = run_together(side, where, _data(data), deadline, watch, _remark)
        except KeyboardInterrupt as stop:
            stop.add_note(f"stopped. Go on with `{again}`.")
            raise
    _show(finished(done, again, trackers.lost), as_json)


@app.command()
def doctor(folder: Folder = Path()) -> None:
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


def _data(given: Path | None) -> Path:
    if given is None:
        from ramet.experiment import default_data

        given = default_data()
    return given.absolute()


def _print_table(table: Table) -> None:
    """Whole: wider than a narrow terminal if need be, and as wide as it likes without one."""
    from ramet.report import uncut

    console = out if out.is_terminal else Console(width=_ANY_WIDTH)
    console.print(uncut(table), crop=False)


def _tell(text: str) -> None:
    out.print(text, highlight=False, soft_wrap=True, markup=False)


def _remark(text: str) -> None:
    """Beside the result, which may be JSON."""
    err.print(text, highlight=False, soft_wrap=True, markup=False)


def main() -> None:
    """Errors that people can mend are one line and exit code 2."""
    try:
        app(prog_name="ramet")
    except RametError as error:
        _complain(str(error))
        sys.exit(2)


def _complain_of(failed: dict[str, str]) -> None:
    if failed:
        from ramet.report import several

        name, reason = next(iter(failed.items()))
        raise RametError(f"{several(len(failed), 'run')} failed; the first: {name}: {reason}")


def _complain(text: str) -> None:
    err.print(f"ramet: {text}", style="red", markup=False, highlight=False, soft_wrap=True)


def _setting(
    name: str | None, sites: list[Path] | None, given: list[str] | None
) -> tuple[str, dict[str, str]]:
    """Which setting it is, and all options; sites that bring their own graphs are one, too."""
    options = _options(given or [])
    if not sites:
        return name or _SETTING, options
    if name not in (None, _OWN):
        raise RametError(f"--site brings its own graphs, not those of {name}. Leave out one.")
    return _OWN, {**options, "sites": shlex.join(map(str, sites))}


def _options(given: list[str]) -> dict[str, str]:
    pairs = [option.partition("=") for option in given]
    for key, equals, _ in pairs:
        if not key or not equals:
            raise RametError(f"--set takes KEY=VALUE, not '{key}'. Example: --set lr=0.01.")
    return {key.replace("-", "_"): value for key, _, value in pairs}


def _idea(of: Callable[..., object]) -> str:
    """The first line of its docstring."""
    return (of.__doc__ or "").strip().partition("\n")[0].replace("``", "`")


def _settable(factory: Callable[..., object]) -> str:
    from ramet.options import arguments

    return " ".join(f"{name}={default}" for name, default in arguments(factory).items())


def _show(result: Result, as_json: bool) -> None:
    from ramet.report import result_table

    if as_json:
        sys.stdout.write(json.dumps(result.summary) + "\n")
    else:
        _print_table(result_table(result.summary))
        out.print(f"sha256: {result.summary['sha256']}", highlight=False, soft_wrap=True)
        out.print(f"run folder: {result.folder}", highlight=False, soft_wrap=True)
    for name, reason in result.untracked.items():
        _complain(
            f"{name} did not hear of all rounds: {reason} Tell it the rest with `ramet resume "
            f"{result.folder} --track {name}`."
        )
    if result.untracked:
        raise typer.Exit(1)


def _run_sweep(sweep: Sweep, jobs: int) -> dict[str, str]:
    """Rounds done over the whole sweep, with time left."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from ramet.report import several

    total = sweep.total_rounds()
    bar = Progress(
        BarColumn(bar_width=30),
        TextColumn("{task.fields[facts]}"),
        TimeRemainingColumn(),
        console=err,
        disable=not err.is_terminal,
    )
    with _stopped_by_ctrl_c(), bar:
        task = bar.add_task("sweep", total=total, facts="starting")
        told = -1

        def watch(rounds: int, runs: int, failures: int) -> None:
            nonlocal told
            facts = f"{rounds}/{total} rounds, {several(runs, 'run')} done" + (
                f", {failures} failed" if failures else ""
            )
            bar.update(task, completed=rounds, facts=facts)
            if not err.is_terminal and runs > told:
                told = runs
                err.print(facts, highlight=False, soft_wrap=True)

        return sweep.execute(jobs, watch)


@contextmanager
def _progress() -> Iterator[Callable[[Record], None]]:
    """Rounds done, scores, bytes and time left; plain lines where there is no terminal."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    from ramet.report import percent, size

    sent = 0
    bar = Progress(
        TextColumn("round"),
        MofNCompleteColumn(),
        BarColumn(bar_width=30),
        TextColumn("{task.fields[facts]}"),
        TimeRemainingColumn(),
        console=err,
        disable=not err.is_terminal,
    )
    with _stopped_by_ctrl_c(), _warnings_as_lines(), bar:
        task = bar.add_task("rounds", total=None, facts="starting")

        def observe(record: Record) -> None:
            nonlocal sent
            sent += record.bytes_up + record.bytes_down
            facts = (
                f"test {percent(record.mean('test'))} %  val {percent(record.mean('val'))} %  "
                f"{size(sent)} sent"
            )
            if record.failed:
                facts += f"  without {', '.join(record.failed)}"
            bar.update(task, completed=record.round, total=record.rounds, facts=facts)
            if not err.is_terminal and _worth_a_line(record):
                err.print(
                    f"round {record.round} of {record.rounds}: {facts}",
                    highlight=False,
                    soft_wrap=True,
                )

        yield observe


@contextmanager
def _stopped_by_ctrl_c() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt as stop:
        _complain(" ".join(getattr(stop, "__notes__", ["stopped."])))
        raise typer.Exit(130) from stop


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """A tracker that is lost is told at once, as a line."""
    from ramet.tracking import TrackingWarning

    with warnings.catch_warnings():
        before = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, TrackingWarning):
                _complain(str(message))
            else:
                before(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield


def _worth_a_line(record: Record) -> bool:
    return record.round in (1, 2, 5, record.rounds) or record.round % 10 == 0
