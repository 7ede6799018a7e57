"""The version of Ramet, and of what it runs with."""

from __future__ import annotations

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
