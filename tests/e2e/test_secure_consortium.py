"""A consortium whose sites require secure sums, over nginx, TLS and a SuperLink."""

from __future__ import annotations

import shlex
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import psutil
import pytest

import ramet
from consortia import DeployRun, Members, consortium
from federations import merged_sha256
from ramet.deploy.run import run_consortium
from ramet.deploy.site import POLICY, add_member
from ramet.engine.site.audit import SentTensor, audit_entries
from ramet.engine.store.checkpoint import Snapshots
from ramet.events import NAME as EVENTS
from ramet.experiment import RunFolder
from ramet.payload import Array, Payload, under
from ramet.rules.fixed_point import FixedPoint, terms_of
from traffic import contents, recorded, share_found

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.thorough,
    pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed"),
]
Updates: TypeAlias = dict[str, Array]
DEADLINE = 60.0
FEATURES = ("mass", "charge", "spin", "colour", "age")
FIVE = {
    site: FEATURES[: count + 1]
    for count, site in enumerate(("north", "south", "east", "west", "centre"))
}


def require_secure_sums(members: Members) -> None:
    """Let the sites accept each other, and require secure sums of at least three."""
    for site in members.sites:
        for other in members.sites:
            name = other.settings.site
            add_member(other.folder / f"{name}.application.toml", site.folder)
        (site.folder / POLICY).write_text('secure = "required"\nmembers = 3\n')


def in_fixed_point(members: Members, rounds: int, folder: Path) -> ramet.Result:
    files = shlex.join(str(site.settings.data) for site in members.sites)
    return ramet.run(
        "fedstar", "own", rounds=rounds, seed=3, out=folder, sites=files, merge="fixed-point"
    )


def test_three_sites_that_require_secure_sums(tmp_path: Path) -> None:
    three = dict([*FIVE.items()][:3])
    with consortium(tmp_path, three, method="fedstar", rounds=2, seed=3, secure=True) as members:
        require_secure_sums(members)
        run = run_consortium(
            members.coordinator, tmp_path / "run", tmp_path, 300.0, lambda _: None, lambda _: None
        )
        summary = run.summary()
        expected = in_fixed_point(members, 2, tmp_path / "local")
        assert summary is not None
        assert summary.sha256 == merged_sha256(expected.folder)
        clear = {t.sha256 for e in audit_entries(expected.folder)[0] for t in e.tensors}
        for site in members.sites:
            sent = {t.sha256 for e in audit_entries(site.folder / "state")[0] for t in e.tensors}
            assert sent
            assert not sent & clear


def private_updates(members: Members, run: Path, weights: Mapping[str, float]) -> Updates:
    """What the sites have computed in a run, from their private state: as floats and as integers.

    The integers are the terms that a site masks. The key is the site, the round and the kind.
    """
    opened = RunFolder(run)
    method = opened.experiment().method
    updates: Updates = {}
    for site in members.sites:
        name = site.settings.site
        snapshots = site.folder / "state" / "clients" / opened.run_name / name
        for step in Snapshots(snapshots).steps():
            state = under("model/", Snapshots(snapshots).load(step).arrays)
            shared = {key: state[key] for key in method.shared.pick(state)}
            reply = Payload(shared, {"weight": weights[name]})
            terms = FixedPoint().encode(
                terms_of(method.merging, method.extras, reply), len(members.sites)
            )
            updates |= {f"{name}, round {step}, float {key}": a for key, a in shared.items()}
            integers = under("parameters/", terms)
            updates |= {f"{name}, round {step}, integer {key}": a for key, a in integers.items()}
    return {key: array for key, array in updates.items() if array.size >= 64}


def of_kind(updates: Updates, *words: str) -> Updates:
    return {key: array for key, array in updates.items() if all(word in key for word in words)}


def plain_run(members: Members, out: Path, traffic: Path, **settings: Any) -> DeployRun:
    """One round without masks, whose traffic is recorded."""
    members.change_settings(rounds=1, **settings)
    with recorded(members.coordinator, traffic):
        run = DeployRun(members, out)
        run.result()
    return run


def check_all_found(updates: Updates, traffic: Path, members: Members) -> None:
    found = share_found(updates, contents(traffic))
    for site in members.sites:
        own = f"{site.settings.site}, "
        computed, seen = ([key for key in keys if key.startswith(own)] for keys in (updates, found))
        assert len(seen) >= len(computed) / 2
    assert min(found.values()) > 0.8, found


def check_search(members: Members, folder: Path) -> dict[str, float]:
    """The search finds each update of plain runs in the traffic. Returns the sites' weights."""
    run = plain_run(members, folder / "plain", folder / "plain-traffic")
    weights = {site: own["weight"] for site, own in run.rounds()[0]["trained"].items()}
    updates = private_updates(members, run.out, weights)
    check_all_found(of_kind(updates, "float"), folder / "plain-traffic", members)
    run = plain_run(members, folder / "sums", folder / "sums-traffic", merge="fixed-point")
    updates = of_kind(private_updates(members, run.out, weights), "integer")
    check_all_found(updates, folder / "sums-traffic", members)
    logs = [entry for site in members.sites for entry in audit_entries(site.folder / "state")[0]]
    sent = {t.sha256 for log in logs if log.run == RunFolder(run.out).run_name for t in log.tensors}
    assert {SentTensor.of("", array).sha256 for array in updates.values()} <= sent
    return weights


def kill_site(members: Members, name: str) -> None:
    """Kill all programs of a site with -9, those that restart others first: its machine is gone."""
    programs = [service.process() for service in members.site(name).services()]
    supervisors = [program.parent() for program in programs if program is not None]
    assert supervisors
    for supervisor in filter(None, supervisors):
        for process in (supervisor, *supervisor.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)


def steps_of(members: Members, name: str, run: str) -> set[tuple[int, str]]:
    """The round and the step of all replies of a site in a run."""
    entries, _ = audit_entries(members.site(name).folder / "state")
    return {(entry.round, entry.stage) for entry in entries if entry.run == run}


def wait_until(done: Callable[[], bool], run: DeployRun) -> None:
    while not done():
        assert run.process.poll() is None, run.output
        time.sleep(0.02)


def messages_sent(members: Members, name: str) -> int:
    return (members.site(name).folder / "logs" / "supernode.log").read_text().count("Sent success")


def kill_two(members: Members, run: DeployRun) -> None:
    """Kill north before it answers in round 2, and south between its reply and the unmasking.

    The coordinator unmasks when it has waited for north, so that south has time to send its reply.
    """
    events, folder = run.out / EVENTS, RunFolder(run.out)
    wait_until(events.exists, run)
    wait_until(lambda: "round committed" in events.read_text(), run)
    kill_site(members, "north")
    sent = messages_sent(members, "south")
    wait_until(lambda: (2, "") in steps_of(members, "south", folder.run_name), run)
    wait_until(lambda: messages_sent(members, "south") > sent, run)
    kill_site(members, "south")


def test_two_of_five_sites_die_and_nothing_is_seen_without_masks(tmp_path: Path) -> None:
    with consortium(
        tmp_path, FIVE, method="fedstar", rounds=3, seed=3, quorum=3, deadline=DEADLINE
    ) as members:
        weights = check_search(members, tmp_path)
        require_secure_sums(members)
        members.change_settings(rounds=3, secure=True, merge=None)
        traffic = tmp_path / "traffic"
        with recorded(members.coordinator, traffic):
            run = DeployRun(members, tmp_path / "run")
            kill_two(members, run)
            assert run.result()["rounds"] == 3
        records, name = run.rounds(), RunFolder(run.out).run_name
        assert [*records[1]["failed"]] == ["north"]
        assert {"north", "south"} <= records[2]["failed"].keys()
        assert records[2]["trained"].keys() == {"east", "west", "centre"}
        assert (2, "") not in steps_of(members, "north", name)
        assert (2, "") in steps_of(members, "south", name)
        assert (2, "unmask") not in steps_of(members, "south", name)
        assert {(2, "agree"), (2, "unmask")} <= steps_of(members, "east", name)

        updates = private_updates(members, run.out, weights)
        rounds = {site: len(of_kind(updates, site, "integer")) for site in FIVE}
        assert rounds["north"] < rounds["south"] < rounds["east"]
        first = of_kind(updates, "round 1,", "integer")
        plain = private_updates(members, tmp_path / "sums", weights)
        assert all(np.array_equal(plain[key], array) for key, array in first.items())

        coordinator = members.coordinator.folder
        places = (coordinator, run.out, run.out.with_suffix(".log"), traffic)
        assert max(share_found(updates, contents(*places)).values()) == 0.0
        planted = next(iter(of_kind(updates, "south, round 2", "integer").values()))
        (coordinator / "planted").write_bytes(b"x" + planted.tobytes())
        assert max(share_found(updates, contents(*places)).values()) == 1.0
