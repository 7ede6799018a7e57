"""The command line: exit codes and output."""

from __future__ import annotations

import io
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from rich.console import Console

from command_line import ramet
from federations import with_all_states
from own_sites import node_site, write_csv
from ramet.cli import console
from ramet.models.networks import NETWORKS
from ramet.report.study_tables import comparison_table
from ramet.scale import SHARE
from ramet.studies.comparison import Standing


def refused(*arguments: str | Path) -> str:
    """Run an invalid command and return the one line that it prints."""
    done = ramet(*arguments)
    assert done.code == 2, done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert not done.stdout
    return lines[0]


@pytest.fixture(autouse=True)
def _wide_and_without_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("RAMET_DATA", raising=False)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("runs") / "star"
    done = ramet("run", "fedstar", "--rounds", "3", "--seed", "1", "--out", folder, "--json")
    assert done.code == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return folder, result


def test_a_real_process_prints_one_line_and_exits_with_2() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ramet", "run", "fedstarr"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("ramet: unknown method 'fedstarr'")


def test_json_output_has_the_documented_keys(finished: tuple[Path, dict[str, Any]]) -> None:
    _, result = finished
    assert {key: result[key] for key in ("method", "setting", "seed", "rounds", "engine")} == {
        "method": "fedstar",
        "setting": "tiny",
        "seed": 1,
        "rounds": 3,
        "engine": "local",
    }
    assert result["metric"] == "accuracy"
    assert set(result["scores"]["clients"]) == {"rings", "trees", "blocks"}
    mean = sum(result["scores"]["clients"].values()) / 3
    assert result["scores"]["test"] == pytest.approx(mean)
    assert 0 <= result["scores"]["test_at_best_val"] <= 1
    assert result["traffic"] == {
        "up_per_client_round": 58_368,
        "down_per_client_round": 58_368,
        "total": 2 * 58_368 * 3 * 3,
    }
    assert result["sent"]["bytes"] == {"up": 58_368 * 3 * 3, "down": 58_368 * 3 * 3}
    assert result["sent"]["scalars"]["up"] == 14_592 * 3 * 3
    assert result["model"]["shared_scalars"] == 14_592
    assert result["model"]["scalars"]["rings"] == 67_842 - (53 - 5) * 64
    assert len(result["sha256"]) == 64
    assert result["seconds"] > 0
    assert result["peak_memory"] > 100e6
    work = result["flops"]["clients"]["rings"]
    assert result["flops"]["per_client_round"] > work["forward_linear"] > work["forward_messages"]


def test_the_run_folder_contains_settings_split_rounds_and_result(
    finished: tuple[Path, dict[str, Any]],
) -> None:
    folder, result = finished
    assert json.loads((folder / "settings.json").read_text())["seed"] == 1
    assert {"python", "torch", "ramet"} <= json.loads((folder / "versions.json").read_text()).keys()
    split = json.loads((folder / "split.json").read_text())["clients"]
    assert [len(split["rings"][part]) for part in ("train", "val", "test")] == [120, 15, 15]
    lines = (folder / "rounds.jsonl").read_text().splitlines()
    assert [json.loads(line)["round"] for line in lines] == [1, 2, 3]
    assert json.loads((folder / "result.json").read_text()) == result


def test_the_same_seed_gives_the_same_numbers_and_another_seed_does_not(
    finished: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    _, result = finished
    for seed, same in ((1, True), (2, False)):
        out = tmp_path / str(seed)
        done = ramet("run", "fedstar", "--rounds", "3", "--seed", str(seed), "--out", out, "--json")
        assert (json.loads(done.stdout)["sha256"] == result["sha256"]) is same


def test_resuming_a_finished_run_prints_the_same_object(
    finished: tuple[Path, dict[str, Any]],
) -> None:
    folder, result = finished
    assert json.loads(ramet("resume", folder, "--json").stdout) == result


def test_a_row_per_client_and_the_run_folder_are_printed(tmp_path: Path) -> None:
    done = ramet("run", "local", "--rounds", "1", "--out", tmp_path / "r")
    assert all(word in done.stdout for word in ("rings", "trees", "blocks", "mean, last round"))
    assert str(tmp_path / "r") in done.stdout


@pytest.mark.thorough
def test_link_prediction_is_labelled_roc_auc_everywhere(tmp_path: Path) -> None:
    sizes = ("--set", "clients=3", "--set", "nodes=60", "--set", "links=200")
    small = ("--setting", "planted-hetero", *sizes, "--rounds", "1")
    done = ramet("run", "fedda", *small, "--out", tmp_path / "r")
    assert "test ROC-AUC %" in done.stdout
    assert json.loads((tmp_path / "r" / "result.json").read_text())["metric"] == "ROC-AUC"
    arguments = ("compare", "local-hgn", "fed-hgn", *small, "--seeds", "1", "--out", tmp_path / "s")
    compared = ramet(*arguments)
    title = compared.stdout.splitlines()[0].strip()
    assert title == "planted-hetero: test ROC-AUC %, mean ± std over 1 seed"
    assert {row["metric"] for row in json.loads(ramet(*arguments, "--json").stdout)} == {"ROC-AUC"}
    assert ramet("report", tmp_path / "s", "--out", tmp_path / "page").code == 0
    page = (tmp_path / "page" / "report.html").read_text()
    assert all(text in page for text in ("ROC-AUC over rounds", "Test ROC-AUC, %, after"))
    assert "accuracy" not in (done.stdout + compared.stdout + page).lower()


def test_without_a_terminal_progress_is_plain_lines_and_stdout_only_the_result(
    tmp_path: Path,
) -> None:
    done = ramet("run", "local", "--rounds", "3", "--out", tmp_path / "r", "--json")
    lines = done.stderr.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "round 1 of 3",
        "round 2 of 3",
        "round 3 of 3",
    ]
    assert "\x1b" not in done.stderr + done.stdout
    assert json.loads(done.stdout)["rounds"] == 3


def test_methods_and_settings_are_listed() -> None:
    listed = ramet("list", "methods").stdout
    assert all(name in listed for name in ("local", "fedavg", "fedstar", "structure.*"))
    assert "  fed-gcn: fedavg --network fedlit-gcn" in listed.splitlines()
    listed = ramet("list", "networks").stdout
    assert all(name in listed for name in ("gin*", "fedlit-gcn", "simple-hgn*", "kind_width=32"))
    listed = ramet("list", "settings").stdout
    assert all(name in listed for name in ("tiny", "single", "cross-diff", "by-label"))
    listed = ramet("list", "activations").stdout
    assert all(word in listed for word in ("random-tensors", "restart", "alpha=0.5 beta=0.4"))
    listed = ramet("list", "merges").stdout
    assert all(word in listed for word in ("median", "trimmed-mean", "krum", "share=0.2"))
    assert "without the `share` largest and the `share` smallest." in listed  # not wrapped


def test_methods_describes_one_method() -> None:
    lines = ramet("list", "methods", "fedstar").stdout.splitlines()
    assert lines[:4] == [
        "fedstar: Share the structure channel only; everything else is private.",
        "paper: arXiv:2211.13009",
        "task: graph-classification",
        "shares: structure.*",
    ]
    assert "  hidden=64" in lines
    assert any(
        line.startswith("  lr, weight_decay, epochs, batch_size, algorithm, fresh_moments,")
        for line in lines
    )
    assert "  protocol=ramet, or authors: see `ramet list protocols fedstar`" in lines
    theirs = ramet("list", "protocols", "fedstar").stdout
    assert re.search(r"isolated_as_one +false +true +lib/utils.py", theirs)
    assert "has no protocol of its authors" in refused("list", "protocols", "fedavg")
    assert "the same as: fedavg --network fedlit-gcn" in ramet("list", "methods", "fed-gcn").stdout
    assert "shares: extras of a stage only" in ramet("list", "methods", "o-pfgl").stdout
    assert "Did you mean 'fedstar'?" in refused("list", "methods", "fedstarr")
    assert f"Choose one of: {', '.join(sorted(NETWORKS))}." in refused(
        "list", "networks", "transformer"
    )


@pytest.mark.parametrize("width", [30, 80])
def test_a_narrow_terminal_folds_names_but_truncates_no_number(width: int) -> None:
    label = "fedadam.py:fedadam,server_lr=0.003,beta=0.9"
    facts: dict[str, Any] = {
        "seeds": 3,
        "splits": 1,
        "metric": "accuracy",
        "scale": SHARE,
        "test": 0.8889,
        "spread": 0.0123,
        "worst": 0.87,
    }
    facts |= {"test_at_best_val": 0.9012, "overview": None, "overview_spread": None, "gain": 0.0456}
    facts |= {"test_last_ten": 0.9111, "gain_low": -0.01, "gain_high": 0.1, "p_holm": 0.8}
    facts |= {
        "effect": 0.4,
        "as_good": None,
        "p_value": 0.742,
        "scalars": 64791.0,
        "up_per_client_round": 58368.0,
    }
    facts |= {"flops_per_client_round": 6.1e8, "rounds_to_target": None}
    facts |= {"rounds": 50.0, "epochs": 50.0, "not_final": None}
    rows = [Standing(label=label, **facts), Standing(label="local", **facts)]
    screen = Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None)
    with patch.object(console, "out", screen):
        console.print_table(comparison_table(rows, "tiny", None))
    assert isinstance(screen.file, io.StringIO)
    shown = screen.file.getvalue()
    assert "…" not in shown
    for number in ("88.89 ± 1.23", "90.12", "+4.56", "0.742", "64,791", "57.00", "0.61", "GFLOPs"):
        assert shown.count(number) >= (1 if number == "GFLOPs" else 2), number
    if width == 80:
        lines = shown.splitlines()
        assert max(map(len, lines)) <= width
        folded = [line.split()[0] for line in lines[3:6]]
        assert "".join(folded) == label


def test_an_activation_can_be_combined_with_another_method(tmp_path: Path) -> None:
    rule = "restart,beta=0.2"
    done = ramet(
        *(
            "run",
            "feddense",
            "--rounds",
            "2",
            "--activation",
            rule,
            "--out",
            tmp_path / "r",
            "--json",
        )
    )
    assert done.code == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["activation"] == rule
    assert result["sent"]["tensors"]["up"] < result["sent"]["tensors"]["down"]
    assert "local shares nothing" in refused("run", "local", "--activation", "restart")
    assert "merges whole replies only" in refused("run", "gcfl", "--activation", "explore")


def test_the_thin_app_is_not_overwritten(tmp_path: Path) -> None:
    assert ramet("app", tmp_path / "app").code == 0
    assert "ramet.flower.server_app:app" in (tmp_path / "app" / "pyproject.toml").read_text()
    assert "Give a new folder" in refused("app", tmp_path / "app")


def test_a_user_defined_method_from_a_file(tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text(
        "from dataclasses import replace\n"
        "from ramet import fedavg\n"
        "from ramet.rules.activation import RandomClients\n"
        "def sampled(count: int = 2):\n"
        "    return replace(fedavg(), name='sampled', activation=RandomClients(count))\n"
    )
    done = ramet(
        "run", f"{own}:sampled", "--rounds", "2", "--set", "count=1", "--out", tmp_path / "r"
    )
    assert done.code == 0, done.stderr
    for line in (tmp_path / "r" / "rounds.jsonl").read_text().splitlines():
        assert len(json.loads(line)["trained"]) == 1


def test_ctrl_c_prints_how_to_continue(tmp_path: Path) -> None:
    out = tmp_path / "r"
    command = [sys.executable, "-m", "ramet", "run", "fedavg", "--rounds", "500", "--out", str(out)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        while not (out / "clients").exists():
            assert running.poll() is None
            time.sleep(0.02)
        running.send_signal(signal.SIGINT)
        assert running.stderr is not None
        last_line = running.stderr.read().splitlines()[-1]
    assert running.returncode == 130
    assert last_line == f"ramet: stopped. Continue with `ramet resume {out}`."


class TestInvalidUse:
    """Each mistake gives one line that says how to fix it."""

    def test_unknown_method(self) -> None:
        assert "Did you mean 'fedstar'?" in refused("run", "fedstarr")

    def test_unknown_setting(self) -> None:
        assert "Did you mean 'single'?" in refused("run", "fedstar", "--setting", "singel")

    def test_unknown_option(self) -> None:
        line = refused("run", "fedstar", "--set", "learning_rate=1")
        assert "unknown option 'learning_rate'" in line
        assert "lr" in line

    def test_bad_value(self) -> None:
        assert "--set lr=-1: Input should be greater than 0" in refused(
            "run", "fedstar", "--set", "lr=-1"
        )
        assert "KEY=VALUE" in refused("run", "fedstar", "--set", "lr")
        line = refused("run", "fedstar", "--merge", "median,share=2")
        assert line == "ramet: median takes no options. Write --merge median."
        assert "rounds" in refused("run", "fedstar", "--rounds", "0")

    def test_unknown_command(self) -> None:
        done = ramet("runn", "fedstar")
        assert (done.code, done.stderr.count("Did you mean 'run'?")) == (2, 1)

    def test_pattern_that_matches_nothing(self, tmp_path: Path) -> None:
        line = refused("run", "fedstar", "--share", "structur.*", "--out", tmp_path / "r")
        assert "'structur.*' matches no parameter" in line
        assert "structure.embed.weight" in line
        assert not (tmp_path / "r").exists()

    def test_sharing_parameters_of_different_sizes(self, tmp_path: Path) -> None:
        line = refused("run", "fedavg", "--share", "embed.*", "--out", tmp_path / "r")
        assert "'embed.weight' cannot be shared" in line
        assert not (tmp_path / "r").exists()

    def test_missing_data(self, tmp_path: Path) -> None:
        line = refused(
            *("run", "fedstar", "--setting", "single"),
            *("--data", tmp_path / "none", "--out", tmp_path / "r"),
        )
        assert "MUTAG is not in" in line
        assert "--data" in line

    def test_two_runs_in_one_folder(self, finished: tuple[Path, dict[str, Any]]) -> None:
        line = refused("run", "local", "--out", finished[0])
        assert f"ramet resume {finished[0]}" in line
        assert "--out" in line

    def test_a_folder_that_is_not_empty(self, tmp_path: Path) -> None:
        (tmp_path / "thesis.tex").write_text("a thesis")
        assert "is not an empty folder" in refused("run", "local", "--out", tmp_path)

    def test_an_out_path_that_is_not_a_folder(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        assert "is not an empty folder. Choose a new one" in refused(
            "run", "local", "--out", tmp_path / "file"
        )
        assert "cannot create" in refused("run", "local", "--out", tmp_path / "file" / "r")
        assert "cannot create" in refused("app", tmp_path / "file" / "app")

    @pytest.mark.parametrize("name", ["settings.json", "result.json", "split.json"])
    def test_garbage_in_the_run_folder(self, name: str, tmp_path: Path) -> None:
        assert ramet("run", "local", "--rounds", "1", "--out", tmp_path / "r").code == 0
        if name != "result.json":
            (tmp_path / "r" / "result.json").unlink()
        (tmp_path / "r" / name).write_text("{garbage")
        assert f"{name} is damaged. Restore it" in refused("resume", tmp_path / "r")

    def test_a_file_without_its_factory(self) -> None:
        assert "mine.py:FACTORY" in refused("run", "mine.py")
        assert "file.py:FACTORY" in refused("run", "nowhere:mine")

    def test_a_setting_with_an_impossible_option(self) -> None:
        line = refused("run", "fedavg", "--setting", "by-label", "--set", "clients=0")
        assert "--set clients=0" in line

    def test_resuming_a_folder_without_a_run(self, tmp_path: Path) -> None:
        assert "holds no run" in refused("resume", tmp_path)

    def test_corrupt_checkpoint(self, tmp_path: Path) -> None:
        folder = tmp_path / "r"
        assert ramet("run", "fedavg", "--rounds", "2", "--out", folder).code == 0
        (folder / "result.json").unlink()
        for snapshot in (folder / "server").glob("*.safetensors"):
            snapshot.write_bytes(snapshot.read_bytes()[:-3])
        line = refused("resume", folder)
        assert "is damaged" in line
        assert "start a new run in another folder" in line

    def test_an_unavailable_device(self) -> None:
        import torch

        if torch.cuda.is_available():
            pytest.skip("this machine has CUDA")
        assert "no cuda. Use --device cpu" in refused("run", "local", "--device", "cuda")


def test_resume_falls_back_from_a_corrupt_checkpoint_with_the_same_result(tmp_path: Path) -> None:
    words = ("run", "fedstar", "--rounds", "4", "--out", tmp_path / "whole", "--json")
    whole = json.loads(ramet(*words).stdout)
    folder = with_all_states(tmp_path / "whole", tmp_path / "r").path
    (folder / "result.json").unlink()
    newest = sorted((folder / "server").glob("*.safetensors"))[-1]
    newest.write_bytes(newest.read_bytes()[:-3])
    again = json.loads(ramet("resume", folder, "--json").stdout)
    assert again["sha256"] == whole["sha256"]
    assert again["scores"] == whole["scores"]
    assert again["traffic"] == whole["traffic"]


@pytest.mark.e2e
@pytest.mark.thorough
def test_a_comparison_can_widen_smaller_methods_to_match_parameters(tmp_path: Path) -> None:
    arguments = (
        "compare",
        "local",
        "fedstar",
        "--seeds",
        "1,2",
        "--rounds",
        "4",
        "--out",
        tmp_path,
    )
    done = ramet(*arguments, "--match-parameters", "--json")
    assert done.code == 0, done.stderr
    rows = {row["label"]: row for row in json.loads(done.stdout)}
    plain, star = rows["local"], rows["fedstar"]
    if star["test"] > plain["test"]:
        (wide,) = (row for label, row in rows.items() if label.startswith("local,hidden="))
        assert abs(wide["scalars"] / star["scalars"] - 1) < 0.02
        assert wide["flops_per_client_round"] > plain["flops_per_client_round"]
    else:
        assert set(rows) == {"local", "fedstar"}
    table = ramet(*arguments)
    assert "GFLOPs" in table.stdout


@pytest.mark.thorough
def test_reproduce_says_what_the_runs_decide(data_root: Path, tmp_path: Path) -> None:
    arguments = (
        *("reproduce", "feddense", "table2", "--only", "local", "--only", "single"),
        *("--seeds", "1", "--rounds", "1", "--out", tmp_path, "--data", data_root),
    )
    before = ramet(*arguments, "--finished")
    assert (before.code, "1 not run" in before.stdout) == (0, True)
    done = ramet(*arguments)
    assert done.code == 0
    assert "75.50 ± 1.77" in done.stdout
    assert "1 undecided" in done.stdout  # one seed decides nothing
    sizes = ramet("reproduce", "feddense", "table3", "--data", data_root)
    assert sizes.code == 0
    assert "7 exact, 1 holds" in sizes.stdout
    assert "feddense table3" in refused("reproduce", "feddense", "table4")


def test_what_of_the_tables_is_not_used_is_said_wherever_data_is_read(tmp_path: Path) -> None:
    site = node_site(tmp_path / "north", patients=12)
    rows = [("p0", "p1", 3), ("p1", "p0", 4), ("p0", "p1", 5)]
    write_csv(site.parent / "contacts.csv", "source,target,amount", rows)
    unused, merged = "contacts.csv: 'amount' is not used.", "contact: 3 rows give 1 links."
    checked = ramet("data", "check", site).stdout
    inspected = ramet("data", "inspect", "--site", site).stdout
    run = ramet("run", "local", "--site", site, "--rounds", "1", "--out", tmp_path / "run").stderr
    assert f"Note: {unused}" in checked
    assert f"Note: north, {unused}" in inspected
    assert f"north, {unused}" in run
    assert all(merged in said for said in (checked, inspected, run))


def test_data_inspect_describes_graphs(tmp_path: Path) -> None:
    done = ramet("data", "inspect", "--setting", "tiny", "--out", tmp_path, "--json")
    assert done.code == 0, done.stderr
    inspection = json.loads(done.stdout)
    assert inspection["clients"]["rings"]["graphs"] == 150
    assert sum(inspection["clients"]["rings"]["classes"]) == 150
    structure = inspection["divergences"]["structure"]
    assert structure[0][0] == 0
    assert 0 < structure[0][1] == structure[1][0] < 1
    assert (tmp_path / "heterogeneity.png").exists()
    assert "blocks" in ramet("data", "inspect").stdout


def test_data_inspect_describes_kinds_of_links() -> None:
    arguments = (
        "data",
        "inspect",
        "--setting",
        "planted",
        "--set",
        "nodes=200",
        "--set",
        "links=400",
    )
    inspection = json.loads(ramet(*arguments, "--json").stdout)
    homophily = [kind["edge_homophily"] for kind in inspection["kinds"].values()]
    assert homophily == pytest.approx([0.9, 0.05, 0.6, 0.25], abs=0.08)
    assert inspection["clients"]["part-00"]["kind 1"] == 0
    assert inspection["clients"]["part-00"]["kind 0"] > 100
    assert "attribute homophily" in ramet(*arguments).stdout


def test_data_inspect_describes_node_types_and_relations() -> None:
    sizes = ("--set", "clients=3", "--set", "nodes=60", "--set", "links=200")
    arguments = ("data", "inspect", "--setting", "planted-hetero", *sizes)
    inspection = json.loads(ramet(*arguments, "--json").stdout)
    assert inspection["types"] == {name: {"nodes": 60, "features": 8} for name in ("a", "b")}
    # of 200 links, 10 validate and 20 test, each with a pair that is not linked
    rule = {"head": "a", "tail": "b", "links": 170, "val": 20, "test": 40}
    assert inspection["relations"]["rule-1"] == rule
    for held in inspection["clients"].values():
        special = held["specialities"]
        assert 1 <= len(special) <= 2
        for relation, count in held["links"].items():
            assert count == (51 if relation in special else 8)  # 30 or 5 % of 170
    table = ramet(*arguments).stdout
    assert "51*" in table
    assert "test pairs" in table


def test_a_method_for_graphs_is_refused_for_node_classification() -> None:
    arguments = ("--setting", "planted", "--set", "nodes=200", "--set", "links=400")
    line = refused("run", "fedstar", *arguments)
    assert "fedstar is for graph-classification, but the data of planted are for node-" in line
    methods = (
        "local, fedavg, fedprox, fedper, scaffold, moon, ditto, fedadam, fedyogi, fedbuff, "
        "fedproto, fedtgp, gcfl, gcfl+, fedda, fed-mgcn, fedlit, fedsage+, fedgcn, fedgta, fedpub, "
        "fgssl, fedtad, fedspray, o-pfgl, adafgl"
    )
    assert f"Use a method for node-classification ({methods}), or data for graph-" in line
    line = refused("run", "fedlit", "--setting", "tiny")
    settings = (
        "acm-links, planted, cora, citeseer, pubmed, coauthor-cs, coauthor-physics, photo, "
        "computers, actor, chameleon, squirrel, minesweeper, tolokers, questions, "
        "roman-empire, amazon-ratings, twitch, your own"
    )
    assert line.endswith(f"data for node-classification ({settings}).")


def test_too_many_clients_are_not_compared(data_root: Path) -> None:
    arguments = ("data", "inspect", "--setting", "at-random", "--set", "clients=51")
    assert "at most 50" in refused(*arguments, "--data", data_root)


def test_report_writes_a_page(finished: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    folder, _ = finished
    done = ramet("report", folder, "--out", tmp_path / "page", "--target", "50")
    assert done.code == 0, done.stderr
    text = (tmp_path / "page" / "report.html").read_text()
    assert text.count("<svg") == 4
    assert "Left out" not in text
    assert "nowhere does not exist" in refused("report", tmp_path / "nowhere")
