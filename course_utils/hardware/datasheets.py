"""The peaks of known accelerators as their datasheets give them: the rows of datasheets.toml.

Each row names its source. A device is found by its whole name only: "L4" is not "L40S". A figure
that is not in the table is None, shown as "unknown".
"""

import tomllib
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from course_utils.arguments import one_of, text


@dataclass(frozen=True)
class Device:
    """One row of datasheets.toml. Rates in FLOP/s (dense, fp32 accumulation), bandwidth in B/s."""

    name: str
    reported_as: tuple[str, ...]
    memory: float
    bandwidth: float
    source: str
    note: str = ""
    peak: dict[str, float] = field(default_factory=dict)

    def promised(self, kind: str) -> float | None:
        """Peak in FLOP/s for 'fp32', 'tf32', 'fp16', 'bf16' or 'fp8'; None if unknown."""
        return self.peak.get(one_of("kind", kind, ("fp32", "tf32", "fp16", "bf16", "fp8")))


@cache
def devices() -> tuple[Device, ...]:
    """Every device of datasheets.toml, in the order of the file."""
    rows = tomllib.loads(
        files("course_utils.hardware").joinpath("datasheets.toml").read_text("utf-8")
    )
    return tuple(
        Device(**{**row, "reported_as": tuple(row["reported_as"])}) for row in rows["device"]
    )


def find(name: str) -> Device | None:
    """The device with exactly this name, as the course or as a driver writes it, or None."""
    text("name", name)
    matches = (d for d in devices() if name == d.name or name in d.reported_as)
    return next(matches, None)
