"""Claims of papers, from `experiments/papers/*.toml`, and what our kept runs say about them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from columns import Runs
from pydantic import BaseModel, ConfigDict

from ramet.papers.printed import experiments
from ramet.papers.savings import bytes_both_ways
from ramet.papers.wanted import RunsByFolder, Status
from ramet.report.text import markdown_table, plural
from ramet.studies.choice import Choice, differences, samples_ratio
from ramet.studies.gains import FEWEST_PAIRS, MOST_PAIRS, Gain, paired_gain


class Claim(BaseModel):
    """`better` is above `than` on a setting by at least this many points."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    paper: str
    says: str
    better: str
    than: str
    setting: str
    folder: str
    at_least: float = 0.0
    round: Choice = Choice.LAST
    on_all_data: bool = False
    """Whether the score is that of the server's model on all data."""
    whole_graph: bool = False
    """Whether `than` has clients that were evaluated on the whole graph."""
    share_of_bytes: float | None = None
    """The largest share of the other's bytes, both ways."""
    fewer_operations: float | None = None
    """A claim about operations instead of scores: this many times fewer than `than`."""


def claims() -> list[Claim]:
    """Those of all papers."""
    return [
        claim
        for path in sorted((experiments() / "papers").glob("*.toml"))
        for entry in tomllib.loads(path.read_text()).get("claims", [])
        for claim in _expanded(path.stem, entry)
    ]


def _expanded(paper: str, entry: Mapping[str, Any]) -> Iterator[Claim]:
    """All combinations of a `[[claims]]` entry; `{}` stands for each of its variants."""
    lists = [_list(entry[key]) for key in ("better", "than", "setting")]
    for variant, better, than, setting in product(entry.get("variants", [""]), *lists):
        facts = {key: value for key, value in entry.items() if key != "variants"}
        facts |= {
            "better": better.format(variant),
            "than": than.format(variant),
            "setting": setting,
        }
        yield Claim.model_validate({"folder": setting, **facts, "paper": paper})


def _list(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value]


@dataclass(frozen=True)
class Outcome:
    """A claim, and what the kept runs of both methods with the same draws say about it."""

    claim: Claim
    status: Status
    gain: Gain | None = None
    """After the claim's round."""
    splits: int = 0
    seeds: int = 0
    runs: int = 0
    share_of_bytes: float | None = None
    times_fewer_operations: float | None = None
    other_rounds: Mapping[Choice, Status] = field(default_factory=dict)
    """The status at the other choices of the round."""

    @property
    def depends_on_round(self) -> bool:
        """Whether another choice of the round gives another status."""
        return any(status != self.status for status in self.other_rounds.values())


def outcome(claim: Claim, runs: RunsByFolder) -> Outcome:
    """Judge a claim by the kept runs."""
    by_label = runs.get(claim.folder, {})
    own, other = by_label.get(claim.better, {}), by_label.get(claim.than, {})
    draws = sorted(own.keys() & other.keys())
    if not draws:
        return Outcome(claim, "not run")
    pair = ({draw: own[draw] for draw in draws}, {draw: other[draw] for draw in draws})
    if claim.fewer_operations is not None:
        return _by_operations(claim, claim.fewer_operations, *pair)
    gain = _gain(claim, claim.round, *pair)
    if gain is None:
        return Outcome(claim, "not run")
    share = bytes_both_ways(pair[0].values()) / (bytes_both_ways(pair[1].values()) or 1.0)
    too_many = claim.share_of_bytes is not None and share > claim.share_of_bytes

    def status(found: Gain) -> Status:
        if too_many:
            return "fails"
        return status_of(found, claim.at_least)

    others = {
        choice: status(found)
        for choice in Choice
        if choice is not claim.round and (found := _gain(claim, choice, *pair)) is not None
    }
    return Outcome(
        claim,
        status(gain),
        gain,
        splits=len({draw.split_seed for draw in draws}),
        seeds=len({draw.seed for draw in draws}),
        runs=len(draws),
        share_of_bytes=share if claim.share_of_bytes is not None else None,
        other_rounds=others,
    )


def status_of(gain: Gain, at_least: float = 0.0) -> Status:
    """Whether a gain is this many points or more, if there are enough pairs to say so."""
    return gain.at_least(at_least / 100) if gain.has_enough_pairs else "undecided"


def _gain(claim: Claim, choice: Choice, own: Runs, other: Runs) -> Gain | None:
    theirs_on_all = claim.on_all_data and not claim.whole_graph
    found = differences(own, other, choice, claim.on_all_data, theirs_on_all)
    return paired_gain(found, samples_ratio(own)) if found else None


def _by_operations(claim: Claim, times: float, own: Runs, other: Runs) -> Outcome:
    """Operations are counted, not sampled, so that one run decides."""
    counts = [_operations(runs) for runs in (own, other)]
    if None in counts:
        return Outcome(claim, "not run")
    ours, theirs = (count or 0.0 for count in counts)
    ratio = theirs / ours
    status: Status = "holds" if ratio >= times else "fails"
    return Outcome(claim, status, splits=1, seeds=1, times_fewer_operations=ratio)


def _operations(runs: Runs) -> float | None:
    counts = (run.summary.flops.per_client_round for run in runs.values())
    return next((count for count in counts if count is not None), None)


def claims_markdown(outcomes: Sequence[Outcome]) -> str:
    """A row per comparison that was run, by claim."""
    rows: list[tuple[str, ...]] = []
    left, before = 0, ("", "")
    for one in outcomes:
        if one.status == "not run":
            left += 1
            continue
        now = (one.claim.paper, one.claim.says)
        paper, says = ("", "") if now == before else now
        before = now
        comparison = f"`{one.claim.better}` over `{one.claim.than}` on `{one.claim.folder}`"
        rows.append((paper, says, comparison, f"**{one.status}**", _difference(one), _runs(one)))
    table = markdown_table(("paper", "claim", "comparison", "", "difference", "runs"), rows)
    further = f"{plural(left, 'further comparison')} of these claims"
    return f"{table}\n\n{further} {'is' if left == 1 else 'are'} not run." if left else table


def _difference(one: Outcome) -> str:
    if one.times_fewer_operations is not None:
        return f"{one.times_fewer_operations:.1f} times fewer operations"
    gain = one.gain
    assert gain is not None
    text = f"{100 * gain.mean:+.2f}"
    if gain.low is not None and gain.high is not None:
        text += f" [{100 * gain.low:+.2f}, {100 * gain.high:+.2f}]"
    if one.status == "undecided" and gain.spread is None:
        text += f"; at least {FEWEST_PAIRS} splits would decide it"
    elif one.status == "undecided":
        wanted = gain.pairs_to_decide(one.claim.at_least / 100) or f"over {MOST_PAIRS}"
        text += f"; {wanted} {'seeds' if one.splits == 1 else 'splits'} would decide it"
    if one.claim.at_least:
        text += f", at least {one.claim.at_least:+g} asked for"
    if one.share_of_bytes is not None:
        text += f", {100 * one.share_of_bytes:.0f} % of the bytes"
    return text


def _runs(one: Outcome) -> str:
    if one.times_fewer_operations is not None:
        return "counted"
    seeds = plural(one.seeds, "seed")
    if one.splits == 1:
        text = f"{seeds} of one split"
    elif one.runs == one.splits * one.seeds:
        text = f"{one.splits} splits × {seeds}"
    else:
        text = f"{one.runs} runs on {one.splits} splits"
    if one.claim.round is not Choice.LAST:
        text += f"; {one.claim.round.value}"
    if one.depends_on_round:
        others = (f"{choice.value}: {status}" for choice, status in one.other_rounds.items())
        text += f"; **depends on the round** ({', '.join(others)})"
    return text
