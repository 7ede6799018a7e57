"""Resolve paths in a site's TOML file, which must stay inside its folder."""

from __future__ import annotations

from pathlib import Path, PurePath

from ramet.data.own.problems import Problems

ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".zst")


def resolve_inside(folder: Path, given: str, toml: str, problems: Problems) -> Path | None:
    """Resolve the path ``given`` in the file ``toml``, or report why not and return None.

    Symbolic links are resolved first, so that none can point outside the folder.
    """
    path = PurePath(given)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in given:
        text = (
            f"'{given}' is not a path inside the folder of {toml}. Use a relative path without '..'"
        )
        problems.add(toml, text)
        return None
    if path.suffix.lower() in ARCHIVES:
        problems.add(
            toml, f"'{given}' is an archive, which is not supported. Unpack it and name the folder"
        )
        return None
    return _existing(folder, folder / path, given, toml, problems)


def list_files(folder: Path, root: Path, toml: str, problems: Problems) -> list[Path]:
    """List the files of a folder inside ``root`` by name; links that point outside are problems."""
    files = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        name = path.relative_to(root).as_posix()
        real = resolve_inside(root, name, toml, problems)
        if real is not None:
            files.append(path)
    return files


def _existing(folder: Path, path: Path, given: str, toml: str, problems: Problems) -> Path | None:
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError):  # RuntimeError: a cycle of links
        hint = ". Write paths with / instead of \\" if "\\" in given else ""
        problems.add(toml, f"there is no '{given}' in its folder{hint}")
        return None
    if not real.is_relative_to(folder.resolve()):
        problems.add(toml, f"'{given}' is a link that points outside the folder of {toml}")
        return None
    if not (real.is_file() or real.is_dir()):
        problems.add(toml, f"'{given}' is neither a file nor a folder")
        return None
    return real
