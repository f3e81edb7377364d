"""Random training plans, the devices that each one needs, and the likely mistakes about them."""

import random
from math import ceil

from course_utils import units
from course_utils.check.exercise import Wrong
from course_utils.predict import training_flops

DAY = 86400


def random_plan(drawn: random.Random) -> dict[str, float]:
    """A random plan; half of them are held up by the time, half by the memory."""
    by_time = drawn.random() < 0.5
    while True:
        plan = {
            "N": drawn.uniform(1e9, 400e9),
            "T": 10 ** drawn.uniform(10, 13.5),
            "days": drawn.uniform(5, 120),
            "peak": drawn.uniform(100e12, 2300e12),
            "memory": drawn.uniform(16e9, 190e9),
            "mfu": drawn.uniform(0.2, 0.6),
        }
        time, fit = _devices(**plan)
        # What one or two devices do, and quotients that are all but whole, tell little.
        if (
            (time > fit) == by_time
            and min(time, fit) > 2.5
            and min(abs(q - round(q)) for q in (time, fit)) > 1e-6
        ):
            return plan


def _devices(
    N: float, T: float, days: float, peak: float, memory: float, mfu: float
) -> tuple[float, float]:
    """Devices that the time asks for, and the memory; not rounded."""
    return training_flops(N, T) / (peak * mfu * days * DAY), 16 * N / memory


def slips(mfu: float, **plan: float) -> list[tuple[float, str]]:
    """What each likely mistake gives in this plan, and its sentence."""
    time, fit = _devices(mfu=mfu, **plan)
    return [
        (max(ceil(time * DAY), ceil(fit)), "it takes the days for seconds: a day has 86 400."),
        (max(ceil(time * 24), ceil(fit)), "it takes an hour for a day: a day has 86 400 seconds."),
        (ceil(time), "it looks at the time only: do the devices also hold the model?"),
        (ceil(fit), "it looks at the memory only: are the devices also done in time?"),
        (ceil(time) + ceil(fit), "it adds the devices for both: the same ones serve both."),
        (min(ceil(time), ceil(fit)), "it takes the smaller: then one condition fails."),
        (int(max(time, fit)), "it rounds down: one device too few misses a condition."),
        (max(time, fit), "devices come whole: round up."),
        (max(ceil(time / 3), ceil(fit)), "it counts the forward pass only: training is 6·N·T."),
        (
            max(ceil(time), ceil(fit / 4)),
            "it holds the parameters only: AdamW keeps 16 bytes each.",
        ),
        (max(ceil(time * mfu), ceil(fit)), "it takes the full peak: a run reaches a share, mfu."),
    ]


def judge(plan: dict[str, float], count: float) -> None:
    """Raise `Wrong` with what fails in the `plan` if it gets `count` devices."""
    time, fit = _devices(**plan)
    settings = ", ".join(f"{name}={value:.4g}" for name, value in plan.items())
    words = f"for {settings} it gives {units.digits(count)}"
    if count < time:
        raise Wrong(f"{words}: that many take {units.digits(plan['days'] * time / count, 3)} days.")
    if count < fit:
        raise Wrong(f"{words}: each would have to hold {units.size(16 * plan['N'] / count)}.")
    if count != ceil(max(time, fit)):
        raise Wrong(f"{words}: fewer whole devices would do.")
