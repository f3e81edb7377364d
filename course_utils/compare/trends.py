"""A measured series in one sentence: whether it rises, falls, bends or only wavers."""

from collections.abc import Callable, Mapping, Sequence

from course_utils import units
from course_utils.arguments import function, positive, shown, text
from course_utils.table import Sentence

STEP = 1.25  # a change by less than a quarter is no change


def trend(
    points: Mapping[float, object],
    *,
    what: str,
    x: str,
    unit: str = "s",
    value: Callable[[float, float], float] | None = None,
) -> Sentence:
    """Say in one sentence how `what` changes over `x`, as far as the points can be trusted.

    `points` maps sizes, in growing order, to results of an instrument or plain numbers above 0,
    such as `sweep.reached("fp32")`. `value(size, number)` turns each into the quantity in `unit`;
    without it the numbers are taken as they are. A change counts from a quarter on. Doubtful points
    are left out, and named, as long as two others are left. Raises TypeError or ValueError for
    anything else.
    """
    if not isinstance(points, Mapping):
        raise TypeError(f"points must map sizes to results, got {shown(points)}")
    head = text("what", what)
    x, unit = text("x", x), unit if unit == "" else text("unit", unit)
    sure = [size for size, found in points.items() if not getattr(found, "doubt", "")]
    sizes = sure if len(sure) > 1 else list(points)
    made = [_quantity(size, points[size], value) for size in sizes]
    places = [f"{x} = {size:,}" for size in sizes]
    told = [units.quantity(number, unit, significant=3) for number in made]
    at = [f"{number} at {place}" for number, place in zip(told, places, strict=True)]
    words = _shape(made, at, places)
    return Sentence(f"On this machine {head} {words}.{_unsure(points, sure, x)}")


def _quantity(size: float, found: object, value: Callable | None) -> float:
    number = positive(f"points[{size}]", getattr(found, "value", found))
    if value is None:
        return number
    return positive("value", function("value", value, "value=lambda n, s: n / s")(size, number))


def _shape(values: Sequence[float], at: Sequence[str], places: Sequence[str]) -> str:
    if len(values) < 2:
        return "has fewer than two points, so no trend can be told"
    turns, way = _turns(values)
    if len(turns) < 2:
        low, high = (at[values.index(pick(values))] for pick in (min, max))
        return f"changes by less than a quarter: between {low} and {high}"
    if len(turns) > 3:
        low, high = (at[values.index(pick(values))] for pick in (min, max))
        return f"goes up and down: it turns {len(turns) - 2} times between {low} and {high}"
    parts = [f"{_move(way)} from {at[turns[0]]} to {at[turns[1]]}"]
    parts += [f"then {_move(-way)} to {at[end]}" for end in turns[2:]]
    return ", ".join(parts) + _level(values, turns, places)


def _move(way: int) -> str:
    return "rises" if way > 0 else "falls"


def _turns(values: Sequence[float]) -> tuple[list[int], int]:
    """Where the series begins, turns by a quarter or more, and ends; and its first direction."""
    turns, extreme, way, first = [0], 0, 0, 0
    for i, value in enumerate(values):
        change = value / values[extreme]
        if way == 0:
            if change >= STEP or change <= 1 / STEP:
                way = first = 1 if change > 1 else -1
                extreme = i
        elif change**way > 1:
            extreme = i
        elif change**way <= 1 / STEP:
            turns.append(extreme)
            way, extreme = -way, i
    return (turns if way == 0 else [*turns, extreme]), first


def _level(values: Sequence[float], turns: Sequence[int], places: Sequence[str]) -> str:
    """From where on the end of the series is level, if three points or more are."""
    level = len(values) - 1
    low = high = values[-1]
    while level > turns[-2]:
        low, high = min(low, values[level - 1]), max(high, values[level - 1])
        if high / low >= STEP:
            break
        level -= 1
    bends = len(values) - level > 2
    return f", and bends at {places[level]}: it is level from there" if bends else ""


def _unsure(points: Mapping[float, object], sure: Sequence[float], x: str) -> str:
    """Which points are doubtful, and whether they were left out."""
    doubtful = [f"{size:,}" for size in points if size not in sure]
    if not doubtful:
        return ""
    if len(sure) > 1:
        return f" Unsure, and left out: {x} = {', '.join(doubtful)}."
    return " Nearly every point is unsure, so take this with care."
