"""The one table of the course: aligned text, escaped HTML, live cells unpadded."""

import re

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
    assert ">&lt;a&gt;</th>" in html and "b &amp; c" in html
    assert "\nOn this machine x &lt; y.\n" in html


def test_a_row_of_the_wrong_length_is_refused():
    with pytest.raises(ValueError, match="a row must have 2 cells, got 1"):
        table(("a", "b"), [("x",)])


def test_an_empty_table_still_shows_its_head():
    assert repr(table(("a", "b"), [])).splitlines()[0] == "a | b"


def test_words_stand_to_the_left_and_numbers_to_the_right():
    rows = [("1,024", "fp32", "≈ 3 ms", "–"), ("−2", "bf16", "≈ 4 ms", "3")]
    html = table(("n", "format", "time", "mixed"), rows)._repr_html_()
    sides = re.findall(r'<t[hd] style="text-align: (\w+)">', html)
    assert sides == ["right", "left", "left", "left"] * 3


def test_the_side_of_a_live_column_does_not_depend_on_what_was_measured():
    for live in ("≈ 3 ms", "≈ not reached"):
        assert 'left">≈' in table(("n", "time"), [("1", live)])._repr_html_()


def test_a_section_s_number_is_a_name():
    shown = table(("section", "count"), [("04.1", "12"), ("04.10", "3")])._repr_html_()
    assert '<td style="text-align: left">04.10</td><td style="text-align: right">3</td>' in shown
