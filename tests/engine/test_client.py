from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ramet
from ramet.engine.messages import request
from ramet.engine.site.client import Client
from ramet.engine.site.inner_gates import Declared
from ramet.engine.site.request import NotSharedError
from ramet.engine.store.checkpoint import DamagedError, Snapshots
from ramet.errors import RametError
from ramet.experiment import RunFolder
from ramet.methods import fedstar
from ramet.payload import Payload, digest, only

ClientMaker = Callable[..., Client]


def test_repeating_a_round_gives_the_same_reply_and_state(tiny_client: ClientMaker) -> None:
    node = tiny_client("rings", fedstar())
    first = node.answer(request(1, True, {}))
    sent = {name: array * 0.9 for name, array in first.arrays.items()}
    second = node.answer(request(2, True, sent))
    state = digest(node.snapshots.load(2).arrays)
    again = node.answer(request(2, True, sent))
    assert digest(again.arrays) == digest(second.arrays)
    assert {**again.numbers, "memory": 0} == {**second.numbers, "memory": 0}
    assert digest(node.snapshots.load(2).arrays) == state


def test_a_new_process_continues_where_the_old_one_ended(tiny_client: ClientMaker) -> None:
    def three_rounds(new_process_each_round: bool, seed: int) -> str:
        node = tiny_client("trees", fedstar(), seed)
        for number in (1, 2, 3):
            if new_process_each_round:
                node = tiny_client("trees", fedstar(), seed)
            node.answer(request(number, True, {}))
        state = digest(node.snapshots.load(3).arrays)
        for step in node.snapshots.steps():
            (node.snapshots.folder / f"{step:06d}.safetensors").unlink()
        return state

    assert three_rounds(True, 5) == three_rounds(False, 5)
    assert three_rounds(True, 5) != three_rounds(True, 6)


def test_optimiser_moments_are_saved(tiny_client: ClientMaker) -> None:
    node = tiny_client("rings", fedstar())
    node.answer(request(1, True, {}))
    node.answer(request(2, True, {}))
    state = node.snapshots.load(2).arrays
    moments = [name for name in state if name.startswith("optimiser/exp_avg/")]
    model = [name for name in state if name.startswith("model/")]
    assert len(moments) == len(model)
    steps = {float(state[name]) for name in state if name.startswith("optimiser/step/")}
    assert steps == {2.0}  # 120 graphs fit into one batch of 128


def test_a_client_that_missed_rounds_continues_from_its_last_state(
    tiny_client: ClientMaker,
) -> None:
    node = tiny_client("blocks", fedstar())
    reply = node.answer(request(1, True, {}))
    later = node.answer(request(7, True, dict(reply.arrays)))
    assert node.snapshots.steps() == [1, 7]
    assert later.numbers["loss"] != reply.numbers["loss"]


def test_a_damaged_private_state_is_an_error_not_a_fresh_start(tiny_client: ClientMaker) -> None:
    node = tiny_client("rings", fedstar())
    node.answer(request(1, True, {}))
    path = node.snapshots.folder / "000001.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(DamagedError):
        tiny_client("rings", fedstar()).answer(request(2, True, {}))


def test_arrays_of_the_wrong_shape_are_refused(tiny_client: ClientMaker) -> None:
    wrong = {"structure.embed.bias": np.zeros(3, np.float32)}
    with pytest.raises(RametError, match=r"structure.embed.bias' with shape \[3\] does not fit"):
        tiny_client("rings", fedstar()).answer(request(1, True, wrong))


def test_the_closing_message_saves_the_merged_model_at_the_site(tiny_client: ClientMaker) -> None:
    node = tiny_client("rings", fedstar())
    reply = node.answer(request(1, True, {}))
    merged = {name: np.full_like(array, 0.25) for name, array in reply.arrays.items()}
    closing = node.answer(request(2, False, merged))
    assert not closing.arrays
    assert len(closing.notes["private"]) == 64
    final = Snapshots(Path(node.snapshots.folder) / "final").load(0)
    assert (final.arrays["structure.embed.bias"] == 0.25).all()
    assert "classify.bias" in final.arrays
    assert node.snapshots.steps() == [1]


EMBED = {"structure.embed.weight", "structure.embed.bias"}
SENDS_EMBED = """
from dataclasses import replace

from ramet import Method, fedstar
from ramet.payload import only


def sends_embed() -> Method:
    return replace(fedstar(), name="sends_embed", up=only("structure.embed.*"))
"""


def test_a_client_sends_only_arrays_in_up_whatever_it_is_asked_for(
    tiny_client: ClientMaker,
) -> None:
    node = tiny_client("rings", replace(fedstar(), up=only("structure.embed.*")))
    everything_else = sorted(
        {*tiny_client("trees", fedstar()).answer(request(1, True, {})).arrays} - EMBED
    )
    assert everything_else
    sent = [
        set(node.answer(request(number, True, {}, omitted=omitted)).arrays)
        for number, omitted in enumerate(
            [[], everything_else, [*EMBED], ["structure.embed.bias"]], 1
        )
    ]
    assert sent == [EMBED, EMBED, set(), {"structure.embed.weight"}]
    with pytest.raises(NotSharedError) as error:
        Declared().check(
            node.request(request(1, True, {})),
            Payload({everything_else[0]: np.zeros(1, np.float32)}),
        )
    assert str(error.value).startswith(
        f"client rings refuses to send '{everything_else[0]}': fedstar shares structure.*, of "
        "which clients send structure.embed.*."
    )


@pytest.mark.parametrize("rule", ["everyone", "random-tensors", "explore"])
def test_up_holds_with_every_activation_of_the_server(rule: str, tmp_path: Path) -> None:
    (tmp_path / "sends.py").write_text(SENDS_EMBED)
    method = f"{tmp_path}/sends.py:sends_embed"
    result = ramet.run(method, rounds=3, out=tmp_path / "run", activation=rule)
    weight, bias = 4 * 64 * 32, 4 * 64  # four bytes each, 16 degrees and 16 steps of walks
    sent = [
        numbers["up"]
        for record in RunFolder(result.folder).records()
        for numbers in record.trained.values()
    ]
    assert set(sent) <= {0, bias, weight, weight + bias}
    assert max(sent) > 0


def test_a_client_refuses_arrays_outside_down(tiny_client: ClientMaker) -> None:
    node = tiny_client("rings", replace(fedstar(), down=only("structure.embed.*")))
    shared = node.answer(request(1, True, {})).arrays
    embed = {name: array for name, array in shared.items() if name in EMBED}
    assert set(shared) > set(embed) == EMBED
    node.answer(request(2, True, embed))
    with pytest.raises(NotSharedError) as error:
        node.answer(request(3, True, shared))
    outside = next(name for name in shared if name not in EMBED)
    assert str(error.value).startswith(
        f"client rings refuses to accept '{outside}': fedstar shares structure.*, of which clients "
        "accept structure.embed.*."
    )
