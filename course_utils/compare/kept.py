"""A comparison as plain data, which a file can keep, and back: exactly the same one."""

from collections.abc import Mapping
from dataclasses import fields

from course_utils.arguments import number
from course_utils.compare.comparison import ABSENT, Comparison

NUMBERS = ("guess", "predicted", "measured")


def plain(row: Comparison) -> dict[str, object]:
    """The comparison's fields: texts, numbers and None, a dict of slips, and ABSENT as a text."""
    values = {field.name: getattr(row, field.name) for field in fields(row)}
    for name in NUMBERS:
        if values[name] is ABSENT:
            values[name] = repr(ABSENT)
    return values | {"slips": dict(row.slips)}


def rows(kept: Mapping[str, Mapping[str, object]]) -> dict[str, Comparison]:
    """The comparisons in `kept`, by id; what is damaged is left out."""
    made = {}
    for id, values in kept.items():
        try:
            made[id] = Comparison(**{name: _value(name, values[name]) for name in values})
        except (TypeError, ValueError):
            continue
    return made


def _value(name: str, value: object) -> object:
    """A field's value; raises TypeError or ValueError if it cannot have this one."""
    if name == "slips":
        return {words: number(words, amount) for words, amount in dict(value).items()}
    if name not in NUMBERS:
        if not isinstance(value, str):
            raise TypeError(f"{name} must be a text")
        return value
    if value == repr(ABSENT):
        return ABSENT
    return None if value is None else number(name, value, at_least=None if name == "guess" else 0)
