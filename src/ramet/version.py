"""The version of Ramet, and of what it runs with."""

from __future__ import annotations

from pathlib import Path

__version__ = "0.1.0"
_PACKAGES = ("ramet", "torch", "torch_geometric", "numpy", "scikit-learn", "flwr", "ray")


def versions() -> dict[str, str]:
    """Versions of Python, the platform and the packages that decide results."""
    import importlib.metadata  # slow to import, and `import ramet` needs only the number above
    import platform

    installed = {"python": platform.python_version(), "platform": platform.platform()}
    for package in _PACKAGES:
        try:
            installed[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return installed


def provenance() -> dict[str, str]:
    """The processor, and the commit of the code if it is run from a Git checkout."""
    found = {"processor": _processor()}
    commit = _commit(Path(__file__).parents[2])
    return found | ({"commit": commit} if commit else {})


def _processor() -> str:
    import platform

    cpus = Path("/proc/cpuinfo")
    lines = cpus.read_text().splitlines() if cpus.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()


def _commit(root: Path) -> str | None:
    """The commit, with `+changes` if files differ from it; None without a checkout or Git."""
    import shutil
    import subprocess

    git = shutil.which("git")
    if git is None or not (root / ".git").exists():
        return None

    def answer(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [git, "-C", str(root), *words], capture_output=True, text=True, check=False
        )

    commit = answer("rev-parse", "HEAD")
    if commit.returncode:
        return None
    changed = answer("status", "--porcelain", "--untracked-files=no", "--", "src").stdout
    return commit.stdout.strip() + ("+changes" if changed else "")
