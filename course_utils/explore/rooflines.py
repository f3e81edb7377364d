"""The roofline of one matmul: which bound holds, and from how many rows on the other one does."""

from fractions import Fraction
from functools import partial
from math import ceil, inf

import ipywidgets as widgets

from course_utils import draw, hardware, predict, units
from course_utils.draw.picture import Picture
from course_utils.explore.amount import Amount, doublings, tenths
from course_utils.explore.panel import Explorer, buttons

FORMATS = {"fp32": "float32", "bf16": "bfloat16", "fp8": "float8_e4m3fn"}
DEVICES = ["L4", "A100 80GB SXM", "H100 SXM", "B200"]


class RooflineExplorer(Explorer):
    """Numbers of a device and of a matmul, and buttons that write a datasheet's into the fields."""

    def __init__(self) -> None:
        self._devices = {device: self._button(device) for device in DEVICES}
        h100 = hardware.find("H100 SXM")
        peak, moved = h100.promised("bf16"), h100.bandwidth
        formats = [(f"{name}, {_size(name)} B", name) for name in FORMATS]
        controls = {
            "dtype": buttons("number format", formats, "bf16"),
            "peak": Amount("peak", peak, tenths(9, 16), (1e9, 1e16), unit="FLOP/s"),
            "bandwidth": Amount("bandwidth", moved, tenths(9, 14), (1e9, 1e14), unit="B/s"),
            "rows": Amount("rows B", 64, doublings(0, 16), (1, 65_536), whole=True),
            "width": Amount("width n", 4096, doublings(6, 16), (64, 65_536), whole=True),
        }
        super().__init__(controls, _picture)
        name = widgets.Label(
            "datasheet of", layout={"width": "11em", "justify_content": "flex-end"}
        )
        row = widgets.HBox([name, *self._devices.values()], layout={"flex_flow": "row wrap"})
        dtype, *shown = self.box.children
        self.box.children = (dtype, row, *shown)

    def _show(self) -> None:
        """Beside the picture, offer the devices that have a peak for the format; the rest hide."""
        super()._show()
        dtype = self._drawn["dtype"]
        for device, button in self._devices.items():
            known = hardware.find(device).promised(dtype) is not None
            button.layout.visibility = "visible" if known else "hidden"
            button.tooltip = f"write its dense {dtype} peak and its bandwidth into the fields"

    def _button(self, device: str) -> widgets.Button:
        button = widgets.Button(description=device, layout={"width": "auto"})
        button.on_click(partial(self._fill_in, device))
        return button

    def _fill_in(self, device: str, _: widgets.Button) -> None:
        """Write the device's numbers for the chosen format into the fields, and draw once."""
        found = hardware.find(device)
        peak = found.promised(self.controls["dtype"].value)
        if peak is not None:
            self.write(peak=peak, bandwidth=found.bandwidth)


def roofline() -> RooflineExplorer:
    """A (B×n) @ (n×n) matmul under a device's roof: memory-bound or compute-bound, and why."""
    return RooflineExplorer()


def _size(dtype: str) -> int:
    """Bytes of one number."""
    return predict.ELEMENT_BYTES[FORMATS[dtype]]


def _picture(dtype: str, peak: float, bandwidth: float, rows: int, width: int) -> Picture:
    flops = predict.matmul_flops(rows, width, width)
    shapes = (rows, width), (width, width), (rows, width)
    nbytes = sum(predict.tensor_bytes(shape, FORMATS[dtype]) for shape in shapes)
    intensity = predict.intensity(flops, nbytes)
    bound = "compute-bound" if rows >= _turn(dtype, peak, bandwidth, width) else "memory-bound"
    what = f"A {rows} × {width} activation times a {width} × {width} weight, {dtype}: {bound}"
    picture = draw.bounds(peak, bandwidth, intensity, title=what)
    ridge = units.digits(peak / bandwidth)
    lines = [
        picture.text.partition("\n")[0],
        f"FLOPs: 2 · B·n·n = {units.flops(flops)}.",
        f"Bytes: {_size(dtype)} · (B·n + n·n + B·n) = {units.size(nbytes)}, each moved once.",
        f"Intensity: FLOPs / bytes = {units.digits(intensity)}. Ridge: peak / bandwidth = {ridge}.",
        f"{_times(flops, nbytes, peak, bandwidth)}: {bound}.",
        _when(dtype, peak, bandwidth, width),
        _whose(dtype, peak, bandwidth),
    ]
    return Picture(picture.figure, "\n".join(lines))


def _times(flops: int, nbytes: int, peak: float, bandwidth: float) -> str:
    """What each bound takes, and the share of the peak that the longer one leaves."""
    computing, moving = predict.seconds(flops, peak), predict.seconds(nbytes, bandwidth)
    longer = predict.roofline_seconds(flops, nbytes, peak=peak, bandwidth=bandwidth)
    return (
        f"At the roof, computing takes {units.duration(computing)}, moving "
        f"{units.duration(moving)}. The longer one counts, so at most "
        f"{units.digits(100 * computing / longer, 3)} % of the peak"
    )


def _turn(dtype: str, peak: float, bandwidth: float, width: int) -> float:
    """The least B at which computing takes as long as moving: exact, or infinite if none does.

    2·B·n² / (s·(2·B·n + n²)) reaches the ridge R where 2·B·(n − s·R) reaches s·R·n, for numbers of
    s bytes.
    """
    needed = _size(dtype) * Fraction(peak) / Fraction(bandwidth)  # s·R: a larger width reaches R
    return ceil(needed * width / (2 * (width - needed))) if width > needed else inf


def _when(dtype: str, peak: float, bandwidth: float, width: int) -> str:
    """From which B on the matmul is compute-bound, or why it never is."""
    turn, size = _turn(dtype, peak, bandwidth, width), _size(dtype)
    if turn != inf:
        return f"With this n it is compute-bound from B = {turn:,} on."
    least = units.digits(size * peak / bandwidth)
    return (
        "With this n it is never compute-bound: however large B, the intensity stays below "
        f"n / {size} = {units.digits(width / size, 7)}. An n above {least} could reach the ridge."
    )


def _whose(dtype: str, peak: float, bandwidth: float) -> str:
    """Whose the numbers are, and whether the peak is one of the chosen format."""
    for device in map(hardware.find, DEVICES):
        peaks = {name: device.promised(name) for name in FORMATS}
        if device.bandwidth != bandwidth or peak not in peaks.values():
            continue
        if peaks[dtype] == peak:
            return f"Peak and bandwidth are those of the {device.name}'s datasheet, dense {dtype}."
        theirs = next(name for name in FORMATS if peaks[name] == peak)
        does = "button writes the" if peaks[dtype] else "datasheet has no"
        return f"The peak is the {device.name}'s in {theirs}: its {does} {dtype} peak."
    return f"Peak and bandwidth are your own: the answer holds if that is a peak in {dtype}."
