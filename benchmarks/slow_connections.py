"""Rounds of a consortium while outsiders hold 1,000 slow connections to its proxy.

    PYTHONPATH=tests python benchmarks/slow_connections.py [--connections 1000] [--rounds 12]

A consortium of three sites on this machine runs ROUNDS rounds undisturbed, ROUNDS with connections
whose header or body does not end, and ROUNDS with connections that are silent or end with the
handshake. None has a site's certificate. Then come 100 requests with 60 MB each. Prints seconds per
round, and the SuperLink's memory and open files.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import psutil

from consortia import DeployRun, Members, consortium
from outsiders import BODY, HEADER, IDLE, SILENT, post, slow_connections

SITES = {"north": ("mass",), "south": ("mass",), "east": ("mass",)}
TASK = "graph-classification"
LARGE, LARGE_POSTS = 60 * 10**6, 100
SLOW_KINDS = {"unfinished headers and bodies": (HEADER, BODY), "silent and idle": (SILENT, IDLE)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=12)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ramet-") as folder:
        rounds = 3 * given.rounds + 2
        settings = {"method": "fedavg", "rounds": rounds, "options": {"task": TASK}}
        with consortium(Path(folder), SITES, **settings) as members:
            run = DeployRun(members, Path(folder) / "run")
            measure(members, run, given.connections, given.rounds)
            run.process.wait(600)
            print(f"run ended with exit code {run.process.returncode}")
            post_large_bodies(members)


def measure(members: Members, run: DeployRun, connections: int, rounds: int) -> None:
    port, authority = members.coordinator.consortium.port, members.coordinator.authority
    await_rounds(run, 1 + rounds)
    quiet = seconds(run)[1:]  # without the first round, which waits for the sites
    print(f"undisturbed: {described(quiet)}; {superlink(members)}", flush=True)
    for name, kinds in SLOW_KINDS.items():
        with slow_connections(port, authority, connections, *kinds) as outsiders:
            before = len(seconds(run))
            await_rounds(run, before + rounds)
            during = seconds(run)[before : before + rounds]
            counts, link = outsiders.counts(), superlink(members)
        print(
            f"{connections} connections, {name}: {described(during)}; {link}; at most "
            f"{outsiders.most_open} open, {counts['opened']} opened, {counts['closed']} closed by "
            "the proxy; slowest round relative to the undisturbed median: "
            f"{max(during) / median(quiet):.2f}",
            flush=True,
        )


def post_large_bodies(members: Members) -> None:
    port, authority = members.coordinator.consortium.port, members.coordinator.authority
    before = memory(members)
    answers = Counter(str(post(port, authority, LARGE)) for _ in range(LARGE_POSTS))
    print(
        f"{LARGE_POSTS} requests of {LARGE / 1e6:.0f} MB: {dict(answers)} (None: closed while "
        f"sending); SuperLink {before:.0f} MB before, {memory(members):.0f} MB after"
    )


def await_rounds(run: DeployRun, count: int) -> None:
    while len(seconds(run)) < count:
        assert run.process.poll() is None, "the run has ended"
        time.sleep(0.2)


def seconds(run: DeployRun) -> list[float]:
    """Seconds of each committed round."""
    events = run.out / "events.jsonl"
    lines = events.read_text().splitlines() if events.exists() else []
    read = [json.loads(line) for line in lines if line.endswith("}")]
    return [event["seconds"] for event in read if event["event"] == "round committed"]


def superlink(members: Members) -> str:
    process = _process(members)
    return f"SuperLink {memory(members):.0f} MB, {process.num_fds()} open files"


def memory(members: Members) -> float:
    process = _process(members)
    family = [process, *process.children(recursive=True)]
    return float(sum(member.memory_info().rss for member in family)) / 1e6


def _process(members: Members) -> psutil.Process:
    process = members.service("coordinator", "superlink").process()
    assert process is not None
    return process


def described(times: Sequence[float]) -> str:
    return f"{len(times)} rounds, median {median(times):.2f} s, slowest {max(times):.2f} s"


if __name__ == "__main__":
    main()
