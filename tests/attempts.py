"""Commands that may be refused, and what they change in a folder.

As a program, with the folder of a pristine copy as its argument, it reads command lines as JSON and
attempts each in the current folder.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from command_line import ramet

WITHOUT_EXTRAS = """\
import sys
from importlib.machinery import PathFinder

MISSING = {missing!r}

class WithoutExtras(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in MISSING else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = WithoutExtras
"""
"""A `sitecustomize` for processes in which packages cannot be imported, and for their children."""


@dataclass(frozen=True)
class Attempt:
    """What came of a command."""

    code: int
    told: str
    changed: list[str]
    """Files that are new, gone, or have another content."""


def attempt(line: str, folder: Path) -> Attempt:
    """Run a command in this process, and compare the folder's files."""
    before = hashes(folder)
    try:
        done = ramet(*shlex.split(line))
        code, told = done.code, done.stdout + done.stderr
    except Exception as error:  # noqa: BLE001 - a crash must not change a folder either
        code, told = 1, repr(error)
    after = hashes(folder)
    changed = {name for name, _ in before.items() ^ after.items()}
    return Attempt(code, told, sorted(changed))


def hashes(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file below a folder, except those by which processes take turns."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".lock"
    }


def restore(folder: Path, pristine: Path) -> None:
    """Give a folder the content of another one, without removing the folder itself."""
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(pristine, folder, dirs_exist_ok=True)


def main() -> None:
    here, pristine = Path.cwd(), Path(sys.argv[1])
    attempts = {}
    for line in json.load(sys.stdin):
        attempts[line] = asdict(attempt(line, here))
        if attempts[line]["changed"]:
            restore(here, pristine)
    json.dump(attempts, sys.stdout)


if __name__ == "__main__":
    main()
