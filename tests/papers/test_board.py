"""The board: ranks, intervals and what leaves a site, from runs with known scores."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ramet.cli.main import app
from ramet.errors import RametError
from ramet.experiment import MethodSpec
from ramet.experiment.named import method_factory, setting_named
from ramet.metrics.summary import Baseline
from ramet.options import allow_code, arguments
from ramet.papers.board import Entry, Panel, board
from ramet.papers.board_page import board_markdown
from ramet.papers.printed import experiments
from ramet.papers.same_algorithm import same_algorithms
from ramet.report.text import short_names
from ramet.studies.archive import keep, kept
from ramet.studies.finished_run import FinishedRun

FIELD = Path(__file__).parents[2] / "results" / "field-cora-10"
SCORES = {
    "fedavg": (0.80, 0.81, 0.82),
    "fedgta": (0.81, 0.80, 0.82),  # less fedavg: 0.01, -0.01, 0
    "local": (0.75, 0.75, 0.78),  # less fedavg: -0.05, -0.06, -0.04
}


def renamed(run: FinishedRun, label: str, seed: int, test: float) -> FinishedRun:
    scores = run.summary.scores.model_copy(update={"test": test, "test_at_best_val": test - 0.01})
    shares = {"a": Baseline(train=1, test=1, majority=0.3), "b": Baseline(train=1, test=1)}
    return replace(
        run,
        label=f"{label},clients=10",
        command=re.sub(r"run \S+", f"run {label}", run.command).replace(
            f"--seed {run.seed}", f"--seed {seed}"
        ),
        summary=run.summary.model_copy(
            update={
                "seed": seed,
                "scores": scores,
                "baselines": shares,
                "sha256": hashlib.sha256(f"{label} {seed}".encode()).hexdigest(),
            }
        ),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("board")
    (template,) = (r for r in kept(FIELD) if (r.label, r.seed) == ("fedavg,clients=10", 1))
    for label, scores in SCORES.items():
        keep((renamed(template, label, s, x) for s, x in enumerate(scores, 1)), folder)
    return folder


@pytest.fixture(scope="module")
def panel(folder: Path) -> Panel:
    (only,) = board([folder])
    return only


def entry(panel: Panel, method: str) -> Entry:
    return next(one for one in panel.entries if one.method == method)


def test_names_in_the_figure_leave_out_what_all_methods_give() -> None:
    tuned = ["fedavg,lr=0.1,dropout=0.2", "fedavg,algorithm=sgd,lr=1,dropout=0.3", "local,lr=2"]
    assert short_names(tuned) == ["fedavg,dropout=0.2", "fedavg,algorithm=sgd,dropout=0.3", "local"]
    assert short_names(["fedavg,lr=0.1", "fedavg,lr=0.2"]) == ["fedavg,lr=0.1", "fedavg,lr=0.2"]
    assert short_names(["fedavg", "local"]) == ["fedavg", "local"]


def test_methods_are_tied_if_the_interval_of_their_difference_includes_zero(panel: Panel) -> None:
    # fedavg less local: mean 0.05, standard deviation 0.01, so 0.05 ± 4.303 · 0.01 / √3 = ± 0.025
    ranks = {one.method: one.rank for one in panel.entries}
    assert ranks == {"fedavg": (1, 2), "fedgta": (1, 2), "local": (3, 3)}


TUNED = Path(__file__).parents[2] / "results" / "tuned-cora-metis-10"


def test_one_algorithm_under_two_names_is_ranked_once() -> None:
    """With one full-batch step per round FedProx is FedAvg, whatever each was tuned to."""
    (found,) = board([TUNED])
    prox = [one for one in found.entries if one.method.startswith("fedprox")]
    assert [(one.rank, one.splits) for one in prox] == [(None, 3)]  # the equal run has no row
    assert prox[0].same_as == "fedavg,lr=0.0156,weight_decay=0.000876,dropout=0.228"
    ranked = [one.rank for one in found.entries if one.rank]
    assert len(ranked) == len(found.entries) - 1
    assert max(worst for _, worst in ranked) == len(ranked)
    page = board_markdown([found])
    assert "| = fedavg | `fedprox,lr=0.0458,weight_decay=1.38e-05,dropout=0.253` |" in page
    assert "`fedprox` is `fedavg`. With equal options their runs end with the same SHA-256" in page
    assert "(= fedavg)" in board_markdown([found, *board([FIELD.parent / "twitch"])])


@pytest.mark.parametrize(
    ("label", "same"),
    [
        ("fedprox,lr=0.1", True),
        ("fedprox,lr=0.2", True),  # other real numbers that both have
        ("fedprox,lr=0.1,mu=0.5", False),  # an option of its own
        ("fedprox,lr=0.1,epochs=5", False),
        ("fedgta,lr=0.1", False),
    ],
)
def test_equal_runs_show_the_same_algorithm_with_other_real_numbers(
    label: str, same: bool, folder: Path
) -> None:
    template = kept(folder)[0]

    def run_of(label: str, sha256: str) -> FinishedRun:
        summary = template.summary.model_copy(update={"sha256": sha256})
        return replace(template, label=label, summary=summary)

    runs = [
        run_of("fedavg,lr=0.1", "equal"),
        run_of("fedprox,lr=0.1", "equal"),
        run_of("fedavg,lr=0.3", "other"),
        run_of(label, "equal" if label == "fedprox,lr=0.1" else label),
    ]
    found = same_algorithms({run.label: {run.draw: run} for run in runs})
    assert found.get(label) == ("fedavg,lr=0.1" if same else None)


def test_the_mean_has_its_interval(panel: Panel) -> None:
    score = entry(panel, "fedavg").score
    assert (score.mean, score.low, score.high) == pytest.approx((0.81, 0.7852, 0.8348), abs=1e-4)


def test_what_leaves_is_asked_from_the_code(panel: Panel) -> None:
    found = {one.method: one.leaving for one in panel.entries}
    assert found["fedavg"] is not None
    assert (found["fedavg"].arrays, found["fedavg"].why_not_secure) == ("all parameters", None)
    assert found["fedgta"] is not None
    assert found["fedgta"].arrays == "all parameters; moments, confidence"
    assert found["fedgta"].why_not_secure == "Alike compares single replies"
    assert found["local"] is not None
    assert found["local"].arrays == "nothing"


def test_an_entry_has_its_hashes_and_the_command_for_another(panel: Panel) -> None:
    assert len(entry(panel, "local").sha256) == 3
    assert panel.command == (
        "ramet compare METHOD --setting cora --set clients=10 --rounds 60 --seeds 1,2,3 "
        "--split-seed 123 --splits 1 --keep kept"
    )


def test_data_and_partitions_are_not_mixed(folder: Path) -> None:
    panels = board([folder, FIELD.parent / "twitch"])
    assert [one.terms.setting for one in panels] == ["cora", "twitch"]
    assert {one.method for one in panels[1].entries} == {"local,epochs=5", "fedavg,epochs=5"}


def test_the_overview_has_every_method_on_every_dataset(folder: Path, panel: Panel) -> None:
    other = board([FIELD.parent / "twitch"])
    page = board_markdown([panel, *other])
    assert "| method | cora | twitch |" in page
    assert "| `fedavg` | **81.00** (1–2) | 64.56 (2) |" in page
    assert "| `fedgta` | 81.00 (1–2) | – |" in page
    assert "| `local` | 76.00 (3) | **66.72** (1) |" in page
    assert "Overview" not in board_markdown([panel])


@pytest.mark.parametrize(
    ("change", "heads"),
    [
        ({"rounds": 200}, "cora, 60 rounds | cora, 200 rounds"),
        ({"options": {}}, "cora, clients=10, 60 rounds | cora, 60 rounds"),
        ({"setting": "photo"}, "cora | photo"),
    ],
)
def test_panels_of_one_dataset_are_told_apart(
    change: dict[str, Any], heads: str, panel: Panel
) -> None:
    other = replace(panel, terms=replace(panel.terms, **change))
    assert f"| method | {heads} |" in board_markdown([panel, other])


def test_a_method_whose_file_is_not_here_is_ranked_all_the_same(
    folder: Path, tmp_path: Path
) -> None:
    with_own_file(folder, tmp_path, "not_here.py:mine")
    (only,) = board([tmp_path])
    assert entry(only, "not_here.py:mine").leaving is None
    assert entry(only, "not_here.py:mine").rank == (1, 2)
    assert "| ? | ? |" in board_markdown([only])


def with_own_file(folder: Path, target: Path, method: str, code: str | None = None) -> None:
    """The runs of the folder, with a user-defined method in place of FedGTA."""
    for run in kept(folder):
        is_own = run.label.startswith("fedgta")
        changed = replace(
            run,
            label=run.label.replace("fedgta", method),
            command=run.command.replace("fedgta", method),
            versions={**run.versions, "method": code} if is_own and code else run.versions,
        )
        keep([changed], target)


def test_what_leaves_is_unknown_if_the_methods_file_has_changed(
    folder: Path, tmp_path: Path
) -> None:
    file = tmp_path / "mine.py"
    file.write_text("from ramet.methods import fedavg as mine\n")
    code = hashlib.sha256(file.read_bytes()).hexdigest()
    with_own_file(folder, tmp_path / "kept", f"{file}:mine", code)
    (only,) = board([tmp_path / "kept"])
    assert entry(only, f"{file}:mine").leaving is None  # nobody has allowed it
    allow_code(f"{file}:mine")
    (only,) = board([tmp_path / "kept"])
    assert entry(only, f"{file}:mine").leaving is not None
    file.write_text("from ramet.methods import scaffold as mine\n")
    (only,) = board([tmp_path / "kept"])
    assert entry(only, f"{file}:mine").leaving is None
    assert entry(only, f"{file}:mine").lines is None
    assert not [path for path in (tmp_path / "kept").iterdir() if ":" in path.name]


def test_the_command_writes_page_and_figure(folder: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["board", str(folder), "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    page = (tmp_path / "board.md").read_text()
    assert "### cora, clients=10, 60 rounds" in page
    assert "| 1–2 | `fedavg` | 81.00 [78.52, 83.48] | – | 80.00 | 92,231 |" in page
    assert "1 split with 3 seeds each" in page
    assert "Majority class: 30.00." in page
    assert "](board-cora-10-60.png)" in page
    assert (tmp_path / "board-cora-10-60.svg").stat().st_size > 1000
    printed = CliRunner().invoke(app, ["board", str(folder), "--json"])
    (only,) = json.loads(printed.output)
    assert only["entries"][0]["rank"] == [1, 2]
    assert only["terms"]["options"] == {"clients": "10"}


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RametError, match="no finished run"):
        board([tmp_path])


def test_the_trained_network_stands_beside_the_merged_one(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    trained = [
        replace(
            run,
            label=run.label.replace("fedavg", "fedavg,site_model=trained"),
            command=f"{run.command} --set site_model=trained",
            summary=run.summary.model_copy(
                update={"scores": run.summary.scores.model_copy(update={"test": 0.5})}
            ),
        )
        for run in kept(folder)
        if run.label.startswith("fedavg")
    ]
    keep(trained, tmp_path)
    (found,) = board([tmp_path])
    assert len(found.entries) == len(SCORES)
    own = entry(found, "fedavg").trained
    assert own is not None
    assert (own.mean, entry(found, "fedavg").rank) == (0.5, (1, 2))
    assert entry(found, "local").trained is None
    assert re.search(r"\| `fedavg` \| 81.00 [^|]+ \| 50.00 \|", board_markdown([found]))


@pytest.mark.parametrize("name", ["openfgl", "one-epoch"])
def test_protocols_of_boards_name_what_there_is(name: str) -> None:
    protocol = tomllib.loads((experiments() / "boards" / f"{name}.toml").read_text())
    for dataset in protocol["datasets"].values():
        options = dict(text.split("=") for text in [*protocol["set"], *dataset["set"]])
        of_setting = {key: value for key, value in options.items() if key != "epochs"}
        setting_named(dataset["setting"], of_setting)  # an unknown option is an error
    for method in protocol["methods"]:
        spec = MethodSpec.parse(method["name"])
        assert {*method.get("optimisers", protocol["optimisers"])} <= {*protocol["lr"]}
        assert not method.get("trained") or "site_model" in arguments(method_factory(spec.method))
