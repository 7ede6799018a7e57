"""A site leaves a consortium of real processes: what is repeated there never had it."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from test_verified_consortium import know_each_other, run

import ramet
from command_line import ramet as command
from consortia import Members, consortium
from federations import merged_sha256
from ramet.deploy.coordinator import Coordinator
from ramet.errors import RametError
from ramet.experiment import RunFolder
from ramet.forget import forget

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.thorough,
    pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed"),
]
FOUR = {name: ["atom"] for name in ("north", "south", "east", "west")}
METHODS = ("fedavg", "scaffold", "fedadam", "fedstar", "feddense")


def leave(members: Members, site: str) -> None:
    """As in docs/forgetting.md: the key is revoked, and nobody expects the site any more."""
    Coordinator.open(members.coordinator.folder).revoke(site, members.output.append)
    members.site(site).stop(members.output.append)
    members.change_settings(sites=tuple(name for name in FOUR if name != site))
    for rest in members.sites:
        if rest.settings.site != site:
            assert command("deploy", "remove-member", site, rest.folder).code == 0


def test_a_certificate_of_a_verified_consortium(tmp_path: Path) -> None:
    given: Any = {"method": "fedstar", "rounds": 2, "secure": True, "verified": True}
    with consortium(tmp_path, FOUR, **given) as members:
        know_each_other(members, 'secure = "required"\n')
        run(members, tmp_path / "together")
        leave(members, "north")
        again = run(members, tmp_path / "again")
        done = command(
            *("forget", tmp_path / "together", "--site", "north"),
            *("--repeated", tmp_path / "again"),
        )
        assert done.code == 0, done.stderr
        certificate = tmp_path / "again" / "forgotten.json"
        rest = [site.folder for site in members.sites if site.settings.site != "north"]
        for folder in (members.coordinator.folder, *rest):
            assert command("certificate", "verify", certificate, tmp_path / "again").code == 2
            signed = command("certificate", "sign", certificate, folder)
            assert signed.code == 0, signed.stderr
        refused = command("certificate", "sign", certificate, members.site("north").folder)
        assert "not a site of the repeated run" in refused.stderr
        # Nothing of the coordinator, only what the sites have kept.
        states = [folder / "state" for folder in rest]
        authority = rest[0] / "authority.pem"
        checked = command("certificate", "verify", certificate, *states, "--authority", authority)
        assert checked.code == 0, checked.stderr
        assert "signed by south, east, west, and the coordinator." in checked.stdout
        summary, repeated = again.summary(), RunFolder.open(tmp_path / "again")
        alone = never(members, repeated, tmp_path / "alone", merge="fixed-point")
        assert summary is not None
        assert summary.sha256 == alone


def test_repetitions_have_the_numbers_of_one_process(tmp_path: Path) -> None:
    """Random methods and seeds, with and without secure sums; 20 runs in all."""
    draw = random.Random(40)
    cases = [(method, secure) for method in METHODS for secure in (False, True)]
    task = {"task": "graph-classification"}
    settings: list[dict[str, Any]] = [
        {
            "method": method,
            "secure": secure,
            "rounds": draw.randint(1, 3),
            "seed": draw.randrange(999),
            "options": {} if method in ("fedstar", "feddense") else task,
        }
        for method, secure in cases
    ]
    with consortium(tmp_path, FOUR, **settings[0]) as members:
        know_each_other(members)
        members.stop()
        members.allow(methods=METHODS, rounds=3)
        members.start()
        for number, given in enumerate(settings):
            members.change_settings(**given)
            run(members, tmp_path / f"all-{number}")
        gone = draw.choice([*FOUR])
        leave(members, gone)
        members.change_settings(**settings[1])
        with pytest.raises(RametError, match="Start a new run with another seed"):
            run(members, tmp_path / "refused")
        for number, given in enumerate(settings):
            given["seed"] += 1000 * given["secure"]
            members.change_settings(**given)
            repeated = run(members, tmp_path / f"again-{number}")
            merge = {"merge": "fixed-point"} if given["secure"] else {}
            expected = never(members, repeated, tmp_path / f"alone-{number}", **merge)
            path = tmp_path / f"all-{number}"
            certificate, _ = forget(path, gone, repeated=[repeated.path])
            assert certificate.last.learnt == expected, given


def never(members: Members, repeated: RunFolder, out: Path, **options: Any) -> str:
    """The SHA-256 of a run in this process whose sites have never heard of another one."""
    settings = repeated.experiment().settings
    files = [
        str(site.settings.data)
        for site in members.sites
        if site.settings.site in repeated.experiment().clients
    ]
    result = ramet.run(
        settings.method,
        "own",
        rounds=settings.rounds,
        seed=settings.seed,
        sites=files,
        out=out,
        **options,
    )
    return merged_sha256(result.folder)
