"""Number formats bit by bit: encoded and decoded in exact arithmetic of this module's own.

No value goes through torch or through the hardware's own conversion, so that what is shown cannot
change with a version. Sources: IEEE 754-2019 for binary16, 32 and 64; the OCP 8-bit floating point
specification (2023) for E4M3 and E5M2; OCP Microscaling Formats (2023) for E2M1; bfloat16 is the
upper half of a float32.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from numbers import Rational, Real

from course_utils.arguments import count, one_of, shown


@dataclass(frozen=True)
class Format:
    """A binary floating-point format: one sign bit, then exponent and mantissa bits.

    `infinite` is False for E4M3, whose highest exponent stands for numbers and one NaN, and `nan`
    for E2M1, where every pattern is a number.
    """

    name: str
    exponent_bits: int
    mantissa_bits: int
    infinite: bool = True
    nan: bool = True

    @property
    def bits(self) -> int:
        """Bits in all."""
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def bias(self) -> int:
        """What is subtracted from the stored exponent."""
        return 2 ** (self.exponent_bits - 1) - 1

    @property
    def smallest_exponent(self) -> int:
        """The exponent of the smallest normal number; subnormals share it."""
        return 1 - self.bias

    @property
    def largest_exponent(self) -> int:
        """The exponent of the largest finite number."""
        return 2**self.exponent_bits - 1 - self.infinite - self.bias

    @property
    def largest(self) -> Fraction:
        """The largest finite number."""
        return Fraction(self.decode_finite(self._last_finite))

    @property
    def smallest_normal(self) -> Fraction:
        """The smallest positive number with an implied leading 1."""
        return Fraction(2) ** self.smallest_exponent

    @property
    def smallest_subnormal(self) -> Fraction:
        """The smallest positive number: one unit in the last place, without an implied 1."""
        return self.smallest_normal * self.epsilon

    @property
    def epsilon(self) -> Fraction:
        """The distance from 1 to the next number."""
        return Fraction(1, 2**self.mantissa_bits)

    @property
    def _last_finite(self) -> int:
        """The pattern of the largest finite number."""
        ones = (1 << self.exponent_bits) - 1
        if self.infinite:
            return (ones << self.mantissa_bits) - 1
        return (ones << self.mantissa_bits) + (1 << self.mantissa_bits) - 1 - self.nan

    def decode_finite(self, magnitude: int) -> Fraction:
        """The exact value of a pattern without sign that stands for a finite number."""
        exponent, mantissa = divmod(magnitude, 1 << self.mantissa_bits)
        if exponent == 0:
            return mantissa * self.smallest_subnormal
        scale = Fraction(2) ** (exponent - self.bias - self.mantissa_bits)
        return ((1 << self.mantissa_bits) + mantissa) * scale


FORMATS = {
    "float64": Format("float64", 11, 52),
    "float32": Format("float32", 8, 23),
    "float16": Format("float16", 5, 10),
    "bfloat16": Format("bfloat16", 8, 7),
    "float8_e4m3fn": Format("float8_e4m3fn", 4, 3, infinite=False),
    "float8_e5m2": Format("float8_e5m2", 5, 2),
}
E4M3 = FORMATS["float8_e4m3fn"]
# ±0, 0.5, 1, 1.5, 2, 3, 4, 6: an element of block formats, never used without a scale.
E2M1 = Format("float4_e2m1fn", 2, 1, infinite=False, nan=False)


def format_named(name: str) -> Format:
    """The format that torch calls `name`."""
    return FORMATS[one_of("name", name, FORMATS)]


def encode(value: object, name: str) -> int:
    """The bit pattern of `value`, rounded to nearest, ties to even.

    `value` is a number, a fraction, or a text such as '0.1' or '1e-400', which is rounded once from
    its exact decimal value. Beyond the largest number the result is infinity, or NaN in E4M3.
    Raises TypeError or ValueError for what is not a number.
    """
    form, number = format_named(name), exact(value)
    if isinstance(number, float):  # NaN, an infinity, or a zero with its sign
        return _special(number, form)
    sign = int(number < 0)
    magnitude = _round(abs(number), form)
    if magnitude > form._last_finite:
        return _special(-math.inf if sign else math.inf, form)
    return (sign << (form.bits - 1)) | magnitude


def decode(pattern: int, name: str) -> float:
    """The value of a bit pattern, exact in a Python float."""
    form = format_named(name)
    sign, magnitude = _split(pattern, form)
    if magnitude <= form._last_finite:
        value = float(form.decode_finite(magnitude))
    elif form.infinite and magnitude == form._last_finite + 1:
        value = math.inf
    else:
        value = math.nan
    return math.copysign(value, -1 if sign else 1)


def fields(pattern: int, name: str) -> tuple[str, str, str]:
    """Sign, exponent and mantissa of a pattern, as bits in text."""
    form = format_named(name)
    bits = f"{_checked(pattern, form):0{form.bits}b}"
    return bits[0], bits[1 : 1 + form.exponent_bits], bits[1 + form.exponent_bits :]


def neighbours(pattern: int, name: str) -> tuple[float, float]:
    """The next smaller and the next larger value of the format; infinities and NaN stay."""
    form, value = format_named(name), decode(pattern, name)
    if not math.isfinite(value):
        return value, value
    return _step(value, form, -1), _step(value, form, 1)


def spacing(pattern: int, name: str) -> float:
    """The distance between numbers at this size: one unit in the last place."""
    form = format_named(name)
    _, magnitude = _split(pattern, form)
    exponent = min(magnitude, form._last_finite) >> form.mantissa_bits
    scale = max(exponent, 1) - form.bias - form.mantissa_bits
    return float(Fraction(2) ** scale)


def exact(value: object) -> Fraction | float:
    """`value` as a fraction; as a float only where a fraction cannot hold it: NaN, ±∞, −0."""
    if isinstance(value, bool):
        raise TypeError(f"value must be a number, got {shown(value)}")
    if isinstance(value, str):
        return _from_text(value)
    if isinstance(value, Rational):  # NumPy's too, whose own arithmetic would overflow
        return Fraction(int(value.numerator), int(value.denominator))
    if not isinstance(value, Real):
        raise TypeError(f"value must be a number or a text, got {shown(value)}")
    value = float(value)
    return value if not math.isfinite(value) or value == 0 else Fraction(value)


def _from_text(text: str) -> Fraction | float:
    word = text.strip().lower()
    if word.lstrip("+-") in ("nan", "inf", "infinity"):
        return float(word)
    digits, e, power = word.replace("_", "").partition("e")
    power = power if e else "0"
    try:
        if abs(int(power)) > 20_000:  # far beyond every format; the fraction would be huge
            raise OverflowError
        number = Fraction(digits) * Fraction(10) ** int(power)
    except OverflowError:
        big = int(power) > 0 and Fraction(digits) != 0
        return math.copysign(math.inf if big else 0.0, -1 if digits.startswith("-") else 1)
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"value must read as a number, such as '0.1', got {shown(text)}") from None
    return number or math.copysign(0.0, -1 if digits.startswith("-") else 1)


def _special(value: float, form: Format) -> int:
    """The pattern of NaN, an infinity or a zero."""
    sign = int(math.copysign(1, value) < 0) << (form.bits - 1)
    if value == 0:
        return sign
    if math.isnan(value):
        quiet = form._last_finite + 1 + (1 << (form.mantissa_bits - 1) if form.infinite else 0)
        return sign | quiet
    return sign | (form._last_finite + 1)


def _round(magnitude: Fraction, form: Format) -> int:
    """The pattern nearest to `magnitude` > 0, ties to even; it may exceed the last finite one."""
    exponent = max(_floor_log2(magnitude), form.smallest_exponent)
    unit = Fraction(2) ** (exponent - form.mantissa_bits)
    steps = round(magnitude / unit)  # Python rounds halves of a fraction to even
    normal = 1 << form.mantissa_bits
    return steps + max(0, exponent - form.smallest_exponent) * normal


def _floor_log2(value: Fraction) -> int:
    """The largest whole e with 2**e ≤ value."""
    e = value.numerator.bit_length() - value.denominator.bit_length()
    return e if Fraction(2) ** e <= value else e - 1


def _step(value: float, form: Format, way: int) -> float:
    """The next value up (way 1) or down (way −1)."""
    if value == 0:
        return way * float(form.smallest_subnormal)
    pattern = encode(value, form.name)
    magnitude = pattern & ((1 << (form.bits - 1)) - 1)
    outward = (value > 0) == (way > 0)
    moved = magnitude + (1 if outward else -1)
    if moved > form._last_finite:
        return way * (math.inf if form.infinite else math.nan)
    return math.copysign(float(form.decode_finite(moved)), value)


def _split(pattern: int, form: Format) -> tuple[int, int]:
    return divmod(_checked(pattern, form), 1 << (form.bits - 1))


def _checked(pattern: int, form: Format) -> int:
    if count("pattern", pattern, at_least=0) >> form.bits:
        raise ValueError(f"pattern must fit into {form.bits} bits, got {shown(pattern)}")
    return int(pattern)
