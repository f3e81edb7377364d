"""A sweep drawn while it runs."""

from collections.abc import Callable

from IPython.display import display

from course_utils.arguments import shown
from course_utils.draw import Picture, curves
from course_utils.measure import Sweep


def timings(
    sweep: Sweep,
    *,
    x: str,
    y: str,
    unit: str,
    title: str,
    value: Callable[[int, float], float] = lambda _size, seconds: seconds,
    log: bool = True,
) -> None:
    """Run `sweep` and draw it while it runs: one figure that grows, and a progress bar.

    `value` turns a size and the seconds of its fastest call into what the y axis shows; `log` is
    that of `curves`. Points that are not to be trusted are hollow. The figure's text form is the
    same from first to last.
    """
    from tqdm.notebook import tqdm

    if not isinstance(sweep, Sweep):
        raise TypeError(f"sweep must come from measure.sweep, got {shown(sweep)}")

    def picture() -> Picture:
        lines = {}
        for name in sweep.series:
            sizes, seconds = sweep.points(name)
            lines[name] = (sizes, [value(n, s) for n, s in zip(sizes, seconds, strict=True)])
        unsure = {
            name: [n for n, t in found.items() if t and not t.trusted]
            for name, found in sweep.times.items()
        }
        labels = {"x": x, "y": y, "unit": unit, "title": title, "sizes": sweep.sizes}
        return curves(lines, hollow=unsure, log=log, **labels)

    handle = display(picture(), display_id=True)
    label = f"{len(sweep)} points, about {sweep.budget:g} s of measuring "
    for name, _, _ in tqdm(sweep, total=len(sweep), bar_format=label + "{bar}"):
        if name == list(sweep.series)[-1]:  # a whole size is there
            handle.update(picture())
