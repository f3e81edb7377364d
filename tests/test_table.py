"""The one table of the course: aligned text, escaped HTML, live cells unpadded."""

import pytest

from course_utils.table import table


def test_text_is_aligned_and_live_cells_are_not_padded():
    shown = repr(table(("what", "value", "note"), [("a", "≈ 1.234567 ms", "x"), ("bb", 12, "y")]))
    assert shown.splitlines() == [
        "what | value | note",
        "-----+-------+-----",
        "a    | ≈ 1.234567 ms | x",
        "bb   | 12    | y",
    ]


def test_html_is_escaped_and_a_note_begins_its_own_line():
    html = table(("<a>",), [("b & c",)], note="On this machine x < y.")._repr_html_()
    assert "<th>&lt;a&gt;</th>" in html and "b &amp; c" in html
    assert "\nOn this machine x &lt; y.\n" in html


def test_a_row_of_the_wrong_length_is_refused():
    with pytest.raises(ValueError, match="a row must have 2 cells, got 1"):
        table(("a", "b"), [("x",)])


def test_an_empty_table_still_shows_its_head():
    assert repr(table(("a", "b"), [])).splitlines()[0] == "a | b"
