"""Quorum and signatures with real Flower processes."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from ramet.engine.site.audit import audit_entries
from ramet.experiment import checked_settings, default_data
from ramet.flower.keeping import kept_supernode
from ramet.flower.programs import Flower, free_ports
from ramet.flower.run_config import to_run_config
from ramet.flower.submission import Submission
from ramet.flower.thin_app import thin_app

pytestmark = pytest.mark.e2e
CLIENTS = ("rings", "trees", "blocks")
BROKEN = """
from dataclasses import replace
from ramet import fedstar

def fails_at_trees(session):
    if session.randomness.who == "trees":
        raise ValueError("the disk is full")
    return lambda: 0.0

def broken():
    return replace(fedstar(), name="broken", penalty=fails_at_trees)
"""


@pytest.mark.thorough
def test_a_run_over_flower_below_the_quorum_fails_with_an_exit_code(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(BROKEN)
    command = [sys.executable, "-m", "ramet", "run", f"{tmp_path}/broken.py:broken"]
    command += ["--engine", "ray", "--rounds", "1", "--quorum", "3", "--out", str(tmp_path / "r")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "2 of 3 clients sent a valid reply in exchange 1, below the quorum of 3" in run.stderr
    assert "the disk is full" in run.stderr
    assert not list((tmp_path / "r" / "server").glob("*.safetensors"))


def _make_key(private: Path, public: Path) -> None:
    key = ec.generate_private_key(ec.SECP384R1())
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))


@pytest.mark.thorough
def test_signed_replies_over_a_superlink(tmp_path: Path) -> None:
    """Two sites sign with their own keys and are merged; the third has a wrong key and is not."""
    keys, out = tmp_path / "keys", tmp_path / "r"
    keys.mkdir()
    for client in CLIENTS:
        _make_key(tmp_path / f"{client}.key", keys / f"{client}.pub")
    used = {"rings": "rings.key", "trees": "rings.key", "blocks": "blocks.key"}
    settings = checked_settings(
        method="fedstar", setting="tiny", rounds=1, engine="superlink", data=default_data()
    )
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory(prefix="ramet-") as home:
        flower = Flower(Path(home), tmp_path / "logs")
        try:
            with flower.superlink(port, simulated=False):
                nodes = []
                for client in CLIENTS:
                    node = {"client": client, "state": str(tmp_path / f"site-{client}")}
                    node["key"] = str(tmp_path / used[client])
                    nodes.append(kept_supernode(flower, client, port, node))
                with nodes[0], nodes[1], nodes[2]:
                    config = {**to_run_config(settings, out), "keys": str(keys)}
                    Submission(flower).run(thin_app(), config, 0, on_poll=lambda: None)
        finally:
            flower.kill_leftovers()
    (record,) = (out / "rounds.jsonl").read_text().splitlines()
    assert sorted(json.loads(record)["trained"]) == ["blocks", "rings"]
    assert json.loads(record)["failed"] == {
        "trees": "its node's introduction is not signed by this client's key for this request"
    }
    sent, _ = audit_entries(tmp_path / "site-rings")
    assert {t.name.partition(".")[0] for reply in sent for t in reply.tensors} == {"structure"}
    assert [reply.round for reply in sent] == [1, 2]
