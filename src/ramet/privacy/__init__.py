"""Differential privacy: budgets, the noise that they need, and where noise is drawn from."""
