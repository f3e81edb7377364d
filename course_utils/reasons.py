"""Why an operation took as long as it did: one sentence, chosen from what was measured."""

from course_utils import units
from course_utils.arguments import number

BELOW = 0.9  # under this share of a bound, the bound did not hold
CLOSE = 1.5  # within this factor of a bound, the bound explains the time


def reason(seconds: object, *, flops: float, nbytes: float, limits: object) -> str:
    """The bound that explains `seconds`: arithmetic, memory, starting, or none of them.

    `seconds` is a number or a result of `measure.time`; `flops` and `nbytes` are the operation's
    counts of FLOPs and of bytes moved; `limits` comes from `measure.limits`. A time
    below every bound is explained too: caches, or a peak taken too low.
    """
    seconds = number("seconds", getattr(seconds, "value", seconds), above=0)
    arithmetic = number("flops", flops, at_least=0) / limits.peak.value
    memory = number("nbytes", nbytes, at_least=0) / limits.bandwidth.value
    start = limits.overhead.value
    bounds = {"arithmetic": arithmetic, "memory": memory, "the start": start}
    tightest = max(bounds, key=bounds.get)
    if seconds < BELOW * max(arithmetic, memory):
        return _below(arithmetic, memory)
    if seconds <= CLOSE * bounds[tightest]:
        return _words(tightest, bounds)
    if seconds <= CLOSE * sum(bounds.values()):
        first, second = sorted(bounds, key=bounds.get, reverse=True)[:2]
        return f"It pays for {first} and {second} one after the other: no bound alone explains it."
    return (
        f"It takes {units.ratio(seconds / bounds[tightest])} the tightest bound, {tightest}. "
        "Perhaps it passes over memory more than once, or leaves cores idle."
    )


def _words(bound: str, bounds: dict[str, float]) -> str:
    took = units.duration(bounds[bound], significant=2)
    return {
        "arithmetic": f"It is bound by arithmetic: its FLOPs take {took} at the peak.",
        "memory": f"It is bound by memory: moving its bytes takes {took}.",
        "the start": f"It is bound by overhead: starting any operation takes {took}.",
    }[bound]


def _below(arithmetic: float, memory: float) -> str:
    if memory > arithmetic:
        return (
            "It is faster than a copy's bandwidth allows: a cache holds its data, or reading alone "
            "is faster than copying."
        )
    return "It is faster than the peak allows, so the peak was taken too low."
