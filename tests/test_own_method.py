"""The examples of docs/your-own-method.md, and mistakes in user-defined methods and rules."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ramet
from ramet.engine import Snapshots
from ramet.engine.node import FINAL_MODEL
from ramet.experiment import RunFolder
from ramet.experiment.named import method_factory
from ramet.payload import digest

PAGE = Path(__file__).parents[1] / "docs" / "your-own-method.md"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of the page."""
    folder = tmp_path_factory.mktemp("own")
    for code in re.findall(r"```python\n(# \w+\.py\n.*?)```", PAGE.read_text(), flags=re.DOTALL):
        assert len(code.splitlines()) < 60
        (folder / code.partition("\n")[0].removeprefix("# ")).write_text(code)
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
    rule = method_factory(f"{own}/momentum.py:momentum")().merging
    assert digest(rule.ask(rule.start({}), "a")) == digest({})
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
    final = Snapshots(RunFolder(result.folder).clients / "rings" / "final").load(FINAL_MODEL).arrays
    private = [array.ravel() for name, array in final.items() if not name.startswith("layers.")]
    return float(np.abs(np.concatenate(private)).mean())


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

from ramet.methods.activation import WithoutMemory


@dataclass(frozen=True)
class Recorder(WithoutMemory):
    threshold: float = 0.0

    def ask(self, state, choice):
        return dict.fromkeys(choice.clients, ())

    def score(self, sent, received, numbers) -> Mapping[str, float]:
        assert sent.keys() == received.keys()
        return numbers

    def settle(self, state, choice, scores):
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
    last = Snapshots(result.folder / "server").latest_valid()
    assert last is not None
    numbers = last.facts["activity"]["numbers"]
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
    def ask(self, state, choice): ...
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
def test_momentum_gives_the_same_bits_with_ray(own: Path, tmp_path: Path) -> None:
    local = ramet.run(f"{own}/momentum.py:momentum", rounds=3, out=tmp_path / "local")
    ray = ramet.run(f"{own}/momentum.py:momentum", rounds=3, engine="ray", out=tmp_path / "ray")
    assert ray.summary.sha256 == local.summary.sha256
