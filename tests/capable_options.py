"""How to ask for each capability that runs and consortia have by an option."""

from __future__ import annotations

from typing import Any

from ramet.experiment.capabilities import Can

BUDGET = "epsilon=8,delta=1e-3"
OPTIONS: dict[Can, dict[str, Any]] = {
    Can.SOME_CLIENTS: {"activation": "random-clients,fraction=1"},
    Can.PARTS: {"activation": "restart"},
    Can.ROBUST: {"merge": "median"},
    Can.FIXED_POINT: {"merge": "fixed-point"},
    Can.RELEASE: {"release": "8-bit"},
    Can.SHARE: {"share": ["layers.0.*"]},
    Can.NETWORK: {"network": "gin"},
    Can.SECURE: {"secure": True},
    Can.VERIFIED: {"verified": True},
    Can.PRIVATE_GRAPHS: {"dp": f"unit=graph,{BUDGET}"},
    Can.PRIVATE_SITES: {"dp": f"unit=site,{BUDGET}"},
    Can.PRIVATE_LINKS: {"dp": f"unit=link,{BUDGET}"},
    Can.REGIONS: {"regions": 2},
    Can.PATIENCE: {"patience": 1},
    Can.FINAL_CLIENTS: {"final_clients": 2},
    Can.NORM_BOUND: {"norm_bound": 1000.0},
    Can.QUORUM: {"quorum": 2},
    Can.METRIC: {"metric": "roc-auc"},
    Can.WORKERS: {"workers": 2},
}
