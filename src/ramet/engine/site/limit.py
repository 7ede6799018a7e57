"""A site's limit on what leaves it, which does not depend on what a run says that it shares."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from glob import escape

from ramet.engine.start import extras_up, new_model, start_extras, state_names
from ramet.payload import Payload, Sharing, only
from ramet.rules.method import AssembledMethod, sent_up
from ramet.tasks import Shape


@dataclass(frozen=True)
class SiteLimit:
    """The arrays and extras that may leave.

    Args:
        method: the run's method, with the sharing that it declares itself.
        sharing: an array may leave if all of these include its name. The method's extras may leave
            as far as they belong to such arrays.
    """

    method: AssembledMethod
    sharing: tuple[Sharing, ...]

    def __contains__(self, name: str) -> bool:
        """Whether the parameter or buffer may leave."""
        return all(name in sharing for sharing in self.sharing)

    def extras(self, shape: Shape, seed: int) -> frozenset[str]:
        """The names of the extras that may leave a site with data of this shape."""
        names = state_names(new_model(self.method, shape, seed))
        allowed = (escape(name) for name in names if name in self)
        limited = replace(self.method, shared=only(*allowed))
        return frozenset(_extras(limited, shape, seed))

    def outside(self, method: AssembledMethod, shape: Shape, seed: int) -> list[str]:
        """What a run of this method would send, and may not leave."""
        shared = method.shared.pick(state_names(new_model(method, shape, seed)))
        return self._outside(sent_up(method, shared), _extras(method, shape, seed), shape, seed)

    def forbidden(self, reply: Payload, shape: Shape, seed: int) -> list[str]:
        """The arrays and extras of a reply that may not leave."""
        return self._outside(reply.arrays, reply.extras, shape, seed)

    def _outside(
        self, arrays: Iterable[str], extras: Iterable[str], shape: Shape, seed: int
    ) -> list[str]:
        extra_names = [*extras]
        allowed = self.extras(shape, seed) if extra_names else frozenset()
        return [
            *(name for name in arrays if name not in self),
            *(name for name in extra_names if name not in allowed),
        ]


def _extras(method: AssembledMethod, shape: Shape, seed: int) -> Sequence[str]:
    start = start_extras(method, shape, seed)
    return [name for exchange in start for name in extras_up(method, start, exchange)]
