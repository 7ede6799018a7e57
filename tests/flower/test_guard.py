"""A site runs only the apps on its own list, and never imports another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ramet.errors import RametError
from ramet.flower.guard import LIST_VARIABLE, app_hash, check_accepted, check_app, write_guard
from ramet.flower.keeping import kept_supernode
from ramet.flower.programs import Flower, free_ports
from ramet.flower.submission import Submission
from ramet.flower.thin_app import thin_app, write_app

SERVER = """
import json, time
from pathlib import Path

from flwr.app import Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp

app = ServerApp()

@app.main()
def main(grid: Grid, context: Context) -> None:
    while not (nodes := list(grid.get_node_ids())):
        time.sleep(0.2)
    requests = [Message(RecordDict(), node, "query") for node in nodes]
    (reply,) = grid.send_and_receive(requests, timeout=300)
    answer = reply.error.reason if reply.has_error() else "imported"
    Path(context.run_config["out"]).write_text(json.dumps(answer))
"""
CLIENT = """
import sys
from pathlib import Path

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

Path(MARK).write_text("warm" if "torch" in sys.modules else "cold")
app = ClientApp()

@app.query()
def query(message: Message, context: Context) -> Message:
    return Message(RecordDict(), reply_to=message)
"""
PYPROJECT = """
[project]
name = "stranger"
version = "1.0.0"
description = "an app that is not on the site's list"
license = "MIT"

[tool.flwr.app]
publisher = "stranger"

[tool.flwr.app.components]
serverapp = "stranger.server:app"
clientapp = "stranger.client:app"

[tool.flwr.app.config]
out = ""
"""


def test_the_hash_depends_only_on_the_content(tmp_path: Path) -> None:
    for name in ("one", "two", "other"):
        (tmp_path / name).mkdir()
        write_app(tmp_path / name)
    assert app_hash(tmp_path / "one") == app_hash(tmp_path / "two") == app_hash(thin_app())
    text = (thin_app() / "pyproject.toml").read_text()
    changed = text.replace("client_app:app", "server_app:app")
    (tmp_path / "other" / "pyproject.toml").write_text(changed)
    assert app_hash(tmp_path / "other") != app_hash(thin_app())


def test_only_listed_apps_and_methods_are_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = tmp_path / "accepted.txt"
    # SHA-256 of "abc", as FIPS 180-2 prints it
    listed.write_text(
        "# ours\nba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad # v1\n"
        "mine.py:mine\n"
    )
    check_app(b"abc", listed)
    with pytest.raises(RametError, match="does not accept the app with the SHA-256 e3b0c442"):
        check_app(b"", listed)
    check_accepted({"method": "other.py:other"})  # without a list everything is accepted
    monkeypatch.setenv(LIST_VARIABLE, str(listed))
    check_accepted({"method": "fedstar"})
    check_accepted({"method": "fed-gcn", "network": "sage"})
    check_accepted({"method": "mine.py:mine", "setting": "tiny"})
    with pytest.raises(RametError, match="does not accept the method 'os:system'"):
        check_accepted({"method": "os:system"})
    check_accepted({"method": "fedstar", "activation": "restart,alpha=0.3", "merge": "krum"})
    check_accepted({"method": "fedstar", "activation": "mine.py:mine,count=2"})
    for kind in ("network", "activation", "merge"):
        with pytest.raises(RametError, match=f"does not accept the {kind} 'os:system'"):
            check_accepted({"method": "fedavg", kind: "os:system,command=true"})


def test_other_kinds_of_apps_are_disabled_and_an_existing_list_is_kept(tmp_path: Path) -> None:
    listed = write_guard(tmp_path, ["a" * 64])
    listed.write_text("# nothing\n")
    write_guard(tmp_path, ["a" * 64])
    assert listed.read_text() == "# nothing\n"
    for name in ("flwr-agentapp", "flwr-connector", "flwr-model"):
        done = subprocess.run([tmp_path / name], capture_output=True, text=True, check=False)
        assert (done.returncode, "is closed" in done.stderr) == (1, True)


def test_a_program_that_is_written_again_while_it_starts_still_runs(tmp_path: Path) -> None:
    """Each site of a run writes the programs, while those of other sites start."""
    write_guard(tmp_path, [])
    script = (
        "import sys; from pathlib import Path; from ramet.flower.guard import write_guard\n"
        "print(flush=True)\n"
        "while True: write_guard(Path(sys.argv[1]), [])"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        try:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"\n"
            for _ in range(200):
                done = subprocess.run([tmp_path / "flwr-model"], capture_output=True, check=False)
                assert (done.returncode, b"is closed" in done.stderr) == (1, True)
        finally:
            writer.kill()


class GuardedFlower(Flower):
    """Flower's programs with a guard first in PATH."""

    @property
    def environment(self) -> dict[str, str]:
        plain = super().environment
        return {**plain, "PATH": f"{self.home / 'guard'}{os.pathsep}{plain['PATH']}"}


@pytest.mark.e2e
@pytest.mark.parametrize("accepted", [pytest.param(True, marks=pytest.mark.thorough), False])
def test_an_unlisted_app_is_refused_before_it_is_imported(tmp_path: Path, accepted: bool) -> None:
    app, mark, out = tmp_path / "app", tmp_path / "mark", tmp_path / "out.json"
    (app / "stranger").mkdir(parents=True)
    (app / "pyproject.toml").write_text(PYPROJECT)
    (app / "stranger" / "__init__.py").write_text("")
    (app / "stranger" / "client.py").write_text(CLIENT.replace("MARK", repr(str(mark))))
    (app / "stranger" / "server.py").write_text(SERVER)
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory(prefix="ramet-") as home:
        flower = GuardedFlower(Path(home), tmp_path / "logs")
        (Path(home) / "guard").mkdir()
        write_guard(Path(home) / "guard", [app_hash(app) if accepted else app_hash(thin_app())])
        try:
            with (
                flower.superlink(port, simulated=False),
                kept_supernode(flower, "one", port, {"client": "one"}),
            ):
                Submission(flower).run(
                    app, {"out": str(out)}, simulated_clients=0, on_poll=lambda: None
                )
        finally:
            flower.kill_leftovers()
    answer = json.loads(out.read_text())
    assert mark.exists() == accepted
    assert not accepted or mark.read_text() == "warm"  # forked from a process with PyTorch loaded
    assert (answer == "imported") == accepted
    if not accepted:
        assert "this site does not accept the app with the SHA-256" in answer
