"""`ramet tune`: search for good options of methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ramet.cli import completion
from ramet.cli.arguments import (
    Jobs,
    Json,
    Options,
    Setting,
    Sites,
    key_values,
    run_options,
    setting_and_options,
)
from ramet.cli.console import (
    exit_on_ctrl_c,
    fail_if_any,
    print_json,
    print_line,
    print_status,
    print_table,
)
from ramet.run_options import STUDY_KEYWORDS

if TYPE_CHECKING:
    from ramet.metrics import Scale
    from ramet.studies.tune import Observer, Trial

app = typer.Typer()


@app.command()
@run_options(*STUDY_KEYWORDS)
def tune(
    methods: Annotated[
        list[str],
        typer.Argument(
            metavar="METHOD...",
            autocompletion=completion.method,
            help="Names from `ramet list methods`, or file.py:factory, each with fixed options.",
        ),
    ],
    setting: Setting = None,
    site: Sites = None,
    trials: Annotated[int, typer.Option(min=1, help="Number of trials of each method.")] = 20,
    search: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=RANGE",
            help="Option to search, with a range such as 0.001..0.1:log, 1..4 or values such as "
            "32,64,128; repeatable. Default: lr, weight_decay, dropout, hidden and mu, where a "
            "method has them.",
        ),
    ] = None,
    seeds: Annotated[
        str, typer.Option(help="Seeds of each trial, as a range (1-3) or a list (1,2).")
    ] = "0",
    jobs: Jobs = 1,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Folder of the search. Default: tune/SETTING.")
    ] = None,
    options: Options = None,
    as_json: Json = False,
    **given: Any,
) -> None:
    """Search for the options of methods with the best validation scores.

    Every method gets the same number of trials, of which the first has its default options. Test
    data is used once, at the end, for the best trial of each method. Rerun the same command to
    continue, or with more --trials to go on. Needs the extra `tune`.

    \b
    Examples:
    ramet tune fedstar --setting tiny --rounds 10
    ramet tune fedavg fedprox --setting cora --trials 30 --seeds 1-3 --jobs 2
    ramet tune fedavg --site north/site.toml --site south/site.toml --metric macro-f1
    ramet tune fedavg --search lr=0.001..0.1:log --search hidden=32,64,128
    """
    from ramet.options import without_folder
    from ramet.report.tuning_table import tuning_table
    from ramet.studies.sweep import parse_seeds
    from ramet.studies.tune import FILE
    from ramet.studies.tune import tune as tune_methods

    name, fixed = setting_and_options(setting, site, options)
    with exit_on_ctrl_c():
        tuned = tune_methods(
            methods,
            name,
            trials=trials,
            search=key_values(search or [], "--search", "lr=0.001..0.1:log"),
            seeds=parse_seeds(seeds),
            jobs=jobs,
            out=folder,
            observe=_print_progress(trials),
            **given,
            **fixed,
        )
    if as_json:
        import json

        print_json(json.loads((tuned.folder / FILE).read_text()))
    else:
        print_table(tuning_table(tuned, without_folder(name)))
        for best in tuned.best.values():
            print_line(best.command)
        print_line(f"trials: {tuned.folder / FILE}")
    fail_if_any(dict(tuned.failed))


def _print_progress(total: int) -> Observer:
    """Print the number of trials, and the best validation score of each method."""

    def observe(trials: Mapping[str, Sequence[Trial]], scale: Scale) -> None:
        done = min(map(len, trials.values()))
        known = {
            label: [one.val for one in found if one.val is not None]
            for label, found in trials.items()
        }
        best = ", ".join(
            f"{label} {scale.shown(scale.best(vals, float) if vals else None)}{scale.suffix}"
            for label, vals in known.items()
        )
        print_status(f"{done} of {total} trials; best validation: {best}")

    return observe
