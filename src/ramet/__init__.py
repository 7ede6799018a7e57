"""Ramet: federated learning on graphs.

Each site keeps its data and its private encoder, and shares the rest.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ramet.version import __version__

if TYPE_CHECKING:
    from ramet.errors import RametError
    from ramet.methods import *  # noqa: F403 (typed here, and imported on first use)
    from ramet.methods import METHODS, Method
    from ramet.partition import SETTINGS
    from ramet.runs import Result, resume, run
    from ramet.studies.archive import results
    from ramet.studies.tune import tune


_MODULES = {
    "METHODS": "ramet.methods",
    "Method": "ramet.methods",
    "RametError": "ramet.errors",
    "Result": "ramet.runs",
    "SETTINGS": "ramet.partition",
    "results": "ramet.studies.archive",
    "resume": "ramet.runs",
    "run": "ramet.runs",
    "tune": "ramet.studies.tune",
}

__all__ = [
    "METHODS",
    "SETTINGS",
    "Method",
    "RametError",
    "Result",
    "__version__",
    "results",
    "resume",
    "run",
    "tune",
]


if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name: str) -> Any:
        """Import a name on first use, so that `import ramet` and `ramet --help` are fast.

        This includes the factories of methods: `from ramet import fedstar`.
        """
        if name in _MODULES:
            return getattr(import_module(_MODULES[name]), name)
        methods = import_module("ramet.methods") if not name.startswith("_") else None
        if name not in getattr(methods, "__all__", ()):
            raise AttributeError(f"module 'ramet' has no attribute '{name}'")
        return getattr(methods, name)


def __dir__() -> list[str]:
    """All names that :func:`__getattr__` provides, without importing them."""
    from ramet.source_names import exported

    return sorted({*globals(), *__all__, *exported("methods/__init__.py")})
