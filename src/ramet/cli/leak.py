"""`ramet leak`: attack a run of one's own, and say how far one gets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ramet.cli.arguments import Json
from ramet.cli.console import print_error, print_json, print_line, print_status, print_table

app = typer.Typer()


@app.command()
def leak(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    bar: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ATTACK=NUMBER",
            help="End with exit code 1 if an attack achieves more. May be repeated.",
        ),
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Also draw a .png or .svg file.")] = None,
    references: Annotated[
        int, typer.Option(min=0, help="Shadow runs for likelihood ratios; 0 for none.")
    ] = 4,
    canaries: Annotated[
        int, typer.Option(min=0, help="Most canaries per site; 0 saves repeating the run.")
    ] = 50,
    seed: Annotated[int, typer.Option(min=0, help="Of what the attackers draw.")] = 0,
    as_json: Json = False,
) -> None:
    """Attack the finished run in RUN, and print what it gives away, with 95 % intervals.

    Attackers see what the coordinator, a member, or the holder of the final model sees: replies or
    secure sums, merged models, predictions. They look for degrees, features, shares of classes,
    members and links, and for a lower bound on ε. An attack that finds nothing is also tried on a
    run that is made to leak; if it fails there too, it has "no power here". To know what is true
    they need the data of all sites on this machine, so audit a simulation. RUN gets the file
    leak.json, which exported model cards quote; nothing else in it is changed.

    \b
    Examples:
    ramet leak runs/together
    ramet leak runs/together --bar membership=0.6 --bar degrees=0.5 --plot leak.png
    """
    from ramet.computing import torch_threads
    from ramet.disk import all_or_nothing
    from ramet.experiment import RunFolder
    from ramet.leak import NAME, Effort, audit, parse_bars
    from ramet.prediction.files import check_output
    from ramet.report.drawing import save_as
    from ramet.report.leak import leak_figure, leak_table

    bars = parse_bars(bar or ())
    if plot is not None:
        check_output(plot, (".png", ".svg"))
    folder = RunFolder.open(run.absolute())
    effort = Effort(references=references, canaries=canaries, seed=seed)
    print_status(
        f"Attacking. The run is repeated {effort.repeats} times, and its round 1 more often."
    )
    with torch_threads(folder.experiment().settings.threads):
        found = audit(folder, effort)
    with all_or_nothing():
        folder.write(NAME, found.to_json())
        if plot is not None:
            save_as(leak_figure({found.protection: found}), plot)
    if as_json:
        print_json(found.to_json())
    else:
        print_table(leak_table(found))
        print_line(f"protection of replies: {found.protection}")
        print_line("An attack that fails here proves nothing: better ones may exist.")
    over = found.over(bars)
    for one in over:
        limit = "below" if one.is_error else "above"
        print_error(
            f"{one.attack} from {one.view}: {one.value:.3f} is {limit} the bar of "
            f"{bars[one.attack]:g}."
        )
    unmeasured = found.without_result(bars)
    for attack in unmeasured:
        print_error(
            f"{attack}: this attack has no result, so its bar of {bars[attack]:g} is not held."
        )
    if over or unmeasured:
        raise typer.Exit(1)
