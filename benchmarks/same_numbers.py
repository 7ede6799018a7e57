"""Check that two versions of Ramet compute the same numbers.

    python benchmarks/same_numbers.py record before.json
    python benchmarks/same_numbers.py check before.json

`record` writes every SHA-256, score and printed number of these commands to a file:

- three rounds of every method, and of four activations and four merge rules;
- three rounds of three methods on Ray and over a SuperLink;
- a run on CSV tables of two sites, and a run that is killed and resumed;
- `compare`, and `reproduce` and `report` on the results kept in this repository.

`check` runs the same commands again and lists the differences.

Record and check on the same machine, because another CPU may change the last bits. Only the command
line is used, so all code behind it may change. Real datasets are read from RAMET_DATA.
"""

from __future__ import annotations

import argparse
import csv
import importlib.metadata
import json
import os
import platform
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
GRAPHS = ("local", "fedavg", "fedprox", "fedper", "fedsage", "gcfl", "gcfl+", "fedstar", "feddense")
NODES = ("local-gcn", "fed-gcn", "fed-mgcn", "fedlit", "local-nodes", "fedsage-nodes", "fedsage+")
LINKS = ("local-hgn", "fed-hgn", "fedda")
SMALL_PLANTED = ("--setting", "planted", "--set", "nodes=300", "--set", "links=600")
SMALL_HETERO = ("--setting", "planted-hetero")
ACTIVATIONS = ("random-clients,count=2", "random-tensors", "restart", "explore,keep_own=true")
MERGES = ("median", "trimmed-mean,share=0.3", "krum,share=0", "clipped-mean")
ENGINES = (("fedstar", ()), ("fedlit", SMALL_PLANTED), ("fedda", SMALL_HETERO))
TABLES = (
    ("feddense", "table2"),
    ("feddense", "table3"),
    ("fedstar", "table2"),
    ("fedda", "table2"),
    ("fedda", "table3"),
)
_STATUS = re.compile(r"(inside|outside|beside|not comparable|not run|holds|does not)\s*$")
"""How a row of a reproduced table ends; captions quote the papers' notes, which may change."""
REPORTS = ("single", "amazon-8", "planted-kinds")


def runs() -> Iterator[tuple[str, list[str]]]:
    """Name and arguments of every `ramet run`."""
    for method in GRAPHS:
        yield method, [method]
    for method in NODES:
        yield method, [method, *SMALL_PLANTED]
    for method in LINKS:
        yield method, [method, *SMALL_HETERO]
    for rule in ACTIVATIONS:
        yield f"fedstar --activation {rule}", ["fedstar", "--activation", rule]
    for rule in MERGES:
        yield f"fedavg --merge {rule}", ["fedavg", "--merge", rule]
    for engine in ("ray", "superlink"):
        for method, setting in ENGINES:
            yield f"{method} --engine {engine}", [method, *setting, "--engine", engine]


def measured(work: Path) -> dict[str, Any]:
    """All numbers that must not change, by name."""
    numbers: dict[str, Any] = {}
    for name, words in runs():
        started = time.monotonic()
        numbers[name] = _result(_ramet("run", *words, "--rounds", "3", "--json", cwd=work))
        print(f"{name}: {numbers[name]['sha256'][:12]}  {time.monotonic() - started:.0f} s")
    numbers["own tables"] = _own_tables(work)
    numbers["killed and resumed"] = _killed_and_resumed(work)
    compared = ("local", "fedstar", "feddense,width=16", "fedstar,activation=restart,alpha=0.4")
    rows = json.loads(_ramet("compare", *compared, "--seeds", "1-2", "--rounds", "3", "--json"))
    numbers["compare"] = [_numbers_of(row) for row in rows]
    kept = ("--finished", "--kept", str(ROOT / "results"))
    for paper, table in TABLES:
        text = _ramet("reproduce", paper, table, *kept, cwd=work, fails=True)
        rows = [line for line in text.splitlines() if _STATUS.search(line)]
        numbers[f"reproduce {paper} {table}"] = [n for row in rows for n in _numbers_in(row)]
    for name in REPORTS:
        _ramet("report", str(ROOT / "results" / name), "--out", name, cwd=work)
        cells = re.findall(r"<td[^>]*>(.*?)</td>", (work / name / "report.html").read_text())
        numbers[f"report {name}"] = [n for cell in cells for n in _numbers_in(cell)]
    return numbers


def _result(text: str) -> dict[str, Any]:
    summary = json.loads(text)
    return {"sha256": summary["sha256"], "scores": summary["scores"], "sent": summary["sent"]}


def _own_tables(work: Path) -> dict[str, Any]:
    """A run with two sites whose tables of people and acquaintances come from a fixed seed."""
    files = []
    for number, name in enumerate(("north", "south")):
        draw, folder = random.Random(number), work / name
        folder.mkdir()
        people = [(f"p{k}", draw.random() + k % 2, draw.random(), k % 2) for k in range(60)]
        pairs = sorted({tuple(sorted(draw.sample(range(60), 2))) for _ in range(150)})
        _write(folder / "people.csv", ["id", "age", "income", "ill"], people)
        _write(folder / "knows.csv", ["source", "target"], [(f"p{a}", f"p{b}") for a, b in pairs])
        (folder / "site.toml").write_text(
            f'site = "{name}"\ntask = "node-classification"\nclasses = ["0", "1"]\n'
            '[nodes.person]\nfile = "people.csv"\nfeatures = ["age", "income"]\nlabel = "ill"\n'
            '[edges.knows]\nfile = "knows.csv"\n'
        )
        files += ["--site", str(folder / "site.toml")]
    return _result(_ramet("run", "fed-gcn", *files, "--rounds", "3", "--json", cwd=work))


def _write(path: Path, head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([head, *rows])


def _killed_and_resumed(work: Path) -> dict[str, Any]:
    """`kill -9` in the middle, then `ramet resume`: the result of an uninterrupted run."""
    words = ["run", "feddense", "--rounds", "40", "--json"]
    whole = _result(_ramet(*words, cwd=work))
    folder = work / "killed"
    started = subprocess.Popen(
        [*_command(), *words, "--out", str(folder)], cwd=work, stdout=subprocess.DEVNULL
    )
    rounds = folder / "rounds.jsonl"
    while not rounds.exists() or rounds.read_bytes().count(b"\n") < 5:
        time.sleep(0.01)
    started.send_signal(signal.SIGKILL)
    started.wait()
    assert not (folder / "result.json").exists(), "the run finished before it was killed"
    resumed = _result(_ramet("resume", str(folder), "--json", cwd=work))
    assert resumed == whole, "a resumed run differs from an uninterrupted one"
    return resumed


def _numbers_of(value: object) -> list[float]:
    """All numbers of a JSON value, in order; their keys may change."""
    if isinstance(value, dict):
        return [number for item in value.values() for number in _numbers_of(item)]
    return [float(value)] if isinstance(value, int | float) else []


def _numbers_in(text: str) -> list[str]:
    """The numbers in a text, without those inside words and names."""
    return re.findall(r"(?<![\w=.,+-])[+-]?\d[\d,]*(?:\.\d+)?(?![\w=])", text)


def _command() -> list[str]:
    return [sys.executable, "-m", "ramet"]


def _ramet(*words: str, cwd: Path | None = None, fails: bool = False) -> str:
    """Return the output of a command; ``fails`` allows exit code 1, a number outside its range."""
    done = subprocess.run(
        [*_command(), *words], cwd=cwd or tempfile.mkdtemp(), capture_output=True, text=True
    )
    if done.returncode > (1 if fails else 0):
        raise SystemExit(f"ramet {' '.join(words)}: exit {done.returncode}\n{done.stderr[-3000:]}")
    return done.stdout


def _provenance() -> dict[str, str]:
    commit = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=ROOT, text=True).strip()
    packages = ("torch", "torch_geometric", "numpy", "scikit-learn", "flwr")
    return {
        "commit": commit,
        "date": time.strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in packages},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the numbers of two versions of Ramet.")
    parser.add_argument("task", choices=["record", "check"])
    parser.add_argument("file", type=Path)
    given = parser.parse_args()
    os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as work:
        os.environ["FLWR_HOME"] = str(Path(work) / "flwr")
        numbers = json.loads(json.dumps(measured(Path(work))))
    if given.task == "record":
        content = {"provenance": _provenance(), "numbers": numbers}
        given.file.write_text(json.dumps(content, indent=1) + "\n")
        return
    before = json.loads(given.file.read_text())["numbers"]
    different = [name for name in {**before, **numbers} if before.get(name) != numbers.get(name)]
    for name in different:
        print(f"DIFFERS {name}:\n  before {before.get(name)}\n  now    {numbers.get(name)}")
    print(f"{len(numbers) - len(different)} passed, {len(different)} failed")
    raise SystemExit(bool(different))


if __name__ == "__main__":
    main()
