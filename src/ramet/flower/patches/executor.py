"""Executors of Flower's SuperExec: one that hides its tokens, and one that forks client apps.

Flower starts all programs with a token on the command line, which every account of the machine can
read, and which lets anyone speak for the app. Here they inherit it in a file without a name.

Flower starts a new `flwr-clientapp` for every message, which spends seconds on imports alone. Here
Python's fork server does these imports once. Each message still gets its own process, forked from
the fork server.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from typing import Any

from flwr.supercore.constant import (
    TASK_TYPE_TO_APPIO_API_ADDRESS_ARG,
    TASK_TYPE_TO_COMMAND,
    TaskType,
)
from flwr.supercore.superexec.executor import ExecutionSpec, LaunchResult, SubprocessExecutor

from ramet.flower.guard import enable_guard_if_configured
from ramet.flower.patches import applied

_CLIENT_APP = "flwr.supernode.runtime.run_clientapp"
_PRELOADED = (
    _CLIENT_APP,
    "httpcore",
    "ramet.flower.client_app",
    "ramet.flower.signing",
    "ramet.flower.patches.executor",
)
_FIRST_PAUSE, _LAST_PAUSE, _PAUSE_GROWTH = 0.02, 1.0, 1.1
"""Seconds between two requests for a task, in addition to Flower's own interval."""


class HidingExecutor(SubprocessExecutor):
    """Starts programs as Flower does, but for the token."""

    def launch(self, spec: ExecutionSpec) -> LaunchResult:
        program, option = TASK_TYPE_TO_COMMAND, TASK_TYPE_TO_APPIO_API_ADDRESS_ARG
        words = [program[spec.task_type], option[spec.task_type], spec.runtime_api_address]
        if spec.insecure:
            words += ["--insecure"]
        elif spec.root_certificates_path is not None:
            words += ["--root-certificates", spec.root_certificates_path]
        if spec.parent_pid is not None:
            words += ["--parent-pid", str(spec.parent_pid)]
        if spec.runtime_dependency_install:
            words += ["--allow-runtime-dependency-installation"]
        output = subprocess.DEVNULL if spec.suppress_output else None
        with tempfile.TemporaryFile() as token:
            token.write(spec.token.encode())
            token.seek(0)
            words += ["--token-file", f"/dev/fd/{token.fileno()}"]
            subprocess.Popen(words, stdout=output, stderr=output, pass_fds=[token.fileno()])
        return LaunchResult.accepted()


class ForkingExecutor(HidingExecutor):
    """Forks client apps; starts all other programs."""

    def __init__(self) -> None:
        self._pause = _FIRST_PAUSE
        self._forkserver = multiprocessing.get_context("forkserver")
        self._forkserver.set_forkserver_preload([*_PRELOADED])

    def launch(self, spec: ExecutionSpec) -> LaunchResult:
        self._pause = _FIRST_PAUSE
        if spec.task_type != TaskType.CLIENT_APP:
            return super().launch(spec)
        self._forkserver.Process(target=_client_app, args=(spec,), daemon=True).start()
        return LaunchResult.accepted()

    def reconcile(self) -> None:
        """Reap children, and wait: Flower calls this before it asks for a task.

        The longer there was no task, the longer the pause.
        """
        multiprocessing.active_children()
        time.sleep(self._pause)
        self._pause = min(_PAUSE_GROWTH * self._pause, _LAST_PAUSE)


def hide_tokens() -> None:
    """Make Flower's SuperExec use the executor that hides tokens."""
    _use(HidingExecutor)


def fork_client_apps() -> None:
    """Make Flower's SuperExec use the executor that forks client apps."""
    os.environ["FLWR_SUPEREXEC_TASK_POLL_INTERVAL"] = "0.01"  # the executor has its own pause
    _use(ForkingExecutor)


def _use(executor: type[SubprocessExecutor]) -> None:
    superexec: Any = import_module("flwr.supercore.superexec.run_superexec")
    superexec.get_executor = lambda *_, **__: executor()


def _client_app(spec: ExecutionSpec) -> None:
    from flwr.supercore.tls import validate_and_resolve_root_certificates

    sys.argv = ["flwr-clientapp"]
    enable_guard_if_configured()
    applied("quick-app-objects")
    import_module(_CLIENT_APP).run_clientapp(
        runtime_api_address=spec.runtime_api_address,
        token=spec.token,
        insecure=spec.insecure,
        certificates=validate_and_resolve_root_certificates(
            spec.root_certificates_path, spec.insecure
        ),
        parent_pid=spec.parent_pid,
        runtime_dependency_install=spec.runtime_dependency_install,
    )
