"""Runs over user-defined graphs, in every engine, and the reasons why some cannot start."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tomllib
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import ramet
from command_line import ramet as command
from federations import merged_sha256
from own_sites import graph_site, link_site, node_site
from ramet.data.own.description import read_description
from ramet.data.own.problems import Problems
from ramet.data.own.schema import Schema
from ramet.data.own.site import read_site
from ramet.errors import RametError
from ramet.experiment import Experiment, RunFolder, checked_settings
from ramet.experiment.continuing import check_same
from ramet.rules.method import AssembledMethod
from ramet.runs import start


def sites(*files: Path) -> str:
    return shlex.join(map(str, files))


def three_nodes(folder: Path) -> list[Path]:
    return [node_site(folder / name, seed) for seed, name in enumerate(("north", "south", "east"))]


def test_check_prints_counts_and_writes_the_fingerprint(tmp_path: Path) -> None:
    toml = node_site(tmp_path / "north")
    done = command("data", "check", toml)
    assert done.code == 0, done.stderr
    for words in ("nodes: patient", "edges: contact", "class: ill", "split: train", "No problems"):
        assert words in done.stdout
    written = Schema.parse((tmp_path / "north" / "site.fingerprint.json").read_text(), "north")
    assert written == read_site(toml).schema
    facts = json.loads(command("data", "check", toml, "--json").stdout)
    assert facts["problems"] == []
    assert facts["statistics"]["split"] == {"train": 24, "val": 8, "test": 8}


def test_check_exits_with_1_if_there_are_problems(tmp_path: Path) -> None:
    toml = node_site(tmp_path / "north")
    (tmp_path / "north" / "contacts.csv").write_text("source,target\np0,p99\np98,p1\n")
    done = command("data", "check", toml)
    assert done.code == 1
    add = 'Add it to the table of patient, remove this row, or write unknown = "drop" or "stub"'
    hint = f"{add} in [edges.TYPE]."
    assert done.stdout.splitlines() == [
        f"contacts.csv, row 2, column 'target': there is no patient 'p99'. {hint}",
        f"contacts.csv, row 3, column 'source': there is no patient 'p98'. {hint}",
    ]
    assert "2 problems" in done.stderr
    assert not (tmp_path / "north" / "site.fingerprint.json").exists()
    facts = json.loads(command("data", "check", toml, "--json").stdout)
    assert [problem["row"] for problem in facts["problems"]] == [2, 3]
    (tmp_path / "north" / "contacts.csv").write_text("source,target\n" + "p0,p99\n" * 50)
    shown = command("data", "check", toml).stdout.splitlines()
    assert (len(shown), shown[-1]) == (
        6,
        "contacts.csv, column 'target': 45 more; --all lists them.",
    )
    assert len(command("data", "check", toml, "--all").stdout.splitlines()) == 50
    missing = command("data", "check", tmp_path / "nowhere.toml")
    assert (missing.code, missing.stderr.count("\n")) == (2, 1)


def test_federated_and_local_runs_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = three_nodes(tmp_path)
    monkeypatch.chdir(tmp_path)
    options = [word for path in files for word in ("--site", path.relative_to(tmp_path))]
    done = command("run", "fed-gcn", *options, "--rounds", "2", "--out", "r", "--json")
    assert done.code == 0, done.stderr
    result = json.loads(done.stdout)
    assert list(result["scores"]["clients"]) == ["north", "south", "east"]
    again = ramet.run("fed-gcn", "own", sites=sites(*files), rounds=2, out=tmp_path / "again")
    assert again.summary.sha256 == result["sha256"]
    local = ramet.run("local-gcn", "own", sites=sites(*files), rounds=2, out=tmp_path / "local")
    assert local.summary.sha256 != result["sha256"]
    assert json.loads((tmp_path / "r" / "sites.json").read_text()).keys() == {
        *("north", "south", "east")
    }


def test_compare_and_inspect_accept_own_sites(tmp_path: Path) -> None:
    options = [word for path in three_nodes(tmp_path) for word in ("--site", path)]
    words = ("compare", "local-gcn", "fed-gcn", *options, "--seeds", "1", "--rounds", "2")
    done = command(*words, "--out", tmp_path / "s", "--keep", tmp_path / "kept", "--json")
    assert done.code == 0, done.stderr
    alone, together = json.loads(done.stdout)
    assert (alone["label"], together["label"]) == ("local-gcn", "fed-gcn")
    assert [site["site"] for site in together["sites"]] == ["north", "south", "east"]
    assert all(site["gain"]["low"] is not None for site in together["sites"])
    kept = sorted(path.name for path in (tmp_path / "kept").iterdir())
    assert kept == ["fed-gcn-seed1.json", "local-gcn-seed1.json"]
    again = command(*words, "--out", tmp_path / "t", "--keep", tmp_path / "kept", "--json")
    assert again.code == 0
    from_kept = json.loads(again.stdout)[1]
    assert {**from_kept, "sites": []} == {**together, "sites": []}
    assert all(site["gain"]["low"] is None for site in from_kept["sites"])  # no predictions
    assert not (tmp_path / "t").exists()
    inspection = json.loads(command("data", "inspect", *options, "--json").stdout)
    assert inspection["clients"]["south"] == {"nodes": 40, "contact": 40}
    assert inspection["kinds"]["contact"]["links"] == 120
    # contacts join patients of the same state, except two of those that wrap around
    assert inspection["kinds"]["contact"]["edge_homophily"] == pytest.approx(38 / 40)
    assert command("report", tmp_path / "s", "--out", tmp_path / "page").code == 0
    page = (tmp_path / "page" / "report.html").read_text()
    assert "<td>fed-gcn</td>" in page
    assert "ramet data inspect --site" in page


def test_inspect_accepts_own_sites_with_several_types(tmp_path: Path) -> None:
    files = link_site(tmp_path / "north"), link_site(tmp_path / "south", 2, genes=True)
    options = [word for path in files for word in ("--site", path)]
    inspection = json.loads(command("data", "inspect", *options, "--json").stdout)
    assert inspection["types"]["patient"] == {"nodes": 2 * 30, "features": 1}
    assert inspection["types"]["drug"] == {"nodes": 2 * 10, "features": 1}  # constant 1
    assert inspection["types"]["gene"]["nodes"] > 0
    north, south = (inspection["clients"][site]["links"] for site in ("north", "south"))
    assert north["acts-on"] == 0 < south["acts-on"]
    for relation, facts in inspection["relations"].items():
        assert facts["links"] == north[relation] + south[relation]


def test_the_command_that_repeats_a_run_has_no_absolute_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = _settings(three_nodes(tmp_path), tmp_path)
    assert settings.command == (
        "ramet run fed-gcn --setting own --rounds 2 --seed 0 --site north/site.toml "
        "--site south/site.toml --site east/site.toml"
    )
    first = start(Experiment(settings), tmp_path / "first")
    monkeypatch.chdir(tmp_path)
    again = command(*shlex.split(settings.command)[1:], "--out", "again", "--json")
    assert again.code == 0, again.stderr
    assert json.loads(again.stdout)["sha256"] == first.summary.sha256


@pytest.mark.parametrize("words", [("run", "fed-gcn"), ("compare", "fed-gcn"), ("data", "inspect")])
def test_sites_and_a_setting_exclude_each_other(words: tuple[str, ...], tmp_path: Path) -> None:
    toml = node_site(tmp_path / "north")
    done = command(*words, "--site", toml, "--setting", "cora")
    assert (done.code, done.stderr.count("\n")) == (2, 1)
    assert "--site and --setting cora exclude each other" in done.stderr


def test_a_run_resumes_only_with_the_same_data(tmp_path: Path) -> None:
    files = three_nodes(tmp_path)
    whole = ramet.run("fed-gcn", "own", sites=sites(*files), rounds=3, out=tmp_path / "r")
    (whole.folder / "result.json").unlink()
    for newer in sorted((whole.folder / "server").glob("*.safetensors"))[1:]:
        newer.unlink()
    assert ramet.resume(whole.folder).summary.sha256 == whole.summary.sha256
    (whole.folder / "result.json").unlink()
    table = tmp_path / "east" / "patients.csv"
    table.write_text(table.read_text().replace("p3,", "p3000,", 1) + "p3,0,0,ill\n")
    with pytest.raises(RametError, match="the data of east has changed"):
        ramet.resume(whole.folder)


def test_private_encoders_accept_features_of_any_width(tmp_path: Path) -> None:
    """FedStar shares no parameters that depend on features. Other methods need equal features."""
    files = sites(
        graph_site(tmp_path / "north", ("mass",)),
        graph_site(tmp_path / "south", ("mass", "charge")),
    )
    summary = ramet.run("fedstar", "own", sites=files, rounds=2, out=tmp_path / "star").summary
    north, south = (summary.model.scalars[site] for site in ("north", "south"))
    assert south == north + 64
    with pytest.raises(RametError) as refused:
        ramet.run("fedavg", "own", sites=files, share=["*"], out=tmp_path / "avg")
    assert str(refused.value) == (
        "the run cannot start because the sites' fingerprints do not match. south differs from "
        "north: its features of atom also include charge. The features must match because "
        "'embed.weight' is shared. Change the TOML of south and run `ramet data check` there."
    )
    assert not (tmp_path / "avg").exists()


def test_the_site_that_differs_is_named_even_if_it_comes_first(tmp_path: Path) -> None:
    files = three_nodes(tmp_path)
    for name in ("site.toml", "patients.csv"):
        path = files[0].parent / name
        path.write_text(path.read_text().replace("dose", "weight").replace("ill", "sick"))
    with pytest.raises(RametError, match=r"north differs from south: .*lack ill.*lack dose"):
        ramet.run("fed-gcn", "own", sites=sites(*files), out=tmp_path / "r")


def test_columns_in_a_different_order_do_not_match(tmp_path: Path) -> None:
    """The widths are equal, so only the names reveal it."""
    files = three_nodes(tmp_path)
    toml = files[2]
    toml.write_text(toml.read_text().replace('"age", "dose"', '"dose", "age"'))
    with pytest.raises(RametError, match=r"east differs .* in a different order \(dose, age\)"):
        ramet.run("fed-gcn", "own", sites=sites(*files), out=tmp_path / "r")
    ramet.run("local-gcn", "own", sites=sites(*files), rounds=1, out=tmp_path / "local")


def test_link_prediction_works_if_a_site_lacks_types(tmp_path: Path) -> None:
    files = [link_site(tmp_path / "north", 1), link_site(tmp_path / "south", 2, genes=True)]
    summary = ramet.run(
        "fed-hgn", "own", sites=sites(*files), rounds=2, out=tmp_path / "r", hidden=8
    ).summary
    assert summary.model.scalars["north"] == summary.model.scalars["south"]
    assert all(score and 0 < score < 1 for score in summary.scores.clients.values())
    again = ramet.run("fedda", "own", sites=sites(*files), rounds=2, out=tmp_path / "d", hidden=8)
    assert again.summary.sent is not None
    assert again.summary.sent.tensors.up > 0


def test_an_undeclared_type_is_named(tmp_path: Path) -> None:
    files = [link_site(tmp_path / "north", 1), link_site(tmp_path / "south", 2)]
    toml = files[1].read_text()
    files[1].write_text(toml[: toml.index("[edges.acts-on]")])
    with pytest.raises(RametError, match="south differs from north: its edge types lack acts-on"):
        ramet.run("fed-hgn", "own", sites=sites(*files), out=tmp_path / "r")


def test_wrong_tasks_and_missing_or_duplicate_names_are_refused(tmp_path: Path) -> None:
    files = three_nodes(tmp_path)
    message = "fedstar is for graph-classification, but the data of own are for node-classification"
    with pytest.raises(RametError, match=message):
        ramet.run("fedstar", "own", sites=sites(*files), out=tmp_path / "r")
    with pytest.raises(RametError, match="no sites are given"):
        ramet.run("fed-gcn", "own", out=tmp_path / "r")
    with pytest.raises(RametError, match="two sites are called north"):
        ramet.run("fed-gcn", "own", sites=sites(files[0], files[0]), out=tmp_path / "r")


def test_a_method_for_any_task_takes_that_of_the_sites_files(tmp_path: Path) -> None:
    def method(**options: str) -> AssembledMethod:
        given = {"method": "fedavg", "setting": "own", "data": tmp_path}
        return Experiment(checked_settings(**given, options=options)).method

    nodes = method(sites=sites(*three_nodes(tmp_path / "nodes")))
    assert (nodes.task.name, str(nodes.shared)) == ("node-classification", "*")
    graphs = method(sites=sites(graph_site(tmp_path / "graphs")))
    assert (graphs.task.name, str(graphs.shared)) == ("graph-classification", "layers.*")
    same = method(sites=sites(graph_site(tmp_path / "same")), same_schema="true")
    assert str(same.shared) == "*"
    elsewhere = method(sites="north south", task="link-prediction")
    assert elsewhere.task.name == "link-prediction"
    with pytest.raises(RametError, match=r"on this machine says which\. Set the option `task`"):
        method(sites="north south")


def test_paths_are_not_sent_to_other_machines(tmp_path: Path) -> None:
    from ramet.flower.run_config import from_run_config, to_run_config

    files = three_nodes(tmp_path / "data")
    settings = _settings(files, tmp_path, engine="superlink")
    config = to_run_config(settings, tmp_path / "run")
    assert str(tmp_path / "data") not in json.dumps(config)
    remote = Experiment(from_run_config(config))
    assert remote.clients == ("north", "south", "east")
    assert Experiment(settings).setting.data_of("south", settings.data) == files[1]
    folder = RunFolder.create(tmp_path / "run", Experiment(settings))
    check_same(folder, remote.settings)
    with pytest.raises(RametError, match="there is no path to the graphs of north"):
        remote.samples("north")


def _settings(files: list[Path], folder: Path, **more: Any) -> Any:
    return checked_settings(
        method="fed-gcn",
        setting="own",
        rounds=2,
        data=folder / "none",
        options={"sites": sites(*files)},
        **more,
    )


@pytest.mark.e2e
@pytest.mark.thorough
def test_ray_agrees_on_own_graphs(tmp_path: Path) -> None:
    files = sites(*three_nodes(tmp_path))
    expected = ramet.run("fed-gcn", "own", sites=files, rounds=2, out=tmp_path / "local")
    result = ramet.run("fed-gcn", "own", sites=files, rounds=2, engine="ray", out=tmp_path / "ray")
    for fact in ("sha256", "scores", "traffic", "model"):
        assert getattr(result.summary, fact) == getattr(expected.summary, fact)


def _over_a_superlink(files: list[Path], out: Path) -> None:
    """Run as across machines: SuperNodes have their TOML files, the run config only site names."""
    from ramet.flower.keeping import kept_supernode
    from ramet.flower.programs import Flower, free_ports
    from ramet.flower.run_config import to_run_config
    from ramet.flower.submission import Submission
    from ramet.flower.thin_app import thin_app

    named = Experiment(_settings(files, out.parent, engine="superlink")).public_settings()
    home = out.with_name(f"{out.name}-home")
    home.mkdir()
    flower, (port,) = Flower(home, out.with_name(f"{out.name}-logs")), free_ports(1)
    with ExitStack() as stack:
        stack.callback(flower.kill_leftovers)
        stack.enter_context(flower.superlink(port, simulated=False))
        for toml in files:
            state = str(out.with_name(f"{out.name}-{toml.parent.name}"))
            node = {"data": str(toml), "state": state}
            stack.enter_context(kept_supernode(flower, toml.parent.name, port, node))
        Submission(flower).run(thin_app(), to_run_config(named, out), 0, lambda: None)


@pytest.mark.e2e
@pytest.mark.thorough
def test_a_server_without_data_files_gives_the_same_result(tmp_path: Path) -> None:
    files, out = three_nodes(tmp_path / "data"), tmp_path / "fits"
    _over_a_superlink(files, out)
    expected = ramet.run("fed-gcn", "own", sites=sites(*files), rounds=2, out=tmp_path / "local")
    assert RunFolder(out).summary() is not None
    result = json.loads((out / "result.json").read_text())
    assert result["sha256"] == merged_sha256(expected.folder)


@pytest.mark.e2e
@pytest.mark.thorough
def test_a_server_without_data_files_compares_fingerprints(tmp_path: Path) -> None:
    files, out = three_nodes(tmp_path / "data"), tmp_path / "unfit"
    files[1].write_text(files[1].read_text().replace('"age", "dose"', '"dose", "age"'))
    with pytest.raises(RametError):
        _over_a_superlink(files, out)
    assert not out.exists()
    log = (tmp_path / "unfit-logs" / "run.log").read_text()
    assert "south differs from north: its features of patient are in a different order" in log


PAGE = Path(__file__).parents[1] / "docs" / "own-graphs.md"


def test_the_pages_first_example_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the first example as printed, and compare the output of its first check."""
    commands, *_ = re.findall(r"```bash\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    shown, problems, *_ = re.findall(r"```text\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    first, *lines = commands.splitlines()
    assert first == "python docs/examples/make_sites.py"
    subprocess.run([sys.executable, PAGE.parents[1] / first.split()[1]], check=True)
    toml, *_ = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert tomllib.loads(toml) == tomllib.loads(Path("north/site.toml").read_text())
    printed = []
    for line in lines:
        program, *arguments = shlex.split(line)
        assert program == "ramet"
        done = command(*arguments)
        assert done.code == 0, done.stderr
        printed.append(done.stdout)
    assert _words(printed[0]) == _words(shown)
    assert len(printed) == 4
    assert (tmp_path / "together" / "result.json").exists()
    rows = (tmp_path / "north" / "patients.csv").read_text().splitlines()
    rows[2] = rows[2].replace(rows[2].split(",")[1], '"3,5"', 1)
    rows[4] = ",".join(["p0", *rows[4].split(",")[1:3], "Ill"])
    (tmp_path / "north" / "patients.csv").write_text("\n".join([*rows, "p3,0,0,ill"]))
    contacts = (tmp_path / "north" / "contacts.csv").read_text().splitlines()
    contacts[3] = contacts[3].split(",")[0] + ",nobody"
    (tmp_path / "north" / "contacts.csv").write_text("\n".join(contacts))
    assert command("data", "check", "north/site.toml").stdout == problems


def _words(text: str) -> list[str]:
    """Ignore spaces, which depend on the width of the terminal."""
    return text.split()


def test_the_pages_columns_are_valid(tmp_path: Path) -> None:
    (columns,) = re.findall(r"```toml\n(\[nodes.*?)```", PAGE.read_text(), flags=re.DOTALL)
    head = 'site = "north"\ntask = "node-classification"\nclasses = ["healthy", "ill"]\n'
    path = tmp_path / "site.toml"
    path.write_text(f'{head}{columns}\n[edges.contact]\nfile = "contacts.csv"\n')
    problems = Problems()
    description = read_description(path, problems)
    assert description is not None, problems.items
    assert [*description.nodes["patient"].prepared] == [
        *("admitted", "age", "blood", "bmi", "country", "dose", "smoker", "ward")
    ]


@pytest.mark.parametrize("example", [1, 2])
def test_the_pages_other_toml_files_are_valid(example: int, tmp_path: Path) -> None:
    tomls = re.findall(r"```toml\n(site = .*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(tomls) == 3
    folder = tmp_path / "north"
    path = graph_site(folder) if example == 1 else link_site(folder)
    path.write_text(tomls[example])
    assert read_site(path).name == "north"


def test_the_page_shows_a_valid_fingerprint() -> None:
    (text,) = re.findall(r"```json\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert Schema.parse(text, "north").ramet == ramet.__version__
