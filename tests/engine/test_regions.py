"""Regional coordinators pass on exact sums: runs have the same bits as without them."""

from __future__ import annotations

import json
import operator
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import ramet
from federations import CLIMBERS, PLANTED, Federation, OfThisRound, Watched, climbing
from ramet.engine.processes.local import LocalWire
from ramet.engine.server.regions import Region
from ramet.engine.server.wire import Answer, Wire
from ramet.errors import RametError
from ramet.experiment import RunFolder
from ramet.experiment.capabilities import Can
from ramet.experiment.compatibility import why_not
from ramet.experiment.executing import execute
from ramet.experiment.local_engine import local_wire, regional_wire
from ramet.methods import METHODS
from ramet.payload import Payload
from ramet.rules.extras import Extras, Stage
from ramet.rules.merging import Total, WeightedMean
from ramet.rules.method import AssembledMethod, assembled
from ramet.studies.trial.wires import StoppedError, StoppingWire
from ramet.training.local import Session

HETERO: dict[str, Any] = {
    "setting": "planted-hetero",
    "nodes": 60,
    "links": 200,
    "clients": 4,
    "hidden": 8,
}
CASES: dict[str, dict[str, Any]] = {
    "fedavg": {"method": "fedavg"},
    "fedstar": {"method": "fedstar"},
    "feddense": {"method": "feddense"},
    "extras": {"method": "scaffold"},
    "extras only": {"method": "fedproto", "setting": "planted", **PLANTED},
    "server optimiser": {"method": "fedadam"},
    "nothing shared": {"method": "local"},
    "fixed point": {"method": "fedavg", "merge": "fixed-point"},
    "8-bit": {"method": "feddense", "release": "8-bit"},
    "norm bound": {"method": "fedavg", "norm_bound": 1e6},
    "private": {"method": "fedavg", "dp": "unit=graph,epsilon=8,delta=1e-2"},
    "some clients": {"method": "fedavg", "activation": "random-clients,count=2", **HETERO},
    "some arrays": {"method": "fedda", "activation": "explore,alpha=0.7", **HETERO},
    "sample": {"method": "fedavg", "final_clients": 2, **HETERO},
    "workers": {"method": "fedstar", "workers": 2},
}
QUICK = ("fedavg", "fedstar", "extras", "fixed point", "some arrays")
REFUSED = {"fedbuff", "fedtgp", "gcfl", "gcfl+", "fed-mgcn", "fedlit", "fedgta", "fedpub", "fedtad"}
"""Methods that compare single replies."""


def run(folder: Path, **case: Any) -> ramet.Result:
    return ramet.run(**{"setting": "tiny", "rounds": 3, "seed": 5, "out": folder, **case})


@pytest.mark.parametrize(
    "case",
    [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.thorough]) for name in CASES],
)
def test_regions_change_no_bit(case: str, tmp_path: Path) -> None:
    whole = run(tmp_path / "whole", **CASES[case])
    divided = run(tmp_path / "divided", regions=2, **CASES[case])
    for fact in ("sha256", "scores", "traffic", "model", "sent"):
        assert getattr(divided.summary, fact) == getattr(whole.summary, fact)
    assert divided.frame.equals(whole.frame)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.floats(-1e4, 1e4, width=32), st.integers(1, 10**6), st.integers(0, 3), st.booleans()
        ),
        min_size=1,
        max_size=40,
    )
)
def test_sums_of_regions_have_the_bits_of_one_sum(
    terms: Sequence[tuple[float, int, int, bool]],
) -> None:
    whole, regions, central = Total(), [Total() for _ in range(4)], Total()
    for value, weight, region, also in terms:
        arrays = {"w": np.array([value], np.float32)}
        reply = Payload(
            arrays | ({"v": np.array(value, np.float32)} if also else {}), {"weight": weight}
        )
        for total in (whole, regions[region]):
            total.add(WeightedMean().term(reply))
    for region_total in regions:
        assert Total.are_parts(region_total.parts())
        central.add_parts(region_total.parts())
    expected, found = whole.arrays(), central.arrays()
    assert found.keys() == expected.keys()
    assert all(found[name].tobytes() == expected[name].tobytes() for name in expected)


def test_sums_that_regions_had_rounded_would_differ() -> None:
    """Beside 2^30, float64 has no room for 2^-40; in the two parts of a sum it is not lost."""
    west, east, central = Total(), Total(), Total()
    for total, large in ((west, 2.0**30), (east, -(2.0**30))):
        total.add({"w": np.array([large])})
        total.add({"w": np.array([2.0**-40])})
        central.add_parts(total.parts())
    assert west.arrays()["w"] + east.arrays()["w"] == 0
    assert central.arrays()["w"] == 2.0**-39


def test_methods_that_compare_replies_are_refused_by_name(tmp_path: Path) -> None:
    refused = {name for name, make in METHODS.items() if why_not(assembled(make()), Can.REGIONS)}
    assert refused == REFUSED
    for name, rule in (("gcfl", "ClusteredMean"), ("fedgta", "Alike"), ("fedpub", "BySimilarity")):
        setting = "tiny" if name == "gcfl" else "planted"
        with pytest.raises(RametError, match=f"{name} does not work with regions: {rule} compares"):
            ramet.run(name, setting, regions=2, out=tmp_path / name)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"merge": "median"}, "Median compares single replies"),
        ({"method": "fedbuff"}, "its pace depends on single replies"),
        ({"secure": True}, "masks do not cancel out within a region"),
        ({"regions": 4}, "4 regions are more than the 3 clients of tiny"),
        ({"engine": "ray"}, "over Flower, one server asks all clients"),
        ({"engine": "superlink"}, "over Flower, one server asks all clients"),
        ({"regions": 0}, "regions: Input should be greater than or equal to 1"),
    ],
)
def test_what_regions_cannot_do_is_refused(
    given: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(RametError, match=message):
        ramet.run(**{"method": "fedavg", "regions": 2, "out": tmp_path / "run", **given})


def test_a_rule_with_a_merge_of_its_own_is_refused() -> None:
    class Peeking(WeightedMean):
        def merge(self, *given: Any) -> Payload:
            return super().merge(*given)

    assert why_not(climbing(merging=Peeking()), Can.REGIONS) == "Peeking compares single replies"


def test_a_stopped_run_with_regions_resumes(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole", method="scaffold", regions=2)
    stopped = RunFolder.create(tmp_path / "s", RunFolder(whole.folder).experiment())
    with suppress(StoppedError):
        wire = StoppingWire(regional_wire(stopped, local_wire(stopped)), 2)
        execute(stopped, wire, lambda _: None)
    assert stopped.summary() is None
    assert ramet.resume(stopped.path).summary.sha256 == whole.summary.sha256


def test_the_command_names_the_regions_and_events_say_who_answered(tmp_path: Path) -> None:
    result = run(tmp_path / "r", method="fedavg", rounds=1, regions=2)
    assert RunFolder(result.folder).experiment().settings.command.endswith("--regions 2")
    lines = map(json.loads, (result.folder / "events.jsonl").read_text().splitlines())
    answered = [line for line in lines if line["event"] == "region answered"]
    assert [(e["region"], e["asked"], e["answered"]) for e in answered] == 2 * [
        ("region-1", 1, 1),
        ("region-2", 2, 2),
    ]


REGIONS = {"west": ("a",), "east": ("b", "c")}


@dataclass
class Regions:
    """A wire to the regions of a federation, which may lose messages or change replies."""

    federation: Federation
    clients: Wire | None = None
    lost: Sequence[tuple[str, int]] = ()
    changed: dict[str, Payload] = field(default_factory=dict)
    replies: list[Payload] = field(default_factory=list)

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]:
        rounds = self.federation.rounds(2)
        region = Region(rounds.direct(self.clients or LocalWire(self.federation.client)))
        for name, message in requests:
            if (name, message.numbers["round"]) in self.lost:
                yield name, "is not connected"
            else:
                self.replies.append(region.answer(message))
                yield name, self.changed.get(name, self.replies[-1])


def test_a_lost_region_is_like_its_lost_clients(tmp_path: Path) -> None:
    method = climbing()
    plain = Federation(method, tmp_path / "plain")
    away = Watched(plain, away=lambda client, m: client in "bc" and m.numbers["round"] == 1)
    expected, _ = plain.run(2, away)
    divided = Federation(method, tmp_path / "divided")
    sha256, records = divided.run(2, Regions(divided, lost=[("east", 1)]), regions=REGIONS)
    assert sha256 == expected
    assert records[0].failed == dict.fromkeys("bc", "east: is not connected")
    assert records[1].failed == {}


def test_a_lost_client_of_a_region_is_reported_and_asked_again(tmp_path: Path) -> None:
    federation, asked = Federation(climbing(), tmp_path), []

    def first_time(client: str, message: Payload) -> bool:
        asked.append(client)
        return client == "c" and asked.count("c") == 1

    wire = Regions(federation, Watched(federation, away=first_time))
    _, records = federation.run(1, wire, regions=REGIONS, quorum=3, retry_delays=(0.0,))
    assert asked == ["a", "b", "c", "c", "a", "b", "c"]
    assert (records[0].failed, records[0].retries) == ({}, 1)
    # the slopes 1, 2 and 4 of clients with one graph each
    assert federation.slopes("server", "slope", 1) == [pytest.approx(7 / 3)]


def test_stages_are_summed_by_regions(tmp_path: Path) -> None:
    def start(model: torch.nn.Module, shared: Sequence[str]) -> dict[str, torch.Tensor]:
        return {"nodes": torch.zeros(1)}

    def measure(session: Session) -> None:
        samples: Any = session.samples
        nodes = samples.block.cut(samples.split.train).nodes
        session.sending["nodes"] = torch.tensor([float(nodes)])

    def method() -> AssembledMethod:
        return climbing(stages=(Stage("measure", Extras(start, OfThisRound()), measure),))

    plain, divided = (Federation(method(), tmp_path / name) for name in ("plain", "divided"))
    expected, ours = plain.run(2), divided.run(2, Regions(divided), regions=REGIONS)
    assert ours[0] == expected[0]
    assert divided.saved("server", 1).arrays["extras/measure/nodes"] == 1 + 2 + 4
    for own, other in zip(ours[1], expected[1], strict=True):
        same = replace(own, seconds=other.seconds, memory=other.memory)
        assert same == other


def test_a_region_passes_on_one_sum_and_no_reply(tmp_path: Path) -> None:
    federation = Federation(climbing(), tmp_path)
    wire = Regions(federation)
    federation.run(1, wire, regions=REGIONS)
    east = wire.replies[1]
    # slopes 2 and 4 with weight 1 each, and the sum of the weights
    assert {name: array.sum() for name, array in east.arrays.items()} == {
        "coarse/parameters/slope": 6,
        "coarse/parameters/weight/slope": 2,
        "fine/parameters/slope": 0,
        "fine/parameters/weight/slope": 0,
    }
    assert json.loads(east.notes["exchange"])["numbers"].keys() == {"b", "c"}


def without(reply: Payload, *names: str) -> Payload:
    """A region's reply that lacks one of its facts."""
    facts = json.loads(reply.notes["exchange"])
    *path, last = names
    reduce(operator.getitem, path, facts).pop(last)
    return replace(reply, notes={"exchange": json.dumps(facts)})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda reply: Payload(), "is not the reply of a regional coordinator"),
        (lambda reply: replace(reply, notes={"exchange": "{}"}), "is not the reply of a regional"),
        (
            lambda reply: replace(
                reply, notes={"exchange": reply.notes["exchange"].replace('"b"', '"a"')}
            ),
            "answers for a, about whom it was not asked",
        ),
        (
            lambda reply: replace(reply, arrays={n: a * np.nan for n, a in reply.arrays.items()}),
            "which is not finite",
        ),
        (
            lambda reply: replace(
                reply, arrays={n: a.astype(np.float32) for n, a in reply.arrays.items()}
            ),
            "as float32 instead of float64",
        ),
        (
            lambda reply: replace(
                reply, arrays={n: a for n, a in reply.arrays.items() if n.startswith("coarse")}
            ),
            "has only a part of a sum",
        ),
        (lambda reply: without(reply, "numbers", "b", "up"), "about b: lacks the numbers up"),
        (lambda reply: without(reply, "numbers", "c", "weight"), "about c: weight None is not"),
        (lambda reply: without(reply, "asked", "b"), "does not say enough about b"),
        (lambda reply: without(reply, "scores", "c"), "does not say enough about c"),
    ],
)
def test_invalid_replies_of_regions_are_left_out(change: Any, reason: str, tmp_path: Path) -> None:
    spy = Federation(climbing(), tmp_path / "spy")
    watched = Regions(spy)
    spy.run(1, watched, regions=REGIONS)
    federation = Federation(climbing(), tmp_path / "run")
    wire = Regions(federation, changed={"east": change(watched.replies[1])})
    with pytest.raises(RametError, match=reason):  # of the closing exchange
        federation.run(1, wire, regions=REGIONS, quorum=2)
    assert CLIMBERS.keys() == {"a", "b", "c"}


@pytest.mark.thorough
def test_three_regions_of_a_thousand_clients() -> None:
    script = Path(__file__).parents[2] / "benchmarks" / "regions.py"
    done = subprocess.run(
        [sys.executable, script, "3", "1000"], capture_output=True, text=True, check=True
    )
    assert "The SHA-256 is the same with and without regions." in done.stdout
