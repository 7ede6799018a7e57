"""Tables from the code: authors' protocols, what does not work together, patches of Flower."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ramet.experiment.capabilities import CAPABILITIES, Can
from ramet.experiment.compatibility import ANY_NAMES, REFUSED, Kind
from ramet.flower.patches import PATCHES
from ramet.papers.deviations import deviations, methods_of_papers, not_followed
from ramet.report.text import markdown_table


def protocols_markdown() -> str:
    """A table per paper, with what is not followed below it."""
    return "\n\n".join(part for methods in methods_of_papers() for part in _paper(methods))


def _paper(methods: tuple[str, ...]) -> Iterator[str]:
    names = [f"`{name}`" for name in methods]
    yield f"### {names[0] if len(names) == 1 else ', '.join(names[:-1]) + ' and ' + names[-1]}"
    found = deviations(*methods)
    rows = [(f"`{one.option}`", f"`{one.ours}`", one.authors, one.where) for one in found]
    yield markdown_table(("option", "ours", "authors'", "where they say it"), rows)
    left = not_followed(methods[0])
    if left:
        yield "Not followed:\n\n" + "\n".join(f"- {one}" for one in left)


def compatibility_markdown(kind: Kind) -> str:
    """A row for each reason why capabilities do not work together."""
    found = [refusal for refusal in REFUSED if refusal.kind == kind]
    rows = []
    for why in dict.fromkeys(refusal.why for refusal in found):
        own = [refusal for refusal in found if refusal.why == why]
        ones, others = _named(one.one for one in own), _named(one.other for one in own)
        rows.append((ones, others, why.format_map(ANY_NAMES)))
    return markdown_table(("this", "not with", "because"), rows)


def patches_markdown() -> str:
    """What Ramet changes in Flower, and what Flower's own program does."""
    rows = [
        (f"`{name}`", patch.reason, patch.without[0].upper() + patch.without[1:] + ".")
        for name, patch in PATCHES.items()
    ]
    return markdown_table(("patch", "what it is for", "without it"), rows)


def _named(capabilities: Iterable[Can]) -> str:
    return ", ".join(map(_name, dict.fromkeys(capabilities)))


def _name(can: Can) -> str:
    option = CAPABILITIES[can].option.strip("`")
    return f"{can} (`{option}`)" if option else str(can)
