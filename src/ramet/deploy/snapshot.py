"""The facts about a party that are on its disk, for metrics, status and `--watch`.

Does not import PyTorch, because monitoring runs all day.
"""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from ramet.deploy import keys
from ramet.deploy.coordinator import SETTINGS, Coordinator
from ramet.deploy.health import check_services
from ramet.deploy.probes import Check
from ramet.deploy.releases import Releases
from ramet.deploy.site import STATE, Site
from ramet.errors import RametError
from ramet.events import read_lines
from ramet.policy import PolicyError
from ramet.run_progress import RunProgress, events_in, last_run

PROBLEMS = ("app refused", "run refused", "data problem", "message failed")
_AUDIT = "audit.jsonl"  # as in ramet.engine.site.audit, which imports PyTorch
_ANSWERED = "answered.json"  # as in ramet.engine.site.answered, which does too
_POLL_INTERVAL = 60.0


@dataclass(frozen=True)
class Sent:
    """What a site has sent, in one run or in all runs."""

    replies: int = 0
    tensors: int = 0
    bytes: int = 0
    last: str = ""
    run: str = ""
    round: int = 0

    def __add__(self, other: Sent) -> Sent:
        return replace(
            max(self, other, key=lambda sent: sent.last),
            replies=self.replies + other.replies,
            tensors=self.tensors + other.tensors,
            bytes=self.bytes + other.bytes,
        )


@dataclass(frozen=True)
class Facts:
    """A snapshot of a party."""

    processes: Mapping[str, int | None]
    health: Mapping[str, Check]
    """Whether each service that was started works."""
    certificates: Mapping[str, float]  # name -> expiry as Unix time
    disk_free: int
    sites: Mapping[str, str] = field(default_factory=dict)  # status, as reported by the SuperLink
    superlink_error: str = ""
    """Why the SuperLink could not be queried."""
    run: RunProgress | None = None
    accepted: str = ""
    """The run that counts, in a consortium with a schedule."""
    accepted_at: float | None = None
    """When a run was accepted last or, before that, when the schedule began, as Unix time."""
    period: float | None = None
    """The longest time between two scheduled runs, in seconds."""
    runs_left: int | None = None
    """How many more runs the site's policy allows, if it limits them."""
    sent: Sent | None = None
    heartbeat: float | None = None
    """When the coordinator last accepted the site's heartbeat, as Unix time."""
    problems: Counter[str] = field(default_factory=Counter)
    last_problem: str = ""


class Monitor:
    """Collects a party's facts. A query to the SuperLink takes seconds, so its answer is cached."""

    def __init__(self, party: Coordinator | Site) -> None:
        self._party = party
        self._sites: Mapping[str, str] = {}
        self._superlink_error = ""

    def query_superlink(self) -> None:
        if isinstance(self._party, Coordinator):
            try:
                self._sites, self._superlink_error = self._party.site_statuses(), ""
            except RametError as error:
                self._sites, self._superlink_error = {}, str(error)

    def keep_querying(self) -> None:
        def query_forever() -> None:
            while True:
                self.query_superlink()
                time.sleep(_POLL_INTERVAL)

        threading.Thread(target=query_forever, daemon=True).start()

    def facts(self) -> Facts:
        party, services = self._party, self._party.services()
        certificates = [party.folder / "server.pem", party.folder / "authority.pem"]
        processes = {service.name: service.process() for service in services}
        return Facts(
            processes={name: process and process.pid for name, process in processes.items()},
            health=check_services(party),
            certificates={
                path.stem: keys.expiry(path.read_text()).timestamp()
                for path in certificates
                if path.exists()
            },
            disk_free=shutil.disk_usage(party.folder).free,
            **(
                self._coordinator_facts(party)
                if isinstance(party, Coordinator)
                else self._site_facts(party)
            ),
        )

    def _coordinator_facts(self, party: Coordinator) -> dict[str, Any]:
        return {
            "sites": self._sites,
            "superlink_error": self._superlink_error,
            "run": last_run(self._party.events),
            **_schedule_facts(party),
        }

    def _site_facts(self, party: Site) -> dict[str, Any]:
        logs = sorted((party.folder / "state").rglob(_AUDIT))
        problems = [event for event in events_in(party.events) if event["event"] in PROBLEMS]
        return {
            "sent": sum((_sent(path, path.stat().st_size) for path in logs), Sent()),
            "heartbeat": party.last_heartbeat,
            "problems": Counter(problem["event"] for problem in problems),
            "last_problem": _problem_text(problems[-1]) if problems else "",
            "runs_left": _runs_left(party),
        }


def _schedule_facts(party: Coordinator) -> dict[str, Any]:
    schedule = party.consortium.schedule
    if schedule is None:
        return {}
    releases = Releases.read(party.folder)
    first = releases.entries[0] if releases.entries else None
    since = releases.last_accepted or first
    began = (party.folder / SETTINGS).stat().st_mtime
    return {
        "accepted": releases.current or "",
        "accepted_at": datetime.fromisoformat(since.time).timestamp() if since else began,
        "period": schedule.longest_period.total_seconds(),
    }


def _runs_left(party: Site) -> int | None:
    """How many more runs the policy allows; about one that cannot be read, the doctor speaks."""
    with suppress(PolicyError):
        limit, record = party.policy.runs, party.folder / STATE / _ANSWERED
        if limit is not None:
            answered = json.loads(record.read_text())["runs"] if record.exists() else ()
            return max(0, limit - len(answered))
    return None


@lru_cache(maxsize=4096)
def _sent(path: Path, size: int) -> Sent:  # noqa: ARG001
    """The totals of one audit log, read again only if it has grown."""
    replies = read_lines(path)
    tensors = [tensor for reply in replies for tensor in reply["tensors"]]
    last = replies[-1] if replies else {}
    return Sent(
        replies=len(replies),
        tensors=len(tensors),
        bytes=sum(tensor["bytes"] for tensor in tensors),
        last=last.get("time", ""),
        run=last.get("run", ""),
        round=last.get("round", 0),
    )


def _problem_text(event: Mapping[str, Any]) -> str:
    reason = event.get("reason") or f"SHA-256 {event.get('sha256')}"
    return f"{event['event']} at {event['time']}: {reason}"
