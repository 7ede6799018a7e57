"""Who was scanned at ABIDE's hospitals: `python results/hospitals_people.py`.

Reads the table of people that nilearn downloads, and writes counts and medians of each hospital to
`results/hospitals/people.jsonl`.
"""

from __future__ import annotations

import json

import pandas as pd
from hospitals import KEPT

from ramet.experiment import default_data
from ramet.report.text import markdown_table

FILE = KEPT / "people.jsonl"
TABLE = "abide/ABIDE_pcp/Phenotypic_V1_0b_preprocessed1.csv"


def main() -> None:
    people = people_table()
    groups = [("all", people), *people.groupby("SITE_ID")]
    FILE.write_text("".join(json.dumps(_about(name, own)) + "\n" for name, own in groups))
    print(table())


def people_table() -> pd.DataFrame:
    """The people with a series."""
    people = pd.read_csv(default_data() / TABLE)
    return people[people["FILE_ID"] != "no_filename"]


def name_of(site: str) -> str:
    """A client's name."""
    return site.lower().replace("_", "-")


def _about(name: str, own: pd.DataFrame) -> dict[str, object]:
    autism = own["DX_GROUP"] == 1
    motion = own["func_mean_fd"]
    return {
        "hospital": name_of(str(name)),
        "people": len(own),
        "autism": int(autism.sum()),
        "female": int((own["SEX"] == 2).sum()),
        "ages": [round(float(own["AGE_AT_SCAN"].quantile(q)), 1) for q in (0, 0.5, 1)],
        "motion": [round(float(motion[chosen].median()), 3) for chosen in (autism, ~autism)],
    }


def table() -> str:
    """A row per hospital."""
    rows = []
    for one in map(json.loads, FILE.read_text().splitlines()):
        youngest, median, oldest = (f"{age:.0f}" for age in one["ages"])
        rows.append(
            (
                one["hospital"],
                f"{one['people']:,}",
                str(one["autism"]),
                str(one["female"]),
                f"{median} ({youngest} to {oldest})",
                " / ".join(f"{fd:.2f}" for fd in one["motion"]),
            )
        )
    heads = ("hospital", "people", "with autism", "female", "age, median", "motion, median mm")
    return markdown_table(heads, rows)


if __name__ == "__main__":
    main()
