"""A Ramet method as a Flower strategy, for existing ServerApps and ClientApps.

    from ramet import fedstar
    from ramet.flower.strategy import MethodStrategy

    strategy = MethodStrategy(fedstar())
    strategy.start(grid=grid, initial_arrays=ArrayRecord(model.state_dict()), num_rounds=10)

Clients receive the method's shared arrays and nothing else. They reply as in Flower's own examples,
with one ArrayRecord and a MetricRecord that contains "num-examples". Private parameters are up to
the ClientApp. If the method's activation spares a client some arrays, the ConfigRecord lists them
in "spared". They are left out of the merge even if the client sends them, and so are arrays that
the method's ``up`` leaves out.

The arrays in Flower's result are those that a new client would have after the last round.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from logging import INFO, WARNING

from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)
from flwr.common import log
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy
from flwr.serverapp.strategy.strategy_utils import aggregate_metricrecords

from ramet.engine.check import fault
from ramet.engine.server.rules import ServerRules
from ramet.errors import RametError
from ramet.flower.records import to_array
from ramet.payload import Arrays, Payload, Sharing, everything
from ramet.randomness import Randomness
from ramet.rules.activation import Choice, Spared, requested
from ramet.rules.merging import Reply
from ramet.rules.method import AssembledMethod, Method, assembled, switchable_arrays
from ramet.rules.server import SERVER
from ramet.rules.sharing import NetworkArrays
from ramet.training.local import LocalTraining

EXAMPLES = "num-examples"


class MethodStrategy(Strategy):
    """Runs a method's activation, sharing and merging in Flower's own loop.

    Args:
        method: any method that shares something and whose clients train as in FedAvg: one with a
            penalty or a training of its own is refused, because the network and its training are up
            to the ClientApp. A sharing rule is applied to the names of the initial arrays.
        seed: seed for the activation's random draws.
        min_nodes: number of nodes to wait for.
        buffers: names of arrays that are not trained, such as the running variances of a batch
            norm. Rules that step beyond the mean, such as FedAdam's, average them.
    """

    def __init__(
        self, method: Method, seed: int = 0, min_nodes: int = 2, buffers: Iterable[str] = ()
    ) -> None:
        for part in _own_rounds(method):
            raise RametError(
                f"{method.name} has `{part}`, which needs Ramet's own rounds. Run it with "
                "`ramet run --engine superlink`."
            )
        self.method = method
        self.seed = seed
        self.min_nodes = min_nodes
        self.buffers = frozenset(buffers)
        self._initial: dict[str, Array] = {}
        self._rules: ServerRules  # set together with the state
        self._state: Payload | None = None
        self._activity = Payload()
        self._spared: Spared = {}
        self._choice = Choice((), Randomness(seed, SERVER, 0))

    def summary(self) -> None:
        facts = self.method.name, self.method.paper, self.method.shared
        log(INFO, "\t├──> Ramet's %s (%s), sharing %s", *facts)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        self._initialise(arrays)
        nodes = {str(node): node for node in self._nodes(grid)}
        self._choice = Choice(
            sorted(nodes),
            Randomness(self.seed, SERVER, server_round),
            switchable=switchable_arrays(self._rules.method, self._rules.start),
            buffers=self.buffers,
        )
        self._spared = self.method.activation.ask(self._activity, self._choice)
        active = [nodes[name] for name in self._spared]
        return self._messages(MessageType.TRAIN, server_round, config, active)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        assert self._state is not None
        metrics: list[RecordDict] = []
        scores: dict[str, Mapping[str, float]] = {}
        self._state = self._rules.merged(
            self._state,
            self._valid_replies(self._state, replies, server_round, metrics, scores),
            self._choice,
        )
        self._activity = self.method.activation.settle(self._activity, self._choice, scores)
        if not metrics:
            return None, None
        merged = _flower_arrays(self._rules.new_client(self._state))
        return ArrayRecord({**self._initial, **merged}), aggregate_metricrecords(metrics, EXAMPLES)

    def configure_evaluate(
        self,
        server_round: int,
        arrays: ArrayRecord,  # noqa: ARG002 (the state determines what each node receives)
        config: ConfigRecord,
        grid: Grid,
    ) -> Iterable[Message]:
        return self._messages(MessageType.EVALUATE, server_round, config, self._nodes(grid))

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        valid = [reply.content for reply in replies if self._check_answered(reply, server_round)]
        return aggregate_metricrecords(valid, EXAMPLES) if valid else None

    def _initialise(self, arrays: ArrayRecord) -> None:
        if self._state is None:
            self._initial = dict(arrays.items())
            method = _assembled(self.method, self._initial)
            shared = method.shared.pick(self._initial)
            start = {name: self._initial[name].numpy() for name in shared}
            self._rules = ServerRules(method, start)
            self._state = self._rules.first_state()

    def _nodes(self, grid: Grid) -> list[int]:
        while len(nodes := sorted(grid.get_node_ids())) < self.min_nodes:
            time.sleep(0.2)
        return nodes

    def _messages(
        self, kind: str, server_round: int, config: ConfigRecord, nodes: Iterable[int]
    ) -> list[Message]:
        assert self._state is not None
        messages = []
        for node in nodes:
            node_config = ConfigRecord({**config, "server-round": server_round})
            spared = self._spared.get(str(node), ()) if kind == MessageType.TRAIN else ()
            if spared:
                node_config["spared"] = json.dumps(list(spared))
            sent = self._rules.sent(self._state, str(node), spared)
            arrays = ArrayRecord(_flower_arrays(sent))
            content = RecordDict({"arrays": arrays, "config": node_config})
            messages.append(Message(content, node, kind, group_id=str(server_round)))
        return messages

    def _valid_replies(
        self,
        state: Payload,
        replies: Iterable[Message],
        server_round: int,
        metrics: list[RecordDict],
        scores: dict[str, Mapping[str, float]],
    ) -> Iterator[Reply]:
        for message in replies:
            if not self._check_answered(message, server_round):
                continue
            node = str(message.metadata.src_node_id)
            spared = self._spared.get(node, ())
            expected = self._rules.expected(spared)
            not_asked = requested(self._rules.start, tuple(expected))
            reply = _payload(message.content, without=not_asked)
            reason = "must be one ArrayRecord and one MetricRecord with num-examples"
            if reply is None or (reason := self._fault(reply, expected)):
                log(WARNING, "Round %s: the reply of node %s %s", server_round, node, reason)
                continue
            sent = self._rules.sent(state, node, spared)
            scores[node] = self._rules.score(sent, reply.arrays, _numbers(message.content))
            metrics.append(RecordDict(dict(message.content.metric_records.items())))
            yield node, reply

    def _fault(self, reply: Payload, expected: Arrays) -> str:
        return fault(reply, Payload(expected), train=True) or self.method.flaw(reply.arrays) or ""

    def _check_answered(self, message: Message, server_round: int) -> bool:
        if message.has_error():
            reason = message.error.reason
            log(WARNING, "Round %s: a node failed: %s", server_round, reason)
        return not message.has_error()


def _own_rounds(method: Method) -> Iterator[str]:
    """The parts of a method that a ClientApp of Flower's own would not apply."""
    parts = ("penalty", "extras", "after", "personal", "release", "stages", "pace", "summation")
    yield from (part for part in parts if getattr(method, part))
    if type(method.training) not in (LocalTraining, type(None)):
        yield "training"


def _assembled(method: Method, names: Iterable[str]) -> AssembledMethod:
    """The method for arrays with these names, which have the same sizes on all nodes."""
    shared = method.shared
    if not isinstance(shared, Sharing):
        shared = shared(NetworkArrays(tuple(names)))
    switchable = everything if method.switchable is None else method.switchable
    return assembled(replace(method, shared=shared, switchable=switchable))


def _flower_arrays(arrays: Arrays) -> dict[str, Array]:
    return {name: Array(array) for name, array in arrays.items()}


def _numbers(content: RecordDict) -> dict[str, float]:
    """The numbers of a valid reply, with its examples also as ``weight``."""
    (metrics,) = content.metric_records.values()
    numbers = {name: value for name, value in metrics.items() if isinstance(value, int | float)}
    return {**numbers, "weight": numbers[EXAMPLES]}


def _payload(content: RecordDict, without: Sequence[str]) -> Payload | None:
    """Decode a reply in Flower's usual format; None if it has another format."""
    if len(content.array_records) != 1 or len(content.metric_records) != 1:
        return None
    (arrays,), (numbers,) = content.array_records.values(), content.metric_records.values()
    examples = numbers.get(EXAMPLES)
    if not isinstance(examples, int | float):
        return None
    try:
        decoded = {name: to_array(arrays[name]) for name in requested(arrays, without)}
    except ValueError:
        return None
    return Payload(decoded, {"weight": examples})
