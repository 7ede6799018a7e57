"""A party's facts as lines of text, without the current time: a line changes only with state."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from rich.filesize import decimal

from ramet.deploy.snapshot import Facts, Sent
from ramet.run_progress import RunProgress
from ramet.scale import Scale


def status_lines(facts: Facts) -> list[str]:
    lines = [*_service_lines(facts)]
    lines += [f"site {site}: {status}" for site, status in facts.sites.items()]
    if facts.superlink_error:
        lines.append(f"sites: unknown; {facts.superlink_error}")
    if facts.run:
        lines += _run_lines(facts.run)
    if facts.accepted and facts.accepted_at:
        day = datetime.fromtimestamp(facts.accepted_at, UTC)
        lines.append(
            f"the run that counts: {facts.accepted}; the last was accepted on {day:%Y-%m-%d}"
        )
    if facts.sent:
        lines += _site_lines(facts.sent, facts.runs_left, facts.last_problem)
    return lines


def _service_lines(facts: Facts) -> Iterator[str]:
    for name, process in facts.processes.items():
        health = facts.health.get(name)
        problem = f", but {health.detail}" if process and health and not health.ok else ""
        yield f"{name}: {f'running, process {process}' if process else 'not running'}{problem}"


def _run_lines(run: RunProgress) -> Iterator[str]:
    name = f"run {run.run[:8]} of {run.method}" if run.run else "run"
    yield f"{name}: {run.state}" + (f"; {run.reason}" if run.reason else "")
    if not run.round:
        return
    left = run.seconds_left
    estimate = f", about {timedelta(seconds=round(left))} left" if left is not None else ""
    yield f"round {run.round} of {run.rounds}, clients: {run.clients}{estimate}"
    if run.seconds:
        clients = ", ".join(run.replied)
        yield f"committed: round {run.committed} in {run.seconds[-1]:.1f} s, replies from {clients}"
    if run.scores:
        scale = Scale(unit=run.unit)
        means = ", ".join(
            f"{split} {scale.shown(score)}{scale.suffix}" for split, score in run.scores.items()
        )
        traffic = f"{decimal(run.bytes_up)} up, {decimal(run.bytes_down)} down"
        yield f"last evaluation: {means}; {traffic} so far"
    if run.retries:
        yield f"retries: {run.retries}"
    for client, reason in run.missing.items():
        yield f"no valid reply from {client}: {reason}"


def _site_lines(sent: Sent, runs_left: int | None, problem: str) -> Iterator[str]:
    if sent.replies:
        what = f"round {sent.round} of run {sent.run[:8]}" if sent.run else "before a run"
        yield f"last reply: {what}, at {sent.last}"
    yield f"sent by this site: {sent.replies} replies, {decimal(sent.bytes)}"
    if runs_left is not None:
        yield f"runs that the policy still allows: {runs_left}"
    if problem:
        yield f"last problem: {problem}"
