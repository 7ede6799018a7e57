"""Check that two versions of Ramet compute the same numbers.

    python benchmarks/same_numbers.py record benchmarks/same_numbers.json
    python benchmarks/same_numbers.py check benchmarks/same_numbers.json
    python benchmarks/same_numbers.py check benchmarks/same_numbers.json --only secure

`record` writes every SHA-256, score and row of rounds of these commands to a file:

- every method, on every task that it is for;
- every activation, merge, release, stage, pace and unit of privacy, secure sums and regions;
- every pair of capabilities, or that the pair is refused;
- what Ray, a SuperLink and two workers compute;
- runs on CSV tables of two sites, with declared columns too, a run that starts from another, and a
  run that is killed and resumed;
- `compare`, and `reproduce` and `report` on the results kept in this repository.

`check` runs the same commands again and lists the differences.

Record and check on the same machine, because another CPU may change the last bits. Only the command
line is used, so all code behind it may change. Real datasets are read from RAMET_DATA.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
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
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TASKS = {
    "graphs": ("--setting", "tiny"),
    "nodes": ("--setting", "planted", "--set", "nodes=300", "--set", "links=600"),
    "links": ("--setting", "planted-hetero"),
}
CAPABILITIES = {
    "random-clients": ("--activation", "random-clients,count=2"),
    "random-tensors": ("--activation", "random-tensors"),
    "restart": ("--activation", "restart"),
    "explore": ("--activation", "explore,keep_own=true"),
    "median": ("--merge", "median"),
    "trimmed-mean": ("--merge", "trimmed-mean,share=0.3"),
    "krum": ("--merge", "krum,share=0"),
    "clipped-mean": ("--merge", "clipped-mean"),
    "fixed-point": ("--merge", "fixed-point"),
    "8-bit": ("--release", "8-bit"),
    "share": ("--share", "layers.0.*"),
    "secure": ("--secure",),
    "dp graph": ("--dp", "unit=graph,epsilon=8,delta=1e-5"),
    "dp site": ("--dp", "unit=site,epsilon=8,delta=1e-5"),
    "regions": ("--regions", "2"),
    "patience": ("--patience", "1"),
    "final-clients": ("--final-clients", "2"),
    "norm-bound": ("--norm-bound", "0.5"),
    "quorum": ("--quorum", "2"),
    "workers": ("--workers", "2"),
    "metric": ("--metric", "macro-f1"),
}
"""Each is added to FedAvg on `tiny`, alone and in pairs; options that are given twice are left out.
"""
OTHERS = ("scaffold", "fedproto", "fedbuff", "gcfl", "fedda", "ditto", "fedadam", "fedstar")
"""Methods with extras, a pace, clusters, requests and a personal network, with each capability."""
LINK_DP = ("--network", "hops", "--dp", "unit=link,epsilon=8,delta=1e-5")
ENGINES = (
    ("fedstar", "graphs", ()),
    ("fedlit", "nodes", ()),
    ("fedda", "links", ()),
    ("scaffold", "graphs", ()),
    ("fedavg", "graphs", ("--secure",)),
    ("fedavg", "graphs", CAPABILITIES["dp site"]),
    ("feddense", "graphs", CAPABILITIES["8-bit"]),
    ("fedspray", "nodes", ()),
)
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
_NOT_COMPUTED = ("seconds", "memory")
"""What a row of rounds says about the machine."""
_COUNTED = ("sent", "down", "scalars_down", "trained")
"""The keys of secure sums are signed afresh, and signatures differ in length."""


def runs() -> Iterator[tuple[str, list[str]]]:
    """Name and arguments of every `ramet run` in one process."""
    from ramet.methods import METHODS, PAPER_NAMES

    for method in (*METHODS, *PAPER_NAMES):
        for task, setting in TASKS.items():
            yield f"{method} on {task}", [method, *setting]
    for name, words in CAPABILITIES.items():
        yield f"fedavg, {name}", ["fedavg", *words]
        for method in OTHERS:
            yield f"{method}, {name}", [method, *words]
    for (one, words), (other, more) in combinations(CAPABILITIES.items(), 2):
        if words[0] != more[0]:
            yield f"fedavg, {one} and {other}", ["fedavg", *words, *more]
    yield "fedavg, dp link", ["fedavg", *TASKS["nodes"], *LINK_DP]
    yield "fedavg, dp link and secure", ["fedavg", *TASKS["nodes"], *LINK_DP, "--secure"]


def real_processes() -> Iterator[tuple[str, list[str]]]:
    """Name and arguments of every `ramet run` that starts other programs."""
    for engine in ("ray", "superlink"):
        for method, task, words in ENGINES:
            name = " ".join([method, *words, "--engine", engine])
            yield name, [method, *TASKS[task], *words, "--engine", engine]


def parts(work: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Everything that must not change: a name, and what computes it."""
    for name, words in runs():
        yield name, lambda words=words: _run(work, words, _forked)  # type: ignore[misc]
    for name, words in real_processes():
        yield name, lambda words=words: _run(work, words, _started)  # type: ignore[misc]
    yield "own tables", lambda: _own_tables(work / "own", "")
    columns = '[nodes.person.columns]\nage = "number"\nincome = "number"\n'
    yield "own tables, declared columns", lambda: _own_tables(work / "columns", columns)
    yield "from another run", lambda: _from_another(work)
    yield "killed and resumed", lambda: _killed_and_resumed(work)
    yield "compare", _compared
    kept = ("--finished", "--kept", str(ROOT / "results"))
    for paper, table in TABLES:
        words = ["reproduce", paper, table, *kept]
        yield f"reproduce {paper} {table}", lambda words=words: _table(words)  # type: ignore[misc]
    for name in REPORTS:
        yield f"report {name}", lambda name=name: _report(name)  # type: ignore[misc]


def measured(only: str) -> dict[str, Any]:
    """All numbers that must not change, by name."""
    import ramet.cli.main
    import ramet.experiment
    import ramet.runs  # noqa: F401  loaded before the forks, so that each takes little time

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        chosen = {name: compute for name, compute in parts(Path(folder)) if only in name}
        found = {name: pool.submit(compute) for name, compute in chosen.items()}
        for number, (name, future) in enumerate(found.items(), start=1):
            print(f"{number} of {len(found)}: {name}: {str(future.result())[:70]}", flush=True)
    return {name: future.result() for name, future in found.items()}


def _run(work: Path, words: Sequence[str], start: Callable[..., tuple[int, str]]) -> dict[str, Any]:
    """The numbers of a run, or that it is refused."""
    out = Path(tempfile.mkdtemp(dir=work)) / "run"
    rounds = () if "--rounds" in words else ("--rounds", "3")
    code, text = start("run", *words, *rounds, "--out", str(out), "--json")
    if code == 2:
        return {"refused": True}
    if code:
        raise SystemExit(f"ramet run {' '.join(words)}: exit {code}\n{text[-3000:]}")
    left_out = {*_NOT_COMPUTED, *(_COUNTED if "--secure" in words else ())}
    result = {name: fact for name, fact in _result(text).items() if name not in left_out}
    return {**result, "rows": _rows(out / "rounds.jsonl", left_out)}


def _rows(path: Path, left_out: set[str]) -> str:
    """SHA-256 of the rows of rounds."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    kept = [{k: v for k, v in row.items() if k not in left_out} for row in rows]
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def _result(text: str) -> dict[str, Any]:
    summary = json.loads(text)
    return {"sha256": summary["sha256"], "scores": summary["scores"], "sent": summary["sent"]}


def _own_tables(work: Path, columns: str) -> dict[str, Any]:
    """A run with two sites whose tables of people and acquaintances come from a fixed seed."""
    return _result(_ramet("run", "fed-gcn", *_sites(work, columns), "--rounds", "3", "--json"))


def _sites(work: Path, columns: str) -> list[str]:
    """The arguments for two sites whose tables are written to a folder."""
    files = []
    for number, name in enumerate(("north", "south")):
        draw, folder = random.Random(number), work / name
        folder.mkdir(parents=True)
        people = [(f"p{k}", draw.random() + k % 2, draw.random(), k % 2) for k in range(60)]
        pairs = sorted({tuple(sorted(draw.sample(range(60), 2))) for _ in range(150)})
        _write(folder / "people.csv", ["id", "age", "income", "ill"], people)
        _write(folder / "knows.csv", ["source", "target"], [(f"p{a}", f"p{b}") for a, b in pairs])
        features = "" if columns else 'features = ["age", "income"]\n'
        (folder / "site.toml").write_text(
            f'site = "{name}"\ntask = "node-classification"\nclasses = ["0", "1"]\n'
            f'[nodes.person]\nfile = "people.csv"\n{features}label = "ill"\n{columns}'
            '[edges.knows]\nfile = "knows.csv"\n'
        )
        files += ["--site", str(folder / "site.toml")]
    return files


def _write(path: Path, head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([head, *rows])


def _from_another(work: Path) -> dict[str, Any]:
    words = ["run", "fedstar", "--rounds", "3", "--json"]
    _ramet(*words, "--out", str(work / "first"))
    return _result(_ramet(*words, "--seed", "1", "--from", str(work / "first")))


def _killed_and_resumed(work: Path) -> dict[str, Any]:
    """`kill -9` in the middle, then `ramet resume`: the result of an uninterrupted run."""
    words = ["run", "feddense", "--rounds", "40", "--json"]
    whole = _result(_ramet(*words))
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
    resumed = _result(_ramet("resume", str(folder), "--json"))
    assert resumed == whole, "a resumed run differs from an uninterrupted one"
    return resumed


def _compared() -> list[list[float]]:
    methods = ("local", "fedstar", "feddense,width=16", "fedstar,activation=restart,alpha=0.4")
    rows = json.loads(_ramet("compare", *methods, "--seeds", "1-2", "--rounds", "3", "--json"))
    return [_numbers_of(row) for row in rows]


def _table(words: Sequence[str]) -> list[str]:
    """The numbers of a reproduced table; exit code 1 says that one is outside its range."""
    lines = _ramet(*words, fails=True).splitlines()
    return [number for line in lines if _STATUS.search(line) for number in _numbers_in(line)]


def _report(name: str) -> list[str]:
    folder = Path(tempfile.mkdtemp())
    _ramet("report", str(ROOT / "results" / name), "--out", str(folder / name))
    cells = re.findall(r"<td[^>]*>(.*?)</td>", (folder / name / "report.html").read_text())
    return [number for cell in cells for number in _numbers_in(cell)]


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


def _ramet(*words: str, fails: bool = False) -> str:
    """Return the output of a command; ``fails`` allows exit code 1."""
    code, text = _started(*words)
    if code > (1 if fails else 0):
        raise SystemExit(f"ramet {' '.join(words)}: exit {code}\n{text[-3000:]}")
    return text


def _started(*words: str) -> tuple[int, str]:
    """Exit code and output of a command in a new process."""
    done = subprocess.run(
        [*_command(), *words], cwd=tempfile.mkdtemp(), capture_output=True, text=True
    )
    return done.returncode, done.stderr if done.returncode else done.stdout


def _forked(*words: str) -> tuple[int, str]:
    """Exit code and output of a command in a fork of this process, which has loaded everything."""
    from ramet.cli.main import main

    folder = Path(tempfile.mkdtemp())
    process = os.fork()
    if process == 0:
        code: Any = 1
        try:
            os.chdir(folder)
            for number, name in ((1, "out"), (2, "err")):
                os.dup2(os.open(name, os.O_CREAT | os.O_WRONLY), number)
            sys.argv = ["ramet", *words]
            main()
            code = 0
        except SystemExit as end:
            code = end.code
        finally:
            sys.stdout.flush()
            os._exit(code if isinstance(code, int) else 0)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    return code, (folder / ("err" if code else "out")).read_text()


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
    parser.add_argument("--only", default="", help="only what has this in its name")
    given = parser.parse_args()
    os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "OMP_NUM_THREADS": "1"}
    os.environ["FLWR_HOME"] = tempfile.mkdtemp()
    numbers = json.loads(json.dumps(measured(given.only)))
    if given.task == "record":
        content = {"provenance": _provenance(), "numbers": numbers}
        given.file.write_text(json.dumps(content, indent=1) + "\n")
        return
    before = json.loads(given.file.read_text())["numbers"]
    before = {name: found for name, found in before.items() if given.only in name}
    different = [name for name in {**before, **numbers} if before.get(name) != numbers.get(name)]
    for name in different:
        print(f"DIFFERS {name}:\n  before {before.get(name)}\n  now    {numbers.get(name)}")
    print(f"{len(numbers) - len(different)} passed, {len(different)} failed")
    raise SystemExit(bool(different))


if __name__ == "__main__":
    main()
