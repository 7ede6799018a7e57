"""Files that a site's TOML names must lie in the TOML's own folder."""

from __future__ import annotations

from pathlib import Path, PurePath

from ramet.data.own.problems import Problems

ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".zst")


def inside(folder: Path, given: str, says: str, problems: Problems) -> Path | None:
    """The file or folder that ``given`` means, or None with a problem in the file that ``says`` so.

    Links are followed before looking where they lead, so that none leads out.
    """
    path = PurePath(given)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in given:
        text = (
            f"'{given}' is no path inside the folder of {says}. Give one without '/' first or '..'"
        )
        problems.add(says, text)
        return None
    if path.suffix.lower() in ARCHIVES:
        problems.add(
            says, f"'{given}' is an archive, and those are not read. Unpack it, name the folder"
        )
        return None
    return _existing(folder, folder / path, given, says, problems)


def members(folder: Path, root: Path, says: str, problems: Problems) -> list[Path]:
    """The files of a folder inside ``root``, by name; a link that leads out is a problem."""
    found = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        name = path.relative_to(root).as_posix()
        real = inside(root, name, says, problems)
        if real is not None:
            found.append(path)
    return found


def _existing(folder: Path, path: Path, given: str, says: str, problems: Problems) -> Path | None:
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError):  # RuntimeError: links in a ring
        problems.add(says, f"there is no '{given}' beside it")
        return None
    if not real.is_relative_to(folder.resolve()):
        problems.add(says, f"'{given}' is a link that leads out of the folder of {says}")
        return None
    if not (real.is_file() or real.is_dir()):
        problems.add(says, f"'{given}' is neither a file nor a folder")
        return None
    return real
