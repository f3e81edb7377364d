"""A sweep drawn while it runs."""

from collections.abc import Callable

from IPython.display import display

from course_utils.arguments import shown
from course_utils.draw import Picture, curves
from course_utils.measure import Sweep, Time


def timings(
    sweep: Sweep,
    *,
    x: str,
    y: str,
    unit: str,
    title: str,
    value: Callable[[int, Time], object] = lambda _size, took: took,
    log: bool = True,
) -> None:
    """Run `sweep` and draw it while it runs: one figure that grows, and a progress bar.

    `value` computes what the y axis shows from a size and its timing, as `2 * n**3 / took` does for
    a rate; `log` is that of `draw.curves`. What is made from an unsure timing is drawn hollow. The
    figure's text form does not change while it grows.
    """
    from tqdm.notebook import tqdm

    if not isinstance(sweep, Sweep):
        raise TypeError(f"sweep must come from measure.sweep, got {shown(sweep)}")

    def picture() -> Picture:
        lines = {}
        for name in sweep.series:
            reached = sweep.reached(name)
            lines[name] = (list(reached), [value(n, took) for n, took in reached.items()])
        labels = {"x": x, "y": y, "unit": unit, "title": title, "sizes": sweep.sizes}
        return curves(lines, log=log, **labels)

    handle = display(picture(), display_id=True)
    label = f"{len(sweep)} points, about {sweep.budget:g} s of measuring "
    for name, _, _ in tqdm(sweep, total=len(sweep), bar_format=label + "{bar}"):
        if name == list(sweep.series)[-1]:  # a whole size is there
            handle.update(picture())
