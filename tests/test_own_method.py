"""The examples of docs/your-own-method.md, and mistakes in user-defined methods and rules."""

from __future__ import annotations

import inspect
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ramet
from ramet.engine.server.state import ACTIVITY, MERGING, RunState
from ramet.engine.site.kept_models import FINAL_MODEL
from ramet.engine.store.checkpoint import Snapshots
from ramet.engine.store.client_state import MODEL
from ramet.experiment import RunFolder
from ramet.experiment.named import method_factory
from ramet.options import allow_code
from ramet.payload import Array, Arrays, digest, under
from ramet.tracking.tracker import metrics_of

PAGE = Path(__file__).parents[1] / "docs" / "your-own-method.md"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of the page."""
    folder = tmp_path_factory.mktemp("own")
    for code in re.findall(r"```python\n(# \w+\.py\n.*?)```", PAGE.read_text(), flags=re.DOTALL):
        assert len(code.splitlines()) < 60
        (folder / code.partition("\n")[0].removeprefix("# ")).write_text(code)
    for example in re.findall(r"\]\(examples/(\w+\.py)\)", PAGE.read_text()):
        shutil.copy(PAGE.parent / "examples" / example, folder)
    return folder


def test_the_excerpt_is_the_built_in_method() -> None:
    """Without the signature, which is shortened, and the comments, which are the page's."""
    excerpt = re.search(
        r"```python\ndef fedstar\(\.\.\.\).*?\n(.*?)```", PAGE.read_text(), re.DOTALL
    )
    assert excerpt
    assert re.sub(r"  # .*", "", excerpt[1]) in inspect.getsource(ramet.fedstar)


def resumed_sha256(whole: ramet.Result) -> str:
    """Delete all checkpoints but the first and the result, resume, and return the SHA-256."""
    (whole.folder / "result.json").unlink()
    for newest in sorted((whole.folder / "server").glob("*.safetensors"))[1:]:
        newest.unlink()
    return ramet.resume(whole.folder).summary.sha256


def test_without_momentum_it_equals_fedstar(own: Path, tmp_path: Path) -> None:
    star = ramet.run("fedstar", rounds=3, out=tmp_path / "star")
    still = ramet.run(f"{own}/momentum.py:momentum", rounds=3, out=tmp_path / "still", beta=0.0)
    moving = ramet.run(f"{own}/momentum.py:momentum", rounds=3, out=tmp_path / "moving", beta=0.5)
    assert still.frame.equals(star.frame)
    assert not moving.frame.equals(star.frame)
    assert moving.summary.method == "momentum"
    assert moving.summary.traffic == star.summary.traffic


def test_the_state_of_a_merging_rule_survives_a_restart(own: Path, tmp_path: Path) -> None:
    whole = ramet.run(f"{own}/momentum.py:momentum", rounds=4, out=tmp_path / "whole")
    allow_code(f"{own}/momentum.py:momentum")
    rule = method_factory(f"{own}/momentum.py:momentum")().merging
    assert digest(rule.send(rule.start({}), "a")) == digest({})
    assert resumed_sha256(whole) == whole.summary.sha256


def test_a_merging_rule_runs_with_other_methods(own: Path, tmp_path: Path) -> None:
    plain = ramet.run("fedavg", rounds=3, out=tmp_path / "plain")
    still, moving = (
        ramet.run(
            "fedavg",
            rounds=3,
            out=tmp_path / f"{beta}",
            merge=f"{own}/momentum.py:Momentum,{beta=}",
        )
        for beta in (0.0, 0.5)
    )
    assert still.frame.equals(plain.frame)
    assert not moving.frame.equals(plain.frame)
    assert moving.summary.merge == "momentum.py:Momentum,beta=0.5"


def test_a_penalty_of_strength_0_changes_nothing(own: Path, tmp_path: Path) -> None:
    plain = ramet.run("fedavg", rounds=3, out=tmp_path / "plain")
    without, strong = (
        ramet.run(
            f"{own}/sparse.py:sparse", rounds=3, out=tmp_path / f"{strength}", strength=strength
        )
        for strength in (0.0, 100.0)
    )
    assert without.frame.equals(plain.frame)
    assert _private_size(strong) < _private_size(plain) - 0.001  # Adam moves by 0.001 a step


def _private_size(result: ramet.Result) -> float:
    final = _final(result)
    private = [array.ravel() for name, array in final.items() if not name.startswith("layers.")]
    return float(np.abs(np.concatenate(private)).mean())


def _final(result: ramet.Result, client: str = "rings") -> Arrays:
    folder = RunFolder(result.folder).clients / client / "final"
    return Snapshots(folder).load(FINAL_MODEL).arrays


def _server_state(result: ramet.Result) -> RunState:
    last = Snapshots(result.folder / "server").latest_valid()
    assert last is not None
    return RunState.restored(last)


def _server_arrays(result: ramet.Result) -> Arrays:
    return _server_state(result)[MERGING].arrays


LEARNED = ["round", "client", "loss", "val", "test"]
CLIENTS = ("rings", "trees", "blocks")


def test_extras_travel_both_ways_and_their_rule_is_the_weighted_mean(
    own: Path, tmp_path: Path
) -> None:
    run = f"{own}/centre.py:centre"
    plain = ramet.run("fedavg", rounds=2, out=tmp_path / "plain")
    whole = ramet.run(run, rounds=2, out=tmp_path / "whole")
    extra = 64 * 4  # the width of embeddings, in bytes
    assert whole.frame["up"].equals(plain.frame["up"] + extra)
    assert whole.frame["down"].sum() == plain.frame["down"].sum() + len(CLIENTS) * extra
    alone = ramet.run(run, rounds=2, out=tmp_path / "alone", share=())  # final models are trained
    means, weights = zip(*(_mean_embedding(alone, client) for client in CLIENTS), strict=True)
    expected = np.average(np.stack(means), axis=0, weights=weights)
    sent = _server_state(alone).extras["training"].arrays["centre"]
    np.testing.assert_allclose(sent, expected, rtol=1e-5, atol=1e-6)
    assert np.abs(expected).max() > 0.01


def _mean_embedding(result: ramet.Result, client: str) -> tuple[Array, int]:
    model, samples = result.model(client), result.samples(client)
    train = samples.split.train
    with torch.no_grad():
        embeddings: torch.Tensor = model.encode(samples.block.cut(train))  # type: ignore[operator]
    return embeddings.mean(dim=0).numpy(), train.numel()


def test_extras_reach_the_penalty(own: Path, tmp_path: Path) -> None:
    loose, tight = (
        ramet.run(f"{own}/centre.py:centre", rounds=3, out=tmp_path / f"{s}", strength=s)
        for s in (0.0, 1.0)
    )
    assert _spread(tight) < _spread(loose) / 2


def _spread(result: ramet.Result) -> float:
    """How far the clients' mean embeddings are from their common centre."""
    means = np.stack([_mean_embedding(result, client)[0] for client in CLIENTS])
    return float(np.square(means - means.mean(axis=0)).mean())


def test_memory_is_a_moving_average_that_only_the_client_uses(own: Path, tmp_path: Path) -> None:
    run = f"{own}/smooth.py:smooth"
    plain = ramet.run("fedavg", rounds=2, out=tmp_path / "plain")
    first = _final(ramet.run(run, rounds=1, out=tmp_path / "first"))
    second = _final(ramet.run(run, rounds=2, out=tmp_path / "second", decay=0.0))
    whole = ramet.run(run, rounds=2, out=tmp_path / "whole", decay=0.25)
    assert whole.frame["loss"].equals(plain.frame["loss"])
    assert whole.summary.traffic == plain.summary.traffic
    for name, array in _final(whole).items():
        expected = 0.25 * first[name] + 0.75 * second[name]
        np.testing.assert_allclose(array, expected, rtol=1e-5, atol=1e-7)
    assert digest(second) not in (digest(first), digest(_final(plain)))
    assert resumed_sha256(whole) == whole.summary.sha256


def test_a_release_halves_the_bytes_and_the_server_merges_what_left(
    own: Path, tmp_path: Path
) -> None:
    plain = ramet.run("fedavg", rounds=1, out=tmp_path / "plain")
    half = ramet.run("fedavg", rounds=1, out=tmp_path / "half", release=f"{own}/half.py:Half")
    assert (2 * half.frame["up"]).equals(plain.frame["up"])
    assert half.frame["down"].equals(plain.frame["down"])
    weights = [half.samples(client).split.train.numel() for client in CLIENTS]
    trained = [_trained(half, client) for client in CLIENTS]
    merged = _server_arrays(half)
    for name, array in merged.items():
        left = np.stack([own_arrays[name].astype(np.float16) for own_arrays in trained])
        expected = np.average(left.astype(np.float64), axis=0, weights=weights)
        np.testing.assert_allclose(array, expected, rtol=1e-6, atol=1e-8)
    assert digest(merged) != digest(_server_arrays(plain))


def _trained(result: ramet.Result, client: str) -> Arrays:
    """A client's network at the end of its last training, before the merge."""
    saved = Snapshots(RunFolder(result.folder).clients / client).latest_valid()
    assert saved is not None
    return under(MODEL, saved.arrays)


def test_a_stage_is_one_exchange_before_the_first_training(own: Path, tmp_path: Path) -> None:
    plain = ramet.run("fedavg", "planted", rounds=2, out=tmp_path / "plain")
    without, whole = (
        ramet.run(f"{own}/rare.py:rare", "planted", rounds=2, out=tmp_path / f"{s}", strength=s)
        for s in (0.0, 1.0)
    )
    assert without.frame[LEARNED].equals(plain.frame[LEARNED])
    assert not whole.frame[LEARNED].equals(plain.frame[LEARNED])
    clients = sorted(set(whole.frame["client"]))
    samples = [whole.samples(client) for client in clients]
    labels = torch.cat([one.graph.labels[one.split.train] for one in samples])
    counts = torch.bincount(labels, minlength=4).numpy()
    np.testing.assert_array_equal(_server_state(whole).extras["count"].arrays["counts"], counts)
    extra = 4 * 4  # four classes, in bytes
    more_up = whole.frame["up"] - plain.frame["up"]
    assert more_up.equals((whole.frame["round"] == 1) * extra)
    more_down = whole.frame["down"].sum() - plain.frame["down"].sum()
    assert more_down == len(clients) * extra
    assert resumed_sha256(whole) == whole.summary.sha256


def test_clients_take_turns_even_after_a_restart(own: Path, tmp_path: Path) -> None:
    turns = f"{own}/turns.py:Turns,count=2"
    whole = ramet.run("fedstar", rounds=5, out=tmp_path / "whole", activation=turns)
    active = [{*record.trained} for record in RunFolder(whole.folder).records()]
    first, second, third = {"rings", "trees"}, {"blocks", "rings"}, {"trees", "blocks"}
    assert active == [first, second, third, first, second]
    assert resumed_sha256(whole) == whole.summary.sha256


def test_resuming_with_a_changed_rule_is_refused(own: Path, tmp_path: Path) -> None:
    copied = tmp_path / "turns.py"
    copied.write_text((own / "turns.py").read_text())
    rules: Any = {"activation": f"{copied}:Turns", "merge": f"{own}/momentum.py:Momentum,beta=0.1"}
    run = ramet.run("fedstar", rounds=1, out=tmp_path / "run", **rules)
    assert (run.folder / "activation.py").read_text() == copied.read_text()
    (run.folder / "result.json").unlink()
    copied.write_text(copied.read_text() + "# changed\n")
    with pytest.raises(ramet.RametError, match=rf"^{copied} has changed since this run started"):
        ramet.resume(run.folder)


def test_a_pyg_network_learns(own: Path, tmp_path: Path) -> None:
    result = ramet.run(f"{own}/mynet.py:mynet", rounds=10, out=tmp_path / "net")
    losses = result.frame.groupby("round")["loss"].mean()
    assert losses.iloc[-1] < losses.iloc[0] - 0.05
    assert result.summary.model.shared_scalars == 2 * (32 * 32 + 32)


NODES = """
from __future__ import annotations

from torch import nn
from torch_geometric.nn import GCNConv

from ramet import Method
from ramet.payload import everything
from ramet.tasks import NodeClassification


class Net(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.only = GCNConv(shape.features, shape.classes)
        self.norm = nn.BatchNorm1d(shape.classes)

    def forward(self, data):
        return self.norm(self.only(data.x, data.edge_index))


def nodes() -> Method:
    return Method(
        name="nodes", paper="", model=Net, shared=everything, task=NodeClassification()
    )
"""


def test_a_pyg_network_for_nodes_learns_and_resumes(tmp_path: Path) -> None:
    (tmp_path / "nodes.py").write_text(NODES)
    method = f"{tmp_path}/nodes.py:nodes"
    whole = ramet.run(method, "planted", rounds=3, out=tmp_path / "whole")
    losses = whole.frame.groupby("round")["loss"].mean()
    assert losses.iloc[-1] < losses.iloc[0]
    assert resumed_sha256(whole) == whole.summary.sha256


RULE = """
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from helper import INITIAL

from ramet.rules.activation import WithoutMemory


@dataclass(frozen=True)
class Recorder(WithoutMemory):
    threshold: float = 0.0

    def ask(self, state, server):
        return dict.fromkeys(server.clients, ())

    def score(self, sent, received, numbers) -> Mapping[str, float]:
        assert sent.keys() == received.keys()
        return numbers

    def settle(self, state, server, scores):
        from ramet.payload import Payload

        seen = {f"{name} of {client}": n for client in scores for name, n in scores[client].items()}
        return Payload(numbers={**INITIAL, **state.numbers, **seen})
"""


def test_an_activation_gets_the_clients_numbers_and_imports_from_its_folder(tmp_path: Path) -> None:
    (tmp_path / "recorder.py").write_text(RULE)
    (tmp_path / "helper.py").write_text("INITIAL = {'from helper': 1.0}")
    before = list(sys.path)
    rule = f"{tmp_path}/recorder.py:Recorder,threshold=0.5"
    result = ramet.run("fedstar", rounds=2, out=tmp_path / "run", activation=rule)
    numbers = _server_state(result)[ACTIVITY].numbers
    second = result.frame[(result.frame["round"] == 2) & (result.frame["client"] == "trees")]
    first = result.frame[(result.frame["round"] == 1) & (result.frame["client"] == "trees")]
    assert numbers["from helper"] == 1.0
    assert numbers["loss of trees"] == second["loss"].item()
    assert numbers["val of trees"] == first["val"].item()  # round 2 evaluates the merge of round 1
    assert sys.path == before


MISTAKES = """
def untyped(x=1): ...
def none(): ...
def needy(x: int): ...
number = 3
class Half:
    def ask(self, state, server): ...
"""


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"method": "untyped"}, r"'x' of untyped has no type.*as in `x: float = 0.5`"),
        ({"method": "none"}, r"mistakes.py:none returned NoneType instead of Method. Return"),
        ({"method": "needy"}, r"needy needs 'x'. Give it: --set x="),
        ({"method": "number"}, r"no function or class 'number' that returns a method"),
        ({"method": "absent"}, r"no function or class 'absent' that returns a method"),
        ({"activation": "Half"}, r"mistakes.py:Half returned Half instead of Activation. It needs"),
        ({"merge": "Half"}, r"mistakes.py:Half returned Half instead of Merging. It needs `start`"),
        ({"merge": "Half,x=1"}, r"mistakes.py:Half takes no options"),
        ({"release": "Half"}, r"mistakes.py:Half returned Half instead of Release. It needs"),
    ],
)
def test_mistakes_have_a_clear_error(given: dict[str, str], message: str, tmp_path: Path) -> None:
    (tmp_path / "mistakes.py").write_text(MISTAKES)
    named: Any = {kind: f"{tmp_path}/mistakes.py:{name}" for kind, name in given.items()}
    with pytest.raises(ramet.RametError, match=message):
        ramet.run(**named, rounds=1, out=tmp_path / "run")


def test_a_file_that_cannot_be_loaded_has_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def f(:\n")
    with pytest.raises(ramet.RametError, match=r"cannot load the method.*broken.py, line 1"):
        ramet.run(f"{tmp_path}/broken.py:f")
    with pytest.raises(ramet.RametError, match="name the factory in the file too"):
        ramet.run(f"{tmp_path}/broken.py")


@pytest.mark.e2e
@pytest.mark.thorough
def test_momentum_gives_the_same_bits_with_ray(own: Path, tmp_path: Path) -> None:
    local = ramet.run(f"{own}/momentum.py:momentum", rounds=3, out=tmp_path / "local")
    ray = ramet.run(f"{own}/momentum.py:momentum", rounds=3, engine="ray", out=tmp_path / "ray")
    assert ray.summary.sha256 == local.summary.sha256


LOGS = """
from dataclasses import replace

from ramet import Method, Payload, Server, Session, WeightedMean, fedavg


class Counting(WeightedMean):
    def step(self, state: Payload, total, server: Server) -> Payload:
        server.log("arrays", len(total))
        return super().step(state, total, server)


def remember(session: Session) -> None:
    session.log("alpha", 2 * session.randomness.round)


def logging() -> Method:
    return replace(fedavg(), name="logging", merging=Counting(), after=remember)
"""


def test_what_a_method_logs_is_in_the_frame_in_trackers_and_in_the_state(tmp_path: Path) -> None:
    (tmp_path / "logs.py").write_text(LOGS)
    given: dict[str, Any] = {"rounds": 3, "seed": 1}
    result = ramet.run(f"{tmp_path}/logs.py:logging", out=tmp_path / "run", **given)
    plain = ramet.run("fedavg", out=tmp_path / "plain", **given)
    assert result.frame.groupby("round")["log/alpha"].mean().to_dict() == {1: 2, 2: 4, 3: 6}
    metrics = metrics_of(RunFolder(result.folder).records()[1])
    shared = len(result.state["merging"].arrays)
    assert (metrics["log/alpha"], metrics["merging/arrays"]) == (4, 2 * shared)
    assert digest(result.state["merging"].arrays) == digest(plain.state["merging"].arrays)
    assert result.state["logged"].numbers == {"arrays": 2 * shared}


@pytest.mark.parametrize("options", [{"secure": True}, {"dp": "unit=site,epsilon=8,delta=1e-5"}])
def test_logged_numbers_do_not_leave_beside_a_protection(
    options: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "logs.py").write_text(LOGS)
    result = ramet.run(f"{tmp_path}/logs.py:logging", rounds=2, out=tmp_path / "run", **options)
    assert "log/alpha" not in result.frame
