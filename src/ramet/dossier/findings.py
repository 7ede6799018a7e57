"""How well a run is protected and how good its model is, by the files of its folder."""

from __future__ import annotations

from collections.abc import Iterator

from ramet.data.own.schema import level_of
from ramet.dossier.evidence import Line, Missing
from ramet.dossier.facts import SETTINGS, Facts
from ramet.experiment.run_facts import SPLIT, VERSIONS
from ramet.experiment.run_folder import RESULT
from ramet.leak import ATTACKS, VIEWS, Audit, Finding
from ramet.leak import NAME as LEAK
from ramet.report.text import plural

_CHARTER, _CHAIN = "charter.json", "server/chain.jsonl"
_ORDER = ("Leaks", "No leak shown", "Says nothing, as the attack has no power here", "Not measured")


def protection(facts: Facts) -> Iterator[Line]:
    """What hides replies, and who has checked the coordinator."""
    settings, weak = facts.folder.experiment().settings, facts.simulated
    if not settings.secure:
        yield facts.says("The coordinator saw the reply of each site.", SETTINGS)
    elif weak:
        yield facts.says(
            "Secure sums were simulated with keys that follow from the seed: they hid nothing.",
            SETTINGS,
            SPLIT,
            VERSIONS,
        )
    else:
        yield facts.says(
            "It was set up with secure sums, in which masks hide each reply, but not the sum.",
            SETTINGS,
        )
    if facts.summary.privacy is not None:
        yield facts.says(
            f"Differential privacy: {facts.summary.privacy.sentence}.", SETTINGS, RESULT
        )
    else:
        yield facts.says("The run has no differential privacy.", SETTINGS)
    if not settings.verified:
        yield facts.says("Its sites did not verify what the coordinator computed.", SETTINGS)
    elif weak:
        yield facts.says(
            "Signatures were simulated with keys that follow from the seed: no proof of anything.",
            SETTINGS,
            SPLIT,
            VERSIONS,
        )
    else:
        links = len((facts.folder.path / _CHAIN).read_text().splitlines())
        yield facts.says(
            f"It has a charter, and a chain with {plural(links, 'link')}.", _CHARTER, _CHAIN
        )
        yield Missing(
            "a check of the signatures",
            f"`ramet charter verify {facts.run}`, and `ramet audit verify` with sites' copies.",
        )


def attacks(facts: Facts) -> Iterator[Line]:
    """What attacks found in the run."""
    if not facts.has(LEAK):
        if level_of(facts.folder.experiment().method.task.name) in ("link", "edge"):
            how = "Ramet has no attacks for this task."
        elif facts.simulated:
            how = f"`ramet leak {facts.run}` attacks the run."
        else:
            how = "`ramet leak` attacks a simulation with similar data."
        yield Missing("what attackers learn", how)
        return
    audit = Audit.from_json(facts.read(LEAK))
    if audit.sha256 != facts.summary.sha256:
        yield Missing(
            "an audit of this model: the one in the folder is of another",
            f"`ramet leak {facts.run}` repeats it.",
        )
        return
    for one in sorted(audit.findings, key=lambda one: _ORDER.index(_verdict(one))):
        value, interval, chance = one.cells
        found = (
            one.note
            if one.value is None
            else f"{value}, 95 % interval {interval}, by chance {chance}"
        )
        yield facts.says(
            f"{_verdict(one)}. {one.attack}: {ATTACKS[one.attack]}. Attacker: "
            f"{VIEWS[one.view]}. Result: {found}.",
            LEAK,
        )
    yield Missing("what better attacks would find", "Nobody knows; repeat the audit with time.")


def performance(facts: Facts) -> Iterator[Line]:
    """The scores of the test."""
    scale, scores = facts.summary.scale, facts.summary.scores
    unit = scale.suffix
    yield facts.says(
        f"After the last round, the mean test {facts.summary.metric} over sites is "
        f"{scale.shown(scores.test)}{unit}; validation was best after round "
        f"{scores.best_val_round}.",
        RESULT,
    )
    if any(score is not None for score in scores.clients.values()):
        heads = ("site", f"test {facts.summary.metric}", "test samples", "a constant answer")
        yield facts.table(heads, {site: _scored(facts, site) for site in scores.clients}, RESULT)
    else:
        yield Missing("scores of single sites", "Sites have them: `ramet evaluate` there.")
    yield Missing(
        "intervals, calibration, and scores by group of people",
        f"`ramet evaluate {facts.run} --json` has the first two; groups, somebody has to compare.",
    )


def _scored(facts: Facts, site: str) -> tuple[str, ...]:
    scale, known = facts.summary.scale, facts.summary.baselines.get(site)

    def shown(score: float | None) -> str:
        return "–" if score is None else f"{scale.shown(score)}{scale.suffix}"

    score = shown(facts.summary.scores.clients[site])
    return (score, "–", "–") if known is None else (score, f"{known.test:,}", shown(known.constant))


def _verdict(finding: Finding) -> str:
    if finding.value is None:
        return _ORDER[3]
    if finding.leaks:
        return _ORDER[0]
    return _ORDER[1] if finding.has_power else _ORDER[2]
