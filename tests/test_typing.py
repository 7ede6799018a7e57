"""Type checkers know every public name, and accept the methods in the docs with `--strict`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import ramet
from ramet import methods

ROOT = Path(__file__).parents[1]
PAGES = (
    ROOT / "README.md",
    ROOT / "docs" / "your-own-method.md",
    ROOT / "docs" / "your-own-setting.md",
)
NAMES = sorted({*ramet.__all__, *methods.__all__})
_EXAMPLE = re.compile(r"```python\n(# \w+\.py\n.*?)```", re.DOTALL)


def test_public_names_and_the_methods_in_the_docs_are_typed(tmp_path: Path) -> None:
    """One test, because only one mypy at a time may use the cache."""
    for page in PAGES:
        for code in _EXAMPLE.findall(page.read_text()):
            (tmp_path / code.partition("\n")[0].removeprefix("# ")).write_text(code)
    uses = "".join(f"reveal_type(ramet.{name})\n" for name in [*NAMES, "fedmagic"])
    (tmp_path / "names.py").write_text(f"import ramet\n{uses}")
    messages = _checked(tmp_path)
    last = len(NAMES) + 2
    assert [line for line in messages if ": error: " in line] == [
        f'names.py:{last}: error: Module has no attribute "fedmagic"  [attr-defined]'
    ]
    untyped = [line for line in messages if line.endswith('Revealed type is "Any"')]
    assert untyped == [f'names.py:{last}: note: Revealed type is "Any"']
    assert len([line for line in messages if "Revealed type is" in line]) == len(NAMES) + 1


def _checked(folder: Path) -> list[str]:
    """What mypy says about the files of a folder.

    The cache is that of the repository, which `make check` has filled: 4 s instead of a minute.
    """
    files = sorted(path.name for path in folder.glob("*.py"))
    assert len(files) > 5
    settings = ("--config-file", ROOT / "pyproject.toml", "--cache-dir", ROOT / ".mypy_cache")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", *settings, *files],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
    )
    assert not done.stderr
    return done.stdout.splitlines()
