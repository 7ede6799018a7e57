"""`ramet evaluate`: all metrics of a finished run's models, and what is chosen on validation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ramet.cli.arguments import Best, Context, Json, Model, NewSite
from ramet.cli.console import print_json, print_line, print_status, print_table, warnings_as_lines
from ramet.errors import RametError

if TYPE_CHECKING:
    from ramet.metrics.evaluation import Evaluation
    from ramet.prediction import Against, BesideTest, Trained

app = typer.Typer()


@app.command()
def evaluate(
    folder: Model,
    site: NewSite = None,
    new: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder with tables of new rows and links, which continue the graph of training; "
            "repeatable with --against.",
        ),
    ] = None,
    client: Annotated[
        list[str] | None, typer.Option(help="Evaluate only this client; repeatable.")
    ] = None,
    best: Best = False,
    context: Context = None,
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Compare with the models of this run, on new rows that neither has seen.",
        ),
    ] = None,
    recall: Annotated[
        float | None,
        typer.Option(help="Choose a threshold for this recall of the last of two classes."),
    ] = None,
    precision: Annotated[
        float | None, typer.Option(help="Choose a threshold for this precision of that class.")
    ] = None,
    cost_of_miss: Annotated[
        float | None,
        typer.Option(help="Choose the cheapest threshold if a miss costs this many false alarms."),
    ] = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Calibrate probabilities by a temperature.")
    ] = False,
    figure: Annotated[
        Path | None,
        typer.Option(
            help="Draw precision, recall and reliability, or with --against and several --new the "
            "scores of each month, as a .png or .svg file."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Evaluate the models of the finished run in RUN with all metrics.

    For each client, on its test data: for classes accuracy, balanced accuracy, macro-F1, ROC-AUC,
    average precision, calibration (ECE, Brier score), and precision and recall of each; for numbers
    MAE, RMSE and R2; for several labels average precision and ROC-AUC of each. In brackets: the
    same metric for always predicting the most frequent class or the mean. Needs the clients' data.

    With --new, or --site, new data is scored whose classes are known by now, as far as they are:
    beside the test, with 95 % intervals, and by the threshold that was chosen. With --against, a
    new model is compared with the one that is in use, and the last line says which one to use.

    --recall, --precision, --cost-of-miss and --calibrate choose on each client's validation data,
    in place of what was chosen before. It is saved beside the model for `ramet predict`, `explain`
    and `export`; the metrics are those of the model without it.

    \b
    Examples:
    ramet evaluate runs/together --client north
    ramet evaluate runs/together --recall 0.9 --calibrate --figure curves.png
    ramet evaluate hospitals-north --new july
    ramet evaluate runs/july --new august --against runs/june
    ramet evaluate together --new may --new june --against alone --figure months.png
    """
    from ramet.prediction import Source, Trained, Wanted, beside_test, decide, evaluations
    from ramet.prediction import against as compared
    from ramet.prediction.files import check_output

    wanted = Wanted(recall, precision, cost_of_miss, calibrate)
    sources = [Source(site, month, context) for month in new or (None,)]
    if figure is not None:
        check_output(figure, (".png", ".svg"))
    trained = Trained.open(folder, best)
    source = sources[0]
    if len(sources) > 1 and against is None:
        raise RametError("several months are for two models: name the other run with --against.")
    if source.path is not None:
        given = _only(client)
        if wanted != Wanted():
            with warnings_as_lines():
                decide(trained, [source.client_in(trained, given)], wanted)
        if against is not None:
            other = Trained.open(against, best)
            found = [compared(trained, other, one, given) for one in sources]
            _show_against(found, figure, as_json)
        else:
            _show_beside(beside_test(trained, source, given), figure, as_json)
        return
    if against is not None:
        raise RametError("--against compares on new rows. Name their folder with --new.")
    clients = client or [*(trained.experiment.clients if trained.run else trained.clients)]
    with warnings_as_lines():
        scores = {name: evaluations(trained, name) for name in clients}
        chosen = decide(trained, clients, wanted) if wanted != Wanted() else {}
    if figure is not None:
        _draw(trained, clients, figure)
    if as_json:
        decisions = {name: {"decision": one.model_dump()} for name, one in chosen.items()}
        print_json(
            {
                name: {part: e.to_json() for part, e in parts.items()} | decisions.get(name, {})
                for name, parts in scores.items()
            }
        )
        return
    _show(scores)
    for name, one in chosen.items():
        print_line(f"{name}: {one}. {one.reached}.")


def _only(clients: list[str] | None) -> str | None:
    """The client whose model is used for new data."""
    if clients and len(clients) > 1:
        raise RametError("new data is scored by the model of one client. Give one --client.")
    return clients[0] if clients else None


def _show(found: Mapping[str, Mapping[str, Evaluation]]) -> None:
    from ramet.report.run_tables import classes_table, metrics_table, outputs_table

    tests = {name: parts["test"] for name, parts in found.items() if "test" in parts}
    if tests:
        print_table(metrics_table(tests))
        detailed = classes_table if next(iter(tests.values())).classes else outputs_table
        print_table(detailed(tests))
    for name in (name for name in found if name not in tests):
        print_line(f"{name} has no test samples, and so no scores.")


def _show_beside(found: BesideTest, figure: Path | None, as_json: bool) -> None:
    from ramet.report.beside import beside_table
    from ramet.report.decisions import decision_figure
    from ramet.report.drawing import save_as

    for note in found.notes:
        print_status(f"{note}.")
    if as_json:
        print_json(found.to_json())
    else:
        print_table(beside_table(found))
        print_line(f"{found.verdict}.")
    if figure is not None:
        tests = {} if found.test is None else {"test": (found.test, found.decision)}
        save_as(decision_figure({**tests, found.name: (found.new, found.decision)}), figure)
        print_status(f"curves of the test and of {found.name}: {figure}")


def _show_against(found: list[Against], figure: Path | None, as_json: bool) -> None:
    from ramet.report.beside import against_table
    from ramet.report.decisions import decision_figure
    from ramet.report.drawing import save_as
    from ramet.report.months import months_figure, months_table
    from ramet.studies.months import Months

    for note in (note for one in found for note in one.notes):
        print_status(f"{note}.")
    shown = found[0] if len(found) == 1 else Months((*found,))
    if as_json:
        print_json(shown.to_json())
    else:
        print_table(months_table(shown) if isinstance(shown, Months) else against_table(shown))
        print_line(f"{shown.verdict}.")
    if figure is not None:
        if isinstance(shown, Months):
            drawn = months_figure(shown)
        else:
            both = zip(shown.runs, shown.scored, strict=True)
            drawn = decision_figure({run: (one[0], one.decision) for run, one in both})
        save_as(drawn, figure)
        print_status(f"picture: {figure}")


def _draw(trained: Trained, clients: list[str], path: Path) -> None:
    """The curves of the test samples, by what was chosen now or before."""
    from ramet.prediction.decision import held_out_classes, saved
    from ramet.report.decisions import decision_figure
    from ramet.report.drawing import save_as

    tests = {
        name: (parts["test"], saved(trained, name, trained.model(name))[0])
        for name, parts in held_out_classes(trained, clients).items()
        if parts["test"].labels.size
    }
    save_as(decision_figure(tests), path)
    print_status(f"curves of the test samples: {path}")
