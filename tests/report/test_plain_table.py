from __future__ import annotations

from ramet.report.plain_table import list_table, plain_table, uncut
from table_cells import printed, rows


def test_a_list_shows_brackets_as_they_are() -> None:
    table = list_table(["name", "what"], [["gcfl", "needs ramet[gcfl]"], ["tiny", "three sites"]])
    assert rows(table) == [("gcfl", "needs ramet[gcfl]"), ("tiny", "three sites")]
    assert "needs ramet[gcfl]" in printed(table)


def test_a_plain_table_has_no_walls() -> None:
    table = plain_table("sizes")
    table.add_column("client")
    table.add_row("rings")
    assert not set("│┃|") & set(printed(table))
    assert "sizes" in printed(table)


def test_numbers_and_words_stay_whole_in_a_narrow_terminal() -> None:
    table = plain_table("")
    table.add_column("method", overflow="fold")
    table.add_column("scalars", no_wrap=True)
    table.add_column("how much it needs")
    table.add_row("feddense,width=32,activation=explore", "[green]1,234,567[/]", "unspeakably much")
    assert "unspeakably" not in printed(table, width=24)
    whole = printed(uncut(table), width=24)
    assert "1,234,567" in whole
    assert "unspeakably" in whole
    # colours do not count; the first column may fold, and gets what is left
    assert [column.min_width for column in table.columns] == [None, 9, 11]
