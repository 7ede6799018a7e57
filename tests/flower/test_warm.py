"""How the SuperExec starts programs."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest
from flwr.supercore.constant import TaskType
from flwr.supercore.superexec.executor import ExecutionSpec

from ramet.flower.patches.executor import ForkingExecutor, HidingExecutor

TOKEN = "0123456789abcdef" * 4
PROGRAM = f"""#!{sys.executable}
import argparse, json, os, pathlib, sys
from flwr.common.args import add_args_flwr_app_common, try_obtain_flwr_app_token
parser = argparse.ArgumentParser()
parser.add_argument("--runtime-api-address")
add_args_flwr_app_common(parser=parser)
token = try_obtain_flwr_app_token(parser.parse_args())
seen = pathlib.Path("/proc/self/cmdline").read_text().split(chr(0))
pathlib.Path("seen.new").write_text(json.dumps([token, seen]))
os.rename("seen.new", "seen.json")
"""


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs /proc")
@pytest.mark.parametrize(
    ("executor", "kind"),
    [
        (ForkingExecutor, TaskType.SERVER_APP),
        (ForkingExecutor, TaskType.SIMULATION),
        (HidingExecutor, TaskType.CLIENT_APP),
    ],
)
def test_a_program_gets_its_token_without_showing_it(
    executor: type[HidingExecutor], kind: TaskType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("flwr-serverapp", "flwr-simulation", "flwr-clientapp"):
        (tmp_path / name).write_text(PROGRAM)
        (tmp_path / name).chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.chdir(tmp_path)
    spec = ExecutionSpec(
        task_type=kind,
        runtime_api_address="127.0.0.1:9091",
        token=TOKEN,
        insecure=True,
        root_certificates_path=None,
        parent_pid=None,
        runtime_dependency_install=False,
        suppress_output=False,
        task_id=1,
    )
    executor().launch(spec)
    end = time.monotonic() + 60
    while not (tmp_path / "seen.json").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    token, command_line = json.loads((tmp_path / "seen.json").read_text())
    assert token == TOKEN
    assert "--insecure" in command_line
    assert not any(TOKEN in word for word in command_line)
