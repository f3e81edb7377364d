"""A trap prints the error's type and the course's words, and admits when nothing was raised."""

import pytest

from course_utils import trap


def test_the_type_and_the_course_s_own_words(capsys):
    trap(lambda: [][1], "there is no second element")
    ours, theirs = capsys.readouterr().out.splitlines()
    assert ours == "IndexError: there is no second element"
    assert theirs == "in its own words: ≈ list index out of range"


def test_no_error_is_said(capsys):
    trap(lambda: 1, "one is two")
    assert capsys.readouterr().out.startswith("No error was raised here.")


@pytest.mark.parametrize(("action", "why"), [(3, "x"), (lambda: 1, ""), (lambda: 1, None)])
def test_bad_arguments(action, why):
    with pytest.raises(TypeError, match="must be"):
        trap(action, why)
