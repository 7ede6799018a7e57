"""Exported models give Ramet's predictions without Ramet, for every task."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor

import ramet
from command_line import ramet as command
from own_sites import graph_site, link_site, messy_site
from ramet.data import NodeGraph
from ramet.errors import RametError
from ramet.export.inputs import flat, inputs_of
from ramet.export.programs import ONNX, PT2, run_onnx
from ramet.prediction import Trained, client_input
from ramet.runs import Result

HERE = Path(__file__).parent
METHODS = {
    "fedstar": "graphs",
    "feddense": "graphs",
    "fed-gcn": "nodes",
    "fedlit": "nodes",
    "fed-hgn": "links",
}
EDGES = ("patient", "takes", "drug")
EQUAL = 1e-6
"""Largest difference of probabilities."""


Probabilities: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """A run of own sites, and the model of its first site, exported."""

    result: Result
    folder: Path
    relation: str | None = None

    def inputs(self) -> dict[str, Tensor]:
        """The site's graph as the network's arguments; of links, also the predicted pairs."""
        trained = Trained.open(self.result.folder)
        given = client_input(trained, "north")
        inputs = inputs_of(given.graph, trained.model("north"))
        if self.relation is not None:
            frame = self.result.predict("north", relation=self.relation)
            ids = {name: pd.Index(of_type) for name, of_type in given.ids.items()}
            pairs = [ids["patient"].get_indexer(pd.Index(frame["source"]))]
            pairs.append(ids["drug"].get_indexer(pd.Index(frame["target"])))
            inputs["edge_label_index_dict"][EDGES] = torch.from_numpy(np.stack(pairs))
        return flat(inputs)

    def expected(self) -> Probabilities:
        """What `Result.predict` gives."""
        frame = self.result.predict("north", relation=self.relation)
        chances = [c for c in frame.columns if c.startswith("p_")] or ["probability"]
        return frame[chances].to_numpy().squeeze()

    def differs(self, outputs: Mapping[str, Tensor]) -> float:
        """The largest difference from what `Result.predict` gives."""
        name = "/".join(["probabilities", *(EDGES if self.relation else ())])
        found, expected = outputs[name].numpy(), self.expected()
        assert found.shape == expected.shape
        return float(np.abs(found - expected).max())


def cases(root: Path, programs: bool) -> Iterator[Case]:
    """The five methods on sites' own tables, with two rounds each."""
    sites = {
        "graphs": [graph_site(root / "graphs" / name) for name in ("north", "south")],
        "nodes": [messy_site(root / "nodes" / name, 1, 50) for name in ("north", "south")],
        "links": [link_site(root / "links" / name, genes=True) for name in ("north", "south")],
    }
    for method, kind in METHODS.items():
        given = " ".join(map(str, sites[kind]))
        result = ramet.run(method, "own", rounds=2, out=root / method, sites=given)
        folder = root / f"{method}-model"
        exported = result.export("north", folder, programs=programs)
        assert exported.left_out == {}
        yield Case(result, folder, "takes" if kind == "links" else None)


def without_ramet(python: str, handed: Sequence[Case], root: Path) -> list[dict[str, Tensor]]:
    """The outputs of exported models in another process, which refuses to import Ramet."""
    for case in handed:
        save_file(case.inputs(), root / f"{case.folder.name}.inputs")
    done = subprocess.run(
        [python, "-I", HERE / "without_ramet.py", root, *(case.folder for case in handed)],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return [load_file(root / f"{case.folder.name}.outputs") for case in handed]


@pytest.fixture(scope="module")
def handed(tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    return [*cases(tmp_path_factory.mktemp("handed"), programs=False)]


@pytest.mark.thorough
def test_predictions_are_equal_in_a_process_without_ramet(
    handed: list[Case], tmp_path: Path
) -> None:
    outputs = without_ramet(sys.executable, handed, tmp_path)
    for case, found in zip(handed, outputs, strict=True):
        assert case.differs(found) < EQUAL, case.folder.name


def test_the_process_really_refuses_ramet(tmp_path: Path) -> None:
    (tmp_path / "predict.py").write_text("import ramet\n")
    done = subprocess.run(
        [sys.executable, "-I", HERE / "without_ramet.py", tmp_path, tmp_path],
        capture_output=True,
        text=True,
    )
    assert "this process must not import ramet" in done.stderr


def test_tables_are_prepared_as_in_training(handed: list[Case]) -> None:
    """`prepare.py` turns raw rows into the same features and links as Ramet."""
    case = next(case for case in handed if case.folder.name.startswith("fed-gcn"))
    code = """
import json, sys
sys.path.insert(0, sys.argv[1])
from prepare import features, links, read_csv
from safetensors.torch import save_file
nodes, edges = (read_csv(f"{sys.argv[2]}/{name}.csv") for name in ("patients", "contacts"))
edge_index = links(edges["source"], edges["target"], nodes["id"])
save_file({"x": features(nodes, "patient"), "edge_index": edge_index}, sys.argv[3])
"""
    tables, out = case.result.folder.parent / "nodes" / "north", case.folder.parent / "prepared"
    subprocess.run([sys.executable, "-I", "-c", code, case.folder, tables, out], check=True)
    prepared, expected = load_file(out), case.inputs()
    torch.testing.assert_close(prepared["x"], expected["x"], atol=1e-6, rtol=1e-6)
    ends = torch.unique(expected["edge_index"], dim=1)
    assert torch.equal(torch.unique(prepared["edge_index"], dim=1), ends)


@pytest.mark.e2e
@pytest.mark.thorough
def test_predictions_are_equal_in_a_clean_environment(tmp_path: Path) -> None:
    """A new virtual environment with the packages that the card names; programs and ONNX too."""
    handed = [*cases(tmp_path, programs=True)]
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    python = str(environment / "bin" / "python")
    packages = [f"torch=={torch.__version__.partition('+')[0]}", "torch_geometric", "pydantic"]
    packages.append("safetensors")
    subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True)
    missing = subprocess.run([python, "-I", "-c", "import ramet"], capture_output=True, text=True)
    assert "No module named 'ramet'" in missing.stderr
    for case, found in zip(handed, without_ramet(python, handed, tmp_path), strict=True):
        assert case.differs(found) < EQUAL, case.folder.name
        program = {name.removeprefix("program-"): found[name] for name in found if "-" in name}
        assert case.differs(program) < EQUAL, case.folder.name
        assert case.differs(_by_onnx(case)) < EQUAL, case.folder.name


def _by_onnx(case: Case) -> dict[str, Tensor]:
    outputs = run_onnx(case.folder / ONNX, case.inputs())
    names = [name.replace("edge_label_index_dict", "probabilities") for name in case.inputs()]
    if case.relation is None:
        return {"probabilities": outputs[0].double().softmax(dim=1)}
    asked = [name for name in names if name.startswith("probabilities")]
    return {name: one.double().sigmoid() for name, one in zip(asked, outputs, strict=True)}


@pytest.mark.thorough
def test_programs_take_graphs_of_other_sizes(tmp_path: Path) -> None:
    sites = " ".join(str(messy_site(tmp_path / name, 1, 40)) for name in ("north", "south"))
    result = ramet.run(
        "fedavg", "own", rounds=1, out=tmp_path / "run", sites=sites, network="sage", hidden=8
    )
    assert result.export("north", tmp_path / "model").left_out == {}
    case = Case(result, tmp_path / "model")
    assert case.differs(_by_onnx(case)) < EQUAL
    program = torch.export.load(case.folder / PT2).module()
    assert (
        case.differs({"probabilities": program(**case.inputs()).detach().double().softmax(1)})
        < EQUAL
    )


def test_the_card_says_what_is_known(handed: list[Case]) -> None:
    case = next(case for case in handed if case.folder.name.startswith("fed-gcn"))
    text = (case.folder / "README.md").read_text()
    _, header, body = text.split("---\n", 2)
    metadata = yaml.safe_load(header)
    assert metadata["pipeline_tag"] == "graph-ml"
    metrics = metadata["model-index"][0]["results"][0]["metrics"]
    test = case.result.evaluation("north")["test"]
    assert metrics[0] == {"type": "accuracy", "name": "test accuracy"} | {
        "value": round(test.metrics["accuracy"], 4)
    }
    for said in (
        "trained by 2 sites",
        "| patient | ward | category | ward=intensive, ward=surgery, ward other, ward missing |",
        "| method | fed-gcn (",
        f"{case.result.summary.traffic.total:,} bytes",
        "ramet run fed-gcn --setting own --rounds 2",
        "Norm bound of replies: none.",
        "| model.safetensors | its weights |",
    ):
        assert said in body, said
    assert str(case.folder.parent) not in text


def test_the_example_has_no_rows_of_the_site(handed: list[Case]) -> None:
    for case in handed:
        kind = METHODS[case.folder.name.removesuffix("-model")]
        north = case.folder.parent / kind / "north"
        own = {line for path in north.glob("*.csv") for line in path.read_text().split()}
        for path in (case.folder / "example").glob("*.csv"):
            _, *rows = path.read_text().split()
            assert rows
            assert not own & {*rows}


def test_the_command_lists_what_it_wrote(handed: list[Case], tmp_path: Path) -> None:
    run = handed[0].result.folder
    done = command("export", run, tmp_path / "model", "--site", "north", "--no-programs")
    assert done.code == 0, done.stderr
    assert "ramet_code" in done.stdout
    assert "unknown client 'nroth'. Did you mean 'north'?" in (
        command("export", run, tmp_path / "other", "--site", "nroth").stderr
    )
    again = command("export", run, tmp_path / "model", "--site", "north")
    assert (again.code, again.stderr.strip()) == (
        2,
        f"ramet: {tmp_path / 'model'} is not an empty folder. Choose a new one.",
    )


USER_NETWORK = """
import torch
from torch import nn
from torch_geometric.nn import SAGEConv

class Net(nn.Module):
    def __init__(self, shape, hidden: int = 8):
        super().__init__()
        widths = ((shape.features, hidden), (hidden, shape.classes))
        self.layers = nn.ModuleList(SAGEConv(*pair) for pair in widths)

    def forward(self, data):
        return self.layers[1](self.layers[0](data.x, data.edge_index).relu(), data.edge_index)
"""


def user_run(folder: Path, source: str) -> Result:
    (folder / "mynet.py").write_text(source)
    sites = " ".join(str(messy_site(folder / name, 1, 40)) for name in ("north", "south"))
    network = f"{folder / 'mynet.py'}:Net"
    return ramet.run(
        "fedavg", "own", rounds=1, out=folder / "run", sites=sites, network=network, hidden=5
    )


@pytest.mark.thorough
def test_the_file_of_a_users_network_is_handed_over(tmp_path: Path) -> None:
    result = user_run(tmp_path, USER_NETWORK)
    result.export("north", tmp_path / "model", programs=False)
    assert (tmp_path / "model" / "network.py").read_text() == USER_NETWORK
    given = client_input(Trained.open(result.folder), "north")
    assert isinstance(given.graph, NodeGraph)
    save_file({"x": given.graph.x, "edge_index": given.graph.edge_index}, tmp_path / "model.inputs")
    subprocess.run(
        [sys.executable, "-I", HERE / "without_ramet.py", tmp_path, tmp_path / "model"], check=True
    )
    assert Case(result, tmp_path / "model").differs(load_file(tmp_path / "model.outputs")) < EQUAL


def test_a_users_network_that_needs_ramet_is_refused(tmp_path: Path) -> None:
    result = user_run(tmp_path, "from ramet import NodeShape\n" + USER_NETWORK)
    with pytest.raises(RametError, match=r"Net cannot be exported: mynet.py imports Ramet\. Write"):
        result.export("north", tmp_path / "model")
    assert not (tmp_path / "model").exists()
