"""Exchanges of extras before training, with real clients.

In the stage `measure` clients send their number of nodes n, and the server sums them up. The sum S
is subtracted from the gradient, so that a round of training adds n + S to the slope.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from federations import CLIMBERS, Federation, OfThisRound, Watched, climbing
from ramet.engine.messages import request
from ramet.engine.site.request import NotSharedError
from ramet.engine.store.checkpoint import Snapshots
from ramet.errors import RametError
from ramet.payload import Payload
from ramet.rules.extras import Extras, Stage
from ramet.rules.method import AssembledMethod
from ramet.training.local import Session, Term

TWO_CLIENTS = {client: CLIMBERS[client] for client in "ab"}  # graphs of 1 and 2 nodes


@dataclass(frozen=True)
class One:
    """Start values: one number, 0."""

    name: str

    def __call__(self, model: nn.Module, shared: Sequence[str]) -> Mapping[str, Tensor]:
        return {self.name: torch.zeros(1)}


def measure(session: Session) -> None:
    """Send the number of nodes, and remember the round."""
    samples: Any = session.samples
    nodes = int(samples.block.cut(samples.split.train).nodes)
    session.sending["nodes"] = torch.tensor([float(nodes)])
    session.memory["measured in"] = torch.tensor([float(session.randomness.round)])


def climb_faster(session: Session) -> Term:
    """Minus the sum, times the slope."""
    slope, whole = session.model.get_parameter("slope"), session.received["nodes"]
    return lambda batch, output: -(whole * slope).sum()


MEASURE = Stage("measure", Extras(One("nodes"), OfThisRound()), measure)


def measuring(*stages: Stage, **parts: Any) -> AssembledMethod:
    return climbing(**{"stages": stages or (MEASURE,), "penalty": climb_faster, **parts})


def test_the_result_of_a_stage_reaches_training_in_the_same_round(tmp_path: Path) -> None:
    """S = 1 + 2 = 3. Round 1: a 0 + 1 + 3 = 4, b 0 + 2 + 3 = 5, mean 4.5.

    Round 2: a 4.5 + 4 = 8.5, b 4.5 + 5 = 9.5, mean 9. With a stage the steps are 1 (stage) and 2
    (training) for round 1, then 3 and 4.
    """
    federation = Federation(measuring(), tmp_path, TWO_CLIENTS)
    federation.run(2)
    assert federation.slopes("server", "slope", 4) == [0, 4.5, 4.5, 9]
    assert federation.slopes("server", "extras/measure/nodes", 4) == [3, 3, 3, 3]
    assert federation.slopes("a", "model/slope", 4) == [0, 4, 4, 8.5]
    assert federation.slopes("a", "memory/method/measured in", 4) == [1, 1, 2, 2]


def test_mistakes_in_stages_and_penalties_are_explained(tmp_path: Path) -> None:
    with pytest.raises(RametError, match=r"must be a tuple, such as stages=\(one,\)"):
        climbing(stages=MEASURE)
    federation = Federation(climbing(penalty=lambda session: None), tmp_path, TWO_CLIENTS)
    with pytest.raises(RametError, match="the penalty returned NoneType, not a function"):
        federation.client("a").answer(request(1, True, {}))


def test_a_run_with_stages_goes_on_after_its_end(tmp_path: Path) -> None:
    whole = Federation(measuring(), tmp_path / "whole", TWO_CLIENTS)
    longer = Federation(measuring(), tmp_path / "longer", TWO_CLIENTS)
    first, _ = longer.run(2)
    second, _ = longer.run(4)
    assert first != second == whole.run(4)[0]


def test_bytes_of_stages_by_hand(tmp_path: Path) -> None:
    """Every array is one number of 4 bytes, and there are two clients.

    =========  ===============  ============================  ====  ====
    round      message          what is sent                  down  up
    =========  ===============  ============================  ====  ====
    1          stage            nothing; number of nodes      0     4
    1          training         sum; slope                    4     4
    2          stage            last sum; number of nodes     4     4
    2          training         slope and sum; slope          8     4
    closing                     slope; nothing                4     0
    =========  ===============  ============================  ====  ====

    The record of a round counts what was sent down after it, and that of round 1 also what was sent
    down in round 1.
    """
    _, records = Federation(measuring(), tmp_path, TWO_CLIENTS).run(2)
    assert [record.bytes_up for record in records] == [2 * (4 + 4), 2 * (4 + 4)]
    assert [record.bytes_down for record in records] == [2 * (4 + 4 + 8), 2 * 4]
    assert [record.tensors_down for record in records] == [2 * (1 + 1 + 2), 2 * 1]
    assert [record.scalars_down for record in records] == [2 * (1 + 1 + 2), 2 * 1]
    assert {record.trained["b"]["tensors"] for record in records} == {2}


def test_the_last_round_of_a_stage(tmp_path: Path) -> None:
    """Without a stage in round 2 the sum of round 1 is still known: the slopes are as above."""
    federation = Federation(measuring(replace(MEASURE, last=1)), tmp_path, TWO_CLIENTS)
    _, records = federation.run(2)
    assert federation.state(4)["merging"].arrays["slope"].item() == 9
    assert federation.saved("a", 4).arrays["memory/method/measured in"].item() == 1
    assert [path.stem for path in sorted((tmp_path / "server").glob("*.safetensors"))] == [
        "000001",
        "000002",
        "000004",
    ]
    assert [record.bytes_up for record in records] == [2 * (4 + 4), 2 * 4]
    assert [record.bytes_down for record in records] == [2 * (4 + 4), 2 * 4]


def test_the_result_of_the_last_stage_is_sent_until_a_client_has_replied(tmp_path: Path) -> None:
    """Client b does not answer the first message to train. In round 2 it has S = 3, too: 4 + 5."""
    federation = Federation(measuring(replace(MEASURE, last=1)), tmp_path, TWO_CLIENTS)

    def away(client: str, message: Payload) -> bool:
        return client == "b" and message.numbers["round"] == 1 and "stage" not in message.notes

    wire = Watched(federation, away)
    federation.run(3, wire)
    with_sum = {
        client: [int(sent.numbers["round"]) for sent in wire.sent_to(client) if sent.extras]
        for client in "ab"
    }
    assert with_sum == {"a": [1], "b": [1, 2]}
    assert federation.saved("b", 4).arrays["model/slope"].item() == 9


def double(session: Session) -> None:
    session.sending["doubled"] = 2 * session.received["nodes"]


def test_a_stage_knows_the_result_of_the_stage_before_it(tmp_path: Path) -> None:
    """Both clients send 2 * 3, so the second sum is 12."""
    second = Stage("double", Extras(One("doubled"), OfThisRound()), double)
    federation = Federation(measuring(MEASURE, second), tmp_path, TWO_CLIENTS)
    federation.run(1)
    assert federation.saved("server", 2).arrays["extras/double/doubled"].item() == 12
    assert federation.state(3)["merging"].arrays["slope"].item() == 4.5


@pytest.mark.parametrize("replies", range(10))
def test_a_run_that_stopped_anywhere_has_the_same_sha256(replies: int, tmp_path: Path) -> None:
    """Two rounds have four exchanges with two replies each, and two replies close the run. After
    two or six replies the run stops between a stage and training.
    """
    whole, _ = Federation(measuring(), tmp_path / "whole", TWO_CLIENTS).run(2)
    stopped = Federation(measuring(), tmp_path / "stopped", TWO_CLIENTS)
    assert stopped.resumed(2, replies) == whole


def test_a_stage_that_is_over_is_not_repeated_and_its_bytes_are_counted(tmp_path: Path) -> None:
    """After six replies the stage of round 2 is over, and its training is not."""
    _, whole = Federation(measuring(), tmp_path / "whole", TWO_CLIENTS).run(2)
    federation = Federation(measuring(), tmp_path / "stopped", TWO_CLIENTS)
    federation.stop(2, replies=6)
    assert Snapshots(tmp_path / "stopped" / "server").steps() == [1, 2, 3]
    wire = Watched(federation)
    _, records = federation.run(2, wire)
    assert [message.numbers["round"] for message in wire.sent_to("a")] == [
        2,
        3,
    ]
    assert [(r.round, r.bytes_up, r.bytes_down, r.tensors_down) for r in records] == [
        (r.round, r.bytes_up, r.bytes_down, r.tensors_down) for r in whole
    ]


def test_messages_of_a_stage_carry_no_parameters(tmp_path: Path) -> None:
    federation = Federation(measuring(), tmp_path, TWO_CLIENTS)
    wire = Watched(federation)
    federation.run(2, wire)
    of_a = wire.sent_to("a")
    assert [message.notes.get("stage") for message in of_a] == ["measure", None] * 2 + [None]
    assert [[*message.arrays] for message in of_a] == [[], [], [], ["slope"], ["slope"]]
    assert [[*message.extras] for message in of_a] == [[], ["nodes"], ["nodes"], ["nodes"], []]


def test_a_client_that_missed_a_stage_still_trains(tmp_path: Path) -> None:
    """Only a has sent its number of nodes, so S = 1: a 0 + 1 + 1, b 0 + 2 + 1, mean 2.5."""
    federation = Federation(measuring(), tmp_path, TWO_CLIENTS)
    _, records = federation.run(
        1, Watched(federation, lambda client, message: client == "b" and "stage" in message.notes)
    )
    assert federation.state(2)["merging"].arrays["slope"].item() == 2.5
    assert records[0].trained["b"]["up"] == 4


def test_a_stage_below_the_quorum_is_named(tmp_path: Path) -> None:
    federation = Federation(measuring(), tmp_path, TWO_CLIENTS)
    wire = Watched(federation, lambda client, message: "stage" in message.notes)
    with pytest.raises(RametError, match=r"0 of 2 clients .* in the stage 'measure' of round 1"):
        federation.run(1, wire)


def test_extras_of_training_are_not_sent_in_stages(tmp_path: Path) -> None:
    def after(session: Session) -> None:
        session.sending["own"] = torch.ones(1)

    method = measuring(extras=Extras(One("own"), OfThisRound()), after=after)
    federation = Federation(method, tmp_path, TWO_CLIENTS)
    wire = Watched(federation)
    federation.run(2, wire)
    sent = [{*message.extras} for message in wire.sent_to("a")]
    assert sent == [set(), {"nodes"}, {"nodes"}, {"nodes", "own"}, set()]


@pytest.mark.parametrize(
    ("stage", "number"), [(replace(MEASURE, name="everything"), 1), (replace(MEASURE, last=1), 2)]
)
def test_a_client_refuses_a_stage_that_the_round_does_not_have(
    stage: Stage, number: int, tmp_path: Path
) -> None:
    node = Federation(measuring(replace(MEASURE, last=1)), tmp_path, TWO_CLIENTS).client("a")
    with pytest.raises(NotSharedError, match=f"refuses the stage '{stage.name}': climbing has no"):
        node.answer(request(number, True, {}, stage=stage))
    assert not node.snapshots.steps()


def train_early(session: Session) -> None:
    measure(session)
    session.model.get_parameter("slope").data += 1


def test_a_stage_must_not_change_what_is_shared(tmp_path: Path) -> None:
    early = replace(MEASURE, work=train_early)
    node = Federation(measuring(early), tmp_path, TWO_CLIENTS).client("a")
    with pytest.raises(RametError, match=r"the stage 'measure' changed the shared array 'slope'"):
        node.answer(request(1, True, {}, stage=early))


def test_wrong_stages_are_refused() -> None:
    with pytest.raises(RametError, match="the stage 'measure' needs a rule for its extras"):
        replace(MEASURE, extras=Extras(One("nodes")))
    with pytest.raises(RametError, match="a stage cannot be called 'training'"):
        replace(MEASURE, name="training")
    with pytest.raises(RametError, match="two stages of climbing have the same name"):
        measuring(MEASURE, replace(MEASURE, extras=Extras(One("other"), OfThisRound())))
