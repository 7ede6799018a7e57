"""FedDA's formulas (eqs. 8 to 11) beside what its rules sent, as shares of FedAvg's tensors.

python benchmarks/activation_cost.py RUN_FOLDER …    finished or stopped runs of `fedda`
python benchmarks/activation_cost.py                 makes two on a made-up graph first
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import ramet
from ramet.methods.base import switchable_arrays
from ramet.methods.fedda import Explore, Restart
from ramet.metrics.activity import (
    activity,
    explore_at_most,
    restart,
    restart_as_printed,
    rounds_between,
)
from ramet.models import LinkShape
from ramet.run_folder import RunFolder


def main() -> None:
    if sys.argv[1:]:
        for name in sys.argv[1:]:
            print(told(Path(name)))
        return
    with tempfile.TemporaryDirectory() as folder:
        for rule in ("restart", "explore"):
            out = Path(folder) / rule
            ramet.run("fedda", "planted-hetero", clients=8, activation=rule, hidden=16, out=out)
            print(told(out))


def told(path: Path) -> str:
    run = RunFolder.open(path)
    experiment = run.experiment()
    method = experiment.method
    shape: LinkShape = method.task.shape(experiment.samples(experiment.clients[0]))
    names = method.shared.pick(method.model(shape).state_dict())
    count = len(switchable_arrays(method, names))
    seen = activity(run.records(), len(experiment.clients), len(names), count)
    head = f"{path.name}: r_c {seen.stay:.3f}, r_p {seen.off:.3f}, sent {seen.share:.3f}"
    rates, rule = (seen.stay, seen.off, count / len(names)), method.activation
    if isinstance(rule, Restart):
        rounds = rounds_between(seen.stay, rule.beta)
        printed, ours = restart_as_printed(*rates, rounds), restart(*rates, rounds)
        return f"{head}; eq. 8 {printed:.3f}, with what is off staying off {ours:.3f}"
    assert isinstance(rule, Explore)
    return f"{head}; eq. 11: at most {explore_at_most(*rates, rule.beta):.3f}"


if __name__ == "__main__":
    main()
