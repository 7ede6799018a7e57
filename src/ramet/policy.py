"""A site's policy: what may leave it, and under which conditions.

The policy is a file of the site, `policy.toml` next to its keys. Neither a run config nor a message
can change it. It is checked before any data is read, and again where a reply leaves the site.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ramet.errors import RametError
from ramet.payload import Payload
from ramet.privacy.budget import COLLUDERS, Budget, Delta, Epsilon, Unit

WITHHELD = "withheld"
"""The note that names what a site does not send: kinds of numbers, or scores without samples."""
Rule: TypeAlias = bool | Annotated[float, Field(gt=0, allow_inf_nan=False)]
"""Whether numbers of a kind may leave; a number is the step that they are rounded to."""
_KINDS = {"weight": "weight", "loss": "loss", "memory": "work"}
_WORK = ("forward_", "backward_")
"""Prefixes of the numbers of counted operations."""
_LOGGED = "log/"
_COUNTED_BY_SERVER = ("up",)


class PolicyError(RametError):
    """The site's policy does not allow what a run or a message asks for."""


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Numbers(_Table):
    """Which numbers may leave the site."""

    weight: Rule = True
    """The site's weight in means: its number of training samples, or 1 for links."""
    loss: Rule = True
    """The mean training loss."""
    scores: Rule = True
    """The metrics on validation and test data."""
    work: bool = True
    """Counted operations and peak memory."""
    log: Rule = False
    """What a method logs besides, which may be anything."""
    columns: bool = True
    """The sums of declared columns, and whether a class is rare, before round 1."""

    def permitted(self, reply: Payload, always: tuple[str, ...] = ()) -> Payload:
        """The reply with the numbers that may leave, and a note about those that may not.

        Kinds in ``always`` are in the note even if the reply has no such number.
        """
        kept: dict[str, float] = {}
        withheld = {*reply.notes.get(WITHHELD, "").split()}
        withheld |= {kind for kind in always if getattr(self, kind) is False}
        for name, value in reply.numbers.items():
            kind = kind_of_number(name)
            rule = True if name in _COUNTED_BY_SERVER else getattr(self, kind)
            if rule is False:
                withheld.add(kind)
            else:
                kept[name] = value if rule is True else _rounded(value, rule, kind == "weight")
        notes = {WITHHELD: " ".join(sorted(withheld))} if withheld else {}
        return replace(reply, numbers=kept, notes={**reply.notes, **notes})


class Ceiling(_Table):
    """The most that all private runs of the site may reveal of one unit, together."""

    unit: Unit
    epsilon: Epsilon
    delta: Delta
    colluders: int = Field(COLLUDERS, ge=0)
    """How many colluding sites a run with noise inside secure sums must at least assume."""

    @staticmethod
    def of(budget: Budget) -> Ceiling:
        """The ceiling that one run with this budget reaches."""
        return Ceiling(
            unit=budget.unit,
            epsilon=budget.epsilon,
            delta=budget.delta,
            colluders=budget.assumed_colluders,
        )

    def rows(self) -> list[str]:
        """The table in a policy."""
        return [
            "[privacy]                        # the most that all runs together may reveal",
            f'unit = "{self.unit}"'.ljust(33)
            + '# of one training graph, one "link", or all data of the "site"',
            f"epsilon = {self.epsilon!r}",
            f"delta = {self.delta!r}",
            *([f"colluders = {self.colluders}"] if self.colluders != COLLUDERS else []),
        ]

    def refusal(self, budget: Budget | None, secure: bool = False) -> str | None:
        """Why a run with this budget is not allowed; None if it is, as far as it goes alone."""
        if budget is None:
            return f"updates leave with differential privacy per {self.unit} only; the run has none"
        if budget.unit != self.unit:
            return f"the run protects each {budget.unit}, but the policy asks for {self.unit}"
        if budget.epsilon > self.epsilon or budget.delta > self.delta:
            return f"the run's {budget.sentence} exceeds the policy's {self}"
        if secure and budget.unit == "site" and budget.assumed_colluders < self.colluders:
            return (
                f"the run's noise assumes {budget.assumed_colluders} colluding sites, but the "
                f"policy asks for {self.colluders}"
            )
        return None

    def __str__(self) -> str:
        return f"ε = {self.epsilon:g}, δ = {self.delta:g} per {self.unit}"


@dataclass(frozen=True)
class Totals:
    """What a site has answered over all runs."""

    runs: int
    rounds: int
    evaluations: int
    bytes: int

    def __str__(self) -> str:
        return (
            f"{self.runs} runs, {self.rounds} rounds, {self.evaluations} evaluations, "
            f"{self.bytes} bytes of arrays"
        )


class Policy(_Table):
    """What a site promises its owner; every rule that is left out allows everything."""

    methods: tuple[str, ...] | None = None
    """Names of built-in methods, and SHA-256 of user-defined code."""
    share: tuple[str, ...] | None = None
    """Patterns of the parameters that may leave; extras follow them."""
    secure: Literal["required", "allowed"] = "allowed"
    """Whether replies may leave outside a secure sum."""
    members: int | None = Field(None, ge=1)
    """The smallest number of sites in a run and, with secure sums, in each sum. None for the
    default: secure sums are over all sites in the site's list of members."""
    charters: Literal["fitting", "by hand"] = "fitting"
    """Whether the site signs every charter that its settings and this policy allow, or each one
    after its owner has run `ramet charter sign`."""
    samples: int = Field(1, ge=1)
    """The smallest number of training samples with which the site takes part."""
    runs: int | None = Field(None, ge=0)
    """The largest number of runs that the site answers."""
    rounds: int | None = Field(None, ge=0)
    """The largest number of rounds that the site answers, over all runs."""
    evaluations: int | None = Field(None, ge=0)
    """The largest number of messages after which scores may leave, over all runs."""
    bytes: int | None = Field(None, ge=0)
    """The largest number of bytes of arrays that leave, over all runs."""
    versions: int | None = Field(None, ge=0)
    """The largest number of versions of the data about whose columns sums may leave."""
    new_rows: int | None = Field(None, ge=1)
    """With how many new rows the site says yes if a schedule asks for them; None tells nothing."""
    privacy: Ceiling | None = None
    """The most that may be spent over all runs; runs without differential privacy are refused."""
    numbers: Numbers = Numbers()

    def refusals(
        self,
        method: str,
        code: str | None,
        members: int,
        secure: bool,
        budget: Budget | None = None,
    ) -> Iterator[tuple[str, str]]:
        """The rules that a run breaks: the key in the policy, and the reason."""
        if self.methods is not None and (code or method) not in self.methods:
            named = f"the user-defined code {code}" if code else f"the method {method}"
            yield "methods", f"{named} is not in the list ({', '.join(self.methods) or 'empty'})"
        if self.secure == "required" and not secure:
            yield "secure", "replies leave inside secure sums only, and the run has none"
        if self.members is not None and members < self.members:
            yield "members", f"the run has {members} sites, fewer than {self.members}"
        if self.privacy is not None and (reason := self.privacy.refusal(budget, secure)):
            yield "privacy", reason
        if self.numbers.weight is False and not secure:
            yield "numbers.weight", "the weight leaves inside a secure sum only"

    def check(
        self,
        method: str,
        code: str | None,
        members: int,
        secure: bool,
        budget: Budget | None = None,
    ) -> None:
        """Raise PolicyError for the first rule that a run breaks."""
        for key, reason in self.refusals(method, code, members, secure, budget):
            raise PolicyError(f"`{key}`: this site's policy does not allow the run: {reason}.")

    def check_samples(self, manifest: Callable[[], Mapping[str, Any]]) -> None:
        """Refuse to take part with too few training samples."""
        if self.samples > 1 and training_samples(manifest()) < self.samples:
            raise PolicyError(
                "`samples`: this site has fewer training samples than its policy asks for."
            )

    @property
    def limits(self) -> dict[str, int]:
        """The rules about totals over all runs."""
        given = {key: getattr(self, key) for key in Totals.__annotations__}
        return {key: limit for key, limit in given.items() if limit is not None}

    def check_totals(self, totals: Totals) -> None:
        """Refuse the answer with which all runs together would exceed a limit."""
        for key, limit in self.limits.items():
            if (total := getattr(totals, key)) > limit:
                raise PolicyError(
                    f"`{key}`: with this answer there would be {total} {key} over all runs, but "
                    f"this site's policy allows {limit}. Its owner can raise `{key}` in "
                    "policy.toml."
                )

    def check_versions(self, count: int) -> None:
        """Refuse sums of columns of one version of the data too many."""
        if self.versions is not None and count > self.versions:
            raise PolicyError(
                "`versions`: this site's data has changed since it sent the sums of its columns. "
                "Two answers together reveal the rows that changed. Its owner can raise `versions` "
                "in policy.toml."
            )

    @property
    def members_sentence(self) -> str:
        if self.members is None:
            return "any number; in secure sums all of members.toml"
        return f"at least {self.members}"

    def lines(self) -> list[str]:
        """A summary for the site's owner."""
        numbers = {kind: getattr(self.numbers, kind) for kind in Numbers.model_fields}
        methods = "all that site.toml allows" if self.methods is None else ", ".join(self.methods)
        share = "all that site.toml allows" if self.share is None else ", ".join(self.share)
        return [
            f"methods: {methods or 'none'}",
            f"parameters that may leave: {share or 'none'}",
            f"secure sums: {self.secure}",
            f"differential privacy: {self.privacy or 'not required'}",
            f"sites in a run: {self.members_sentence}",
            f"training samples: at least {self.samples}",
            *([] if self.versions is None else [f"versions of the data: at most {self.versions}"]),
            *(
                []
                if self.new_rows is None
                else [f"new rows: told whether there are {self.new_rows}"]
            ),
            *(f"{key} in all: at most {limit}" for key, limit in self.limits.items()),
            f"numbers that may leave: {', '.join(_described(numbers)) or 'none'}",
        ]


NO_RULES = Policy(numbers=Numbers(log=True))
"""For simulations, in which nothing leaves."""


def read_policy(path: Path) -> Policy:
    """Read a site's policy; without a readable one, the site takes part in no run."""
    try:
        return checked_policy(path)
    except PolicyError as error:
        raise PolicyError(
            "the site's policy cannot be read, so it takes part in no run. Ask the site to run "
            "`ramet policy show`."
        ) from error


def checked_policy(path: Path) -> Policy:
    """Read a policy; an error says what is wrong with the file, for the site's owner only."""
    try:
        return Policy.model_validate(tomllib.loads(path.read_text()))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise PolicyError(f"cannot read {path}: {error}. Rerun `ramet deploy join`.") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise PolicyError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}.") from error


def expected_numbers(reply: Payload, due: tuple[str, ...]) -> tuple[str, ...]:
    """The due numbers that the reply does not withhold."""
    withheld = reply.notes.get(WITHHELD, "").split()
    return tuple(name for name in due if not {name, kind_of_number(name)} & {*withheld})


def kind_of_number(name: str) -> str:
    """What a number tells: `weight`, `loss`, `work`, `log` or `scores`."""
    if name.startswith(_LOGGED):
        return "log"
    return "work" if name.startswith(_WORK) else _KINDS.get(name, "scores")


def training_samples(manifest: Mapping[str, Any]) -> int:
    """The number of training samples in a client's part of `split.json`."""
    if "train" in manifest:
        return len(manifest["train"])
    return int(sum(manifest["learned"].values()))


def _rounded(value: float, step: float, positive: bool) -> float:
    """The nearest multiple of a step; a weight is at least one step."""
    multiple = round(value / step)
    return step * (max(1, multiple) if positive else multiple)


def _described(rules: Mapping[str, bool | float]) -> Iterator[str]:
    for kind, rule in rules.items():
        if rule is not False:
            yield kind if rule is True else f"{kind} in steps of {rule:g}"


def first_policy(dp: str | None, secure: bool) -> str:
    """The text of the policy that `join` writes.

    The invitation's budget is the ceiling, and its secure sums are required.
    """
    if dp:
        rows = Ceiling.of(Budget.parse(dp)).rows()
    else:
        rows = [f"# {row}" for row in Ceiling(unit="graph", epsilon=4.0, delta=1e-5).rows()]
    return _FIRST_POLICY.format(privacy="\n".join(rows), secure="" if secure else "# ")


_FIRST_POLICY = """\
# What may leave this site, whatever a run or the coordinator says. Rules that are left out allow
# what site.toml allows. The next message follows a change. Check it with `ramet policy show`.

# methods = ["fedavg", "fedstar"]  # built-in methods, and SHA-256 of user-defined code
# share = ["layers.*"]             # parameters that may leave
{secure}secure = "required"              # replies leave inside secure sums only
# members = 3                      # the smallest number of sites. Without it, each secure sum is
                                   # over all of members.toml, and a site that is away stops the
                                   # run. With a smaller number the run goes on, but a coordinator
                                   # that lies about who is away can single out a site's update
# charters = "by hand"             # sign the charter of a verified run with `ramet charter sign`
# samples = 50                     # the smallest number of training samples here
runs = 20                          # the most runs, whatever their names; raise it for more
# rounds = 500                     # the most rounds over all runs
# evaluations = 500                # the most messages that ask for scores, over all runs
# bytes = 1_000_000_000            # the most bytes of arrays over all runs
# versions = 1                     # of the data, about whose columns sums may leave
# new_rows = 10                    # tell a schedule, between runs, whether so many rows are new

{privacy}

[numbers]                          # true, false, or the step to round to
# weight = 10
# loss = false
# scores = 0.01                    # with differential privacy, scores do not leave, but for
                                   # unit="link", if this is set
# work = false                     # counted operations and peak memory
# columns = false                  # sums of declared columns and whether a class is rare
"""
