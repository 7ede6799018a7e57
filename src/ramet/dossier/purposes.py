"""The documents that review boards ask for. None of them says that a law is complied with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from ramet.dossier.evidence import Dossier, Line, Missing
from ramet.dossier.facts import Facts, facts_of
from ramet.dossier.findings import attacks, performance, protection
from ramet.errors import RametError

Part = Callable[[Facts], Iterator[Line]]


def _asks(who: str, *missing: str) -> Part:
    """What only people can say."""

    def part(facts: Facts) -> Iterator[Line]:  # noqa: ARG001
        yield from (Missing(what, f"For {who} to say.") for what in missing)

    return part


_CONTROLLERS, _PROVIDER = "the controllers", "the provider"
_USE = "what the model is for, whose data it will be used on, and who may use it"
_HUMANS = "who decides on the model's output, and how they can overrule it"
_RISKS = "risks to people, their likelihood, and who accepts them"
_RELEASE = _asks(
    "whoever approves the release",
    "the files that leave, each with its SHA-256 (`ramet export` writes a model's)",
    "who asked for the release, who checked it, and where the model goes",
)
_PROCESSING = _asks(
    _CONTROLLERS,
    _USE,
    "who the controllers are, and the contracts between them and with the coordinator",
    "in which countries the coordinator, the sites and those who receive the model are",
    "when the folders of the run, models and logs are deleted",
)
_RIGHTS = _asks(
    _CONTROLLERS,
    "how people are told, and how they object or have data erased (`ramet forget` repeats a run "
    "without them)",
    "the advice of the data protection officer, and the views of those concerned",
)
_MEASURES = _asks(
    _CONTROLLERS,
    "who can reach the coordinator and each site, and the policy and audit log of each site",
)
_DPIA_RISKS = _asks(
    _CONTROLLERS, _RISKS, "whether the model is itself personal data, with what attacks find"
)
_AFTER = _asks(
    _PROVIDER,
    "who watches the model after release, and when it is withdrawn (`ramet data drift` and "
    "`ramet evaluate --new` measure)",
)

PURPOSES: Mapping[str, tuple[str, tuple[tuple[str, tuple[Part, ...]], ...]]] = {
    "egress": (
        "Release of a model",
        (
            ("The model", (Facts.purpose,)),
            ("What it was trained on", (Facts.data,)),
            ("What has left the sites", (Facts.left,)),
            ("Protection", (protection,)),
            ("What attackers learn from it", (attacks,)),
            ("Approval", (_RELEASE,)),
        ),
    ),
    "annex-iv": (
        "Technical documentation, in the order of Annex IV of the AI Act",
        (
            ("1. General description", (Facts.purpose, Facts.software, _asks(_PROVIDER, _USE))),
            ("2. Elements and development", (Facts.data, Facts.left, protection)),
            (
                "3. Monitoring, functioning and control",
                (performance, _asks(_PROVIDER, _HUMANS)),
            ),
            (
                "4. Whether the metrics are appropriate",
                (_asks(_PROVIDER, "why they suit the use"),),
            ),
            ("5. Risk management", (attacks, _asks(_PROVIDER, _RISKS))),
            ("6. Changes over the lifecycle", (_asks(_PROVIDER, "what changed since"),)),
            (
                "7 and 8. Standards and conformity",
                (_asks(_PROVIDER, "standards applied, and the declaration of conformity"),),
            ),
            ("9. After release", (_AFTER,)),
        ),
    ),
    "dpia": (
        "For a data protection impact assessment",
        (
            ("The processing", (Facts.purpose, Facts.data, _PROCESSING)),
            (
                "Necessity and proportionality",
                (_asks(_CONTROLLERS, "why the processing is necessary and in proportion"), _RIGHTS),
            ),
            ("What leaves the sites", (Facts.left,)),
            ("Risks", (attacks, _DPIA_RISKS)),
            ("Measures", (protection, _MEASURES)),
        ),
    ),
    "card": (
        "Model card",
        (
            ("The model", (Facts.purpose, Facts.software)),
            ("Data", (Facts.data,)),
            ("Performance", (performance,)),
            ("Protection", (protection, attacks)),
            ("Use", (_asks("whoever hands it over", _USE, _HUMANS),)),
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
