"""A series of timings over growing sizes that stops before it would break its time budget."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from time import perf_counter

import torch

from course_utils import hardware, units
from course_utils.arguments import count, function, one_of, positive, shape, shown
from course_utils.measure.clock import Time, known_threads, time
from course_utils.table import Table, first_doubt, table

SAFETY = 1.5  # the next size is expected to take this many times what growth alone predicts


class Sweep:
    """Timings of one or more series over `sizes`, taken while it is iterated.

    Iterating yields (series name, size, `Time` or None); None means the budget did not reach it.
    Each series has an equal part of the budget, so that a slow one takes nothing from the others.
    Only the time spent measuring counts against it, not what the caller does in between.
    The result stays in `times[name][size]`, and iterating again measures again.
    """

    def __init__(
        self,
        series: Mapping[str, Callable[[int], Callable[[], object]]],
        sizes: Sequence[int],
        budget: float,
        work: Callable[[int], float],
        **options: object,
    ) -> None:
        self.series = dict(series)
        self.sizes = tuple(sizes)
        self.budget = budget
        self.work = work
        self.options = options
        self.times: dict[str, dict[int, Time | None]] = {}
        self.stopped: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self.series) * len(self.sizes)

    def __iter__(self) -> Iterator[tuple[str, int, Time | None]]:
        self.times, self.stopped = {name: {} for name in self.series}, {}
        last = dict.fromkeys(self.series, 0.0)
        left = dict.fromkeys(self.series, self.budget / len(self.series))
        for step, size in enumerate(self.sizes):
            growth = self.work(size) / self.work(self.sizes[step - 1]) if step else 1.0
            for name, prepare in self.series.items():
                found, expected = None, last[name] * growth * SAFETY
                if expected < left[name]:
                    share = left[name] / (len(self.sizes) - step)
                    found, last[name], spent = self._measure(prepare, size, share)
                    left[name] -= spent
                elif name not in self.stopped:
                    self.stopped[name] = _why(name, size, expected, left[name])
                    last[name] = float("inf")  # larger sizes would not fit either
                self.times[name][size] = found
                yield name, size, found

    def _measure(
        self, prepare: Callable[[int], Callable[[], object]], size: int, share: float
    ) -> tuple[Time, float, float]:
        """The timing, the seconds that such a point takes at least, the seconds spent on it.

        Half of the point's fair share of the budget is for the calls, the warm-up included; the
        other half covers preparing, and what remains goes to the larger sizes. `time` makes at
        least one call, so a point takes at least as long as that call, or as preparing if that is
        longer. Their sum would predict too much, since inputs grow more slowly than the work.
        """
        start = perf_counter()
        fn = prepare(size)
        ready = perf_counter() - start
        found = time(fn, budget=share / 2, **self.options)
        return found, max(found.value, ready), perf_counter() - start

    def reached(self, name: str) -> dict[int, Time]:
        """The timings of the series `name` by size, as far as the budget reached."""
        times = self.times.get(self._known(name), {})
        return {size: took for size, took in times.items() if took is not None}

    def points(self, name: str) -> tuple[list[int], list[float]]:
        """Sizes and seconds (fastest call) of the series `name`, as far as it was reached."""
        reached = self.reached(name)
        return list(reached), [took.value for took in reached.values()]

    def at(self, name: str, size: int) -> Time | None:
        """The timing of the series `name` at `size`, None if it was not reached."""
        one_of("size", size, self.sizes)
        return self.times.get(self._known(name), {}).get(size)

    def _known(self, name: str) -> str:
        return one_of("name", name, self.series)

    def largest(self) -> int:
        """The largest size at which every series was measured."""
        common = [s for s in self.sizes if all(self.times.get(n, {}).get(s) for n in self.series)]
        if not common:
            raise ValueError("no size was reached by every series: iterate the sweep first")
        return common[-1]

    def as_table(
        self,
        label: str = "size",
        *,
        value: Callable[[int, Time], object] = lambda _size, took: took,
        unit: str = "s",
        only: Sequence[str] = (),
    ) -> Table:
        """One row per size, one live column per series (or per name in `only`).

        `value` turns a size and its timing into the quantity, in `unit`, that is listed. What the
        budget did not reach, and what is unsure, says so.
        """
        names = tuple(self._known(name) for name in only) or tuple(self.series)

        def cell(name: str, size: int) -> str:
            found = self.times.get(name, {}).get(size)
            if found is None:
                return units.NOT_REACHED
            made = value(size, found)
            shown = units.quantity(getattr(made, "value", made), unit, significant=3)
            return units.measured(f"{shown} (unsure)" if first_doubt(found, made) else shown)

        rows = [[f"{size:,}", *(cell(name, size) for name in names)] for size in self.sizes]
        return table([label, *names], rows, note=self.note())

    def note(self) -> str:
        """One sentence: which series stopped before the last size, and why."""
        reasons = list(self.stopped.values())
        if sum(map(len, self.times.values())) < len(self):
            reasons.append("the sweep was not iterated to its end")
        return f"On this machine {'; '.join(reasons) or 'every point was reached'}."


def sweep(
    series: Mapping[str, Callable[[int], Callable[[], object]]],
    sizes: Sequence[int],
    *,
    budget: float = 2.0,
    work: Callable[[int], float] = float,
    device: str | torch.device | None = None,
    threads: int | None = None,
) -> Sweep:
    """Prepare timings of each series at each size, smallest first, in about `budget` seconds.

    `series` maps a name to a function that takes a size, makes the inputs and returns the
    function to time, so that making inputs is not timed. `work` says how the cost grows with the
    size (n³ for square matmuls; in proportion by default): with it the sweep foresees what the
    next size takes, and leaves it out if that breaks the budget. `device` and `threads` are
    those of `time`. Nothing runs until the result is iterated.
    """
    if not isinstance(series, Mapping) or not series or not all(map(callable, series.values())):
        raise TypeError(f"series must map names to functions of a size, got {shown(series)}")
    checked = [count(f"sizes[{i}]", size) for i, size in enumerate(shape("sizes", sizes))]
    if not checked or sorted(set(checked)) != checked:
        raise ValueError(f"sizes must grow from one to the next, got {shown(sizes)}")
    function("work", work, "work=lambda n: n**3")
    for size in checked:
        positive(f"work({size})", work(size))
    options = {"device": hardware.device_type(device), "threads": known_threads(threads)}
    return Sweep(series, checked, positive("budget", budget), work, **options)


def _why(name: str, size: int, expected: float, left: float) -> str:
    """Why a series stopped, in words."""
    if left <= 0:
        return f"the budget was used up before {name} reached {size:,}"
    needs, has = (units.duration(seconds, significant=2) for seconds in (expected, left))
    return f"{name} stopped before {size:,}, which would take about {needs} of the {has} left"
