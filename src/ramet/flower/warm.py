"""A SuperExec whose client apps start with PyTorch loaded.

Flower starts a fresh `flwr-clientapp` for every message, and that spends seconds on imports alone.
Here a fork server, Python's own, imports once what every message needs; each message still gets a
process of its own, forked from it. Everything else is Flower's `flower-superexec`.
"""

from __future__ import annotations

import importlib
import multiprocessing
import sys
from typing import Any

from flwr.supercore.constant import TaskType
from flwr.supercore.superexec.executor import ExecutionSpec, LaunchResult, SubprocessExecutor
from flwr.supercore.tls import validate_and_resolve_root_certificates

from ramet.flower.guard import guard_if_listed

_NEEDED = (
    "flwr.supernode.runtime.run_clientapp",
    "ramet.flower.client_app",
    "ramet.flower.signing",
    "ramet.flower.warm",
    "sklearn.model_selection",
)


class WarmExecutor(SubprocessExecutor):
    """Forks client apps, from the first one on; other programs are started as Flower does it."""

    def __init__(self) -> None:
        self._forks = multiprocessing.get_context("forkserver")
        self._forks.set_forkserver_preload([*_NEEDED])

    def launch(self, spec: ExecutionSpec) -> LaunchResult:
        if spec.task_type != TaskType.CLIENT_APP:
            return super().launch(spec)
        self._forks.Process(target=_client_app, args=(spec,), daemon=True).start()
        return LaunchResult.accepted()

    def reconcile(self) -> None:
        multiprocessing.active_children()  # which buries the dead


def _client_app(spec: ExecutionSpec) -> None:
    sys.argv = ["flwr-clientapp"]
    guard_if_listed()
    importlib.import_module("flwr.supernode.runtime.run_clientapp").run_clientapp(
        runtime_api_address=spec.runtime_api_address,
        token=spec.token,
        insecure=spec.insecure,
        certificates=validate_and_resolve_root_certificates(
            spec.root_certificates_path, spec.insecure
        ),
        parent_pid=spec.parent_pid,
        runtime_dependency_install=spec.runtime_dependency_install,
    )


def main() -> None:
    """`flower-superexec`, with the executor above."""

    def warm_executor(*_: Any, **__: Any) -> WarmExecutor:
        return WarmExecutor()

    from flwr.supercore.cli import flower_superexec  # every fork imports this file anew

    superexec = importlib.import_module("flwr.supercore.superexec.run_superexec")
    superexec.get_executor = warm_executor  # type: ignore[attr-defined]
    flower_superexec()


if __name__ == "__main__":
    main()
