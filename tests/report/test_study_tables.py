from __future__ import annotations

from dataclasses import replace
from statistics import fmean, stdev

from ramet.report.study_tables import (
    comparison_table,
    gain_table,
    reversal_sentence,
    standing_columns,
)
from ramet.studies.choice import reversals
from ramet.studies.comparison import standings
from ramet.studies.finished_run import FinishedRuns
from table_cells import columns, headers, rows


def test_a_comparison_has_means_over_seeds(tiny_runs: FinishedRuns) -> None:
    table = comparison_table(standings(tiny_runs), "tiny", None)
    assert table.title == "tiny: test accuracy %, mean ± std over 2 seeds"
    cells = columns(table)
    assert cells["method"] == ["local", "fedstar"]
    scores = {
        label: [100 * run.summary.scores.test for run in runs.values()]
        for label, runs in tiny_runs.items()
    }
    assert cells["last round"] == [
        f"{fmean(scores[label]):.2f} ± {stdev(scores[label]):.2f}" for label in ("local", "fedstar")
    ]
    gain = fmean(scores["fedstar"]) - fmean(scores["local"])
    assert cells["gain"] == ["–", f"{gain:+.2f}"]
    assert cells["up KB"] == ["0.00", "57.00"]
    # (64,770 + 64,642 + 64,962) / 3
    assert cells["scalars"][1] == "64,791"
    assert "all data" not in cells


def test_the_kept_runs_give_the_published_comparison(single_runs: FinishedRuns) -> None:
    """As in docs/results.md."""
    wanted = {label: single_runs[label] for label in ("local", "fedstar", "gcfl")}
    table = comparison_table(standings(wanted), "single", None)
    assert table.title is not None
    assert "seeds (number after each method)" in str(table.title)
    assert headers(table) == [
        *("method", "last round", "last ten", "best val", "gain", "p"),
        *("scalars", "up KB", "GFLOPs"),
    ]
    fedstar_costs = ("66,653", "57.00", "9.32")
    assert rows(table) == [
        ("local (5)", "75.51 ± 0.74", "75.46", "75.41", "–", "–", "31,517", "0.00", "3.92"),
        ("fedstar (5)", "78.59 ± 0.90", "78.59", "78.34", "+3.08", "0.010", *fedstar_costs),
        ("gcfl (1)", "75.14", "76.15", "75.14", "-0.01", "–", "31,517", "97.50", "–"),
    ]


def test_gains_have_intervals_effects_and_adjusted_p_values(single_runs: FinishedRuns) -> None:
    wanted = {label: single_runs[label] for label in ("local", "fedstar", "feddense,width=16")}
    compared = standings(wanted, margin=0.05)
    table = gain_table([*compared, *standings({"gcfl": single_runs["gcfl"]})], 0.05)
    assert table.title == "gain over local in points, after the last round"
    assert headers(table)[-1] == "as good, ±5"
    assert rows(table)[0] == (
        *("fedstar", "+3.08", "[+1.20, +4.96]", "+2.04", "0.010", "0.010", "yes, p 0.023"),
    )
    assert columns(table)["p (Holm)"] == ["0.010", "0.004"]  # 2 · 0.0018


def test_rounds_with_different_clients_are_not_averaged(single_runs: FinishedRuns) -> None:
    label = "fedstar,activation=explore"
    (row,) = standings({label: single_runs[label]})
    assert row.test_last_ten is None
    assert columns(comparison_table([row], "single", None))["last ten"] == ["–"]


def test_orders_that_depend_on_the_round_are_named(single_runs: FinishedRuns) -> None:
    wanted = {label: single_runs[label] for label in ("local", "fedprox", "fedstar")}
    # FedProx is above Local after the last round (75.74 and 75.51) and below it at the best
    # validation round (75.16 and 75.41); FedStar is above both in any case.
    assert reversals(wanted) == [("local", "fedprox")]
    assert reversal_sentence([("local", "fedprox")]) == (
        "the order depends on the choice of the round for: local and fedprox."
    )


def test_rounds_to_a_target_are_a_mean_over_seeds_or_never(single_runs: FinishedRuns) -> None:
    wanted = {label: single_runs[label] for label in ("local", "fedstar")}
    firsts = [
        [next(one.number for one in run.rounds if one.test >= 0.75) for run in runs.values()]
        for runs in wanted.values()
    ]
    expected = [f"{fmean(own):.0f}" for own in firsts]
    assert standing_columns(standings(wanted, 0.75), 0.75)["to 75"] == expected == ["32", "17"]
    table = comparison_table(standings(wanted, 0.995), "single", 0.995)
    assert columns(table)["to 99.5"] == ["not by all", "not by all"]
    assert "to 99.5: rounds needed to reach that score" in str(table.caption)


def test_scores_on_all_data_are_a_column_if_any_run_has_them(
    acm_runs: FinishedRuns,
) -> None:
    table = comparison_table(standings(acm_runs), "acm-hetero", None)
    assert str(table.title).startswith("acm-hetero: test ROC-AUC %")
    cells = columns(table)
    assert dict(zip(cells["method"], cells["all data"], strict=True)) == {
        "local-hgn,clients=8 (5)": "–",
        "fed-hgn,clients=8 (5)": "76.17 ± 0.31",
        "fedda,clients=8 (5)": "78.77 ± 1.48",
        "fedda,clients=8,activation=explore (5)": "77.45 ± 1.51",
        "fedda,clients=8,activation=restart,beta=0.2 (3)": "79.13 ± 0.36",
    }
    assert "all data: the server's model" in str(table.caption)


def test_how_long_methods_were_trained_is_shown_if_it_differs(single_runs: FinishedRuns) -> None:
    alike = standings({label: single_runs[label] for label in ("local", "fedstar")})
    assert not {"rounds", "epochs"} & {*standing_columns(alike, None)}
    longer = [replace(alike[0], rounds=80, epochs=400), alike[1]]
    shown = standing_columns(longer, None)
    assert shown["rounds"] == ["80", "200"]
    assert shown["epochs"] == ["400", "–"]  # runs of an older version did not count them
