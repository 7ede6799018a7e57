"""The kept runs of `hospitals.py`, and what follows from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from statistics import fmean

import claims
from hospitals import AGES, EXTENDED, KEPT, ROWS, SPLITS, Claim, chosen, protections, tuned

from ramet.metrics.summary import Baseline
from ramet.papers.wanted import RunsByFolder
from ramet.report.site_tables import interval
from ramet.scale import SHARE
from ramet.studies.archive import kept
from ramet.studies.choice import samples_ratio
from ramet.studies.finished_run import Draw, FinishedRun
from ramet.studies.gains import Gain, holm, paired_gain
from ramet.studies.sites import SiteStanding, site_standings

Runs = Mapping[Draw, FinishedRun]
ALONE, POOLED = "local, linear", "pooled, linear"


@dataclass(frozen=True)
class Study:
    """The runs that count, by row, and those with protections, by name."""

    rows: Mapping[str, Runs]
    protected: Mapping[str, Runs]
    extended: Mapping[str, Runs]
    """On the splits of the design and those that were added."""
    ages: Mapping[str, Runs]

    @cached_property
    def chosen(self) -> str:
        return chosen()

    def gain(self, better: str, than: str) -> Gain:
        return gain_between(self.rows[better], self.rows[than])

    def hospitals(self, row: str) -> list[SiteStanding]:
        """Each hospital alone and together, with the same network."""
        return standings(self.rows[alone_of(row)], self.rows[row])


@cache
def study() -> Study:
    """The kept runs, those of the configuration that validation chose on each split."""
    files = {(run.label, run.split_seed): run for run in _kept("")}
    rows: dict[str, dict[Draw, FinishedRun]] = {}
    for (name, split), line in sorted(tuned().items()):
        run = _over_people(files[line["run"], split])
        rows.setdefault(name, {})[run.draw] = run
    designed = {
        row.name: {draw: run for draw, run in rows[row.name].items() if draw.split_seed in SPLITS}
        for row in ROWS
        if row.name in rows
    }
    protected = {n: {r.draw: _over_people(r) for r in _kept(n)} for n in protections()}
    return Study(
        designed,
        {name: runs for name, runs in protected.items() if runs},
        {name: rows[name] for name in EXTENDED},
        {row.name: rows[row.name] for row in AGES if row.name in rows},
    )


def _kept(name: str) -> Iterator[FinishedRun]:
    for path in sorted((KEPT / name).glob("*.json")):
        yield from kept(path)


def _over_people(run: FinishedRun) -> FinishedRun:
    """With the share of all test people that are classified correctly as its score."""
    sizes, scores = run.summary.baselines, run.summary.scores
    right = sum(sizes[site].test * (score or 0.0) for site, score in scores.clients.items())
    share = right / sum(one.test for one in sizes.values())
    changed = scores.model_copy(update={"test": share})
    return replace(run, summary=run.summary.model_copy(update={"scores": changed}))


def standings(alone: Runs, together: Runs) -> list[SiteStanding]:
    """Each hospital's gain by training together."""
    (found,) = site_standings({"local": alone, "fedavg": together})
    return found.sites


def gain_between(own: Runs, other: Runs) -> Gain:
    common = own.keys() & other.keys()
    found = {
        draw: own[draw].summary.scale.gain(score(own[draw]), score(other[draw])) for draw in common
    }
    return paired_gain(found, samples_ratio(own))


def extended_gain(found: Study, better: str, than: str) -> Gain:
    """On the splits of the design and those that were added later."""
    return gain_between(found.extended[better], found.extended[than])


def score(run: FinishedRun) -> float:
    return run.summary.scores.test


def constant_score(run: FinishedRun) -> float:
    """That of the best constant answer of each hospital, over all test people."""
    sizes = run.summary.baselines.values()
    return sum(one.test * (one.constant or 0.0) for one in sizes) / sum(one.test for one in sizes)


def adjusted(found: Study) -> dict[str, float | None]:
    """P-values of the linear rows against training alone, adjusted for their number by Holm."""
    apart = {row.name for row in ROWS if row.network == "linear" and row.method != "local"}
    names = [name for name in found.rows if name in apart]
    gains = [found.gain(name, ALONE) for name in names]
    return dict(zip(names, holm([gain.p_value for gain in gains]), strict=True))


def alone_of(row: str) -> str:
    """The row of training alone with the network of a row, or with the most similar one."""
    _, _, network = row.partition(", ")
    return f"local, {network or 'gcn'}"


def method_of(row: str) -> str:
    return row.partition(", ")[0]


def judged(found: Study, claim: Claim) -> claims.Outcome:
    folder = "hospitals"
    facts = {"says": claim.says, "better": claim.better, "than": claim.than}
    asked = claims.Claim(
        paper=folder, setting="abide", folder=folder, at_least=claim.at_least, **facts
    )
    runs: RunsByFolder = {folder: found.rows}
    return claims.outcome(asked, runs)


def by_size(found: Study) -> list[SiteStanding]:
    """The hospitals, the largest first."""
    sizes = sizes_of(found)
    sites = found.hospitals(found.chosen)
    return sorted(sites, key=lambda one: (-sizes[one.site].train, one.site))


def hits(found: Study, row: str) -> str:
    return f"{100 * fmean(map(score, found.rows[row].values())):.1f}"


def sizes_of(found: Study) -> Mapping[str, Baseline]:
    return next(iter(found.rows[ALONE].values())).summary.baselines


def words(gain: Gain) -> str:
    return f"{SHARE.change(gain.mean)} {interval(gain, SHARE)}"


def counts(sites: Sequence[SiteStanding]) -> tuple[int, int, int]:
    """Hospitals that are helped, hurt, and undecided, by intervals that stand for themselves."""
    verdicts = [one.gain.verdict for one in sites]
    return tuple(verdicts.count(one) for one in ("helps", "hurts", "undecided"))  # type: ignore[return-value]
