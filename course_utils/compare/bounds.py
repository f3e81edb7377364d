"""Why an operation took as long as it did: one sentence, chosen from what was measured."""

from course_utils import units
from course_utils.arguments import number
from course_utils.table import first_doubt

BELOW = 0.9  # under this share of a bound, the bound did not hold
CLOSE = 1.5  # within this factor of a bound, the bound explains the time
PERHAPS = {  # why a time may lie far above each bound
    "arithmetic": "Perhaps it is too small, or of too odd a shape, to keep every unit busy.",
    "memory": "Perhaps it passes over memory more than once, or leaves a part of the device idle.",
    "the start": "Perhaps it starts several operations.",
}
IMITATED = 4.0  # fp32's peak over a narrower format's: above this, no units of its own are at work


def bound(seconds: object, *, flops: float, nbytes: float, limits: object) -> str:
    """The sentence for the bound that explains `seconds`: arithmetic, memory, overhead, or none.

    `seconds` is a number or a result of `measure.time`; `flops` and `nbytes` are the operation's
    counts of FLOPs and of bytes moved; `limits` comes from `measure.limits`. A time below every
    bound is explained too, by caches, a peak taken too low, or TF32 in place of fp32; and so is
    arithmetic in a format that the machine emulates. If `seconds` or `limits` are in doubt, nothing
    is explained, and the sentence says why.
    """
    if doubt := first_doubt(seconds, limits):
        return f"It cannot be explained: {doubt}."
    if getattr(seconds, "launch_bound", False):
        return _launching(seconds)
    on_device = getattr(seconds, "clock", "wall") == "device"  # where launching is not in the time
    start = 0.0 if on_device else limits.overhead.per_call
    seconds = number("seconds", getattr(seconds, "value", seconds), above=0)
    arithmetic = number("flops", flops, at_least=0) / limits.peak.value
    memory = number("nbytes", nbytes, at_least=0) / limits.bandwidth.value
    bounds = {"arithmetic": arithmetic, "memory": memory, "the start": start}
    tf32 = _tf32(flops / seconds, limits)
    if seconds >= BELOW * max(arithmetic, memory):
        return tf32 + _why(seconds, bounds, _imitation(limits))
    kinds = (limits.peak.kind, limits.bandwidth.kind)
    return tf32.strip() or _below(arithmetic, memory, *kinds)


def _launching(time: object) -> str:
    """The sentence for work that takes the device less time than Python takes to launch it."""
    work, call = (units.duration(s, significant=2) for s in (time.value, time.per_call))
    return (
        f"It is bound by launching: a call takes {call}, of which the device works {work}. So a "
        "somewhat larger size would cost nothing, and a faster format or device gains nothing."
    )


def _tf32(rate: float, limits: object) -> str:
    """A sentence to put first if matmuls at `rate` FLOP/s can only have run as TF32."""
    if not limits.tf32 or BELOW * rate < limits.fp32.value:
        return ""
    promise = units.rate(limits.fp32.value, significant=3)
    return f"Its products ran as TF32: in fp32 itself no more than {promise} are promised. "


def _imitation(limits: object) -> str:
    """The sentence about a format that is far slower than fp32 here, '' if it is not.

    fp32's peak is a floor, so a doubt about it can only make the ratio too small.
    """
    if limits.fp32 is None or not limits.peak.trusted:
        return ""
    times = limits.fp32.value / limits.peak.value
    words = f"This machine has no units for {limits.peak.dtype} and imitates it: "
    return f"{words}fp32 reached {units.ratio(times)} its rate." if times > IMITATED else ""


def _why(seconds: float, bounds: dict[str, float], imitation: str) -> str:
    """The sentence for the bound, or the sum of bounds, near `seconds`; else how far off it is.

    `imitation` takes the place of the arithmetic bound's sentence, if it is not empty.
    """
    tightest = max(bounds, key=bounds.get)
    if tightest == "arithmetic" and imitation:
        return imitation
    if seconds <= CLOSE * bounds[tightest]:
        return _words(tightest, bounds)
    if seconds <= CLOSE * sum(bounds.values()):
        first, second = sorted(bounds, key=bounds.get, reverse=True)[:2]
        return f"No bound alone explains it: perhaps it pays for {first} and {second} in turn."
    far = f"It takes {units.ratio(seconds / bounds[tightest])} the tightest bound, {tightest}."
    return f"{far} {PERHAPS[tightest]}"


def _words(bound: str, bounds: dict[str, float]) -> str:
    took = units.duration(bounds[bound], significant=2)
    return {
        "arithmetic": f"It is bound by arithmetic: its FLOPs take {took} at the peak.",
        "memory": f"It is bound by memory: moving its bytes takes {took}.",
        "the start": f"It is bound by overhead: starting any operation takes {took}.",
    }[bound]


def _below(arithmetic: float, memory: float, peak: str, bandwidth: str) -> str:
    """The sentence for a time below a bound; `peak` and `bandwidth` are the kinds of the limits."""
    if memory > arithmetic and bandwidth == "datasheet":
        return "It is faster than the datasheet's bandwidth allows: a cache holds its data."
    if memory > arithmetic:
        return (
            "It is faster than a copy's bandwidth allows: a cache holds its data, reading alone is "
            "faster than copying, or the copy lay in slower memory."
        )
    if peak == "datasheet":
        return "It is faster than the datasheet promises: are its FLOPs and its time right?"
    return "It is faster than the peak allows, so the peak was taken too low."
