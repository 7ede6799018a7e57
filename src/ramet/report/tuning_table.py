"""The best trials of a search."""

from __future__ import annotations

from rich.table import Table

from ramet.studies.tune import Tuned


def tuning_table(tuned: Tuned, setting: str) -> Table:
    """A row per method: its best trial, with the scores at the best validation round."""
    table = Table(title=f"best of the trials on {setting}, {tuned.metric}{tuned.scale.suffix}")
    for head in ("method", "trials", "best trial", "validation", "test", "options"):
        table.add_column(head, overflow="fold")
    for label, trials in tuned.trials.items():
        best = tuned.best.get(label)
        if best is None:
            table.add_row(label, str(len(trials)), "none finished", "", "", "")
            continue
        table.add_row(
            label,
            str(len(trials)),
            str(best.trial.number),
            tuned.scale.shown(best.trial.val),
            tuned.scale.shown(best.test),
            " ".join(f"{name}={value}" for name, value in best.trial.options.items()),
        )
    return table
