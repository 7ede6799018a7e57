"""A party's facts as Prometheus metrics: names and counts, never a site's data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from threading import Thread
from typing import TypeAlias
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server, write_to_textfile
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector

from ramet.deploy.snapshot import PROBLEMS, Facts, Sent
from ramet.errors import RametError
from ramet.run_progress import STATES, RunProgress
from ramet.scale import PERCENT

HOST = "127.0.0.1"
Values: TypeAlias = float | Mapping[str, float]
Kind: TypeAlias = type[GaugeMetricFamily] | type[CounterMetricFamily]


def serve(facts: Callable[[], Facts], port: int) -> tuple[WSGIServer, Thread]:
    """Serve metrics on loopback, collected on every scrape."""
    try:
        return start_http_server(port, HOST, registry=_registry(facts))
    except OSError as error:
        raise RametError(f"port {port}: {error.strerror}. Choose another with --port.") from error


def write(facts: Callable[[], Facts], path: Path) -> None:
    """Write metrics once, for node_exporter's textfile collector; replaces the file atomically."""
    try:
        write_to_textfile(str(path), _registry(facts))
    except OSError as error:
        raise RametError(f"cannot write {path} ({error.strerror}). Choose another file.") from error


class _Collector(Collector):
    def __init__(self, facts: Callable[[], Facts]) -> None:
        self._facts = facts

    def collect(self) -> Iterator[Metric]:
        facts = self._facts()
        yield from _party_metrics(facts)
        if facts.run:
            yield from _run_metrics(facts.run)
        if facts.accepted_at and facts.period:
            help_text = "When a run was accepted last; before that, when the schedule began"
            yield _gauge("release_accepted_timestamp_seconds", help_text, facts.accepted_at)
            help_text = "The longest time between two scheduled runs"
            yield _gauge("release_period_seconds", help_text, facts.period)
        if facts.runs_left is not None:
            help_text = "How many more runs the policy allows"
            yield _gauge("site_runs_left", help_text, facts.runs_left)
        if facts.sent:
            yield from _site_metrics(facts.sent, facts.problems)
        if facts.heartbeat:
            help_text = "When the coordinator last accepted this site's heartbeat"
            yield _gauge("site_news_timestamp_seconds", help_text, facts.heartbeat)


def _registry(facts: Callable[[], Facts]) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(_Collector(facts))
    return registry


def _party_metrics(facts: Facts) -> Iterator[Metric]:
    help_text = "Whether a service that was started works"
    up = {name: check.ok for name, check in facts.health.items()}
    yield _gauge("service_up", help_text, up, "service")
    help_text = "When a certificate expires"
    expiry = facts.certificates
    yield _gauge("certificate_expiry_timestamp_seconds", help_text, expiry, "certificate")
    yield _gauge("disk_free_bytes", "Free space on the disk of this folder", facts.disk_free)
    online = {site: status == "online" for site, status in facts.sites.items()}
    yield _gauge("site_online", "Whether the SuperLink reports the site as online", online, "site")


def _run_metrics(run: RunProgress) -> Iterator[Metric]:
    info = GaugeMetricFamily("ramet_run_info", "The last run", labels=("run", "method"))
    info.add_metric((run.run, run.method), 1)
    yield info
    states = {state: state == run.state for state in STATES}
    yield _gauge("run_state", "State of the last run", states, "state")
    yield _gauge("run_round", "The last round that started", run.round)
    yield _gauge("run_rounds", "Number of rounds in the run", run.rounds)
    yield _gauge("run_clients_asked", "Clients that the last round sent requests to", run.clients)
    help_text, count, seconds = "Duration of committed rounds", len(run.seconds), sum(run.seconds)
    yield SummaryMetricFamily("ramet_run_round_duration_seconds", help_text, count, seconds)
    if run.seconds:
        help_text = "Duration of the last committed round"
        yield _gauge("run_last_round_duration_seconds", help_text, run.seconds[-1])
    help_text, labels = "Replies by outcome: sound, refused or missing", ("client", "outcome")
    replies = CounterMetricFamily("ramet_run_replies", help_text, labels=labels)
    for key, times in run.replies.items():
        replies.add_metric(key, times)
    yield replies
    yield _counter("run_retries", "Retries after too few valid replies", run.retries)
    help_text = "How often a round had too few valid replies"
    yield _counter("run_quorums_missed", help_text, run.quorums_missed)
    yield _counter("run_received_bytes", "Bytes of arrays received from clients", run.bytes_up)
    yield _counter("run_sent_bytes", "Bytes of arrays sent to clients", run.bytes_down)
    help_text = "Mean score over clients in the last evaluated round"
    name = "run_score_ratio" if run.unit == PERCENT else "run_score"
    yield _gauge(name, help_text, run.scores, "split")
    yield _gauge(
        "run_last_event_timestamp_seconds", "Time of the last event", _time(run.last_event)
    )


def _site_metrics(sent: Sent, problems: Mapping[str, int]) -> Iterator[Metric]:
    yield _counter("site_replies", "Replies that left this site", sent.replies)
    yield _counter("site_sent_bytes", "Bytes of arrays that left this site", sent.bytes)
    yield _counter("site_sent_tensors", "Tensors that left this site", sent.tensors)
    yield _gauge("site_round", "Round of the last reply", sent.round)
    if sent.last:
        help_text = "Time of the last reply"
        yield _gauge("site_last_reply_timestamp_seconds", help_text, _time(sent.last))
    help_text = "Problems by kind: refused apps, invalid data, failed messages"
    counts = {kind: problems.get(kind, 0) for kind in PROBLEMS}
    yield _counter("site_problems", help_text, counts, "kind")


def _gauge(name: str, help_text: str, values: Values, label: str = "") -> Metric:
    return _family(GaugeMetricFamily, name, help_text, values, label)


def _counter(name: str, help_text: str, values: Values, label: str = "") -> Metric:
    return _family(CounterMetricFamily, name, help_text, values, label)


def _family(kind: Kind, name: str, help_text: str, values: Values, label: str) -> Metric:
    if not isinstance(values, Mapping):
        return kind(f"ramet_{name}", help_text, value=values)
    family = kind(f"ramet_{name}", help_text, labels=(label,))
    for key, value in values.items():
        family.add_metric((key,), value)
    return family


def _time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
