"""The bytes of one training step from its first operation to its last, by category."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import StepPatch

from course_utils import units
from course_utils.arguments import shown, text
from course_utils.draw.picture import GREY, PART_COLOURS, Picture, canvas, style

ORDER = ("parameters", "optimizer", "gradients", "activations", "inputs", "temporaries")


class Event(Protocol):
    """Bytes by category after one change, and the phase it happened in."""

    phase: str
    parts: Mapping[str, int]


def timeline(events: Sequence[Event], title: str) -> Picture:
    """Draw `measure.memory(...).timeline`: bytes held after each change, stacked by category.

    The phases (forward, backward, optimizer) are marked; a dashed line shows the peak.
    """
    if not events or not all(hasattr(event, "parts") for event in events):
        raise TypeError(f"events must be the timeline of measure.memory, got {shown(events)}")
    held = {name: np.array([event.parts[name] for event in events]) for name in ORDER}
    drawn = [name for name in ORDER if held[name].any()]
    peak = max(sum(event.parts.values()) for event in events)
    with style():
        figure, (ax,) = canvas(9.2, 3.9)
        at = np.arange(len(events) + 1)
        floor = np.zeros(len(events))
        for name in drawn:
            top = floor + held[name]
            colour = PART_COLOURS.get(name, GREY)
            step = StepPatch(top, at, baseline=floor, fill=True, color=colour, lw=0, label=name)
            ax.add_artist(step)  # ax.stairs would search each of its segments for an extremum
            floor = top
        ax.axhline(peak, color="black", linestyle="--", linewidth=1.2)
        _phases(ax, events, peak)
        _axes(ax, len(events), peak)
        ax.set_title(text("title", title))
    spans = ", ".join(phase for phase, _ in groupby(event.phase for event in events))
    words = f"Stacked bytes over the phases {spans}: {', '.join(drawn)}. Peak {units.size(peak)}."
    return Picture(figure, f"{title}\n{words}")


def _phases(ax: Axes, events: Sequence[Event], peak: int) -> None:
    """A thin line where a phase begins, and its name above the peak."""
    start = 0
    for phase, group in groupby(event.phase for event in events):
        length = len(list(group))
        if start:
            ax.axvline(start, color="#444444", linewidth=0.9, linestyle=":")
        if length > len(events) / 20:
            ax.text(start + length / 2, peak * 1.07, phase, ha="center", va="bottom", fontsize=10.5)
        start += length


def _axes(ax: Axes, events: int, peak: int) -> None:
    ax.set(xlim=(0, events), ylim=(0, peak * 1.2), xticks=[])
    ax.set_xlabel("events in order: a storage is allocated, changes its category, or is freed")
    ax.set_ylabel("bytes held")
    ax.yaxis.set_major_formatter(lambda value, _: units.size(value, significant=2))
    handles, labels = ax.get_legend_handles_labels()
    ax.legend(handles[::-1], labels[::-1], loc="center left", bbox_to_anchor=(1.01, 0.5))
