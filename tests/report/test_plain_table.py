from __future__ import annotations

from ramet.report.plain_table import list_table, plain_table, without_truncation
from table_cells import printed, rows


def test_brackets_in_a_list_are_not_markup() -> None:
    table = list_table(["name", "what"], [["gcfl", "needs ramet[gcfl]"], ["tiny", "three sites"]])
    assert rows(table) == [("gcfl", "needs ramet[gcfl]"), ("tiny", "three sites")]
    assert "needs ramet[gcfl]" in printed(table)


def test_a_plain_table_has_no_vertical_lines() -> None:
    table = plain_table("sizes")
    table.add_column("client")
    table.add_row("rings")
    assert not set("│┃|") & set(printed(table))
    assert "sizes" in printed(table)


def test_numbers_and_words_are_not_truncated_in_a_narrow_terminal() -> None:
    table = plain_table("")
    table.add_column("method", overflow="fold")
    table.add_column("scalars", no_wrap=True)
    table.add_column("cost")
    table.add_row(
        "feddense,width=32,activation=explore", "[green]1,234,567[/]", "extraordinarily high"
    )
    assert "extraordinarily" not in printed(table, width=24)
    whole = printed(without_truncation(table), width=24)
    assert "1,234,567" in whole
    assert "extraordinarily" in whole
    # markup does not count; the first column may fold, so it has no minimum
    assert [column.min_width for column in table.columns] == [None, 9, 15]
