"""`ramet evaluate`: all metrics of a finished run's models, and what is chosen on validation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ramet.cli.arguments import Best, Json
from ramet.cli.console import print_json, print_line, print_status, print_table, warnings_as_lines
from ramet.errors import RametError

app = typer.Typer()


@app.command()
def evaluate(
    folder: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    client: Annotated[
        list[str] | None, typer.Option(help="Evaluate only this client; repeatable.")
    ] = None,
    best: Best = False,
    recall: Annotated[
        float | None,
        typer.Option(help="Choose a threshold for this recall of the last of two classes."),
    ] = None,
    precision: Annotated[
        float | None, typer.Option(help="Choose a threshold for this precision of that class.")
    ] = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Calibrate probabilities by a temperature.")
    ] = False,
    figure: Annotated[
        Path | None,
        typer.Option(help="Draw precision, recall and reliability as a .png or .svg file."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Evaluate the models of the finished run in FOLDER with all metrics.

    For each client, on its test data: for classes accuracy, balanced accuracy, macro-F1, ROC-AUC,
    average precision, calibration (ECE, Brier score), and precision and recall of each; for numbers
    MAE, RMSE and R2; for several labels average precision and ROC-AUC of each. In brackets: the
    same metric for always predicting the most frequent class or the mean. Needs the clients' data.

    --recall, --precision and --calibrate choose on each client's validation data, in place of what
    was chosen before. It is saved beside the model, and `ramet predict` uses it; the metrics are
    those of the model without it.

    \b
    Examples:
    ramet evaluate runs/together --client north
    ramet evaluate runs/together --recall 0.9 --calibrate --figure curves.png
    """
    from ramet.experiment import RunFolder
    from ramet.prediction import Wanted, decide
    from ramet.prediction.files import check_output
    from ramet.report.run_tables import classes_table, metrics_table, outputs_table
    from ramet.runs import resume as finished_run

    wanted = Wanted(recall, precision, calibrate)
    if figure is not None:
        check_output(figure, (".png", ".svg"))
    run = RunFolder.open(folder.absolute())
    if run.summary() is None:
        raise RametError(f"{folder} is not finished. Continue it with `ramet resume {folder}`.")
    result = finished_run(folder)
    clients = client or [*run.experiment().clients]
    with warnings_as_lines():
        found = {name: result.evaluation(name, best) for name in clients}
        chosen = decide(folder, clients, wanted, best) if wanted != Wanted() else {}
    if figure is not None:
        _draw(folder, clients, best, figure)
    if as_json:
        decisions = {name: {"decision": one.model_dump()} for name, one in chosen.items()}
        print_json(
            {
                name: {part: e.to_json() for part, e in parts.items()} | decisions.get(name, {})
                for name, parts in found.items()
            }
        )
        return
    tests = {name: parts["test"] for name, parts in found.items() if "test" in parts}
    if tests:
        print_table(metrics_table(tests))
        detailed = classes_table if next(iter(tests.values())).classes else outputs_table
        print_table(detailed(tests))
    for name in (name for name in found if name not in tests):
        print_line(f"{name} has no test samples, and so no scores.")
    for name, one in chosen.items():
        print_line(f"{name}: {one}. {one.reached}.")


def _draw(folder: Path, clients: list[str], best: bool, path: Path) -> None:
    """The curves of the test samples, by what was chosen now or before."""
    from ramet.prediction import Trained
    from ramet.prediction.decision import held_out, saved
    from ramet.report.decisions import decision_figure
    from ramet.report.drawing import save_as

    trained = Trained.open(folder, best)
    tests = {
        name: (parts["test"], saved(trained, name, trained.model(name))[0])
        for name, parts in held_out(folder, clients, best).items()
        if parts["test"].labels.size
    }
    save_as(decision_figure(tests), path)
    print_status(f"curves of the test samples: {path}")
