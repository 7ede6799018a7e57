"""A side's facts as lines for people; none has a clock in it, so a new line is news."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from rich.filesize import decimal

from ramet.deploy.snapshot import Facts, Left, RunFacts


def status_lines(facts: Facts) -> list[str]:
    lines = [
        f"{name}: {f'runs as process {process}' if process else 'does not run'}"
        for name, process in facts.processes.items()
    ]
    lines += [f"site {site}: {status}" for site, status in facts.sites.items()]
    if facts.trouble:
        lines.append(f"sites: unknown; {facts.trouble}")
    if facts.run:
        lines += _of_run(facts.run)
    if facts.left:
        lines += _of_site(facts.left, facts.last_problem)
    return lines


def _of_run(run: RunFacts) -> Iterator[str]:
    named = f"run {run.run[:8]} of {run.method}" if run.run else "run"
    yield f"{named}: {run.state}" + (f"; {run.reason}" if run.reason else "")
    if not run.round:
        return
    left = run.seconds_left
    until = f", about {timedelta(seconds=round(left))} left" if left is not None else ""
    yield f"round {run.round} of {run.rounds}: {run.asked} clients asked{until}"
    if run.seconds:
        who = ", ".join(run.answered)
        yield f"committed: round {run.committed} in {run.seconds[-1]:.1f} s, answered by {who}"
    if run.scores:
        means = ", ".join(f"{split} {100 * score:.2f} %" for split, score in run.scores.items())
        traffic = f"{decimal(run.bytes_up)} up, {decimal(run.bytes_down)} down"
        yield f"judged last: {means}; {traffic} so far"
    if run.retries:
        yield f"asked again: {run.retries} times"
    for client, reason in run.without.items():
        yield f"without {client}: {reason}"


def _of_site(left: Left, problem: str) -> Iterator[str]:
    if left.replies:
        yield f"last reply: round {left.round} of run {left.run[:8]}, at {left.last}"
    yield f"left this site: {left.replies} replies, {decimal(left.bytes)}"
    if problem:
        yield f"last problem: {problem}"
