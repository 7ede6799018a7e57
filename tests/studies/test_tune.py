"""`ramet tune`: trials chosen by validation, the same after kill -9 and with parallel runs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import ramet
from command_line import ramet as command
from ramet.errors import RametError
from ramet.experiment import MethodSpec, RunFolder
from ramet.metrics.best import Evaluated, best_of
from ramet.studies.search_space import Range, Space, parse_dimension
from ramet.studies.sweep import Sweep
from ramet.studies.tune import GROUP, Search, Trial, Tuned, sampled

pytest.importorskip("optuna")
SEARCH = {"lr": "0.0001..0.1:log", "hidden": "8,16,32"}


def tune(out: Path, trials: int = 10, methods: str | list[str] = "fedavg", **given: Any) -> Tuned:
    return ramet.tune(methods, trials=trials, rounds=1, search=SEARCH, out=out, **given)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Tuned:
    return tune(tmp_path_factory.mktemp("tune") / "t")


def test_the_best_trial_has_the_best_validation_score(tuned: Tuned) -> None:
    trials = tuned.trials["fedavg"]
    assert [trial.number for trial in trials] == [*range(10)]
    best = tuned.best["fedavg"]
    assert best.trial.val == max(trial.val for trial in trials if trial.val is not None)
    for trial in trials:
        assert 0.0001 <= float(trial.options["lr"]) <= 0.1
        assert trial.options["hidden"] in ("8", "16", "32")


def test_a_trial_is_a_run_with_its_options(tuned: Tuned) -> None:
    best = tuned.best["fedavg"]
    options = ",".join(f"{name}={value}" for name, value in best.trial.options.items())
    folder = RunFolder(tuned.folder / f"fedavg,{options}-seed0")
    assert best.trial.val == best_of([Evaluated.of(one) for one in folder.records()]).val
    summary = folder.summary()
    assert summary is not None
    assert best.test == summary.scores.test_at_best_val
    assert best.command == folder.experiment().settings.command


def test_the_first_trial_has_the_defaults_if_they_are_in_the_space(tmp_path: Path) -> None:
    found = ramet.tune(
        "fedavg", trials=1, rounds=1, search={"lr": "0.0001..0.1:log"}, out=tmp_path / "t"
    )
    assert found.trials["fedavg"][0].options == {"lr": "0.001"}


def test_later_trials_learn_from_earlier_ones() -> None:
    space = {"lr": parse_dimension("0.001..1:log")}
    good = [Trial(n, {"lr": str(lr)}, 0.9) for n, lr in enumerate((0.09, 0.1, 0.11))]
    bad = [
        Trial(n, {"lr": str(lr)}, 0.1) for n, lr in enumerate((0.001, 0.005, 0.02, 0.5, 1.0) * 4)
    ]
    near = [0.03 < float(sampled(space, [*good, *bad], seed)["lr"]) < 0.3 for seed in range(30)]
    blind = [0.03 < float(sampled(space, [], seed)["lr"]) < 0.3 for seed in range(30)]
    assert sum(near) >= 20 > sum(blind)


@pytest.mark.thorough
def test_parallel_runs_give_the_same_trials(tuned: Tuned, tmp_path: Path) -> None:
    parallel = tune(tmp_path / "t", trials=2, jobs=2)
    assert [*parallel.trials["fedavg"]] == [*tuned.trials["fedavg"][:2]]


def test_more_trials_go_on_and_no_run_is_repeated(tmp_path: Path) -> None:
    first = tune(tmp_path / "t", trials=3)
    before = {path: path.stat().st_mtime_ns for path in first.folder.glob("*/result.json")}
    second = tune(tmp_path / "t", trials=6)
    assert [*second.trials["fedavg"][:3]] == [*first.trials["fedavg"]]
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_every_method_gets_the_same_number_of_trials(tmp_path: Path) -> None:
    found = tune(tmp_path / "t", trials=2, methods=["fedavg", "fedprox,mu=0.5"])
    assert {label: len(trials) for label, trials in found.trials.items()} == {
        "fedavg": 2,
        "fedprox,mu=0.5": 2,
    }
    assert "--set mu=0.5" in found.best["fedprox,mu=0.5"].command


def searched(method: str, given: Space | None = None) -> Space:
    spec = MethodSpec.parse(method)
    return Search(Sweep((spec,), "tiny", (0,), Path("t")), 1, given or {}).space(spec)


def test_the_default_space_has_the_options_of_the_method() -> None:
    assert {"lr", "weight_decay", "hidden", "mu"} <= searched("fedprox").keys()
    assert "mu" not in searched("fedavg")
    assert "lr" not in searched("fedprox,lr=0.01")
    assert [*searched("fedprox", given={"lr": Range(0.1, 1)})] == ["lr"]


def test_test_scores_are_not_read_before_the_end(tmp_path: Path) -> None:
    def stop(trials: object, scale: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(tmp_path / "t", trials=8, observe=stop)
    content = (tmp_path / "t" / "tune.json").read_text()
    assert "test" not in content
    assert len(json.loads(content)["trials"]["fedavg"]) == GROUP


def test_a_failed_trial_is_left_out(tmp_path: Path) -> None:
    found = ramet.tune(
        "fedavg", trials=4, rounds=2, search={"lr": "0.001,1e30"}, out=tmp_path / "t"
    )
    scores = {trial.options["lr"]: trial.val for trial in found.trials["fedavg"]}
    assert scores["1e30"] is None
    assert found.best["fedavg"].trial.options == {"lr": "0.001"}
    assert found.failed


def test_mistakes_are_said_before_the_first_trial(tmp_path: Path) -> None:
    with pytest.raises(RametError, match="unknown option 'learning'"):
        ramet.tune("fedavg", search={"learning": "1,2"}, out=tmp_path / "a")
    with pytest.raises(RametError, match="neither a range nor a list"):
        ramet.tune("fedavg", search={"lr": "0.1"}, out=tmp_path / "b")
    tune(tmp_path / "c", trials=1)
    with pytest.raises(RametError, match="holds a search with other settings"):
        ramet.tune("fedavg", trials=1, rounds=2, search=SEARCH, out=tmp_path / "c")


def test_the_command_prints_the_command_to_run(tmp_path: Path) -> None:
    words = ("--trials", "2", "--rounds", "1", "--search", "lr=0.001..0.1:log")
    done = command("tune", "fedavg", *words, "--out", tmp_path / "t")
    assert done.code == 0, done.stderr
    assert "ramet run fedavg --setting tiny --rounds 1 --seed 0 --set lr=" in done.stdout
    assert "2 of 2 trials; best validation: fedavg" in done.stderr
    again = command("tune", "fedavg", *words, "--out", tmp_path / "t", "--json")
    assert json.loads(again.stdout)["best"]["fedavg"]["command"].startswith("ramet run fedavg")
    wrong = command("tune", "fedavg", "--search", "lr")
    assert "--search expects KEY=VALUE" in wrong.stderr


@pytest.mark.thorough
def test_a_killed_search_ends_the_same(tuned: Tuned, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "ramet", "tune", "fedavg", "--trials", "10", "--rounds", "1"]
    words += [word for key, text in SEARCH.items() for word in ("--search", f"{key}={text}")]
    words += ["--out", str(tmp_path / "t")]
    for finished in (2, 5):
        with subprocess.Popen(words, stderr=subprocess.DEVNULL) as running:
            while len([*(tmp_path / "t").glob("*/result.json")]) < finished:
                assert running.poll() is None
                time.sleep(0.01)
            running.send_signal(signal.SIGKILL)
        assert running.returncode == -signal.SIGKILL
    subprocess.run(words, check=True, capture_output=True)
    expected, found = (
        json.loads((folder / "tune.json").read_text()) for folder in (tuned.folder, tmp_path / "t")
    )
    assert found == expected


@pytest.mark.e2e
@pytest.mark.thorough
def test_twenty_trials_find_at_least_the_best_of_a_grid_of_twenty(tmp_path: Path) -> None:
    rates, widths = ("0.0001", "0.0005", "0.002", "0.01", "0.05"), ("8", "16", "32", "64")
    grid = []
    for lr, hidden in product(rates, widths):
        out = tmp_path / "grid" / f"{lr}-{hidden}"
        run = ramet.run("fedavg", rounds=10, out=out, lr=lr, hidden=hidden)
        records = RunFolder(run.folder).records()
        grid.append(best_of([Evaluated.of(one) for one in records]).val)
    found = ramet.tune(
        "fedavg",
        trials=20,
        rounds=10,
        search={"lr": "0.0001..0.05:log", "hidden": ",".join(widths)},
        out=tmp_path / "t",
    )
    best = found.best["fedavg"].trial.val
    assert best is not None
    assert best >= max(grid)
