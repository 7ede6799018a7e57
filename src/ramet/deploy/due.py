"""Do what the schedule of a consortium says: train, accept or refuse, and tell the sites.

Everything follows from the log of releases and the day, so the command may be called at any time
and as often as one likes, also by two timers at once, and after a crash.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from filelock import FileLock, Timeout

from ramet.deploy.coordinator import Coordinator
from ramet.deploy.party import Say
from ramet.deploy.registration import REACHED, absent_sites
from ramet.deploy.releases import Entry, Releases
from ramet.deploy.run import ask_for_new_rows, run_consortium, sites_told, tell_sites
from ramet.deploy.schedule import Schedule
from ramet.engine.server.journal import Observer
from ramet.errors import RametError
from ramet.experiment import RunFolder
from ramet.experiment.gate import ANY, judged
from ramet.experiment.superseded import why_superseded
from ramet.flower.new_rows import YES

_ATTEMPTS = 2
"""How often a run is tried in a period before a person has to look."""


@dataclass(frozen=True)
class Due:
    """A coordinator's schedule on a day."""

    party: Coordinator
    day: date
    data: Path
    patience: float
    observe: Observer
    say: Say

    def work(self, again: bool = False) -> bool:
        """Run what is due, if anything is, and tell sites that do not know yet which run counts.

        A run that was stopped or failed is continued once. With ``again``, a new one is begun,
        whatever became of that of the same period. False if no run was accepted for so long that a
        person should look.
        """
        with one_at_a_time(self.party, self.say):
            releases = Releases.read(self.party.folder)
            period = self._schedule.period(self.day)
            if releases.is_done(period) and not again:
                refused = releases.of(period)[-1].event == "refused"
                new = ": its run was refused; `--again` begins a new one"
                self.say(f"nothing is due: {period} is done{new if refused else ''}")
            elif again or releases.begun(period) or self._enough_is_new(releases):
                releases = self._train(releases, period, again)
            tell(self.party, releases, self.say)
        lateness = releases.lateness(period, self._schedule.period_before(self.day))
        if lateness:
            self.say(lateness)
        return lateness is None

    @property
    def _schedule(self) -> Schedule:
        schedule = self.party.consortium.schedule
        if schedule is None:
            raise RametError(
                'the consortium has no schedule. Add [schedule] with every = "month" to '
                "consortium.toml, and rerun `ramet deploy init`."
            )
        return schedule

    def _train(self, releases: Releases, period: str, again: bool) -> Releases:
        releases, run = self._begun(releases, period, again)
        consortium = self.party.consortium.model_copy(update={"sites": run.sites})
        party, path = replace(self.party, consortium=consortium), self._folder(run.run)
        how = self.data, self.patience, self.observe, self.say
        gate = self._schedule.gate
        start = self._folder(run.start_from) if run.start_from else None
        try:
            folder = run_consortium(party, path, *how, start, str(gate.worse) if gate else ANY)
        except RametError as error:
            releases.having(event="failed", run=run.run, period=period, reason=str(error))
            raise
        verdict = judged(folder, gate.worse if gate else None)
        event = "accepted" if verdict.accepted else "refused"
        self.say(f"{run.run}: {event}: {verdict.reason}")
        releases = releases.having(
            event=event, run=run.run, period=period, reason=verdict.reason, scores=verdict.scores
        )
        told = [site for site, why in sites_told(folder).items() if not why]
        return releases.having(event="told", run=run.run, sites=told) if told else releases

    def _begun(self, releases: Releases, period: str, again: bool) -> tuple[Releases, Entry]:
        """The run of the period, to be continued; or a new one."""
        run = releases.begun(period)
        failed = releases.failures(run.run) if run else []
        if run and len(failed) < _ATTEMPTS and not again:
            return releases, run
        if run and not again:
            raise RametError(
                f"{run.run} has failed {len(failed)} times: {failed[-1].reason} It is not tried "
                "again in this period, unless with --again."
            )
        start = releases.current if self._schedule.start == "accepted" else None
        if start and (why := _why_out_of_use(self.party, start)):
            raise RametError(
                f"{start} is {why}, so no run starts from it. Go back to another accepted run with "
                f"`ramet deploy roll-back {self.party.folder} RUN`, or set "
                'start = "seed" under [schedule] for one run, without `gate`.'
            )
        releases = releases.having(
            event="begun",
            run=releases.new_name(period),
            period=period,
            sites=self._online(),
            start_from=start or "",
        )
        return releases, releases.entries[-1]

    def _enough_is_new(self, releases: Releases) -> bool:
        """Whether enough sites say that they have rows which the accepted run had not."""
        needed, run = self._schedule.new, releases.current
        if needed is None or run is None:
            return True
        sites = self._online()
        told = ask_for_new_rows(self.party, RunFolder(self._folder(run)), self.data, sites)
        new = [site for site in sites if told.get(site) == YES]
        if len(new) >= needed:
            self.say(f"new rows at {', '.join(new)}")
            return True
        others = "; ".join(f"{site}: {told.get(site, 'no answer')}" for site in sites)
        self.say(
            f"{len(new)} of {len(sites)} sites have new rows, and the schedule needs {needed} "
            f"({others}). Nothing was run; the next call asks again"
        )
        return False

    def _online(self) -> tuple[str, ...]:
        """The sites that take part."""
        status = self.party.site_statuses()
        online = tuple(site for site, one in status.items() if one in REACHED)
        others = absent_sites(status)
        needed = self._schedule.sites or len(status)
        if len(online) < needed:
            raise RametError(
                f"{len(online)} of {len(status)} sites are online, and the schedule needs "
                f"{needed}: {others}. Nothing was run; the next call tries again."
            )
        if others:
            self.say(f"without some sites: {others}")
        return online

    def _folder(self, run: str) -> Path:
        return run_folder(self.party, run)


def roll_back(party: Coordinator, run: str | None, say: Say) -> None:
    """Let an earlier accepted run count again, by default the one before, and tell the sites."""
    with one_at_a_time(party, say):
        releases = Releases.read(party.folder)
        target = releases.check_accepted(run) if run else releases.before()
        if why := _why_out_of_use(party, target):
            usable = [one for one in releases.accepted if not _why_out_of_use(party, one)]
            raise RametError(
                f"{target} is {why}, so no site may go back to it. "
                f"Accepted and in use are: {', '.join(usable) or 'none'}."
            )
        releases = releases.having(
            event="rolled back", run=target, reason=f"by hand, instead of {releases.current}"
        )
        say(f"{target} counts again")
        tell(party, releases, say)


def tell(party: Coordinator, releases: Releases, say: Say) -> None:
    """Tell the sites that are online and do not know it which run counts."""
    untold = releases.untold()
    if not untold or releases.current is None:
        return
    online = [site for site, one in party.site_statuses().items() if one in REACHED]
    sites = [site for site in untold if site in online]
    why = tell_sites(party, RunFolder(run_folder(party, releases.current)), sites) if sites else {}
    told = tuple(site for site in sites if not why.get(site, "no answer"))
    if told:
        releases.having(event="told", run=releases.current, sites=told)
        say(f"{releases.current}: used by {', '.join(told)}")
    for site in untold:
        if site not in told:
            say(f"{releases.current}: {site} is not told yet: {why.get(site, 'it is not online')}")


def _why_out_of_use(party: Coordinator, run: str) -> str | None:
    """Why no site uses an accepted run again and none starts from it; None if one may."""
    folder = run_folder(party, run)
    return why_superseded(folder) if folder.exists() else f"not in {folder.parent} any more"


def run_folder(party: Coordinator, run: str) -> Path:
    return party.folder / "runs" / run


@contextmanager
def one_at_a_time(party: Coordinator, say: Say) -> Iterator[None]:
    """Wait for a call that is at work."""
    lock = FileLock(party.folder / ".due.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        say("another call is at work; waiting for it")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
