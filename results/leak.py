"""What methods give away under which protection: `python results/leak.py [--run] [FOLDER]`.

Prints the audits in `results/leak` as a table, and draws `docs/figures/leak.png`. With `--run`,
first does what is missing: each run is started, or resumed, below FOLDER (default: `runs/leak`),
then audited with `ramet leak`, and its audit is kept here. Graph classification is PTC_MR at three
sites, node classification Cora at five. Files end with `.jsonl`, since those of these folders that
end with `.json` are kept runs.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from ramet.leak import Audit, Finding
from ramet.leak.findings import View
from ramet.report.drawing import COLOURS, MARKS, new_figure, save_as

HERE = Path(__file__).parent
KEPT, FIGURE = HERE / "leak", HERE.parent / "docs" / "figures" / "leak.png"
GRAPHS = ("--setting", "at-random", "--set", "dataset=PTC_MR", "--set", "clients=3")
METHODS: dict[str, tuple[str, ...]] = {
    "fedavg": ("fedavg", *GRAPHS, "--rounds", "30"),
    "fedstar": ("fedstar", *GRAPHS, "--rounds", "30"),
    "feddense": ("feddense", *GRAPHS, "--rounds", "30"),
    "fed-gcn": ("fed-gcn", "--setting", "cora", "--rounds", "40"),
    "fedlit": ("fedlit", "--setting", "cora", "--rounds", "10"),
}
PROTECTIONS: dict[str, tuple[str, ...]] = {
    "none": (),
    "secure": ("--secure",),
    "dp-8": ("--dp", "unit={unit},epsilon=8,delta=1e-5"),
    "dp-2": ("--dp", "unit={unit},epsilon=2,delta=1e-5"),
}
UNITS = {"fed-gcn": "site"}
"""What differential privacy protects; one graph, if a method is not listed."""
NOT_RUN = {
    ("fedlit", "secure"): "refused: FedLIT compares single replies",
    ("fedlit", "dp-8"): "refused: centres of link types have no noise",
    ("fedlit", "dp-2"): "refused: centres of link types have no noise",
}
"""Combinations that Ramet refuses, and why."""
TABLES: dict[str, tuple[tuple[str, ...], tuple[tuple[str, View], ...]]] = {
    "graphs": (
        ("fedavg", "fedstar", "feddense"),
        (
            ("degrees", "replies"),
            ("features", "replies"),
            ("rows", "prepared"),
            ("membership", "replies"),
            ("membership", "rounds"),
            ("lira", "replies"),
            ("lira", "model"),
            ("lira-tpr", "model"),
            ("epsilon", "model"),
        ),
    ),
    "nodes": (
        ("fed-gcn", "fedlit"),
        (
            ("features", "replies"),
            ("rows", "prepared"),
            ("labels", "replies"),
            ("membership", "replies"),
            ("membership", "rounds"),
            ("lira", "replies"),
            ("lira", "model"),
            ("lira-tpr", "model"),
            ("links", "replies"),
            ("links", "model"),
            ("links", "predictions"),
            ("epsilon", "model"),
        ),
    ),
}
"""The methods and the attacks of each table."""


def main() -> None:
    arguments = sys.argv[1:]
    if "--run" in arguments:
        arguments.remove("--run")
        do_missing(Path(arguments[0]) if arguments else Path("runs/leak"))
    audits = kept()
    print_table(audits)
    if audits:
        draw(audits)


def kept() -> dict[tuple[str, str], Audit]:
    audits = {}
    for method in METHODS:
        for protection in PROTECTIONS:
            path = KEPT / f"{method}-{protection}.jsonl"
            if path.exists():
                audits[method, protection] = Audit.from_json(json.loads(path.read_text()))
    return audits


def do_missing(folder: Path) -> None:
    KEPT.mkdir(exist_ok=True)
    for protection, flags in PROTECTIONS.items():
        for method, command in METHODS.items():
            target = KEPT / f"{method}-{protection}.jsonl"
            if (method, protection) in NOT_RUN or target.exists():
                continue
            run = folder / f"{method}-{protection}"
            started = (run / "settings.json").exists()
            protected = [flag.format(unit=UNITS.get(method, "graph")) for flag in flags]
            new = ("run", *command, *protected, "--out", str(run))
            words = ("resume", str(run)) if started else new
            if called(*words) is None:
                continue
            audit = called("leak", str(run), "--json")
            if audit is not None:
                target.write_text(audit)


def called(*words: str) -> str | None:
    """The output of a command; None if it failed, which is then said."""
    done = subprocess.run(
        [sys.executable, "-m", "ramet", *words], stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        print(f"failed: ramet {' '.join(words)}", file=sys.stderr)
        return None
    return done.stdout


def print_table(audits: dict[tuple[str, str], Audit]) -> None:
    for methods, columns in TABLES.values():
        heads = [f"{attack}, {view}" for attack, view in columns]
        print(f"\n| method | protection | test | {' | '.join(heads)} |")
        print("|---" * (len(columns) + 3) + "|")
        for method in methods:
            for protection in PROTECTIONS:
                audit = audits.get((method, protection))
                if audit is None:
                    reason = NOT_RUN.get((method, protection), "not run")
                    cells = [reason, *[""] * len(columns)]
                else:
                    cells = [f"{100 * audit.facts['test']:.1f} %"]
                    cells += [cell(found(audit, *column)) for column in columns]
                print(f"| {method} | {protection} | {' | '.join(cells)} |")


def found(audit: Audit, attack: str, view: View) -> Finding | None:
    """The finding from replies, or from sums of them."""
    one = audit.of(attack, view)
    return audit.of(attack, "sums") if one is None and view == "replies" else one


def cell(one: Finding | None) -> str:
    """The result with its interval; bold if the interval excludes chance."""
    if one is None or one.value is None or one.low is None:
        return "–"
    if not one.has_power:
        return "no power"
    if one.high is None:
        return f"≥ {one.low:.2f}"
    digits = 3 if one.attack.endswith("tpr") else 2
    text = f"{one.value:.{digits}f} [{one.low:.{digits}f}, {one.high:.{digits}f}]"
    return f"**{text}**" if one.leaks else text


DRAWN: tuple[tuple[str, View, str], ...] = (
    ("degrees", "replies", "degrees (F1), replies"),
    ("membership", "replies", "membership (AUC), replies"),
    ("lira", "model", "membership (AUC), model"),
    ("links", "replies", "links (AUC), replies"),
    ("links", "predictions", "links (AUC), predictions"),
)


def draw(audits: dict[tuple[str, str], Audit]) -> None:
    with new_figure(11.0, 3.6, panels=len(DRAWN)) as (figure, panels):
        for axes, (attack, view, title) in zip(panels, DRAWN, strict=True):
            for row, method in enumerate(METHODS):
                for index, protection in enumerate(PROTECTIONS):
                    audit = audits.get((method, protection))
                    one = found(audit, attack, view) if audit else None
                    if one is None or one.value is None or not one.has_power:
                        continue
                    height = row + (index - 1.5) * 0.18
                    colour = COLOURS[index + 1]
                    axes.plot([one.low, one.high], [height] * 2, color=colour, linewidth=1.5)
                    axes.plot(one.value, height, MARKS[index], color=colour, markersize=4)
                    around = [height - 0.09, height + 0.09]
                    axes.plot([one.chance] * 2, around, color="grey", linewidth=1.5)
            axes.set_title(title, fontsize=9)
            axes.set_xlim(0.2, 1.03)
            axes.set_ylim(len(METHODS) - 0.5, -0.5)
            axes.set_yticks(range(len(METHODS)), METHODS if axes is panels[0] else [])
        present = [p for p in PROTECTIONS if any(key[1] == p for key in audits)]
        for protection in present:
            index = [*PROTECTIONS].index(protection)
            panels[-1].plot([], [], MARKS[index], color=COLOURS[index + 1], label=protection)
        panels[-1].legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), title="protection")
        figure.supxlabel("result with 95 % interval; grey: chance", fontsize=9)
    save_as(figure, FIGURE)


if __name__ == "__main__":
    main()
