"""A run on a Ray cluster of two nodes gives the numbers of the local engine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import ramet
from ramet.flower.programs import free_ports

pytestmark = [pytest.mark.e2e, pytest.mark.thorough]
OWN = """
from dataclasses import replace
from pathlib import Path

from ramet import fedstar
from ramet.training.local import LocalTraining


class Noted(LocalTraining):
    def fit(self, session, penalty=None):
        import ray

        if ray.is_initialized():
            (Path({folder!r}) / ray.get_runtime_context().get_node_id()).touch()
        return super().fit(session, penalty)


def noted():
    return replace(fedstar(), name="noted", training=Noted())
"""


@contextmanager
def ray_node(*arguments: str, log: Path) -> Iterator[None]:
    """A node of a cluster with one core. `ray stop` would stop those of other users too."""
    program = Path(sys.executable).parent / "ray"
    words = [str(program), "start", "--block", "--num-cpus=1", "--disable-usage-stats", *arguments]
    words += ["--node-ip-address=127.0.0.1", "--object-store-memory=100000000"]
    with log.open("w") as output:
        node = subprocess.Popen(words, stdout=output, stderr=output, start_new_session=True)
    try:
        yield
    finally:
        node.terminate()  # also ends the node's processes
        try:
            node.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(node.pid, signal.SIGKILL)
            node.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """The address of a cluster of two nodes on this machine."""
    (port,) = free_ports(1)
    with (
        tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as short,  # sockets need short paths
        ray_node(
            "--head",
            f"--port={port}",
            f"--temp-dir={short}",
            "--include-dashboard=false",
            log=tmp_path / "head.log",
        ),
    ):
        address = f"127.0.0.1:{port}"
        await_nodes(address, 1)
        with ray_node(f"--address={address}", log=tmp_path / "second.log"):
            await_nodes(address, 2)
            yield address


def await_nodes(address: str, count: int) -> None:
    """Wait until a cluster has this number of nodes."""
    program = (
        "import ray, sys, time\n"
        "for _ in range(120):\n"
        "    try:\n"
        f"        ray.init({address!r}, log_to_driver=False)\n"
        "        break\n"
        "    except (ConnectionError, RuntimeError):\n"
        "        time.sleep(0.5)\n"
        f"while sum(node['Alive'] for node in ray.nodes()) < {count}:\n"
        "    time.sleep(0.2)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=180, capture_output=True)


def test_a_cluster_of_two_nodes_gives_the_numbers_of_the_local_engine(
    cluster: str, tmp_path: Path
) -> None:
    own, used = tmp_path / "own.py", tmp_path / "used"
    used.mkdir()
    own.write_text(OWN.format(folder=str(used)))
    method = f"{own}:noted"
    expected = ramet.run(method, "tiny", rounds=3, seed=3, out=tmp_path / "local")
    assert not [*used.iterdir()]
    result = ramet.run(
        method,
        "tiny",
        rounds=3,
        seed=3,
        engine="ray",
        ray_address=cluster,
        out=tmp_path / "shared",
    )
    for fact in ("sha256", "scores", "traffic", "model"):
        assert getattr(result.summary, fact) == getattr(expected.summary, fact)
    assert len([*used.iterdir()]) == 2, "only one node has trained clients"
    assert not [*(tmp_path / "shared").glob("ramet-*")]
