"""`ramet export`: hand a model over."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ramet.cli.arguments import Best
from ramet.cli.console import print_line, warnings_as_lines

app = typer.Typer()


@app.command()
def export(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run, or a site's own folder.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder for the model.")],
    site: Annotated[str, typer.Option(metavar="NAME", help="Site whose model is exported.")],
    programs: Annotated[
        bool, typer.Option(help="Also write programs for torch.export and ONNX.")
    ] = True,
    best: Best = False,
) -> None:
    """Export the model of a site in RUN to DIR, where it works without Ramet.

    DIR gets the weights (safetensors), the network as one Python file for PyTorch and PyG, the
    preparation of columns, an invented example, programs for torch.export and ONNX, and a model
    card. It contains no rows of the site's data.

    Example: ramet export runs/together --site north north-model
    """
    from ramet.export import export as exported
    from ramet.prediction import Trained

    with warnings_as_lines():
        trained = Trained.open(run, best)
    done = exported(trained, trained.client_of(None, site), folder, programs)
    for path in sorted(done.folder.rglob("*")):
        if path.is_file():
            print_line(str(path))
    for name, reason in done.left_out.items():
        print_line(f"not written: {name} ({reason})")
