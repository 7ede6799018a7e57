"""The documents that review boards ask for. None of them says that a law is complied with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from ramet.dossier.evidence import Dossier, Line, Missing
from ramet.dossier.facts import Facts, facts_of
from ramet.errors import RametError

Part = Callable[[Facts], Iterator[Line]]


def _asks(*missing: tuple[str, str]) -> Part:
    """What only people can say."""

    def part(facts: Facts) -> Iterator[Line]:  # noqa: ARG001
        yield from (Missing(what, how) for what, how in missing)

    return part


_PEOPLE = "Somebody who is responsible has to write it."
_HUMANS = _asks(("who decides on the model's output, and how they can overrule it", _PEOPLE))
_RISKS = _asks(("risks to people, their likelihood, and who accepts them", _PEOPLE))
_NEED = _asks(("why the processing is necessary and in proportion", _PEOPLE))
_AFTER = _asks(
    (
        "the plan for the time after release",
        "`ramet data drift` and `ramet evaluate --new` measure month by month; who looks, and "
        "when the model is withdrawn, somebody has to write.",
    )
)
_RELEASE = _asks(("who asked for the release, who checked it, and where the model goes", _PEOPLE))
_STANDARDS = _asks(("standards that were applied, and the declaration of conformity", _PEOPLE))

PURPOSES: Mapping[str, tuple[str, tuple[tuple[str, tuple[Part, ...]], ...]]] = {
    "egress": (
        "Release of a model",
        (
            ("The model", (Facts.purpose,)),
            ("What it was trained on", (Facts.data,)),
            ("What has left the sites", (Facts.left,)),
            ("Protection", (Facts.protection,)),
            ("What attackers learn from it", (Facts.attacks,)),
            ("Approval", (_RELEASE,)),
        ),
    ),
    "annex-iv": (
        "Technical documentation, in the order of Annex IV of the AI Act",
        (
            ("1. General description", (Facts.purpose, Facts.software)),
            ("2. Elements and development", (Facts.data, Facts.left, Facts.protection)),
            ("3. Monitoring, functioning and control", (Facts.performance, _HUMANS)),
            ("4. Whether the metrics are appropriate", (_asks(("the argument", _PEOPLE)),)),
            ("5. Risk management", (Facts.attacks, _RISKS)),
            ("6. Changes over the lifecycle", (_asks(("what changed since", _PEOPLE)),)),
            ("7 and 8. Standards and conformity", (_STANDARDS,)),
            ("9. After release", (_AFTER,)),
        ),
    ),
    "dpia": (
        "For a data protection impact assessment",
        (
            ("The processing", (Facts.purpose, Facts.data)),
            ("Necessity and proportionality", (_NEED,)),
            ("What leaves the sites", (Facts.left,)),
            ("Risks", (Facts.attacks, _RISKS)),
            ("Measures", (Facts.protection,)),
        ),
    ),
    "card": (
        "Model card",
        (
            ("The model", (Facts.purpose, Facts.software)),
            ("Data", (Facts.data,)),
            ("Performance", (Facts.performance,)),
            ("Protection", (Facts.protection, Facts.attacks)),
            ("Use", (_HUMANS,)),
        ),
    ),
}


def dossier(path: Path, purpose: str) -> Dossier:
    """A document about the finished run in a folder, for a purpose."""
    facts = facts_of(path)
    if facts is None:
        raise RametError(f"{path} is not finished. Finish it with `ramet resume {path}`.")
    title, sections = PURPOSES[purpose]
    written = (
        (head, tuple(line for part in parts for line in part(facts))) for head, parts in sections
    )
    return Dossier(f"{title}: {facts.folder.path.name}", tuple(written))
