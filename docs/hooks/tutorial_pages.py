"""A page for each tutorial, its script in cells with output and figure, and for each example."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

FOLDER = Path(__file__).parents[1] / "tutorials"
EXAMPLES = FOLDER.with_name("examples")
_TEXT, _CELL = "# %% [markdown]\n", "# %%"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    for section in config.nav or []:
        if "Tutorials" in section:
            section["Tutorials"] = [
                "tutorials/README.md",
                *(f"tutorials/{script.stem}.md" for script in scripts()),
            ]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for script in scripts():
        place = f"tutorials/{script.stem}.md"
        files.append(File.generated(config, place, content=page(script)))
    for script in sorted(EXAMPLES.glob("*.py")):
        text = f"# {script.name}\n\n```python\n{script.read_text()}```"
        files.append(File.generated(config, f"examples/{script.stem}.md", content=text))
    return files


def scripts() -> list[Path]:
    """All scripts, in the order of the README."""
    named = (FOLDER / "README.md").read_text()
    return sorted(FOLDER.glob("*.py"), key=lambda script: named.index(f"]({script.name})"))


def page(script: Path) -> str:
    parts = [
        *cells(script.read_text()),
        "## Output",
        f"```text\n{script.with_suffix('.txt').read_text()}```",
        f"![The figure that the script saves]({script.stem}.png)",
    ]
    return "\n\n".join(parts)


def cells(source: str) -> Iterator[str]:
    """Text cells as they are, code cells in fences."""
    for cell in source.split(f"\n{_CELL}"):
        first, _, body = f"{_CELL}{cell.removeprefix(_CELL)}\n".partition("\n")
        if f"{first}\n" == _TEXT:
            yield "\n".join(line.removeprefix("#").removeprefix(" ") for line in body.splitlines())
        elif body.strip():
            yield f"```python\n{body.strip()}\n```"
