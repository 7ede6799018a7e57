"""A consortium's schedule: what is due when, what the gate accepts, and the log of it all."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from typer.testing import CliRunner

import ramet
from own_sites import node_site
from ramet.cli.main import app
from ramet.deploy import due as due_module
from ramet.deploy.consortium import Consortium, read
from ramet.deploy.coordinator import Coordinator
from ramet.deploy.due import Due, one_at_a_time, roll_back
from ramet.deploy.init import init
from ramet.deploy.releases import NAME, Releases
from ramet.deploy.schedule import Schedule
from ramet.errors import RametError
from ramet.experiment import RunFolder
from ramet.experiment.gate import Verdict, judged
from ramet.experiment.superseded import mark_superseded

SITES = ("north", "south", "east")
MONTHLY: dict[str, Any] = {"every": "month"}


def consortium(root: Path, schedule: dict[str, Any] | None, **more: Any) -> Coordinator:
    given = {
        "name": "hospitals",
        "address": "fl.example.org",
        "sites": SITES,
        "method": "fedavg",
        "options": {"task": "node-classification"},
        **more,
    }
    if schedule is not None:
        given["schedule"] = schedule
    root.mkdir(exist_ok=True)
    (root / "consortium.toml").write_text(tomli_w.dumps(given))
    return Coordinator(root, read(root / "consortium.toml", Consortium))


def test_one_run_is_due_in_each_week_or_month() -> None:
    week, month = Schedule(every="week"), Schedule(every="month")
    assert month.period(date(2026, 12, 31)) == "2026-12"
    assert week.period(date(2026, 12, 31)) == week.period(date(2027, 1, 3)) == "2026-W53"
    assert week.period(date(2027, 1, 4)) == "2027-W01"
    assert (
        week.period_before(date(2027, 1, 4)) == week.period_before(date(2027, 1, 10)) == "2026-W53"
    )
    assert (
        month.period_before(date(2026, 1, 31)) == month.period_before(date(2026, 1, 1)) == "2025-12"
    )


GATE = {"gate": {"worse": 0.02}}


@pytest.mark.parametrize(
    ("schedule", "more", "why"),
    [
        ({"sites": 4}, {}, "`sites` must be from the quorum, 1, to 3"),
        ({"sites": 1}, {"quorum": 2}, "`sites` must be from the quorum, 2, to 3"),
        ({"sites": 2}, {"secure": True}, "`sites` must be from the quorum, 3, to 3"),
        ({}, {"verified": True}, 'Set start = "seed"'),
        ({}, {"dp": "unit=graph,epsilon=4,delta=1e-5"}, "not in the budget of a private run"),
        ({**GATE, "start": "seed"}, {}, "Leave out `gate`"),
        (GATE, {"secure": True}, "the coordinator learns means only. Leave out `gate`"),
        (GATE, {"merge": "fixed-point"}, "the coordinator learns means only. Leave out `gate`"),
        ({"new": 4}, {}, "`new` must be at most the number of sites, 3"),
        ({"new": 1}, {"secure": True}, "Leave out `new`"),
        (
            {"new": 1, "start": "seed"},
            {"dp": "unit=graph,epsilon=4,delta=1e-5"},
            "Leave out `new`",
        ),
        ({"every": "day"}, {}, "'week' or 'month'"),
        ({"gate": {"worse": -0.1}}, {}, "greater than or equal to 0"),
    ],
)
def test_what_does_not_go_together_is_refused_with_what_to_do_instead(
    schedule: dict[str, Any], more: dict[str, Any], why: str, tmp_path: Path
) -> None:
    with pytest.raises(RametError) as error:
        consortium(tmp_path, {**MONTHLY, **schedule}, **more)
    assert why in str(error.value)


def test_protected_runs_have_a_schedule_that_starts_anew(tmp_path: Path) -> None:
    anew = {**MONTHLY, "start": "seed"}
    for more in ({"verified": True}, {"dp": "unit=graph,epsilon=4,delta=1e-5"}):
        assert consortium(tmp_path, anew, **more).consortium.schedule == Schedule(**anew)


@dataclass
class Months:
    """A coordinator whose runs and messages are recorded instead of sent."""

    party: Coordinator
    online: tuple[str, ...] = SITES
    fails: str = ""
    accepts: bool = True
    runs: list[tuple[str, tuple[str, ...], str]] = field(default_factory=list)
    told: list[tuple[str, ...]] = field(default_factory=list)
    new: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def run(self, party: Coordinator, path: Path, *rest: Any) -> RunFolder:
        start = rest[-2]
        self.runs.append((path.name, party.consortium.sites, start.name if start else ""))
        if self.fails:
            raise RametError(self.fails)
        path.mkdir(parents=True, exist_ok=True)
        return RunFolder(path)

    def tell(self, _party: Coordinator, _folder: RunFolder, sites: list[str]) -> dict[str, str]:
        self.told.append(tuple(sites))
        return dict.fromkeys(sites, "")

    def ask(
        self, _party: Coordinator, folder: RunFolder, _data: Path, sites: tuple[str, ...]
    ) -> dict[str, str]:
        self.asked.append((folder.path.name, sites))
        return self.new

    def due(self, day: str, again: bool = False) -> bool:
        quiet: Callable[[Any], None] = lambda record: None  # noqa: E731
        when = date.fromisoformat(day)
        return Due(self.party, when, Path(), 1.0, quiet, self.said.append).work(again)

    @property
    def releases(self) -> Releases:
        return Releases.read(self.party.folder)

    @property
    def events(self) -> list[str]:
        return [one.event for one in self.releases.entries]


@pytest.fixture
def months(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Months:
    made = Months(consortium(tmp_path, {**MONTHLY, "sites": 2, **GATE}, quorum=2))
    monkeypatch.setattr(due_module, "run_consortium", made.run)
    monkeypatch.setattr(due_module, "tell_sites", made.tell)
    monkeypatch.setattr(due_module, "ask_for_new_rows", made.ask)
    monkeypatch.setattr(
        due_module, "judged", lambda folder, gate: Verdict(made.accepts, f"{gate} of {folder.path}")
    )
    monkeypatch.setattr(
        Coordinator,
        "site_statuses",
        lambda self: {
            site: "online" if site in made.online else "offline" for site in self.consortium.sites
        },
    )
    return made


def test_a_period_has_one_run_which_starts_from_the_accepted_one(months: Months) -> None:
    for day in ("2026-01-05", "2026-01-06", "2026-02-01"):
        months.due(day)
    months.accepts = False
    months.due("2026-03-01")
    months.accepts = True
    months.due("2026-04-01")
    assert months.runs == [
        ("2026-01", SITES, ""),
        ("2026-02", SITES, "2026-01"),
        ("2026-03", SITES, "2026-02"),
        ("2026-04", SITES, "2026-02"),
    ]
    assert months.events == [
        *("begun", "accepted", "told") * 2,
        *("begun", "refused"),
        *("begun", "accepted", "told"),
    ]
    assert "nothing is due: 2026-01 is done" in months.said


def test_sites_that_are_offline_are_left_out_and_told_later(months: Months) -> None:
    months.online = ("north", "south")
    months.due("2026-01-05")
    assert months.runs == [("2026-01", ("north", "south"), "")]
    months.online = ("north",)
    with pytest.raises(RametError, match="1 of 3 sites are online, and the schedule needs 2"):
        months.due("2026-02-05")
    months.online = SITES
    months.due("2026-02-06")
    months.online = ("east",)
    roll_back(months.party, None, months.said.append)
    assert months.told == [("north", "south"), SITES]
    months.online = ("south", "east")
    months.due("2026-02-07")
    assert months.told[-1] == ("south",)
    assert "2026-01: north is not told yet: it is not online" in months.said


def test_a_run_waits_until_enough_sites_have_new_rows(months: Months) -> None:
    schedule = {**MONTHLY, "sites": 2, "new": 2}
    months.party = consortium(months.party.folder, schedule, quorum=2)
    months.due("2026-01-05")
    assert months.asked == []  # to the first run, all rows are new
    months.online = ("north", "south")
    months.new = {"north": "yes", "south": "no", "east": "yes"}
    months.due("2026-02-05")
    assert months.asked == [("2026-01", ("north", "south"))]
    assert months.releases.accepted == ["2026-01"]
    assert "1 of 2 sites have new rows, and the schedule needs 2" in months.said[-1]
    months.new = {"north": "yes", "south": "yes"}
    months.fails = "a power cut"
    with pytest.raises(RametError, match="a power cut"):
        months.due("2026-02-06")
    months.fails, months.new = "", {}
    months.due("2026-02-07")
    assert len(months.asked) == 2
    months.due("2026-03-05", again=True)
    assert months.releases.accepted == ["2026-01", "2026-02", "2026-03"]


def test_a_run_that_failed_is_continued_once_and_then_waits_for_a_person(months: Months) -> None:
    months.fails = "north: `privacy`: the ceiling is reached."
    for _ in range(2):
        with pytest.raises(RametError, match="`privacy`"):
            months.due("2026-01-05")
    with pytest.raises(RametError, match=r"failed 2 times: north: `privacy`: .* with --again"):
        months.due("2026-01-06")
    assert [name for name, *_ in months.runs] == ["2026-01", "2026-01"]
    months.fails = ""
    months.due("2026-01-07", again=True)
    assert months.runs[-1][0] == "2026-01-2"
    assert months.releases.current == "2026-01-2"


def test_a_run_whose_command_was_killed_is_continued(months: Months) -> None:
    begun = {"event": "begun", "run": "2026-01", "period": "2026-01", "sites": ("north", "south")}
    months.releases.having(**begun)
    months.due("2026-01-05")
    assert months.runs == [("2026-01", ("north", "south"), "")]
    assert months.events == ["begun", "accepted", "told"]


def test_rolling_back(months: Months) -> None:
    with pytest.raises(RametError, match="nothing to go back to"):
        roll_back(months.party, None, months.said.append)
    for day in ("2026-01-05", "2026-02-05", "2026-03-05"):
        months.due(day)
    roll_back(months.party, None, months.said.append)
    assert months.releases.current == "2026-02"
    roll_back(months.party, None, months.said.append)
    assert months.releases.current == "2026-01"
    roll_back(months.party, "2026-03", months.said.append)
    assert months.releases.current == "2026-03"
    with pytest.raises(RametError, match="unknown accepted run '2026-04'"):
        roll_back(months.party, "2026-04", months.said.append)
    roll_back(months.party, "2026-01", months.said.append)
    months.due("2026-04-05")
    assert months.runs[-1] == ("2026-04", SITES, "2026-01")


def test_a_period_without_an_accepted_run_is_called_out(months: Months) -> None:
    months.accepts = False
    assert months.due("2026-01-05")  # there was no period before
    assert not months.due("2026-02-05")
    assert months.said[-1].endswith("in 2026-01 and, so far, in 2026-02: none ever was")
    months.accepts = True
    assert months.due("2026-02-06", again=True)
    months.accepts = False
    assert months.due("2026-03-05")
    assert not months.due("2026-04-05")
    last = months.releases.last_accepted
    assert last is not None
    assert months.said[-1].endswith(f"the last one is 2026-02-2, of {last.time[:10]}")
    months.accepts = True
    assert months.due("2026-04-06", again=True)


def test_no_site_goes_back_to_a_run_of_a_forgotten_site(months: Months) -> None:
    for day in ("2026-01-05", "2026-02-05", "2026-03-05"):
        months.due(day)
    forgotten = months.party.folder / "runs" / "2026-02"
    mark_superseded(forgotten, by="5" * 32, forgotten="east")
    refusal = "2026-02 is superseded by the run 5{32}, without east"
    for run in (None, "2026-02"):
        with pytest.raises(RametError, match=refusal) as error:
            roll_back(months.party, run, months.said.append)
        assert "in use are: 2026-01, 2026-03." in str(error.value)
    assert months.releases.current == "2026-03"
    mark_superseded(forgotten.with_name("2026-03"), by="5" * 32, forgotten="east")
    with pytest.raises(RametError, match=r"2026-03 is superseded .* no run starts from it"):
        months.due("2026-04-05")
    roll_back(months.party, "2026-01", months.said.append)
    months.due("2026-04-05")
    assert months.runs[-1] == ("2026-04", SITES, "2026-01")


def test_no_site_goes_back_to_a_run_whose_folder_was_deleted(months: Months) -> None:
    for day in ("2026-01-05", "2026-02-05"):
        months.due(day)
    shutil.rmtree(months.party.folder / "runs" / "2026-01")
    with pytest.raises(RametError, match=r"2026-01 is not in .* any more.* in use are: 2026-02\."):
        roll_back(months.party, None, months.said.append)
    assert months.releases.current == "2026-02"
    months.due("2026-03-05")
    assert months.runs[-1] == ("2026-03", SITES, "2026-02")


def test_the_list_of_releases_has_a_line_for_each_and_both_names(run: Path, months: Months) -> None:
    months.due("2026-01-05")
    init(months.party.folder / "consortium.toml", months.party.folder, lambda _: None)
    shutil.copytree(run, months.party.folder / "runs" / "2026-01", dirs_exist_ok=True)
    id_ = RunFolder(run).run_name
    begun, accepted, told, counts = released(months)
    assert begun.endswith(f" 2026-01 ({id_[:8]}) begun: north, south, east")
    assert f" 2026-01 ({id_[:8]}) accepted: 0.02 of " in accepted
    assert told.endswith(f" 2026-01 ({id_[:8]}) told: north, south, east")
    assert counts == f"The run that counts: 2026-01, at the sites {id_}"
    (as_json,) = released(months, "--json")
    assert [(one["event"], one["id"]) for one in json.loads(as_json)] == [
        ("begun", id_),
        ("accepted", id_),
        ("told", id_),
    ]
    mark_superseded(months.party.folder / "runs" / "2026-01", by="5" * 32, forgotten="east")
    assert any(line.startswith("2026-01 is superseded by the run") for line in released(months))


def released(months: Months, *words: str) -> list[str]:
    done = CliRunner().invoke(app, ["deploy", "releases", str(months.party.folder), *words])
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


def test_a_second_call_waits_for_the_first(months: Months, monkeypatch: pytest.MonkeyPatch) -> None:
    began, may_end = threading.Event(), threading.Event()
    slow = months.tell

    def tell(*given: Any) -> dict[str, str]:
        began.set()
        assert may_end.wait(60)
        return slow(*given)

    monkeypatch.setattr(due_module, "tell_sites", tell)
    first = threading.Thread(target=months.due, args=("2026-01-05",))
    first.start()
    assert began.wait(60)
    second = threading.Thread(target=months.due, args=("2026-01-05",))
    second.start()
    while "another call is at work; waiting for it" not in months.said:
        assert second.is_alive()
    may_end.set()
    first.join()
    second.join()
    assert months.events == ["begun", "accepted", "told"]


def test_a_line_that_a_crash_cut_short_does_not_count(months: Months) -> None:
    months.due("2026-01-05")
    log = months.party.folder / NAME
    whole = log.read_text()
    log.write_text(whole + '{"time": "2026-')
    assert Releases.read(months.party.folder).current == "2026-01"
    months.due("2026-02-05")
    assert log.read_text().startswith(whole)
    assert months.releases.current == "2026-02"
    log.write_text("{}\n" + whole)
    with pytest.raises(RametError, match="damaged"):
        Releases.read(months.party.folder)


def test_without_a_schedule_nothing_is_due(tmp_path: Path) -> None:
    party = consortium(tmp_path, None)
    with pytest.raises(RametError, match=r"Add \[schedule\]"):
        Due(party, date(2026, 1, 1), Path(), 1.0, lambda record: None, print).work()
    with one_at_a_time(party, print):
        assert not (tmp_path / NAME).exists()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, which starts from another one."""
    root = tmp_path_factory.mktemp("gate")
    sites = [node_site(root / name, n) for n, name in enumerate(SITES[:2])]
    first = ramet.run("fedavg", "own", sites=sites, rounds=1, out=root / "first")
    given: dict[str, Any] = {"rounds": 2, "start_from": first.folder}
    return ramet.run("fedavg", "own", sites=sites, out=root / "second", **given).folder


def with_scores(
    run: Path, monkeypatch: pytest.MonkeyPatch, before: dict[str, float], after: dict[str, float]
) -> RunFolder:
    """The run, in which sites sent these validation scores."""
    folder = RunFolder(run)
    first, last = folder.records()

    def sent(scores: dict[str, float]) -> dict[str, dict[str, float]]:
        return {site: {"val": score} for site, score in scores.items()}

    changed = [vars(first) | {"start": sent(before)}, vars(last) | {"evaluated": sent(after)}]
    records = [type(first)(**one) for one in changed]
    monkeypatch.setattr(RunFolder, "records", lambda self: records)
    return folder


@pytest.mark.parametrize(
    ("after", "accepted", "why"),
    [
        ({"north": 0.9, "south": 0.6}, True, "that of north, +0.0"),
        ({"north": 0.85, "south": 0.9}, True, "that of north, -5.0"),
        ({"north": 0.84, "south": 0.9}, False, "that of north, -6.0"),
        ({"north": 0.9}, False, "south: it keeps its scores"),
    ],
)
def test_the_gate_lets_no_site_be_worse_off(
    after: dict[str, float], accepted: bool, why: str, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = with_scores(run, monkeypatch, {"north": 0.9, "south": 0.6}, after)
    verdict = judged(folder, 0.05)
    assert verdict.accepted == accepted
    assert why in verdict.reason
    assert judged(folder, None).accepted


def test_a_first_run_has_nothing_to_be_compared_with(run: Path) -> None:
    verdict = judged(RunFolder(run.parent / "first"), 0.0)
    assert verdict.accepted
    assert verdict.scores == {}
