"""Which capabilities of a run exclude each other, and why.

Everything works with everything else, except for the pairs in `REFUSED`. Checks, their messages,
the page on combinations and the test that tries every pair are made from this table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Literal, TypeAlias

from ramet.errors import RametError
from ramet.experiment.capabilities import CAPABILITIES, Can, chosen
from ramet.rules.method import AssembledMethod, Method

Kind: TypeAlias = Literal["mathematics", "not written"]
"""Whether a pair cannot work, by mathematics or by its meaning, or could but does not yet."""


@dataclass(frozen=True)
class Refusal:
    """Two capabilities that exclude each other.

    Args:
        one: the first of them.
        other: the second.
        kind: whether the pair is impossible, or not written.
        why: the reason, in which braces stand for names of the run's parts, as in `ANY_NAMES`.
    """

    one: Can
    other: Can
    kind: Kind
    why: str

    @property
    def pair(self) -> frozenset[Can]:
        return frozenset((self.one, self.other))

    def error(self, names: Mapping[str, str]) -> RametError:
        one, other = CAPABILITIES[self.one], CAPABILITIES[self.other]
        subject = one.option or names["method"]
        words = other.words or other.option or str(self.other)
        options = [c.option for c in (one, other) if c.option]
        advice = " or ".join(dict.fromkeys(options)) or "one of the two"
        if len(options) == 1:
            advice += f", or {(other if other.option else one).instead}"
        reason = self.why.format_map(names)
        return RametError(f"{subject} does not work with {words}: {reason}. Leave out {advice}.")


Cans: TypeAlias = tuple[Can, ...]
_SUMS = (Can.FIXED_POINT, Can.SECURE)
_COMPARING = (Can.COMPARING, Can.ROBUST)
_COMPARED = (Can.COMPARED_EXTRAS, Can.COMPARED_STAGES)
_EXTRAS = (Can.SUMMED_EXTRAS, Can.COMPARED_EXTRAS, Can.READ_EXTRAS)
_STAGES = (Can.SUMMED_STAGES, Can.COMPARED_STAGES)
_PACES = (Can.PACE, Can.ARRIVAL)
_PRIVACY = (Can.PRIVATE_GRAPHS, Can.PRIVATE_SITES, Can.PRIVATE_LINKS)
_IMPOSSIBLE: tuple[tuple[Cans, Cans, str], ...] = (
    (
        (Can.NOTHING,),
        (Can.SOME_CLIENTS, Can.PARTS),
        "{method} shares nothing, so {activation} would only keep clients from training",
    ),
    (
        (Can.EXTRAS_ONLY, Can.WHOLE),
        (Can.PARTS,),
        "{method} merges whole replies only, but {activation} asks for parts of them",
    ),
    (
        (Can.OWN_SUM, Can.COMPARING),
        (Can.ROBUST,),
        "{method} needs its own merging rule ({own_rule}), which another cannot replace",
    ),
    (
        (Can.NOTHING, Can.EXTRAS_ONLY),
        (Can.ROBUST,),
        "{method} shares nothing, so {merging} has nothing to merge",
    ),
    (
        (Can.PARTS,),
        (Can.ROBUST,),
        "{merging} compares whole replies, but {activation} asks clients for parts of them",
    ),
    (
        (Can.SUMMED_EXTRAS, Can.COMPARED_EXTRAS, *_STAGES),
        (Can.ROBUST,),
        "{merging} protects parameters, but not the extras of {method}, which any client can "
        "change as it likes",
    ),
    (_COMPARING, (*_SUMS, Can.REGIONS), "{merging} compares single replies"),
    ((Can.COMPARED_EXTRAS,), _SUMS, "its extras have no rule that sums"),
    ((Can.COMPARED_STAGES,), _SUMS, "its stages have no rule that sums"),
    (_COMPARED, (Can.REGIONS,), "{rule} compares single replies"),
    (
        (Can.PARTS,),
        (Can.SECURE,),
        "{activation} asks for parts of replies, and a sum over the one client that is asked for "
        "an array hides nothing",
    ),
    (
        (*_COMPARING, *_COMPARED),
        (Can.VERIFIED,),
        "it compares single replies, which no other site may see, so that no site can repeat it",
    ),
    ((Can.RELEASE,), _SUMS, "its releases change single replies"),
    (_PACES, _SUMS, "its pace depends on single replies"),
    ((Can.NORM_BOUND,), _SUMS, "a norm bound measures single replies"),
    (
        (Can.FINAL_CLIENTS,),
        (Can.SECURE,),
        "the closing message of a secure run is a sum over all clients, from which sites leave "
        "nobody out",
    ),
    (_STAGES, (Can.PRIVATE_GRAPHS,), "its stages send extras computed from the data"),
    (
        (*_EXTRAS, Can.EXTRAS_ONLY),
        (Can.PRIVATE_GRAPHS,),
        "it sends extras computed from the data",
    ),
    (
        (Can.BUFFERS,),
        _PRIVACY,
        "its network has buffers ({buffer}), which are computed from the data without noise",
    ),
    (
        (Can.OWN_TRAINING,),
        (Can.PRIVATE_GRAPHS,),
        "it has a training of its own ({training}), whose steps have no noise",
    ),
    (
        (Can.AFTER,),
        (Can.PRIVATE_GRAPHS,),
        "it computes more after training, without noise",
    ),
    (
        (Can.NOTHING, Can.EXTRAS_ONLY),
        (Can.PRIVATE_SITES,),
        "it shares nothing, so that no update leaves",
    ),
    (
        (Can.CLASSES,),
        (Can.NUMBERS,),
        "{method} computes with classes, and the task has none",
    ),
    (
        (Can.FROM,),
        _PRIVACY,
        "a private run cannot start with the models of another run, because what they have "
        "learned is not in its budget",
    ),
    (
        (Can.ARRIVAL,),
        (Can.LOCAL, Can.RAY, Can.WORKERS),
        "only a SuperLink has clients that reply at their own pace; simulated=true draws it",
    ),
    (
        (Can.OWN_NETWORK,),
        (Can.NETWORK,),
        "{method} is a network of its own, which another cannot replace",
    ),
    ((Can.WORKERS,), (Can.RAY, Can.SUPERLINK), "this engine has its own processes"),
    (
        (Can.OBJECT,),
        (Can.WORKERS, Can.RAY, Can.SUPERLINK, Can.ARRIVAL, Can.CONSORTIUM),
        "{method} is an object that only this process has; others would find a function that "
        "returns it in a file, as file.py:FACTORY",
    ),
    (
        (Can.CONSORTIUM,),
        (Can.LOCAL, Can.RAY, Can.WORKERS),
        "the sites of a consortium compute on their own machines",
    ),
    (
        (Can.OWN_SETTING,),
        (Can.CONSORTIUM,),
        "a coordinator cannot name code that reads a site's data; each site brings its own graphs",
    ),
)
_NOT_WRITTEN: tuple[tuple[Cans, Cans, str], ...] = (
    (
        _PACES,
        (Can.SOME_CLIENTS, Can.PARTS),
        "{method} asks clients again as soon as they have replied, so {activation} cannot choose "
        "them",
    ),
    ((Can.PARTS,), (Can.FIXED_POINT,), "{activation} asks for parts of replies"),
    ((Can.NUMBERS,), (Can.PRIVATE_LINKS,), "links are protected for classes of nodes only"),
    ((Can.SUMMED_STAGES,), _SUMS, "its stages are exchanged one by one"),
    (_PACES, (Can.REGIONS,), "its pace depends on single replies"),
    (
        (Can.SECURE,),
        (Can.REGIONS,),
        "a secure sum is over all clients, whose masks do not cancel out within a region",
    ),
    ((Can.RAY, Can.SUPERLINK), (Can.REGIONS,), "over Flower, one server asks all clients"),
    (_STAGES, (Can.PRIVATE_SITES,), "its stages send extras computed from the data"),
    (_EXTRAS, (Can.PRIVATE_SITES,), "it sends extras computed from the data"),
    (
        (Can.STOPPED_TRAINING,),
        (Can.PRIVATE_GRAPHS,),
        "stop_after and fresh_moments are not part of private training",
    ),
    ((Can.PENALTY,), (Can.PRIVATE_GRAPHS,), "it adds a term to the loss"),
    (_STAGES, (Can.ARRIVAL,), "all clients wait for its stages"),
    ((Can.RELEASE,), (Can.VERIFIED,), "sites tag what they send before it is changed"),
    (_PACES, (Can.VERIFIED,), "clients that reply later have missed links of the chain"),
    ((Can.REGIONS,), (Can.VERIFIED,), "a region passes on no signatures of its clients"),
    (
        (Can.FINAL_CLIENTS,),
        (Can.VERIFIED,),
        "the final model is delivered later, after the last link of the chain",
    ),
    ((Can.FROM,), (Can.VERIFIED,), "no charter names the models of another run"),
    ((Can.REGIONS,), (Can.CONSORTIUM,), "no command sets up regional coordinators"),
    ((Can.FINAL_CLIENTS,), (Can.CONSORTIUM,), "all sites get the final model"),
)


def _pairs(rules: tuple[tuple[Cans, Cans, str], ...], kind: Kind) -> Iterator[Refusal]:
    for ones, others, why in rules:
        for one, other in product(ones, others):
            yield Refusal(one, other, kind, why)


REFUSED: tuple[Refusal, ...] = (
    *_pairs(_IMPOSSIBLE, "mathematics"),
    *_pairs(_NOT_WRITTEN, "not written"),
)
"""All that is refused; of several reasons, the first is given."""
ANY_NAMES = {
    "method": "the method",
    "merging": "the merging rule",
    "own_rule": "…",
    "activation": "the activation",
    "rule": "their rule",
    "training": "…",
    "buffer": "…",
}
"""What stands for the names of a run's parts where there is no run."""


def names_of(method: Method) -> dict[str, str]:
    """The names of a method's parts, for messages."""
    names = {
        part: type(getattr(method, part)).__name__ for part in ("merging", "activation", "training")
    }
    extras = [method.extras, *(stage.extras for stage in method.stages)]
    rules = [type(one.rule).__name__ for one in extras if one is not None]
    own = {"method": method.name, "rule": " or ".join(rules), "own_rule": names["merging"]}
    return {**ANY_NAMES, **names, **own}


def refusals(capabilities: Collection[Can]) -> Iterator[Refusal]:
    """What excludes what among capabilities, in the order of the table."""
    return (refusal for refusal in REFUSED if refusal.pair <= {*capabilities})


def check_together(capabilities: Collection[Can], names: Mapping[str, str] = ANY_NAMES) -> None:
    """Raise RametError if two of the capabilities exclude each other."""
    for refusal in refusals(capabilities):
        raise refusal.error(names)


def why_not(method: AssembledMethod, wanted: Can) -> str | None:
    """Why a method does not work with a capability, in a few words; None if it does."""
    for refusal in refusals({*chosen(method), wanted}):
        if wanted in (refusal.one, refusal.other):
            return refusal.why.format_map(names_of(method))
    return None
