"""Classes of edges: learned from what decides them alone, and through all that runs can do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from sklearn.metrics import average_precision_score
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.nn import SAGEConv

import ramet
from command_line import ramet as command
from planted_edges import BY_TIME, DIRECTED, bank
from ramet.data import EdgeGraph
from ramet.data.own.advice import warnings
from ramet.data.own.kept_parts import KeptParts
from ramet.data.own.site import check_site, read_site
from ramet.errors import RametError
from ramet.experiment import RunFolder
from ramet.experiment.run_models import start_model_of
from ramet.leak.audit import audit
from ramet.tasks import EdgeClassification

SITES = "abc"
SUMS = f'{DIRECTED}\naggregate = ["sum"]'
NETWORKS = ("gin", "gcn", "sage", "gat", "gine", "gatv2", "dir-sage")


def banks(folder: Path, **given: Any) -> list[Path]:
    return [bank(folder / name, seed, **given) for seed, name in enumerate(SITES)]


def run(folder: Path, sites: list[Path], **given: Any) -> ramet.Result:
    options = {"network": "sage", "rounds": 40, "dropout": 0, "method": "fedavg", **given}
    return ramet.run(
        setting="own", sites=sites, out=folder / "run", observe=lambda record: None, **options
    )


@pytest.mark.parametrize(
    ("kind", "known", "unknown"),
    [
        ("amount", {}, {"columns": ""}),
        ("direction", {"columns": ""}, {"columns": "", "keys": ""}),
        ("net", {"keys": SUMS}, {}),
        (
            "time",
            {"keys": f'{DIRECTED}\ntime = "date"\nage = true'},
            {"keys": f'{DIRECTED}\ntime = "date"'},
        ),
    ],
)
def test_only_what_decides_tells_the_class(
    tmp_path: Path, kind: str, known: dict[str, str], unknown: dict[str, str]
) -> None:
    told = run(tmp_path / "told", banks(tmp_path / "told", kind=kind, **known), rounds=60)
    blind = run(tmp_path / "blind", banks(tmp_path / "blind", kind=kind, **unknown), rounds=30)
    assert told.summary.scores.test > 0.98
    assert blind.summary.scores.test < (0.85 if kind == "net" else 0.62)


class Plain(nn.Module):
    """GraphSAGE and a head over both ends, in PyG's own layers."""

    def __init__(self, features: int, hidden: int, own: int, classes: int) -> None:
        super().__init__()
        self.first = SAGEConv(features, hidden)
        self.second = SAGEConv(hidden, hidden)
        self.join = nn.Linear(2 * hidden + own, hidden)
        self.classify = nn.Linear(hidden, classes)

    def forward(self, data: Data) -> Tensor:
        x = self.first(data.x, data.edge_index).relu()
        x = self.second(x, data.edge_index).relu()
        source, target = data.edge_label_index
        joined = self.join(torch.cat([x[source], x[target], data.edge_label_attr], dim=1))
        logits: Tensor = self.classify(joined.relu())
        return logits


def test_an_epoch_is_that_of_a_plain_network(tmp_path: Path) -> None:
    sites = banks(tmp_path)[:1]
    result = run(tmp_path, sites, rounds=1, method="local", algorithm="sgd", lr=0.1, weight_decay=0)
    experiment = RunFolder(result.folder).experiment()
    start, end = (
        start_model_of(experiment, "a").state_dict(),
        result.model("a").state_dict(),
    )
    graph, split = experiment.samples("a").graph, experiment.samples("a").split
    plain = Plain(graph.features.size(1), 64, graph.asked.width, 2)
    with torch.no_grad():
        for ours, layer in (("nodes.layers.0", plain.first), ("nodes.layers.1", plain.second)):
            layer.lin_l.weight.copy_(start[f"{ours}.neighbours.weight"])
            layer.lin_l.bias.copy_(start[f"{ours}.neighbours.bias"])
            layer.lin_r.weight.copy_(start[f"{ours}.own.weight"])
        joined = [start[f"{name}.weight"] for name in ("source", "target", "attributes")]
        plain.join.weight.copy_(torch.cat(joined, dim=1))
        plain.join.bias.copy_(start["source.bias"])
        plain.classify.load_state_dict({n: start[f"classify.{n}"] for n in ("weight", "bias")})
    table = pd.read_csv(sites[0].parent / "transfers.csv")
    accounts = pd.read_csv(sites[0].parent / "accounts.csv")["id"].tolist()
    ends = torch.tensor(
        [[accounts.index(one) for one in table[end]] for end in ("source", "target")]
    )
    both = torch.cat([ends, ends.flip(0)], dim=1)
    amount = torch.tensor(table["amount"].to_numpy(), dtype=torch.float32)
    data = Data(x=graph.features, edge_index=both, edge_label_index=ends)
    scaled = (amount - amount.mean()) / amount.std(correction=0)
    data.edge_label_attr = torch.stack([scaled, torch.zeros_like(scaled)], dim=1)  # none missing
    labels = torch.tensor((table["state"] == "fraud").to_numpy()).long()
    step = torch.optim.SGD(plain.parameters(), lr=0.1)
    loss = functional.cross_entropy(plain(data)[split.train], labels[split.train])
    torch.autograd.backward(loss)
    step.step()
    torch.testing.assert_close(end["classify.weight"], plain.classify.weight, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(end["source.bias"], plain.join.bias, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(
        end["nodes.layers.0.own.weight"], plain.first.lin_r.weight, atol=1e-6, rtol=1e-5
    )


@pytest.mark.parametrize("network", NETWORKS)
def test_every_network_for_nodes_classifies_edges(tmp_path: Path, network: str) -> None:
    result = run(tmp_path, banks(tmp_path), network=network, rounds=20)
    assert result.summary.scores.test > 0.9


@pytest.mark.parametrize(
    ("method", "given"),
    [
        ("scaffold", {}),
        ("ditto", {}),
        ("gcfl+", {}),
        ("fedper", {}),
        ("fedavg", {"activation": "random-tensors"}),
        ("fedavg", {"merge": "fixed-point"}),
    ],
)
def test_methods_run_on_edges(tmp_path: Path, method: str, given: dict[str, Any]) -> None:
    result = run(tmp_path, banks(tmp_path), method=method, rounds=3, **given)
    assert 0 <= result.summary.scores.test <= 1
    assert result.summary.metric == "accuracy"


def test_workers_give_the_same_numbers(tmp_path: Path) -> None:
    sites = banks(tmp_path)
    one = run(tmp_path / "one", sites, rounds=2)
    two = run(tmp_path / "two", sites, rounds=2, workers=2)
    assert one.summary.sha256 == two.summary.sha256


def test_a_month_of_new_transfers_is_predicted(tmp_path: Path) -> None:
    sites = banks(tmp_path)
    result = run(tmp_path, sites, rounds=30)
    folder = tmp_path / "next"
    path = bank(folder, seed=9)
    table = pd.read_csv(folder / "transfers.csv")
    truth = table.pop("state")
    table.to_csv(folder / "transfers.csv", index=False)
    found = result.predict("a", path)
    assert found.columns.tolist() == ["id", "source", "target", "class", "p_fine", "p_fraud"]
    assert found[["id", "source", "target"]].equals(
        table.rename(columns={"number": "id"})[["id", "source", "target"]]
    )
    assert (found["class"] == truth).mean() > 0.95
    new = table.head(20).assign(number=[f"n{n}" for n in range(20)])
    new.to_csv(folder / "transfers.csv", index=False)
    accounts = pd.read_csv(folder / "accounts.csv").head(0)
    accounts.to_csv(folder / "accounts.csv", index=False)
    path.unlink()
    after = result.predict("a", new=folder)
    assert after["id"].tolist() == new["number"].tolist()
    new.assign(state=truth).to_csv(folder / "transfers.csv", index=False)
    scored = result.beside_test("a", new=folder)
    assert scored.new.labels.tolist() == [int(one == "fraud") for one in truth[:20]]
    assert (after["class"] == truth[:20]).mean() == scored.lines[0].new.value
    without = sites[0].read_text().replace('id = "number"\n', "")
    sites[0].write_text(without)
    assert result.predict("a", sites[0]).columns[0] == "source"


def test_a_rare_class_decides_the_metric(tmp_path: Path) -> None:
    (site,) = banks(tmp_path)[:1]
    table = pd.read_csv(site.parent / "transfers.csv")
    rare = (table["state"] == "fraud") & (table.groupby("state").cumcount() < 60)
    table["state"] = rare.map({True: "fraud", False: "fine"})
    table.to_csv(site.parent / "transfers.csv", index=False)
    assert run(tmp_path, [site], rounds=1).summary.metric == "balanced-accuracy"


def test_a_threshold_is_chosen_and_used(tmp_path: Path) -> None:
    result = run(tmp_path, banks(tmp_path), rounds=5)
    words = ("evaluate", result.folder, "--recall", "0.9", "--json")
    shown = command(*words)
    assert shown.code == 0, shown.stderr
    test = json.loads(shown.stdout)
    assert test
    experiment = RunFolder(result.folder).experiment()
    task = experiment.method.task
    assert isinstance(task, EdgeClassification)
    found = task.predictions(result.model("a"), experiment.samples("a"), torch.device("cpu"))[
        "test"
    ]
    given = result.evaluation("a")["test"].metrics
    precision = average_precision_score(found.labels == 1, found.predicted[:, 1])
    assert given["average-precision"] == pytest.approx(precision)


def test_reports_and_exports_have_edges(tmp_path: Path) -> None:
    result = run(tmp_path, banks(tmp_path), rounds=2, network="dir-sage")
    shown = command("report", result.folder, "--out", tmp_path / "page")
    assert shown.code == 0, shown.stderr
    made = command("export", result.folder, tmp_path / "model", "--site", "a")
    assert made.code == 0, made.stderr
    card = (tmp_path / "model" / "README.md").read_text()
    assert "edge_label_index" in card
    assert (tmp_path / "model" / "model.onnx").exists()


def test_edges_are_described(tmp_path: Path) -> None:
    files = [word for site in banks(tmp_path) for word in ("--site", site)]
    table = pd.read_csv(tmp_path / "a" / "transfers.csv")
    described = command("data", "inspect", *files, "--json")
    assert described.code == 0, described.stderr
    found = json.loads(described.stdout)
    assert found["clients"]["a"] == {"nodes": 120, "transfer": 900}
    assert found["classes"]["a"] == table["state"].value_counts().to_dict()
    checked = command("data", "check", files[1], "--json")
    assert checked.code == 0, checked.stderr
    assert json.loads(checked.stdout)["statistics"]["classes"] == found["classes"]["a"]


def test_each_part_has_the_transfers_of_its_time(tmp_path: Path) -> None:
    path = bank(tmp_path / "a", 0, keys=f'{DIRECTED}\ntime = "date"', more=BY_TIME)
    site = read_site(path)
    table = pd.read_csv(path.parent / "transfers.csv")
    dates = table["date"].to_numpy(str)
    assert site.parts is not None
    assert ((site.parts == 0).numpy() == (dates <= "2026-01-31")).all()
    ends = {"val": "2026-02-14", "test": "2026-12-31"}
    assert isinstance(site.graph, EdgeGraph)
    assert site.graph.asked.attributes is not None
    assert site.graph.links == (dates <= "2026-01-31").sum()
    for part, graph in site.later.items():
        assert isinstance(graph, EdgeGraph)
        assert graph.links == (dates <= ends[part]).sum()
        assert graph.asked.ends.equal(site.graph.asked.ends)
        assert graph.asked.attributes is not None
        assert graph.asked.attributes.equal(site.graph.asked.attributes)
    known = table["amount"][dates <= "2026-01-31"]
    assert site.sums.types["edges.transfer"]["amount"].total == pytest.approx(known.sum())
    result = run(tmp_path, [path], rounds=30, method="local")
    assert result.summary.scores.test > 0.9


def test_a_column_of_edges_that_tells_their_class_is_found(tmp_path: Path) -> None:
    path = bank(tmp_path / "a", 0, keys=f'{DIRECTED}\ntime = "date"', more=BY_TIME)
    told = check_site(path).site
    assert told is not None
    assert any("transfer: amount alone tells the class in 100 %" in one for one in warnings(told))
    blind = bank(tmp_path / "b", 0, "direction", f'{DIRECTED}\ntime = "date"', more=BY_TIME)
    untold = check_site(blind).site
    assert untold is not None
    assert not any("alone tells" in one for one in warnings(untold))


def test_known_transfers_keep_their_part(tmp_path: Path) -> None:
    path = bank(tmp_path / "a", 0)
    site = read_site(path)
    kept = KeptParts.of(site, 7)
    table = pd.read_csv(path.parent / "transfers.csv")
    shuffled = table.sample(frac=1, random_state=1)
    more = shuffled.head(50).assign(number=[f"x{n}" for n in range(50)])
    pd.concat([more, shuffled]).to_csv(path.parent / "transfers.csv", index=False)
    later = kept.kept_in(read_site(path), 7)
    assert later.parts is not None
    before = dict(zip(table["number"], site.sample_parts(7).tolist(), strict=True))
    assert later.parts[50:].tolist() == [before[one] for one in shuffled["number"]]


def test_what_is_not_for_edges_is_refused(tmp_path: Path) -> None:
    sites = banks(tmp_path)
    for given, text in (
        ({"dp": "unit=graph,epsilon=5,delta=1e-3"}, "a client has one graph only"),
        ({"dp": "unit=link,epsilon=5,delta=1e-3"}, "uses links"),
        ({"network": "hops"}, "is not for edge-classification"),
        ({"method": "fedgta", "network": None}, "is for node-classification"),
        ({"method": "fedstar", "network": None}, "edge-classification"),
    ):
        with pytest.raises(RametError, match=text):
            run(tmp_path / "refused", sites, **given)
    result = run(tmp_path, sites, rounds=1)
    with pytest.raises(RametError, match="is edge-classification"):
        audit(RunFolder(result.folder))
    with pytest.raises(RametError, match="cannot be explained"):
        result.explain("t0", "a")


def clients(directed: bool = True) -> dict[str, Data]:
    found = {}
    for number, name in enumerate(SITES):
        draw = torch.Generator().manual_seed(number)
        x, source = torch.randn(60, 2, generator=draw), torch.randint(60, (400,), generator=draw)
        target = (source + torch.randint(1, 60, (400,), generator=draw)) % 60
        y = (x[source, 0] > x[target, 0]).long() if directed else (source + target) % 2
        found[name] = Data(x=x, edge_index=torch.stack([source, target]), y=y)
    return found


def test_pyg_objects_have_classes_of_edges(tmp_path: Path) -> None:
    given: dict[str, Any] = {"task": "edge-classification", "data": tmp_path, "directed": True}
    result = ramet.run(
        "fedavg",
        clients=clients(),
        out=tmp_path / "run",
        rounds=60,
        dropout=0,
        network="sage",
        observe=lambda record: None,
        **given,
    )
    assert result.summary.scores.test > 0.9
    again = RunFolder(result.folder).experiment().samples("a").graph
    assert again.asked.ordered
    assert again.asked.ends.equal(clients()["a"].edge_index)
    private = ramet.run(
        "fedavg",
        clients=clients(),
        out=tmp_path / "private",
        rounds=2,
        observe=lambda record: None,
        dp="unit=site,epsilon=50,delta=1e-3",
        **given,
    )
    assert private.summary.privacy is not None
    both = {
        name: Data(
            x=one.x,
            y=one.y.repeat(2),
            edge_index=torch.cat([one.edge_index, one.edge_index.flip(0)], dim=1),
        )
        for name, one in clients().items()
    }
    with pytest.raises(RametError, match="each edge in both directions"):
        ramet.run("fedavg", clients=both, out=tmp_path / "no", **{**given, "directed": False})
    short = {
        "a": Data(x=torch.ones(4, 1), edge_index=torch.tensor([[0], [1]]), y=torch.ones(4).long())
    }
    with pytest.raises(RametError, match="one class for 1 edges is due"):
        ramet.run("fedavg", clients=short, out=tmp_path / "no", **given)


def test_tensors_have_classes_of_edges(tmp_path: Path) -> None:
    one = clients()["a"]
    stored = {"x": one.x, "edge_index": one.edge_index, "edge_label": one.y}
    torch.save(stored, tmp_path / "graph.pt")
    toml = 'site = "a"\ntask = "edge-classification"\nclasses = ["no", "yes"]\n'
    toml += 'tensors = "graph.pt"\n[nodes.account]\nfeatures = 2\n'
    (tmp_path / "site.toml").write_text(f"{toml}[edges.transfer]\ndirected = true\n")
    site = read_site(tmp_path / "site.toml")
    assert isinstance(site.graph, EdgeGraph)
    assert site.graph.labels.equal(one.y)
    torch.save({**stored, "edge_label": one.y + 1}, tmp_path / "graph.pt")
    assert "2 is not a class index" in str(check_site(tmp_path / "site.toml").problems[0])
