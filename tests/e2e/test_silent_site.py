"""Three sites of which one is connected but answers nothing, with real Flower processes."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ramet.events import NAME, read_lines
from ramet.experiment import RunFolder, checked_settings, default_data
from ramet.flower.keeping import kept_supernode
from ramet.flower.programs import Flower, free_ports
from ramet.flower.run_config import to_run_config
from ramet.flower.submission import Submission
from ramet.flower.thin_app import thin_app

pytestmark = [pytest.mark.e2e, pytest.mark.thorough]
DEADLINE = 40.0


@contextmanager
def silent_supernode(flower: Flower, port: int) -> Iterator[None]:
    """A SuperNode that sends heartbeats and takes messages, but has no program to answer them."""
    (own_port,) = free_ports(1)
    command = ["flower-supernode", "--insecure", "--isolation", "process"]
    command += ["--superlink", f"127.0.0.1:{port}", "--port", str(own_port)]
    with (flower.logs / "silent.log").open("wb") as log:
        process = subprocess.Popen(command, env=flower.environment, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def test_a_site_that_is_silent_from_the_start_costs_one_deadline(tmp_path: Path) -> None:
    """It cost three until the end of round 1: connecting took two, and the exchange one more."""
    settings = checked_settings(
        method="fedstar",
        setting="tiny",
        rounds=2,
        engine="superlink",
        data=default_data(),
        deadline=DEADLINE,
    )
    out, (port,) = tmp_path / "run", free_ports(1)
    with tempfile.TemporaryDirectory(prefix="ramet-") as home, ExitStack() as stack:
        flower = Flower(Path(home), tmp_path / "logs")
        stack.callback(flower.kill_leftovers)
        stack.enter_context(flower.superlink(port, simulated=False))
        for client in ("rings", "blocks"):
            node = {"client": client, "state": str(tmp_path / f"site-{client}")}
            stack.enter_context(kept_supernode(flower, client, port, node))
        stack.enter_context(silent_supernode(flower, port))
        started = datetime.now(UTC)
        Submission(flower).run(thin_app(), to_run_config(settings, out), 0, on_poll=lambda: None)
    events = read_lines(out / NAME)
    committed = [event["time"] for event in events if event["event"] == "round committed"]
    seconds = [(datetime.fromisoformat(time) - started).total_seconds() for time in committed]
    assert seconds[0] < 3 * DEADLINE
    assert seconds[1] - seconds[0] < DEADLINE
    named = [e["client"] for e in events if e["event"] == "no reply" and e["round"] == 1]
    assert named == ["trees"]
    why = f"a node is connected, but has not said within {DEADLINE:.0f} s which client it is"
    for record in RunFolder(out).records():
        assert sorted(record.trained) == ["blocks", "rings"]
        assert record.failed == {"trees": why}
