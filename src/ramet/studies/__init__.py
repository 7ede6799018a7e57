"""Many runs: sweeps, comparisons, and papers' tables and figures."""
