"""Time the documented first steps in a fresh checkout and a fresh environment.

    python benchmarks/first_hour.py

Runs every command of docs/first-run.md, from the first `pip install` to the first figure, then the
methods of docs/your-own-method.md in the local engine, then the tutorials. Commands are run exactly
as documented and timed one by one. Reading and typing time is not included.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[1]
STAMP = "printf '%s\\t%s\\n' $EPOCHREALTIME {} >&3"


def main() -> None:
    first = bash_lines("first-run.md")
    own = [line for line in bash_lines("your-own-method.md") if "--engine" not in line]
    tutorials = sorted((ROOT / "docs" / "tutorials").glob("*.py"))
    shown = [f"python docs/tutorials/{tutorial.name} {tutorial.stem}.png" for tutorial in tutorials]
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder) / "ramet"
        subprocess.run(["git", "clone", "-q", ROOT, checkout], check=True)
        for name, code in python_files("your-own-method.md"):
            (checkout / name).write_text(code)
        done = timed([*first, *own, *shown], checkout)
        pictures = [checkout / "report" / "report.html"]
        pictures += [checkout / f"{tutorial.stem}.png" for tutorial in tutorials]
        missing = [str(picture) for picture in pictures if not picture.exists()]
    if missing:
        sys.exit(f"missing output: {', '.join(missing)}")
    print("| command | seconds | since the start |\n|---|---|---|")
    since = 0.0
    for line, seconds in done:
        since += seconds
        print(f"| `{line}` | {seconds:.1f} | {since:.0f} |")


def bash_lines(page: str) -> list[str]:
    """The commands of a page's bash blocks, without comments."""
    blocks = re.findall(r"^```bash\n(.*?)^```$", text(page), re.MULTILINE | re.DOTALL)
    lines = [re.sub(r"\s+#.*", "", line) for block in blocks for line in block.splitlines()]
    return [line for line in lines if line]


def python_files(page: str) -> list[tuple[str, str]]:
    """The name and code of each Python block whose first line names a file."""
    blocks = re.findall(r"^```python\n(.*?)^```$", text(page), re.MULTILINE | re.DOTALL)
    named = [(re.match(r"# (\w+\.py)\n", block), block) for block in blocks]
    return [(found[1], block) for found, block in named if found]


def text(page: str) -> str:
    return (ROOT / "docs" / page).read_text()


def timed(lines: list[str], folder: Path) -> list[tuple[str, float]]:
    """Run the commands in one shell, which stops at the first failure; time each of them."""
    marked = [f"{STAMP.format(place)}\n{line}" for place, line in enumerate(lines)]
    script = "\n".join(["set -e", "exec 3>stamps 1>&2", *marked, STAMP.format("end")])
    subprocess.run(["bash", "-c", script], cwd=folder, check=True)
    stamps = [float(row.split("\t")[0]) for row in (folder / "stamps").read_text().splitlines()]
    return [
        (line, after - before)
        for line, (before, after) in zip(lines, pairwise(stamps), strict=True)
    ]


if __name__ == "__main__":
    main()
