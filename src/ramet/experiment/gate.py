"""Whether a finished run is accepted: no site may be worse off than with the accepted model.

In round 1 every site has evaluated the accepted model, with which the run starts, and in the
closing message the new one: both on the same validation rows, those of the new data.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ramet.experiment.run_folder import RunFolder

_ROUNDING = 1e-9
ANY = "any"
"""In a run config, the gate that accepts every run."""


@dataclass(frozen=True)
class Verdict:
    """Whether a run is accepted, and why."""

    accepted: bool
    reason: str
    scores: dict[str, tuple[float, float]] = field(default_factory=dict)
    """By site: before and after."""


def judged(folder: RunFolder, worse: float | None) -> Verdict:
    """The verdict on a finished run: scores may be ``worse`` by so much; None for any."""
    experiment, records = folder.experiment(), folder.records()
    if experiment.settings.start_from is None:
        return Verdict(True, "it starts anew, so there is nothing to compare it with")
    before, after = records[0].start, records[-1].evaluated
    scale = experiment.scored_method.task.scale
    scores = {
        site: (before[site]["val"], after[site]["val"])
        for site in experiment.clients
        if "val" in before.get(site, {}) and "val" in after.get(site, {})
    }
    if worse is None:
        return Verdict(True, "there is no gate", scores)
    silent = [site for site in experiment.clients if site not in scores]
    if silent:
        failed = {site: why for record in records for site, why in record.failed.items()}
        lacking = "; ".join(f"{site}: {failed.get(site, 'it keeps its scores')}" for site in silent)
        return Verdict(
            False,
            "not all sites sent both validation scores, so it is not known whether one is worse "
            f"off ({lacking}). Where policies keep scores, leave out `gate`",
            scores,
        )
    changes = {site: scale.gain(new, over=old) for site, (old, new) in scores.items()}
    worst = min(changes, key=lambda site: changes[site])
    reason = (
        f"the worst change on validation is that of {worst}, {scale.change(changes[worst])}; the "
        f"gate allows {scale.change(-worse)}"
    )
    return Verdict(changes[worst] >= -worse - _ROUNDING, reason, scores)
