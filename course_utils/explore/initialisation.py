"""The explorer of initial scales: how signals and gradients fare over the layers of a network."""

from functools import partial
from math import sqrt

import ipywidgets as widgets
import numpy as np

from course_utils import draw, predict, units
from course_utils.draw.picture import Picture
from course_utils.explore.amount import Amount
from course_utils.explore.networks import DEEPEST, DRAWS, WIDEST, Array, scales
from course_utils.explore.panel import Explorer, buttons, slider

NAMES = {"none": "No activation", "relu": "ReLU", "tanh": "tanh"}
FACTORS = {"none": "s·√D", "relu": "s·√(D/2)"}
FINE = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.88, 0.9, 0.92, 0.94, 0.95, 0.96, 0.97, 0.98,
        0.99, 1, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 1.08, 1.1, 1.12, 1.15, 1.2, 1.25, 1.3, 1.35,
        1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 2)  # fmt: skip
SCHEMES = {  # standard deviations for layers D → D, where Xavier's is LeCun's
    "LeCun, Xavier": lambda D: 1 / sqrt(D),
    "Kaiming": lambda D: sqrt(2 / D),
    "s = 1": lambda D: 1.0,
    "s = 0.01": lambda D: 0.01,
}
KEPT = 10.0  # a scale that all layers together change by less than this factor is kept
SMALLEST, LARGEST = 1.4012985e-45, 3.4028235e38  # in fp32
FAR = 1.96  # standard deviations, within which 95 % of a normal distribution lie
PANELS = "RMS of each layer's output →", "← RMS of the gradient of each layer's output"


class SignalExplorer(Explorer):
    """Controls of a network and of its scale, and buttons that write a known scheme's scale."""

    def __init__(self) -> None:
        whole = widgets.IntSlider
        controls = {
            "activation": buttons(
                "activation", [("none", "none"), ("ReLU", "relu"), ("tanh", "tanh")], "relu"
            ),
            "depth": slider(whole, "layers", value=30, min=1, max=DEEPEST),
            "width": slider(whole, "width D", value=256, min=16, max=WIDEST, step=16),
            "scale": Amount("s / Kaiming's", 1.0, FINE, (0.01, 32)),
        }
        super().__init__(controls, _picture)
        self._schemes = {name: self._button(name) for name in SCHEMES}
        name = widgets.Label("scale of", layout={"width": "11em", "justify_content": "flex-end"})
        row = widgets.HBox([name, *self._schemes.values()], layout={"flex_flow": "row wrap"})
        *above, scale, image, words, labels = self.box.children
        self.box.children = (*above, row, scale, image, words, labels)

    def _button(self, name: str) -> widgets.Button:
        told = f"write {name} into the field, for this width, as a multiple of Kaiming's √(2/D)"
        button = widgets.Button(description=name, tooltip=told, layout={"width": "auto"})
        button.on_click(partial(self._fill_in, name))
        return button

    def _fill_in(self, name: str, _: widgets.Button) -> None:
        """Write the scheme's scale in six digits; the slider stands at its nearest number."""
        D = self.controls["width"].value
        self.controls["scale"].value = float(f"{SCHEMES[name](D) / sqrt(2 / D):.6g}")


def signals() -> SignalExplorer:
    """Signals and gradients over the layers of a random network: kept, vanishing or exploding."""
    return SignalExplorer()


def _picture(activation: str, depth: int, width: int, scale: float) -> Picture:
    s = scale * sqrt(2 / width)
    drawn = scales(activation, depth, width, s)
    if activation == "tanh":
        forth, back = (np.median(each, axis=0) for each in drawn)
        fans = [(each, None, None) for each in drawn]
        said = _of_draws(depth, forth[-1], back[0])
    else:
        found = predict.layer_scale(width, s, activation)
        line, forth, low, high = _over_layers(found, depth)
        back = forth[::-1]
        fans = [(drawn[0], line, (low, high)), (drawn[1], line[::-1], (low[::-1], high[::-1]))]
        said = _of_all(f"{FACTORS[activation]} = {units.digits(found.factor)}", depth,
                       line[-1], forth[-1], low[-1], high[-1])  # fmt: skip
    layers = f"{depth} layer{'s' * (depth > 1)} of width {width}"
    title = f"{NAMES[activation]}, {layers}, s = {units.digits(s)}: {_fate(forth[-1], back[0])}"
    picture = draw.fans(dict(zip(PANELS, fans, strict=True)), title=title)
    return Picture(picture.figure, "\n".join([picture.text, said, _in_fp32(forth, back)]))


def _over_layers(found: predict.LayerScale, depth: int) -> tuple[Array, Array, Array, Array]:
    """Over layers 0 to `depth`: the average, the middle draw, and where 95 % of draws lie."""
    at = np.arange(depth + 1)
    middle, wide = found.typical**at, np.exp(FAR * found.spread * np.sqrt(at))
    return found.factor**at, middle, middle / wide, middle * wide


def _fate(signal: float, gradient: float) -> str:
    """What becomes of both: 'kept', 'vanishing' or 'exploding', or of each of them."""
    one, other = (
        "exploding" if end > KEPT else "vanishing" if end < 1 / KEPT else "kept"
        for end in (signal, gradient)
    )
    return one if one == other else f"signal {one}, gradients {other}"


def _of_all(factor: str, depth: int, *ends: float) -> str:
    """What arithmetic says, and how far single draws are from it."""
    average, middle, low, high = (units.digits(end, 3) for end in ends)
    whole = f", all {depth} by {average}" if depth > 1 else ""
    return (
        f"Arithmetic: on average a layer multiplies the RMS by {factor}{whole}; the signal's on "
        "the way to the last layer, the gradient's on the way back to the first.\n"
        f"Draws of the weights differ: half of them end below {middle}, and 95 % between {low} "
        f"and {high}. The wider the layers, the narrower the band."
    )


def _of_draws(depth: int, *ends: float) -> str:
    signal, gradient = (
        f"{units.digits(end, 3)}, × {units.digits(end ** (1 / depth), 3)} per layer" for end in ends
    )
    return (
        "tanh flattens what is large, so one factor for all layers does not exist: the lines are "
        f"{DRAWS} draws, and no arithmetic.\nIn the median draw the signal's RMS ends at {signal}; "
        f"the gradient's, back at the input, at {gradient}."
    )


def _in_fp32(forth: Array, back: Array) -> str:
    """In which layer each of them leaves the range of fp32, on its own way."""
    (first, how), (steps, how_back) = _leaves(forth), _leaves(back[::-1])
    layer = len(back) - 1 - steps
    gradient = "the gradient, on its way back,"
    if not how and not how_back:
        return "Both stay in the range of fp32."
    if how == how_back:
        return f"In fp32 the signal {how} in layer {first}; so does {gradient} in layer {layer}."
    if how and how_back:
        return f"In fp32 the signal {how} in layer {first}; {gradient} {how_back} in layer {layer}."
    if how:
        return f"In fp32 the signal {how} in layer {first}."
    return f"In fp32 {gradient} {how_back} in layer {layer}."


def _leaves(scales: Array) -> tuple[int, str]:
    """The first layer that is out of range, and how; '' if none is."""
    for at, scale in enumerate(scales):
        if scale > LARGEST:
            return at, "passes the largest number, 3.4e38,"
        if scale < SMALLEST:
            return at, "becomes 0, below 1.4e-45,"
    return 0, ""
