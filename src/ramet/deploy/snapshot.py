"""What is known of a side from what lies on its disk: for metrics, status and watching alike.

Read without PyTorch, since those who watch do so all day.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any

from ramet.deploy import keys
from ramet.deploy.coordinator import Coordinator
from ramet.deploy.site import Site
from ramet.errors import RametError
from ramet.events import NAME, read_lines

STATES = ("submitted", "running", "finished", "stopped", "failed")
OUTCOMES = {"reply refused": "refused", "no reply": "missing"}
PROBLEMS = ("app refused", "data problem", "message failed")
_AUDIT = "audit.jsonl"
_LATELY = 10
_ASKING_AGAIN = 60.0


@dataclass
class RunFacts:
    """The coordinator's last run, as its events tell it."""

    run: str = ""
    method: str = ""
    state: str = STATES[0]
    reason: str = ""
    round: int = 0
    rounds: int = 0
    committed: int = 0
    asked: int = 0
    answered: list[str] = field(default_factory=list)
    """In the last committed round."""
    without: dict[str, str] = field(default_factory=dict)
    """Clients whose last reply is missing or refused, and why."""
    replies: Counter[tuple[str, str]] = field(default_factory=Counter)  # (client, outcome)
    seconds: list[float] = field(default_factory=list)  # of each committed round
    retries: int = 0
    quorums_missed: int = 0
    bytes_up: int = 0
    bytes_down: int = 0
    scores: dict[str, float] = field(default_factory=dict)
    news: str = ""

    @property
    def seconds_left(self) -> float | None:
        """By the mean of the last rounds."""
        if self.state != "running" or not self.seconds:
            return None
        return fmean(self.seconds[-_LATELY:]) * (self.rounds - self.committed)

    def take(self, event: Mapping[str, Any]) -> None:
        self.news = event["time"]
        match event["event"]:
            case "run submitted":
                self.state, self.reason = "submitted", ""
            case "run begun":
                self.run, self.method = event["run"], event["method"]
                self.rounds, self.committed = event["rounds"], event["round"] - 1
                self.state = "running"
            case "round begun":
                self.round, self.asked = event["round"], event["asked"]
            case "reply refused" | "no reply" as what:
                client = event["client"]
                self.replies[client, OUTCOMES[what]] += 1
                self.without[client] = f"{event['reason']} (round {event['round']})"
            case "asked again":
                self.retries += 1
            case "quorum missed":
                self.quorums_missed += 1
            case "round committed":
                self.committed, self.answered = event["round"], event["answered"]
                self.seconds.append(event["seconds"])
                for client in self.answered:
                    self.replies[client, "sound"] += 1
                    self.without.pop(client, None)
            case "round evaluated":
                self.scores = {name: event[name] for name in ("test", "val")}
                self.bytes_up += event["bytes_up"]
                self.bytes_down += event["bytes_down"]
            case "run finished" | "submission ended":
                self.state = "finished"
            case "run stopped" | "submission stopped" if self.state not in ("finished", "failed"):
                self.state = "stopped"
            case "run failed" | "submission failed" if self.state != "finished":
                self.state, self.reason = "failed", self.reason or event["reason"]


@dataclass(frozen=True)
class Left:
    """What left a site in one run, or in all of them."""

    replies: int = 0
    tensors: int = 0
    bytes: int = 0
    last: str = ""
    run: str = ""
    round: int = 0

    def __add__(self, other: Left) -> Left:
        return replace(
            max(self, other, key=lambda one: one.last),
            replies=self.replies + other.replies,
            tensors=self.tensors + other.tensors,
            bytes=self.bytes + other.bytes,
        )


@dataclass(frozen=True)
class Facts:
    """One look at a side."""

    processes: Mapping[str, int | None]
    lost: frozenset[str]
    """Services that `ramet deploy start` started and that are gone."""
    certificates: Mapping[str, float]  # name -> Unix time of its end
    disk_free: int
    sites: Mapping[str, str] = field(default_factory=dict)  # the SuperLink's view, if it was asked
    trouble: str = ""
    """Why the SuperLink could not be asked."""
    run: RunFacts | None = None
    left: Left | None = None
    problems: Counter[str] = field(default_factory=Counter)
    last_problem: str = ""


class Look:
    """Gathers a side's facts. What the SuperLink says costs seconds: ask it now and then."""

    def __init__(self, side: Coordinator | Site) -> None:
        self._side = side
        self._sites: Mapping[str, str] = {}
        self._trouble = ""

    def ask(self) -> None:
        if isinstance(self._side, Coordinator):
            try:
                self._sites, self._trouble = self._side.online(), ""
            except RametError as error:
                self._sites, self._trouble = {}, str(error)

    def keep_asking(self) -> None:
        def always() -> None:
            while True:
                self.ask()
                time.sleep(_ASKING_AGAIN)

        threading.Thread(target=always, daemon=True).start()

    def facts(self) -> Facts:
        side, services = self._side, self._side.services()
        found = [side.folder / "server.pem", side.folder / "authority.pem"]
        processes = {service.name: service.process() for service in services}
        return Facts(
            processes={name: one and one.pid for name, one in processes.items()},
            lost=frozenset(s.name for s in services if s.is_wanted and not processes[s.name]),
            certificates={
                path.stem: keys.expiry(path.read_text()).timestamp()
                for path in found
                if path.exists()
            },
            disk_free=shutil.disk_usage(side.folder).free,
            **(self._of_coordinator() if isinstance(side, Coordinator) else self._of_site()),
        )

    def _of_coordinator(self) -> dict[str, Any]:
        return {
            "sites": self._sites,
            "trouble": self._trouble,
            "run": last_run(self._side.events),
        }

    def _of_site(self) -> dict[str, Any]:
        logs = sorted((self._side.folder / "state").rglob(_AUDIT))
        problems = [event for event in _kept(self._side.events) if event["event"] in PROBLEMS]
        return {
            "left": sum((_left(path, path.stat().st_size) for path in logs), Left()),
            "problems": Counter(problem["event"] for problem in problems),
            "last_problem": _problem(problems[-1]) if problems else "",
        }


def last_run(events: Path) -> RunFacts | None:
    """The run that was submitted last; its own events lie in its folder."""
    told = _kept(events)
    submitted = [n for n, event in enumerate(told) if event["event"] == "run submitted"]
    if not submitted:
        return None
    since = told[submitted[-1] :]
    own = _kept(Path(since[0]["folder"]) / NAME)
    facts = RunFacts()
    for event in sorted([*since, *own], key=lambda event: str(event["time"])):
        facts.take(event)
    return facts


def _kept(path: Path) -> list[dict[str, Any]]:
    return _kept_at(path, path.stat().st_size) if path.exists() else []


@lru_cache(maxsize=8)
def _kept_at(path: Path, size: int) -> list[dict[str, Any]]:  # noqa: ARG001 (another size is news)
    return read_lines(path)


@lru_cache(maxsize=4096)
def _left(path: Path, size: int) -> Left:  # noqa: ARG001
    """What one audit log tells. Those of finished runs do not grow, so they are read once."""
    replies = read_lines(path)
    tensors = [tensor for reply in replies for tensor in reply["tensors"]]
    last = replies[-1] if replies else {}
    return Left(
        replies=len(replies),
        tensors=len(tensors),
        bytes=sum(tensor["bytes"] for tensor in tensors),
        last=last.get("time", ""),
        run=last.get("run", ""),
        round=last.get("round", 0),
    )


def _problem(event: Mapping[str, Any]) -> str:
    why = event.get("reason") or f"SHA-256 {event.get('sha256')}"
    return f"{event['event']} at {event['time']}: {why}"
