from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from multiprocessing import active_children
from pathlib import Path

import psutil
import pytest

import ramet
from command_line import ramet as command
from own_sites import node_site
from ramet.errors import RametError
from ramet.experiment import MethodSpec
from ramet.metrics import Round, Summary
from ramet.options import allow_code
from ramet.run_options import Computing
from ramet.studies.archive import finished_runs, keep, kept
from ramet.studies.comparison import standings
from ramet.studies.equal_sizes import scalars, with_equal_sizes
from ramet.studies.finished_run import Draw, FinishedRun
from ramet.studies.sweep import Sweep, parse_seeds


def test_seeds_and_methods_are_parsed() -> None:
    assert parse_seeds("1-3,7") == (1, 2, 3, 7)
    assert MethodSpec.parse("feddense,width=16,lr=0.01").options == {"width": "16", "lr": "0.01"}
    active = MethodSpec.parse("feddense,width=16,activation=restart,alpha=0.3")
    assert (active.options, active.activation) == ({"width": "16"}, "restart,alpha=0.3")
    wider = active.with_option("width", 20)
    assert str(wider) == "feddense,width=20,activation=restart,alpha=0.3"
    robust = MethodSpec.parse("fedavg,merge=krum,share=0.3,activation=random-clients,count=5")
    assert (robust.options, robust.merge) == ({}, "krum,share=0.3")
    assert str(robust.with_option("lr", 1)) == (
        "fedavg,lr=1,merge=krum,share=0.3,activation=random-clients,count=5"
    )
    with pytest.raises(RametError, match="Write 1-5"):
        parse_seeds("one")
    with pytest.raises(RametError, match="'3-1' is not a list of seeds"):
        parse_seeds("3-1")
    with pytest.raises(RametError, match="feddense,width=16"):
        MethodSpec.parse("feddense,16")


def sweep(folder: Path) -> Sweep:
    methods = (MethodSpec.parse("local"), MethodSpec.parse("feddense,width=10"))
    return Sweep(methods, "tiny", (1, 2), folder, given={"rounds": 2})


def test_a_run_is_labelled_as_its_method_was_written(tmp_path: Path) -> None:
    text = "fedstar,lr=0.01,share=structure.*,merge=trimmed-mean,share=0.3,activation=everyone"
    settings = sweep(tmp_path).settings(MethodSpec.parse(text), Draw(123, 1))
    assert (settings.share, settings.merge) == (("structure.*",), "trimmed-mean,share=0.3")
    assert settings.label == text


def test_a_sweep_executes_only_the_missing_runs(tmp_path: Path) -> None:
    plan = sweep(tmp_path)
    plan.check()
    assert plan.total_rounds() == 8
    progress: list[tuple[int, int, int]] = []
    assert plan.execute(2, lambda *facts: progress.append(facts)) == {}
    assert progress[-1] == (8, 4, 0)
    before = plan.finished()
    assert {label: sorted(runs) for label, runs in before.items()} == {
        "local": [Draw(123, 1), Draw(123, 2)],
        "feddense,width=10": [Draw(123, 1), Draw(123, 2)],
    }
    lost, stopped = tmp_path / "local-seed1", tmp_path / "feddense,width=10-seed2"
    shutil.rmtree(lost)
    (stopped / "result.json").unlink()
    modified = (tmp_path / "local-seed2" / "result.json").stat().st_mtime_ns
    assert plan.execute(2, lambda *_: None) == {}
    assert (tmp_path / "local-seed2" / "result.json").stat().st_mtime_ns == modified
    for label, runs in plan.finished().items():
        for seed, run in runs.items():
            assert run.summary.sha256 == before[label][seed].summary.sha256


@pytest.mark.thorough
def test_ctrl_c_terminates_active_runs_and_starts_no_more(tmp_path: Path) -> None:
    def stop(*_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as stopped:
        replace(sweep(tmp_path), given={"rounds": 10_000}).execute(1, stop)
    assert "same command" in stopped.value.__notes__[0]
    assert not active_children()
    assert {folder.name for folder in tmp_path.iterdir()} <= {"local-seed1"}


@pytest.mark.parametrize(
    "stop",
    [
        pytest.param(signal.SIGINT, marks=pytest.mark.thorough),
        pytest.param(signal.SIGTERM, marks=pytest.mark.thorough),
        signal.SIGKILL,
    ],
)
def test_the_runs_of_a_stopped_sweep_end_with_it(stop: signal.Signals, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "ramet", "compare", "fedavg", "--setting", "tiny"]
    words += ["--rounds", "100000", "--seeds", "1", "--jobs", "1", "--out", str(tmp_path / "c")]
    with (
        (tmp_path / "stderr").open("w") as stderr,
        subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=stderr) as sweep,
    ):
        while not any((tmp_path / "c").glob("*/rounds.jsonl")):
            assert sweep.poll() is None
            time.sleep(0.05)
        runs = psutil.Process(sweep.pid).children(recursive=True)
        sweep.send_signal(stop)
    assert runs
    assert psutil.wait_procs(runs, timeout=60)[1] == []
    said = (tmp_path / "stderr").read_text()
    assert "leaked" not in said
    assert "Traceback" not in said
    if stop is signal.SIGINT:
        assert sweep.returncode == 130
        assert "Rerun the same command to continue" in said


@pytest.mark.thorough
def test_a_run_whose_process_is_killed_fails_alone(tmp_path: Path) -> None:
    plan = replace(sweep(tmp_path), methods=(MethodSpec.parse("local"),), given={"rounds": 100_000})

    def kill_the_first(*_: int) -> None:
        for folder in (tmp_path / "local-seed1", tmp_path / "local-seed2"):
            for run in active_children():
                if run.name == folder.name and (folder / "rounds.jsonl").exists():
                    run.kill()

    failed = plan.execute(1, kill_the_first)
    assert failed == dict.fromkeys(
        ("local-seed1", "local-seed2"), "its process ended with exit code -9."
    )


@pytest.mark.thorough
def test_kept_runs_are_not_repeated(tmp_path: Path) -> None:
    first = replace(sweep(tmp_path / "one"), seeds=(1,))
    assert first.execute(2, lambda *_: None) == {}
    finished = first.finished()
    keep((run for runs in finished.values() for run in runs.values()), tmp_path / "kept")
    elsewhere = replace(sweep(tmp_path / "two"), kept=kept(tmp_path / "kept"))
    elsewhere.check()
    progress: list[tuple[int, int, int]] = []
    assert elsewhere.execute(2, lambda *facts: progress.append(facts)) == {}
    assert progress[-1] == (8, 4, 0)
    assert sorted(path.name for path in (tmp_path / "two").iterdir()) == [
        "feddense,width=10-seed2",
        "local-seed2",
    ]
    first_draw = Draw(123, 1)
    assert elsewhere.finished()["local"][first_draw] == finished["local"][first_draw]
    with pytest.raises(RametError, match=r"from another run \(`ramet run local"):
        replace(elsewhere, given={"rounds": 3}).check()
    assert kept(tmp_path / "nothing") == ()


@pytest.mark.thorough
def test_kept_runs_of_another_split_are_not_used(tmp_path: Path) -> None:
    here = Sweep((MethodSpec.parse("local"),), "tiny", (1,), tmp_path / "one", given={"rounds": 1})
    assert here.execute(1, lambda *_: None) == {}
    keep(here.finished()["local"].values(), tmp_path / "kept")
    given = {"rounds": 1, "split_seed": 7}
    there = replace(here, folder=tmp_path / "two", given=given, kept=kept(tmp_path / "kept"))
    there.check()
    assert there.finished() == {"local": {}}
    assert there.execute(1, lambda *_: None) == {}
    (run,) = there.finished()["local"].values()
    keep([run], tmp_path / "kept")
    for plan, split in ((here, 123), (there, 7)):
        again = replace(plan, folder=tmp_path / "three", kept=kept(tmp_path / "kept"))
        again.check()
        assert [*again.finished()["local"]] == [Draw(split, 1)]


@pytest.mark.thorough
def test_kept_runs_are_used_with_options_for_all_methods(tmp_path: Path) -> None:
    local = MethodSpec.parse("local")
    plan = Sweep((local,), "tiny", (1,), tmp_path / "one", {"lr": "0.01"}, given={"rounds": 1})
    assert plan.execute(1, lambda *_: None) == {}
    keep(plan.finished()["local"].values(), tmp_path / "kept")
    elsewhere = replace(plan, folder=tmp_path / "two", kept=kept(tmp_path / "kept"))
    elsewhere.check()
    assert elsewhere.execute(1, lambda *_: None) == {}
    assert not (tmp_path / "two").exists()
    assert list(elsewhere.finished()["local"]) == [Draw(123, 1)]


@pytest.mark.thorough
def test_existing_runs_with_other_settings_are_refused(tmp_path: Path) -> None:
    local = (MethodSpec.parse("local"),)
    plan = replace(sweep(tmp_path), methods=local, seeds=(1,), given={"rounds": 1})
    assert plan.execute(1, lambda *_: None) == {}
    plan.check()
    with pytest.raises(RametError, match=r"other settings \(rounds=2 instead of 1\).* --out"):
        replace(plan, given={"rounds": 2}).check()


def test_smaller_methods_are_widened_to_the_winners_size(tmp_path: Path) -> None:
    plan = replace(
        sweep(tmp_path), methods=tuple(map(MethodSpec.parse, ("local", "fedstar", "fedper")))
    )
    star = plan.methods[1]
    matched = with_equal_sizes(plan, star)
    assert matched.methods[:3] == plan.methods
    assert [wider.method for wider in matched.methods[3:]] == ["local", "fedper"]
    for wider in matched.methods[3:]:
        width = int(wider.options["hidden"])
        target = scalars(plan, star)
        off = abs(scalars(plan, wider) - target)
        for other in (width - 1, width + 1):
            assert off <= abs(
                scalars(plan, wider.with_option("hidden", other)) - scalars(plan, star)
            )


def test_a_path_in_a_methods_name_does_not_leave_the_sweep_folder(tmp_path: Path) -> None:
    plan = sweep(tmp_path / "here")
    folder = plan.run_folder(MethodSpec.parse("/somewhere/mine.py:mine"), Draw(123, 1)).path
    assert folder.parent == tmp_path / "here"


@pytest.mark.thorough
def test_a_failed_run_is_reported_and_the_others_continue(tmp_path: Path) -> None:
    plan = sweep(tmp_path)
    (tmp_path / "local-seed1").mkdir(parents=True)
    (tmp_path / "local-seed1" / "notes.txt").write_text("mine")
    failed = plan.execute(2, lambda *_: None)
    assert list(failed) == ["local-seed1"]
    assert "is not an empty folder" in failed["local-seed1"]
    assert sum(len(runs) for runs in plan.finished().values()) == 3


def test_methods_that_would_be_kept_under_one_name_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [tmp_path / "c" / folder / "mine.py" for folder in ("a", "b")]
    for file in files:
        file.parent.mkdir(parents=True)
        file.write_text(f"from ramet.methods import fedavg as mine  # in {file.parent.name}\n")
        allow_code(f"{file}:mine")
    methods = tuple(MethodSpec.parse(f"{file}:mine") for file in files)
    plan = Sweep(methods, "tiny", (1,), tmp_path / "runs", given={"rounds": 1})
    monkeypatch.chdir(files[0].parent / "..")
    plan.check()
    labels = [plan.settings(method, Draw(123, 1)).label for method in methods]
    assert labels == ["a/mine.py:mine", "b/mine.py:mine"]
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with pytest.raises(RametError, match=r"2 methods would be kept as mine\.py:mine"):
        plan.check()


OWN_METRIC = """
from dataclasses import dataclass, replace
from ramet.methods import fedavg
from ramet.tasks import GraphClassification

@dataclass(frozen=True)
class Explained(GraphClassification):
    metric: str = "R2"

    def evaluate(self, model, samples, device):
        return {"val": 0.5, "test": 0.5}

def mine():
    return replace(fedavg(), name="mine", task=Explained())
"""


def test_scores_of_another_metric_are_neither_compared_nor_taken_for_those_of_a_classifier(
    tmp_path: Path,
) -> None:
    (tmp_path / "own.py").write_text(OWN_METRIC)
    method = f"{tmp_path}/own.py:mine"
    allow_code(method)
    both = (MethodSpec.parse("local"), MethodSpec.parse(method))
    with pytest.raises(RametError, match=r"local is scored by accuracy, but .*mine by R2"):
        Sweep(both, "tiny", (1,), tmp_path / "runs", given={"rounds": 1}).check()
    Sweep(both[1:], "tiny", (1,), tmp_path / "runs", given={"rounds": 1}).check()
    result = ramet.run(method, "tiny", rounds=1, out=tmp_path / "both" / "mine")
    assert result.summary.metric == "R2"
    with pytest.raises(RametError, match=r"scored by R2, which is none of accuracy"):
        result.evaluation("rings")
    ramet.run("local", "tiny", rounds=1, out=tmp_path / "both" / "local")
    with pytest.raises(RametError, match=r"scored by .* cannot be compared"):
        standings(finished_runs([tmp_path / "both"]))


def test_unknown_and_repeated_methods_are_refused_before_any_run_starts(tmp_path: Path) -> None:
    plan = Sweep((MethodSpec.parse("fedstarr"),), "tiny", (1,), tmp_path)
    with pytest.raises(RametError, match="Did you mean 'fedstar'"):
        plan.check()
    twice = Sweep((MethodSpec.parse("local"), MethodSpec.parse("local")), "tiny", (1,), tmp_path)
    with pytest.raises(RametError, match=r"local is given 2 times\. Give each method once\."):
        twice.check()


def finished_run(*tests: float) -> FinishedRun:
    summary = Summary.model_validate(
        {
            "method": "x",
            "seed": 1,
            "setting": "tiny",
            "rounds": len(tests),
            "engine": "local",
            "metric": "accuracy",
            "scores": {
                "test": tests[-1],
                "test_at_best_val": tests[-1] - 0.01,
                "best_val_round": 1,
                "clients": {},
            },
            "traffic": {"up_per_client_round": 100, "down_per_client_round": 100, "total": 200},
            "model": {"scalars": {"a": 10, "b": 20}, "shared_scalars": 5},
            "flops": {"per_client_round": 7.0},
            "sha256": "",
            "seconds": 0.0,
        }
    )
    rounds = [Round(number, test, test) for number, test in enumerate(tests, 1)]
    return FinishedRun("x", "ramet run x", "2026-11-15", {}, summary, rounds)


def test_means_gains_and_p_values_match_hand_calculations() -> None:
    rows = standings(
        {
            "fedstar": {
                Draw(123, 1): finished_run(0.6, 0.7, 0.8),
                Draw(123, 2): finished_run(0.7, 0.8, 0.84),
                Draw(123, 3): finished_run(0.5, 0.7, 0.79),
            },
            "local": {
                Draw(123, 1): finished_run(0.6, 0.7, 0.75),
                Draw(123, 2): finished_run(0.5, 0.6, 0.77),
                Draw(123, 3): finished_run(0.5, 0.6, 0.76),
            },
            "fedavg": {},
        },
        target=0.76,
    )
    star, alone = rows
    assert star.test == pytest.approx(0.81)
    assert star.spread == pytest.approx(0.0264575, rel=1e-5)  # of .80 .84 .79
    assert star.gain == pytest.approx(0.05)  # mean of .05 .07 .03
    # three pairs, std .02: t(.975, 2) = 4.302653; half the width is 4.302653 · .02 / sqrt 3
    assert star.gain_low == pytest.approx(0.05 - 0.049683, abs=1e-6)
    assert star.effect == pytest.approx(2.5)
    assert star.p_value is None  # fewer than five pairs
    assert star.test_last_ten == pytest.approx((0.7 + 0.78 + 0.66333333) / 3)
    assert star.rounds_to_target == pytest.approx((3 + 2 + 3) / 3)
    assert star.worst == 0.79
    assert star.scalars == 15
    assert star.flops_per_client_round == 7
    assert alone.gain is None
    assert alone.rounds_to_target is None
    assert json.dumps([star.label, alone.label]) == '["fedstar", "local"]'


def test_runs_of_a_secure_comparison_are_secure(tmp_path: Path) -> None:
    plain, method, draw = sweep(tmp_path), MethodSpec.parse("fedstar"), Draw(123, 1)
    assert replace(plain, given={"secure": True}).settings(method, draw).secure
    assert not plain.settings(method, draw).secure


@pytest.mark.thorough
def test_runs_are_computed_as_the_sweep_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'new.db'}")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    computing = Computing(workers=2, track=("tensorboard", "mlflow"))  # both need MLflow's tables
    plan = replace(sweep(tmp_path / "s"), seeds=(1,), given={"rounds": 1}, computing=computing)
    plan.check()
    assert plan.execute(2, lambda *_: None) == {}
    for method in plan.methods:
        folder = plan.run_folder(method, Draw(123, 1))
        assert folder.trackers() == ["tensorboard", "mlflow"]
        assert any((folder.path / "tensorboard").iterdir())
    settings = replace(plan, given={"engine": "ray", "device": "cuda"}).settings
    given = settings(MethodSpec.parse("local"), Draw(123, 1))
    assert (given.engine, given.device) == ("ray", "cuda")


def test_what_cannot_compute_is_refused_before_any_run_starts(tmp_path: Path) -> None:
    plan = sweep(tmp_path / "s")
    with pytest.raises(RametError, match="Leave out --workers"):
        replace(plan, given={"engine": "ray"}, computing=Computing(workers=2)).check()
    with pytest.raises(RametError, match="Did you mean 'mlflow'"):
        replace(plan, computing=Computing(track=("mlflo",))).check()
    with pytest.raises(RametError, match="this machine has no mps"):
        replace(plan, given={"device": "mps"}).check()
    assert not (tmp_path / "s").exists()


def with_given_split(site: Path) -> Path:
    """Add a column to a site's patients that says which are for training, validation and test."""
    table = site.parent / "patients.csv"
    head, *rows = table.read_text().splitlines()
    parts = ("train", "train", "train", "val", "test")
    split = [f"{row},{parts[number % 5]}" for number, row in enumerate(rows)]
    table.write_text("\n".join([f"{head},part", *split]) + "\n")
    site.write_text(site.read_text().replace('label = "state"', 'label = "state"\nsplit = "part"'))
    return site


@pytest.mark.thorough
def test_splits_that_the_sites_give_are_not_repeated(tmp_path: Path) -> None:
    sites = [node_site(tmp_path / name) for name in ("north", "south")]
    with_given_split(sites[0])
    words = ("compare", "fedavg", *(word for site in sites for word in ("--site", site)))
    words += ("--rounds", "1", "--seeds", "1", "--splits", "2", "--out", tmp_path / "s")
    done = command(*words)
    assert done.code == 0, done.stderr
    assert "north gives its own split" in done.stdout
    with_given_split(sites[1])
    done = command(*words[:-1], tmp_path / "t")
    assert done.code == 2
    assert "every site gives its own split, so --splits 2 would repeat" in done.stderr
    assert not (tmp_path / "t").exists()
