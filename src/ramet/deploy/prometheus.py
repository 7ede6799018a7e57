"""A side's facts in the form that Prometheus reads. Names and counts alone: never a site's data."""

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

from ramet.deploy.snapshot import PROBLEMS, STATES, Facts, Left, RunFacts
from ramet.errors import RametError

HOST = "127.0.0.1"
Values: TypeAlias = float | Mapping[str, float]
Kind: TypeAlias = type[GaugeMetricFamily] | type[CounterMetricFamily]


def serve(facts: Callable[[], Facts], port: int) -> tuple[WSGIServer, Thread]:
    """Answer Prometheus on loopback; each scrape looks anew."""
    try:
        return start_http_server(port, HOST, registry=_registry(facts))
    except OSError as error:
        raise RametError(f"port {port}: {error.strerror}. Give another with --port.") from error


def write(facts: Callable[[], Facts], path: Path) -> None:
    """Once, for node_exporter's textfile collector; the file is replaced as a whole."""
    try:
        write_to_textfile(str(path), _registry(facts))
    except OSError as error:
        raise RametError(f"cannot write {path} ({error.strerror}). Give another file.") from error


class _Collector(Collector):
    def __init__(self, facts: Callable[[], Facts]) -> None:
        self._facts = facts

    def collect(self) -> Iterator[Metric]:
        facts = self._facts()
        yield from _of_side(facts)
        if facts.run:
            yield from _of_run(facts.run)
        if facts.left:
            yield from _of_site(facts.left, facts.problems)


def _registry(facts: Callable[[], Facts]) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(_Collector(facts))
    return registry


def _of_side(facts: Facts) -> Iterator[Metric]:
    about = "Whether what `ramet deploy start` started runs"
    wanted = {k: pid for k, pid in facts.processes.items() if pid or k in facts.lost}
    yield _gauge("service_up", about, {k: bool(pid) for k, pid in wanted.items()}, "service")
    about = "When a certificate ends"
    ends = facts.certificates
    yield _gauge("certificate_expiry_timestamp_seconds", about, ends, "certificate")
    yield _gauge("disk_free_bytes", "Free on the disk of this folder", facts.disk_free)
    online = {site: status == "online" for site, status in facts.sites.items()}
    yield _gauge("site_online", "Whether the SuperLink sees the site", online, "site")


def _of_run(run: RunFacts) -> Iterator[Metric]:
    info = GaugeMetricFamily("ramet_run_info", "The last run", labels=("run", "method"))
    info.add_metric((run.run, run.method), 1)
    yield info
    states = {state: state == run.state for state in STATES}
    yield _gauge("run_state", "How far the last run is", states, "state")
    yield _gauge("run_round", "The round that was begun last", run.round)
    yield _gauge("run_rounds", "Rounds of the whole run", run.rounds)
    yield _gauge("run_clients_asked", "Clients asked in the last round", run.asked)
    about, count, seconds = "Of committed rounds", len(run.seconds), sum(run.seconds)
    yield SummaryMetricFamily("ramet_run_round_duration_seconds", about, count, seconds)
    if run.seconds:
        about = "Of the last committed round"
        yield _gauge("run_last_round_duration_seconds", about, run.seconds[-1])
    about, labels = "Replies: sound, refused, or missing", ("client", "outcome")
    replies = CounterMetricFamily("ramet_run_replies", about, labels=labels)
    for key, times in run.replies.items():
        replies.add_metric(key, times)
    yield replies
    yield _counter("run_retries", "How often clients were asked again", run.retries)
    about = "How often a round had too few sound replies"
    yield _counter("run_quorums_missed", about, run.quorums_missed)
    yield _counter("run_received_bytes", "Arrays from clients", run.bytes_up)
    yield _counter("run_sent_bytes", "Arrays to clients", run.bytes_down)
    about = "Mean over clients in the round evaluated last"
    yield _gauge("run_score_ratio", about, run.scores, "split")
    yield _gauge("run_last_event_timestamp_seconds", "Last news", _time(run.news))


def _of_site(left: Left, problems: Mapping[str, int]) -> Iterator[Metric]:
    yield _counter("site_replies", "Replies that left this site", left.replies)
    yield _counter("site_sent_bytes", "Arrays that left this site", left.bytes)
    yield _counter("site_sent_tensors", "Tensors that left this site", left.tensors)
    yield _gauge("site_round", "The round of the last reply", left.round)
    if left.last:
        about = "When the last reply left"
        yield _gauge("site_last_reply_timestamp_seconds", about, _time(left.last))
    about = "Refused apps, unfit data, failed messages"
    counts = {kind: problems.get(kind, 0) for kind in PROBLEMS}
    yield _counter("site_problems", about, counts, "kind")


def _gauge(name: str, about: str, given: Values, label: str = "") -> Metric:
    return _filled(GaugeMetricFamily, name, about, given, label)


def _counter(name: str, about: str, given: Values, label: str = "") -> Metric:
    return _filled(CounterMetricFamily, name, about, given, label)


def _filled(kind: Kind, name: str, about: str, given: Values, label: str) -> Metric:
    if not isinstance(given, Mapping):
        return kind(f"ramet_{name}", about, value=given)
    family = kind(f"ramet_{name}", about, labels=(label,))
    for key, value in given.items():
        family.add_metric((key,), value)
    return family


def _time(told: str) -> float:
    return datetime.fromisoformat(told).timestamp()
