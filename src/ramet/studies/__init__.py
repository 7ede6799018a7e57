"""Studies of many runs: sweeps, comparisons, and papers' tables and figures."""
