"""Measured numbers that carry their doubt through arithmetic."""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from operator import add, mul, truediv

from course_utils import units
from course_utils.table import Result, first_doubt


class Measured(Result):
    """A result with a `value`: sums, products and ratios of such results inherit every doubt.

    `2 * took`, `flops / took`, `slow / fast` are `Quantity`s; so a number made from a doubtful
    measurement says so wherever it is shown, drawn or compared.
    """

    value: float

    def __add__(self, other: object) -> "Quantity":
        return _combined(add, self, other)

    def __mul__(self, other: object) -> "Quantity":
        return _combined(mul, self, other)

    def __truediv__(self, other: object) -> "Quantity":
        return _combined(truediv, self, other)

    def __rtruediv__(self, other: object) -> "Quantity":
        return _combined(truediv, other, self)

    def __format__(self, spec: str) -> str:
        """The value as `spec` says, '.2f' or '.0%', with its doubt; the whole result for ''."""
        return units.unsure(format(self.value, spec), self.doubt) if spec else str(self)

    __radd__ = __add__  # sum() begins with 0 + the first
    __rmul__ = __mul__


@dataclass(frozen=True, repr=False)
class Quantity(Measured):
    """A number computed from measurements, and what speaks against those."""

    value: float
    doubt: str = ""

    def shown(self) -> str:
        """The number as a live value, with its doubt."""
        return units.measured(units.digits(self, 3))


def _combined(operation: Callable[[float, float], float], left: object, right: object) -> Quantity:
    values = [getattr(side, "value", side) for side in (left, right)]
    if not all(isinstance(value, Real) for value in values):
        return NotImplemented
    return Quantity(operation(*values), first_doubt(left, right))
