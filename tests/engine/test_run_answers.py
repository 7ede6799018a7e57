"""Sites that answer each question once: honest runs end as they do without, whatever happens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from federations import Climb, Federation, Watched, by_hand, climbing, protected
from ramet.engine.messages import request
from ramet.engine.site.client import Client
from ramet.engine.site.kept_models import FINAL
from ramet.engine.site.run_answers import AnsweredError, RunAnswers
from ramet.engine.store.checkpoint import Snapshots
from ramet.methods import scaffold
from ramet.payload import Payload, digest
from ramet.rules.method import AssembledMethod

Away = Callable[[str, Payload], bool]


@dataclass(frozen=True)
class Once(Federation):
    """A federation of sites that answer each question once."""

    def client(self, client: str) -> Client:
        answers = RunAnswers(self.folder / client / "once")
        return protected(super().client(client), run_answers=answers)


def away_in(*rounds: int) -> Away:
    return lambda client, message: client == "a" and message.numbers["round"] in rounds


@pytest.mark.parametrize("method", [climbing(), by_hand(scaffold(), Climb(), lr=1.0)])
@pytest.mark.parametrize("rounds", [(), (1,), (2, 3), (3, 4)])
def test_honest_runs_end_the_same(
    method: AssembledMethod, rounds: tuple[int, ...], tmp_path: Path
) -> None:
    """Sites that miss rounds, or the closing message; a run that gets more rounds when it ended."""
    sha256 = []
    for kind in (Federation, Once):
        federation = kind(method, tmp_path / kind.__name__)
        federation.run(3, Watched(federation, away=away_in(*rounds)))
        sha256.append(federation.run(5)[0])
    assert sha256[0] == sha256[1]


@pytest.mark.parametrize("replies", [1, 4, 8, 11])
def test_stopped_anywhere_a_run_ends_the_same(replies: int, tmp_path: Path) -> None:
    expected = Federation(climbing(), tmp_path / "plain").run(3)[0]
    assert Once(climbing(), tmp_path / "once").resumed(3, replies) == expected


def test_a_server_that_goes_back_gets_the_same_bytes(tmp_path: Path) -> None:
    """Its last snapshots are damaged, so that it asks again for the last rounds."""
    federation = Once(climbing(), tmp_path)
    expected = federation.run(4)[0]
    for newest in sorted((tmp_path / "server").glob("*.safetensors"))[2:]:
        newest.unlink()
    assert federation.run(4)[0] == expected


def test_a_site_that_took_no_part_in_further_rounds_gets_the_model_but_sends_no_scores(
    tmp_path: Path,
) -> None:
    federation = Once(climbing(), tmp_path)
    federation.run(2)
    _, records = federation.run(4, Watched(federation, away=away_in(3, 4)))
    assert records[-1].evaluated.keys() == {"b", "c"}
    final = [Snapshots(tmp_path / name / FINAL).latest_valid() for name in "abc"]
    assert len({saved.arrays["slope"].item() for saved in final if saved is not None}) == 1


def test_an_answer_has_the_same_bytes_again(tmp_path: Path) -> None:
    answers, message = RunAnswers(tmp_path), request(1, True, {})
    reply = Payload(
        {"w": np.arange(3.0), "n": np.array(7, np.uint64)},
        {"loss": 0.1 + 0.2, "weight": 3},
        {"withheld": "scores"},
        {"e": np.ones((2, 0), np.float32)},
    )
    for _ in range(2):
        given = RunAnswers(tmp_path).once(message, lambda: (reply, {}))
        assert (given.numbers, given.notes) == (reply.numbers, reply.notes)
        assert digest(given.arrays) == digest(reply.arrays)
        assert digest(given.extras) == digest(reply.extras)
    with pytest.raises(ZeroDivisionError):
        answers.once(request(2, True, {}), lambda: 1 / 0)  # type: ignore[arg-type,return-value]
    assert answers.once(request(2, True, {}), lambda: (Payload(), {})) == Payload()


def test_each_stage_is_answered_once_and_only_the_last_rounds_are_kept(tmp_path: Path) -> None:
    answers = RunAnswers(tmp_path)

    def ask(number: int, stage: str = "") -> None:
        message = request(number, True, {})
        notes = {"stage": stage} if stage else {}
        answers.once(replace(message, notes=notes), lambda: (Payload(), {}))

    for number in range(1, 9):
        for stage in ("first", "second", ""):
            ask(number, stage)
    assert len([*tmp_path.glob("*.safetensors")]) == 9
    with pytest.raises(AnsweredError, match=r"does not go back to round 5"):
        ask(5)
