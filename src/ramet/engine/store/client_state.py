"""A client's state between rounds: what is saved, and what cannot be.

A message is answered with a model and an optimiser that have nothing but what was saved. So a run
does not depend on which process answers a message. Saved are the arrays of
the model (parameters and buffers), the tensors of the optimiser (such as Adam's moments), its
numbers (such as a learning rate that a schedule has changed), and the client's memory. State that
is kept anywhere else would be lost, so a change of it during training is an error.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ramet.engine.store.checkpoint import Snapshot
from ramet.errors import RametError
from ramet.payload import Array, Arrays, under

MODEL, OPTIMISER, MEMORY = "model/", "optimiser/", "memory/"
_BEFORE, _TRAINED = "before/", "trained"
_GROUPS, _NUMBERS = "groups", "numbers"
_OPTIMISER_ATTRIBUTES = ("defaults", "state", "param_groups")


def load_arrays(model: nn.Module, arrays: Arrays) -> None:
    """Overwrite the named arrays of a model."""
    state = model.state_dict()
    with torch.no_grad():
        for name, array in arrays.items():
            if name not in state or state[name].shape != array.shape:
                raise RametError(
                    f"'{name}' with shape {list(array.shape)} does not fit this client's model. "
                    "Share only arrays that have the same shape on every client."
                )
            state[name].copy_(torch.from_numpy(array))


def model_arrays(model: nn.Module) -> dict[str, Array]:
    """A model's parameters and buffers; views if on the CPU, so copy what must survive training."""
    state = model.state_dict()
    for name, value in state.items():
        if not isinstance(value, Tensor):
            raise RametError(
                f"the model's state '{name}' is a {type(value).__name__}, but only tensors can be "
                "saved and shared. Use a buffer (`register_buffer`) instead of `get_extra_state`."
            )
    return numpy_arrays(state)


Memory: TypeAlias = defaultdict[str, dict[str, Tensor]]
"""Private tensors by name, of each part of a method that has any."""


@dataclass
class ClientState:
    """A client's network with its optimiser, and its private tensors.

    Memory goes with the replies that the server has. If a reply was lost or refused, the memory is
    again as it was ``before`` the round in which the client last ``trained``. ``evaluated`` are
    networks of rounds that may be the best, as far as they have not been written: the one before
    that training, and those of the server's ``candidates``.
    """

    model: nn.Module
    optimiser: Optimizer
    memory: Memory = field(default_factory=lambda: defaultdict(dict))
    before: Memory = field(default_factory=lambda: defaultdict(dict))
    trained: int = 0
    candidates: Sequence[int] = ()
    evaluated: dict[int, Arrays] = field(default_factory=dict)

    def begin_training(self, number: int) -> None:
        """Keep the memory as it is now, in case the reply of this round is lost."""
        self.before = defaultdict(dict)
        for owner, tensors in self.memory.items():
            self.before[owner] = {name: value.clone() for name, value in tensors.items()}
        self.trained = number

    def begin_evaluation(self, number: int, network: nn.Module, candidates: Sequence[int]) -> None:
        """Keep the network of a round which may turn out to be the best."""
        kept = {best: arrays for best, arrays in self.evaluated.items() if best in candidates}
        arrays = {name: array.copy() for name, array in model_arrays(network).items()}
        self.evaluated, self.candidates = {**kept, number: arrays}, candidates

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors and arrays."""
        arrays = [array for kept in self.evaluated.values() for array in kept.values()]
        tensors = [*self.model.parameters(), *self.model.buffers()]
        tensors += [v for own in self.optimiser.state.values() for v in own.values()]
        for memory in (self.memory, self.before):
            tensors += [value for own in memory.values() for value in own.values()]
        sizes = [value.nbytes for value in tensors if isinstance(value, Tensor)]
        return sum(sizes) + sum(array.nbytes for array in arrays)

    def separate_memory(self) -> None:
        """Make the memory independent of the network, whose tensors a method may have put in it."""
        if not any(self.memory.values()):
            return
        moments = [value for own in self.optimiser.state.values() for value in own.values()]
        tensors = [*self.model.state_dict().values(), *moments]
        used = {_address(tensor) for tensor in tensors if isinstance(tensor, Tensor)}
        for memory in self.memory.values():
            for name, value in memory.items():
                memory[name] = value.detach().clone() if _address(value) in used else value.detach()

    def forget_lost_reply(self, last: int) -> None:
        """Return to an earlier memory if the server's last reply is older than this state."""
        if self.trained > last:
            self.memory, self.trained = self.before, last


def full_state(client: ClientState) -> dict[str, Array]:
    """All arrays of the model, all tensors of its optimiser, and the memory, by name."""
    model, optimiser = client.model, client.optimiser
    moments = {
        f"{OPTIMISER}{kind}/{name}": value
        for name, kind, value in _optimiser_state(model, optimiser)
        if isinstance(value, Tensor)
    }
    arrays = {MODEL + name: array for name, array in model_arrays(model).items()}
    return {**arrays, **numpy_arrays(moments), **_memory_arrays(MEMORY, client.memory)}


def _memory_arrays(prefix: str, memory: Memory) -> dict[str, Array]:
    flat = {
        f"{prefix}{owner}/{name}": value
        for owner, tensors in memory.items()
        for name, value in tensors.items()
    }
    for name, value in flat.items():
        if not isinstance(value, Tensor):
            raise RametError(
                f"'{name}' is a {type(value).__name__}, but only tensors can be saved between "
                "rounds. Use `torch.tensor` for a number."
            )
    return numpy_arrays(flat)


def _memory_of(prefix: str, arrays: Arrays, device: torch.device) -> Memory:
    memory: Memory = defaultdict(dict)
    for key, value in to_tensors(under(prefix, arrays), device).items():
        owner, _, name = key.partition("/")
        memory[owner][name] = value
    return memory


def snapshot(step: int, client: ClientState) -> Snapshot:
    """The whole state after ``step``."""
    model, optimiser = client.model, client.optimiser
    numbers: dict[str, dict[str, Any]] = {}
    for name, kind, value in _optimiser_state(model, optimiser):
        if not isinstance(value, Tensor):
            numbers.setdefault(name, {})[kind] = _json_value(kind, value)
    groups = [
        {key: _json_value(key, value) for key, value in group.items() if key != "params"}
        for group in optimiser.param_groups
    ]
    facts = {_GROUPS: groups, _NUMBERS: numbers}
    arrays = {**full_state(client), **_memory_arrays(_BEFORE, client.before)}
    return Snapshot(step, arrays, {"optimiser": facts, _TRAINED: client.trained})


def restore(saved: Snapshot, client: ClientState, device: torch.device) -> None:
    """Load a snapshot into a new model on ``device``, a new optimiser and an empty memory."""
    model, optimiser = client.model, client.optimiser
    load_arrays(model, under(MODEL, saved.arrays))
    parameters = dict(model.named_parameters())
    for key, array in under(OPTIMISER, saved.arrays).items():
        kind, _, name = key.partition("/")
        value = torch.from_numpy(array).to(device)
        optimiser.state[parameters[name]][kind] = _laid_out_like(parameters[name], value)
    facts: Mapping[str, Any] = saved.facts.get("optimiser", {_GROUPS: [], _NUMBERS: {}})
    for name, numbers in facts[_NUMBERS].items():
        optimiser.state[parameters[name]].update(numbers)
    for group, values in zip(optimiser.param_groups, facts[_GROUPS], strict=False):
        for key, value in values.items():
            group[key] = tuple(value) if isinstance(group.get(key), tuple) else value
    client.memory = _memory_of(MEMORY, saved.arrays, device)
    client.before = _memory_of(_BEFORE, saved.arrays, device)
    client.trained = saved.facts.get(_TRAINED, 0)


def _laid_out_like(parameter: Tensor, value: Tensor) -> Tensor:
    """The value with the parameter's strides: with others, fused optimisers update wrongly."""
    if parameter.is_contiguous() or parameter.shape != value.shape:
        return value
    return torch.empty_like(parameter, dtype=value.dtype, requires_grad=False).copy_(value)


def to_tensors(arrays: Arrays, device: torch.device) -> dict[str, Tensor]:
    """Copies of the arrays, as tensors on a device."""
    return {name: torch.from_numpy(array.copy()).to(device) for name, array in arrays.items()}


class Unsaved:
    """Attributes of a model and an optimiser that are in no snapshot.

    Names that start with an underscore are private caches by convention, and are not checked.
    """

    def __init__(self, model: nn.Module, optimiser: Optimizer) -> None:
        self._parts: list[tuple[str, Any]] = [
            *(
                (f"the model's {name}" if name else "the model", m)
                for name, m in model.named_modules()
            ),
            ("the optimiser", optimiser),
        ]
        self._groups = len(optimiser.param_groups)
        self._before = [_attributes(part) for _, part in self._parts]

    def check_unchanged(self) -> None:
        """Raise RametError if training has changed such an attribute."""
        for (owner, part), before in zip(self._parts, self._before, strict=True):
            after = _attributes(part)
            for name in {**before, **after}:
                if name not in before or name not in after or before[name] != after[name]:
                    raise RametError(
                        f"training changed the attribute '{name}' of {owner}, which is not saved "
                        "between rounds. Use a parameter or a buffer (`register_buffer`), the "
                        "optimiser's `param_groups`, or compute it from "
                        "`session.randomness.round`."
                    )
            if isinstance(part, Optimizer) and len(part.param_groups) != self._groups:
                raise RametError(
                    "training added a group of parameters to the optimiser. Create all groups in "
                    "`optimiser(model)`."
                )


def _optimiser_state(model: nn.Module, optimiser: Optimizer) -> Iterator[tuple[str, str, Any]]:
    """The name of a parameter, the kind of a value, and the value."""
    name_of = {parameter: name for name, parameter in model.named_parameters()}
    for group in optimiser.param_groups:
        for parameter in group["params"]:
            if parameter not in name_of:
                raise RametError(
                    f"the optimiser trains a tensor of shape {list(parameter.shape)} that is not a "
                    "parameter of the model, so it is not saved. Register it as a parameter of "
                    "the model."
                )
            for kind, value in optimiser.state.get(parameter, {}).items():
                yield name_of[parameter], kind, value


def numpy_arrays(tensors: Mapping[str, Tensor]) -> dict[str, Array]:
    """The tensors as NumPy arrays; views if on the CPU."""
    return {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}


def _json_value(name: str, value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool | int | float | str) or value is None:
        return value
    if isinstance(value, list | tuple) and not any(isinstance(item, Tensor) for item in value):
        return [_json_value(name, item) for item in value]
    raise RametError(
        f"the optimiser's '{name}' is a {type(value).__name__} that cannot be saved between "
        "rounds. Tensors of a parameter, and numbers, can be. Use another optimiser."
    )


def _attributes(part: object) -> dict[str, Any]:
    """Public attributes, in a form that can be compared before and after training."""
    left_out = _OPTIMISER_ATTRIBUTES if isinstance(part, Optimizer) else ("training",)
    return {
        name: _comparable(value)
        for name, value in vars(part).items()
        if not name.startswith("_") and name not in left_out and not callable(value)
    }


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _comparable(value: Any) -> Any:
    """Tensors by identity and version, containers by content, schedules by their state."""
    if isinstance(value, Tensor):
        return _Identity(value), value._version
    if isinstance(value, Mapping):
        return {key: _comparable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_comparable(item) for item in value]
    if isinstance(value, bool | int | float | str | set | frozenset) or value is None:
        return value if not isinstance(value, set) else frozenset(value)
    if hasattr(value, "state_dict"):
        return _comparable(value.state_dict())
    return _Identity(value)


class _Identity:
    """Equal only to the same object; holds it, so that its address is not used again."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)
