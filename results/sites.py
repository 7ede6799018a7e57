"""Print what training together gives each site of kept runs, as a table in Markdown.

python results/sites.py twitch
"""

from __future__ import annotations

import sys
from pathlib import Path

from ramet.report.site_tables import about, sentence, site_cells
from ramet.studies.archive import finished_runs
from ramet.studies.sites import SiteStandings, site_standings

HEADS = ("site", "majority", "alone", "together", "gain", "95 % interval")


def main() -> None:
    (setting,) = sys.argv[1:]
    for method in site_standings(finished_runs([Path(__file__).parent / setting])):
        print(f"{method.label}, test {method.metric} %; {about(method)}:\n")
        print(table(method))
        print(f"\n{sentence(method)}\n")


def table(method: SiteStandings) -> str:
    rows = [(site.site, *site_cells(site)) for site in method.sites]
    rule = tuple("---" for _ in HEADS)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (HEADS, rule, *rows))


if __name__ == "__main__":
    main()
