"""Commands that use a finished run's models: `ramet predict` and `ramet explain`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ramet.cli.arguments import Best, Context, Json, Model, New, NewSite
from ramet.cli.console import (
    print_error,
    print_json,
    print_line,
    print_status,
    print_table,
    warnings_as_lines,
)

app = typer.Typer()

Client = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Client whose model is used. Default: the site's name."),
]


@app.command()
def predict(
    folder: Model,
    site: NewSite = None,
    new: New = None,
    client: Client = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write a .parquet or .csv file. Default: CSV to standard output."),
    ] = None,
    relation: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Edge type whose links are predicted."),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Candidates for each node, for links.")] = 10,
    known: Annotated[
        bool, typer.Option("--known", help="Also rank links that the data already has.")
    ] = False,
    best: Best = False,
    context: Context = None,
) -> None:
    """Predict for a site's new data with the model of the finished run in RUN.

    The new data has the form of the training data; classes and splits are not needed. Columns are
    prepared as in training. Nodes and graphs get a class and the probability of each class; for
    links, each node gets its likeliest candidates. A threshold and a temperature that `ramet
    evaluate` has chosen for the model are used. Nothing leaves the machine.

    FOLDER has tables of new rows and links alone, called as those of training, or a site.toml that
    describes them. The graph of training is part of the graph, and only the new rows are predicted.

    \b
    Examples:
    ramet predict runs/together --new july --client north --out july.csv
    ramet predict hospitals-north --new july --out july.parquet
    ramet predict runs/together --site north/june.toml --out june.parquet
    ramet predict runs/links --site june.toml --relation takes --top 10
    """
    from ramet.prediction import Links, Source, Trained, predicted
    from ramet.prediction.files import check_output, to_csv, write

    if out is not None:
        check_output(out)
    wanted, source = Links(relation, top, known), Source(site, new, context)
    with warnings_as_lines():
        found = predicted(Trained.open(folder, best), source, client, wanted)
    for note in found.notes:
        print_status(f"{note}.")
    for warning in found.warnings:
        print_error(f"warning: {warning}.")
    if found.decision is not None:
        print_status(f"classes by {found.decision}.")
    if out is None:
        to_csv(found.frame)
    else:
        write(found.frame, out)
        print_line(f"{len(found.frame):,} rows by the model of {found.client}: {out}")


@app.command()
def explain(
    folder: Model,
    id_: Annotated[str, typer.Option("--id", metavar="ID", help="Id of the node or graph.")],
    site: NewSite = None,
    new: New = None,
    client: Client = None,
    of: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Class, label or number to explain. Default: the predicted class, the likeliest "
            "label, or the only number.",
        ),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Features and links to list.")] = 10,
    out: Annotated[Path | None, typer.Option(help="Also draw a .png or .svg file.")] = None,
    best: Best = False,
    context: Context = None,
    as_json: Json = False,
) -> None:
    """Explain the prediction for one node or graph of a site's data.

    Lists how much each feature and each link adds to the prediction, compared with average features
    and no links: to a probability in percentage points, to a number in its unit. Needs Captum; the
    picture needs matplotlib.

    \b
    Examples:
    ramet explain runs/together --site north/june.toml --id p17 --out p17.png
    ramet explain runs/ages --id p17 --client north --of age
    """
    from ramet.prediction import Source, Trained
    from ramet.prediction.explanation import explained
    from ramet.prediction.files import check_output

    if out is not None:
        check_output(out, (".png", ".svg"))
    with warnings_as_lines():
        found = explained(Trained.open(folder, best), id_, Source(site, new, context), client, of)
    if found.decision is not None:
        print_status(f"the class by {found.decision}.")
    if as_json:
        print_json(found.to_json())
    else:
        from ramet.report.explanation import explanation_tables

        for table in explanation_tables(found, top):
            print_table(table)
    if out is not None:
        from ramet.report.drawing import save_as
        from ramet.report.explanation import explanation_figure

        save_as(explanation_figure(found), out)
