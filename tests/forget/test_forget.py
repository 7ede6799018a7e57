"""A run without a site has the numbers of a run that has never had it."""

from __future__ import annotations

import random
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import ramet
from command_line import ramet as command
from own_sites import graph_site, link_site, messy_site, node_site
from ramet.errors import RametError, RametWarning
from ramet.experiment import RunFolder
from ramet.forget import Certificate, ForgettingError, Repetition, forget

NAMES = ("north", "south", "east", "west")
SITES: dict[str, Callable[[Path, int], Path]] = {
    "node": node_site,
    "graph": lambda folder, number: graph_site(folder, graphs=20 + 4 * number),
    "link": link_site,
    "columns": lambda folder, number: messy_site(folder, number, rows=60),
}
METHODS = {
    "fedavg": "columns",
    "scaffold": "node",
    "fedadam": "graph",
    "fedlit": "node",
    "fedda": "link",
    "fedstar": "graph",
    "feddense": "graph",
}


def sites(folder: Path, level: str = "node", names: Sequence[str] = NAMES) -> list[Path]:
    write = SITES[level]
    return [write(folder / name, NAMES.index(name) + 1) for name in names]


def run(folder: Path, tomls: Sequence[Path], method: str = "fedavg", **options: object) -> str:
    given = {"rounds": 2, **options}
    return ramet.run(method, "own", sites=[*tomls], out=folder, **given).summary.sha256  # type: ignore[arg-type]


REFUSED = {("fedlit", True), ("fedda", True)}
"""Methods that secure sums cannot be used with."""


@pytest.mark.parametrize(
    ("method", "secure"),
    [(m, s) for m in METHODS for s in (False, True) if (m, s) not in REFUSED],
)
def test_the_numbers_are_those_of_a_run_that_never_had_the_site(
    tmp_path: Path, method: str, secure: bool
) -> None:
    tomls, draw = sites(tmp_path / "data", METHODS[method]), random.Random(f"{method} {secure}")
    options = {"secure": secure, "rounds": draw.randint(1, 3), "seed": draw.randrange(100)}
    whole = run(tmp_path / "runs" / "all", tomls, method, **options)
    gone = draw.choice(NAMES)
    rest = [toml for toml in tomls if toml.parent.name != gone]
    never = run(tmp_path / "never", rest, method, **options)
    certificate, path = forget(tmp_path / "runs" / "all", gone)
    assert certificate.last.learnt == never != whole
    assert path.parent == tmp_path / "runs" / f"all-without-{gone}"
    assert {*certificate.last.sites} == {*NAMES} - {gone}
    assert Certificate.read(path) == certificate


def test_runs_that_were_started_from_one_with_the_site_are_repeated(tmp_path: Path) -> None:
    runs, tomls = tmp_path / "runs", sites(tmp_path / "data")
    run(runs / "first", tomls[:2])
    run(runs / "second", tomls[:3], start_from=runs / "first")
    run(runs / "third", tomls, start_from=runs / "second")
    late = Repetition.of(runs / "third", "west")
    assert [one.path.name for one in late.runs] == ["third"]
    assert late.base is not None
    assert late.base.path.name == "second"
    never = run(runs / "never", tomls[:3], start_from=runs / "second")
    assert forget(runs / "third", "west")[0].last.learnt == never

    other = tmp_path / "never"
    run(other / "first", tomls[1:2])
    run(other / "second", tomls[1:3], start_from=other / "first")
    never = run(other / "third", tomls[1:], start_from=other / "second")
    certificate, _ = forget(runs / "third", "north")
    assert [pair.before.name for pair in certificate.runs] == [
        RunFolder(runs / name).run_name for name in ("first", "second", "third")
    ]
    assert certificate.last.learnt == never
    left = {(one.kind, one.folder) for one in certificate.descendants}
    assert left == {("run", "never"), ("run", "third-without-west")}


def test_a_repetition_that_starts_from_a_run_with_the_site_is_refused(tmp_path: Path) -> None:
    runs, tomls = tmp_path / "runs", sites(tmp_path / "data")
    run(runs / "first", tomls[:2])
    run(runs / "second", tomls[:3], start_from=runs / "first")
    run(runs / "clean", tomls[1:2])
    run(runs / "sly", tomls[1:3], start_from=runs / "first")
    with pytest.raises(RametError, match="should start from"):
        forget(runs / "second", "north", repeated=[runs / "clean", runs / "sly"])
    (runs / "sly").rename(runs / "second-without-north")
    with pytest.raises(RametError, match="should start from"):
        forget(runs / "second", "north")
    certificate, _ = forget(runs / "second", "north", tmp_path / "out")
    (first, second) = certificate.runs
    sly = second.after.model_copy(update={"started_from": first.before.name})
    forged = certificate.model_copy(
        update={"runs": (first, second.model_copy(update={"after": sly}))}
    )
    with pytest.raises(ForgettingError, match="did not start from"):
        forged.check()


def test_a_run_that_started_from_one_that_is_gone_is_refused(tmp_path: Path) -> None:
    runs, tomls = tmp_path / "runs", sites(tmp_path / "data")
    run(runs / "first", tomls[:2])
    run(runs / "second", tomls, start_from=runs / "first")
    (runs / "first").rename(runs / "elsewhere")
    with pytest.raises(RametError, match="which is not beside it"):
        forget(runs / "second", "west")


def test_exports_of_the_old_model_are_found(tmp_path: Path) -> None:
    runs, tomls = tmp_path / "runs", sites(tmp_path / "data")
    run(runs / "all", tomls)
    ramet.resume(runs / "all").export("north", runs / "exported", programs=False)
    run(runs / "other", tomls, seed=2)
    ramet.resume(runs / "other").export("north", runs / "others", programs=False)
    certificate, _ = forget(runs / "all", "south")
    (found,) = certificate.descendants
    assert (found.kind, found.folder) == ("export", "exported")
    done = subprocess.run(
        [sys.executable, "predict.py"],
        cwd=runs / "exported",
        check=True,
        capture_output=True,
        text=True,
    )
    assert "this model is out of use" in done.stderr


def test_old_models_warn(tmp_path: Path) -> None:
    runs, tomls = tmp_path / "runs", sites(tmp_path / "data")
    run(runs / "all", tomls)
    run(runs / "later", tomls, start_from=runs / "all")
    certificate, path = forget(runs / "all", "south")
    for name in ("all", "later"):
        with pytest.warns(RametWarning, match=f"superseded by the run {certificate.last.name}"):
            ramet.resume(runs / name).predict("north")
    with pytest.warns(RametWarning, match="without south"):
        run(runs / "again", tomls, start_from=runs / "all")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ramet.resume(path.parent).predict("north")


def test_a_repetition_that_was_stopped_goes_on(tmp_path: Path) -> None:
    runs, tomls = tmp_path / "runs", sites(tmp_path / "data")
    run(runs / "all", tomls, rounds=3)
    never = run(tmp_path / "never", tomls[1:], rounds=3)

    def stop(record: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        forget(runs / "all", "north", observe=stop)
    certificate, _ = forget(runs / "all", "north")
    assert certificate.last.learnt == never


def test_who_cannot_be_forgotten(tmp_path: Path) -> None:
    runs, tomls = tmp_path / "runs", sites(tmp_path / "data", names=("north",))
    run(runs / "alone", tomls)
    with pytest.raises(RametError, match="no site but north"):
        forget(runs / "alone", "north")
    with pytest.raises(RametError, match="Did you mean 'north'"):
        forget(runs / "alone", "nort")
    ramet.run("fedavg", "tiny", rounds=1, out=runs / "tiny")
    with pytest.raises(RametError, match="public data"):
        forget(runs / "tiny", RunFolder(runs / "tiny").experiment().clients[0])


def test_the_command_says_what_it_costs_and_what_is_left(tmp_path: Path) -> None:
    runs, tomls = tmp_path / "runs", sites(tmp_path / "data")
    run(runs / "all", tomls)
    run(runs / "later", tomls, start_from=runs / "all")
    said = command("forget", runs / "all", "--site", "north", "--dry-run")
    assert said.code == 0, said.stderr
    assert "To repeat: all, 2 rounds; with north, they took" in said.stderr
    assert not (runs / "all-without-north").exists()
    done = command("forget", runs / "all", "--site", "north")
    assert done.code == 0, done.stderr
    assert "still has the old model: the run later" in done.stdout
    assert (runs / "all-without-north" / "forgotten.json").exists()
