"""What models tell of a site before and after it was forgotten: `python results/forgetting.py`.

Five sites have parts of Cora by Louvain. One after the other is forgotten. An attacker who has the
old model, the new one, or both, guesses which of its papers were trained on, by their loss or by
how much the loss has grown. Then a site joins after 300 rounds of the others and is forgotten 30
rounds later: what that costs, beside a repetition of everything. Writes `results/forgetting.jsonl`.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import ramet
from ramet.experiment import default_data
from ramet.forget import forget
from ramet.leak.intervals import Ranked, auc_estimate
from ramet.runs import given_experiment
from ramet.version import provenance, versions

FILE = Path(__file__).with_suffix(".jsonl")
ROUNDS = 50
TOML = """site = "{site}"
task = "node-classification"
classes = {classes}
tensors = "graph.pt"

[nodes.paper]
features = {width}

[edges.cites]
"""


def main() -> None:
    facts: dict[str, Any] = {"command": f"python {sys.argv[0]}", "rounds": ROUNDS}
    facts |= {"date": datetime.now(UTC).date().isoformat()} | versions() | provenance()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        sites, masks = _written(root)
        old = ramet.run(
            "fedavg", "own", network="gcn", rounds=ROUNDS, epochs=3, sites=sites, out=root / "all"
        )
        found = {}
        for site in masks:
            certificate, path = forget(old.folder, site)
            new = ramet.resume(path.parent)
            toml = next(one for one in sites if one.parent.name == site)
            found[site] = _attacked(old, new, toml, masks[site])
            found[site]["same_as_never"] = _never(root, sites, site) == certificate.last.learnt
        facts["late"] = _late(root, sites)
    same = sum(one["same_as_never"] for one in found.values())
    facts |= {"same_as_never": f"{same} of {len(found)}", "auc": _all(found)}
    FILE.write_text(json.dumps(facts) + "\n")
    print(FILE.read_text())


def _written(root: Path) -> tuple[list[Path], dict[str, Any]]:
    """Each site's file, and who of its papers is trained on and with what label."""
    experiment = given_experiment("fedavg", "cora", {}, {"data": default_data()})
    files, masks = [], {}
    for client in experiment.clients:
        data = experiment.samples(client)
        graph, split, folder = data.graph, data.split, root / client
        folder.mkdir()
        parts = {part: torch.zeros(len(graph.labels), dtype=torch.bool) for part in _MASKS}
        for part, mask in parts.items():
            mask[getattr(split, part)] = True
        tensors = {"x": graph.features, "edge_index": graph.edge_index, "y": graph.labels}
        torch.save(tensors | {f"{p}_mask": m for p, m in parts.items()}, folder / "graph.pt")
        classes = json.dumps([f"c{number}" for number in range(7)])
        text = TOML.format(site=client, classes=classes, width=graph.features.size(1))
        (folder / "site.toml").write_text(text)
        files.append(folder / "site.toml")
        masks[client] = (parts["train"].numpy(), graph.labels.numpy())
    return files, masks


_MASKS = ("train", "val", "test")


def _attacked(old: Any, new: Any, toml: Path, known: Any) -> dict[str, Any]:
    """The scores of members and others, by what the attacker has."""
    trained, labels = known
    other = next(client for client in new.summary.scores.clients)
    losses = [_losses(result, other, toml, labels) for result in (old, new)]
    scores = {"old": -losses[0], "new": -losses[1], "both": losses[1] - losses[0]}
    return {
        view: {"members": own[trained].tolist(), "others": own[~trained].tolist()}
        for view, own in scores.items()
    }


def _losses(result: Any, client: str, toml: Path, labels: Any) -> NDArray[np.float64]:
    table = result.predict(client, toml)
    chances = table[[f"p_c{number}" for number in range(7)]].to_numpy()
    return np.asarray(-np.log(chances[np.arange(len(labels)), labels] + 1e-12))


def _never(root: Path, sites: list[Path], gone: str) -> str:
    """The SHA-256 of a run that never had the site."""
    rest = [one for one in sites if one.parent.name != gone]
    options: dict[str, Any] = {"network": "gcn", "rounds": ROUNDS, "epochs": 3}
    result = ramet.run("fedavg", "own", sites=rest, out=root / f"never-{gone}", **options)
    return result.summary.sha256


def _late(root: Path, sites: list[Path]) -> dict[str, Any]:
    """The cost of forgetting a site that joined late, and of all rounds without it."""
    options: dict[str, Any] = {"network": "gcn", "epochs": 3}
    before, after = 300, 30
    first = ramet.run("fedavg", "own", sites=sites[:-1], rounds=before, out=root / "1", **options)
    second = ramet.run(
        "fedavg",
        "own",
        sites=sites,
        rounds=after,
        out=root / "2",
        start_from=first.folder,
        **options,
    )
    began = time.perf_counter()
    certificate, path = forget(second.folder, sites[-1].parent.name)
    seconds = time.perf_counter() - began
    repeated = ramet.resume(path.parent).summary
    cpu = [first.summary.cpu_seconds or 0.0, repeated.cpu_seconds or 0.0]
    return {
        "rounds": certificate.last.rounds,
        "seconds": round(seconds, 1),
        "cpu_seconds": cpu[1],
        "whole_rounds": before + after,
        "whole_seconds": round(first.summary.seconds + repeated.seconds, 1),
        "whole_cpu_seconds": round(sum(cpu), 1),
    }


def _all(found: dict[str, Any]) -> dict[str, list[float]]:
    """The AUC over the sites with its 95 % interval, by what the attacker has."""
    estimates = {}
    for view in ("old", "new", "both"):
        ranked = [
            Ranked(*(np.array(one[view][group]) for group in ("members", "others")))
            for one in found.values()
        ]
        estimate = auc_estimate(ranked)
        estimates[view] = [estimate.value, estimate.low, estimate.high]
    return estimates


if __name__ == "__main__":
    main()
