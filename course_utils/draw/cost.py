"""Costs as bars: rates of devices, bytes by what they are for."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from course_utils import units
from course_utils.arguments import number, shown, text
from course_utils.draw.picture import (
    BLACK,
    BLUE,
    ORANGE,
    PALETTE,
    PART_COLOURS,
    SKY,
    YELLOW,
    Picture,
    canvas,
    style,
)


def bars(
    values: Mapping[str, float],
    *,
    unit: str,
    title: str,
    highlight: Mapping[str, object] | None = None,
    log: bool = False,
) -> Picture:
    """Horizontal bars of `values` in `unit`; `highlight` adds live ones in another colour.

    A live one may be a number or an instrument's result; what is unsure is hatched and says so.
    """
    extra = _amounts("highlight", highlight or {})
    doubts = {name: getattr(live, "doubt", "") for name, live in (highlight or {}).items()}
    both = {**_amounts("values", values), **extra}
    if not both or not any(both.values()):
        raise ValueError(f"values must name at least one bar above 0, got {shown(values)}")
    if len(both) < len(values) + len(extra):
        raise ValueError(f"highlight must use names of its own, got {shown(highlight)}")
    with style():
        figure, (ax,) = canvas(8.6, 0.42 * len(both) + 1.0)
        colours = [BLUE] * len(values) + [ORANGE] * len(extra)
        drawn = ax.barh(list(both), list(both.values()), color=colours, height=0.68)
        for bar in (bar for bar, name in zip(drawn, both, strict=True) if doubts.get(name)):
            bar.set(facecolor="white", edgecolor=ORANGE, hatch="///")
        words = [units.quantity(value, unit, significant=3) for value in both.values()]
        unsure = [" (unsure)" if doubts.get(name) else "" for name in both]
        _label_ends(ax, both, list(map(str.__add__, words, unsure)), log)
        ax.set_title(text("title", title))
    return Picture(figure, _bar_text(title, values, highlight or {}, unit))


def stacked(
    rows: Mapping[str, Mapping[str, float]], *, unit: str, title: str, per: str = ""
) -> Picture:
    """One horizontal bar a row, split into its parts, each part with its value.

    `rows` maps a row's name to the values of its parts, as {"AdamW": {"parameters": 4, ...}}.
    """
    rows = checked_rows("rows", rows)
    with style():
        figure, (ax,) = canvas(8.6, 0.5 * len(rows) + 1.3)
        _stack(ax, rows, unit)
        ax.set_xlabel(per or unit)
        ax.set_title(text("title", title))
    return Picture(figure, _stack_text(title, rows, unit))


def _amounts(name: str, values: object) -> Mapping[str, float]:
    """`values` if it maps names to numbers of at least 0, else an error that names the one."""
    if not isinstance(values, Mapping):
        raise TypeError(f"{name} must map names to numbers, got {shown(values)}")
    return {
        key: number(f"{name}[{key!r}]", getattr(value, "value", value), at_least=0)
        for key, value in values.items()
    }


def checked_rows(name: str, rows: object) -> Mapping[str, Mapping[str, float]]:
    """`rows` if it maps names to parts and their amounts, else an error that names the one."""
    if not isinstance(rows, Mapping) or not rows:
        raise TypeError(f"{name} must map at least one row to its parts, got {shown(rows)}")
    return {key: _amounts(f"{name}[{key!r}]", parts) for key, parts in rows.items()}


def _label_ends(ax: Axes, values: Mapping[str, float], words: Sequence[str], log: bool) -> None:
    """Write each bar's value at its end, and drop the axis that the labels make needless."""
    largest, smallest = max(values.values()), min(v for v in values.values() if v > 0)
    if log:
        ax.set_xscale("log")
        ax.set_xlim(smallest / 5, largest * 30)
    else:
        ax.set_xlim(0, largest * 1.25)
    for row, (value, label) in enumerate(zip(values.values(), words, strict=True)):
        ax.text(value * 1.06 if log else value + largest * 0.012, row, label, va="center")
    ax.invert_yaxis()
    ax.tick_params(left=False)
    ax.xaxis.set_visible(False)
    ax.spines[["left", "bottom"]].set_visible(False)


def _stack(ax: Axes, rows: Mapping[str, Mapping[str, float]], unit: str) -> None:
    """Stacked bars with a legend of the parts that occur."""
    parts = list(dict.fromkeys(part for row in rows.values() for part in row))
    widest = max(sum(row.values()) for row in rows.values())
    spare = iter(PALETTE * len(parts))
    colours = {part: PART_COLOURS.get(part) or next(spare) for part in parts}
    for part in parts:
        starts = [sum(_before(row, part)) for row in rows.values()]
        widths = [row.get(part, 0) for row in rows.values()]
        ax.barh(list(rows), widths, left=starts, color=colours[part], label=part, height=0.62)
        for y, (start, width) in enumerate(zip(starts, widths, strict=True)):
            if width > 0.04 * widest:
                _label_part(ax, start + width / 2, y, units.digits(width), colours[part])
    for y, row in enumerate(rows.values()):
        total = sum(row.values())
        ax.text(total + widest * 0.015, y, units.digits(total), va="center")
    ax.invert_yaxis()
    ax.set_xlim(0, widest * 1.14)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.figure.legend(loc="outside lower right", ncols=len(parts), columnspacing=1.2)


def _label_part(ax: Axes, x: float, y: float, words: str, colour: str) -> None:
    """A value inside its bar, dark on the light colours and white on the others."""
    ink = BLACK if colour in (YELLOW, SKY) else "white"
    ax.text(x, y, words, ha="center", va="center", color=ink, fontweight="bold")


def _before(row: Mapping[str, float], part: str) -> list[float]:
    names = list(row)
    return [row[name] for name in names[: names.index(part)]] if part in row else []


def _bar_text(
    title: str, values: Mapping[str, float], live_values: Mapping[str, object], unit: str
) -> str:
    exact = [f"{name}: {units.quantity(value, unit)}" for name, value in values.items()]
    rounded = {name: units.quantity(v, unit, significant=3) for name, v in live_values.items()}
    live = [f"{name}: {units.measured(words)}" for name, words in rounded.items()]
    return "\n".join([f"Bar chart. {title}", *exact, *live])


def _stack_text(title: str, rows: Mapping[str, Mapping[str, float]], unit: str) -> str:
    lines = [
        f"{name}: {', '.join(f'{part} {units.digits(v)}' for part, v in row.items())}; "
        f"together {units.digits(sum(row.values()))} {unit}"
        for name, row in rows.items()
    ]
    return "\n".join([f"Stacked bars. {title}", *lines])
