"""A figure as a notebook shows it: a PNG, sharp and small, and a description in words."""

from base64 import b64encode
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import as_file, files
from io import BytesIO

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

BLUE, ORANGE, GREEN, PINK = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
YELLOW, SKY, BLACK, GREY = "#E69F00", "#56B4E9", "#222222", "#BBBBBB"
PALETTE = (BLUE, ORANGE, GREEN, PINK, YELLOW, SKY)
# Light enough to carry dark digits: one for each row of a drawn tensor.
TINTS = ("#9ECAE9", "#FFBF86", "#A6DDC1", "#E8B9D2", "#F5DE8C", "#C9C3E6", "#D5B9A4", "#B7D7A8")
PART_COLOURS = {
    "parameters": BLUE,
    "gradients": ORANGE,
    "master copy": YELLOW,
    "optimizer": GREEN,
    "activations": PINK,
    "temporaries": SKY,
}

PIXELS_PER_INCH = 88  # as shown
SHARPNESS = 2  # stored pixels per shown pixel, for high-resolution screens and projectors
COLOURS = 128  # a flat figure needs no more, and the file is a third of the size


@dataclass(frozen=True, eq=False)
class Picture:
    """A matplotlib `figure` with a `text` that says what is drawn."""

    figure: Figure
    text: str

    @cached_property
    def png(self) -> bytes:
        """The figure as PNG bytes, `SHARPNESS` times its shown size, with a small palette."""
        raw = BytesIO()
        with style():
            dpi = PIXELS_PER_INCH * SHARPNESS
            self.figure.savefig(raw, dpi=dpi, bbox_inches="tight", pad_inches=0.12)
        return _encoded(Image.open(raw), optimize=True)

    def quick(self) -> bytes:
        """The whole figure as PNG bytes, as sharp as `png`, drawn once and packed loosely.

        For what is redrawn while a control moves: the file is larger, but it takes a third of the
        time. Its margins are the figure's own.
        """
        with style():
            self.figure.set_dpi(PIXELS_PER_INCH * SHARPNESS)
            drawn = FigureCanvasAgg(self.figure)
            drawn.draw()
        pixels = Image.frombuffer("RGBA", drawn.get_width_height(), drawn.buffer_rgba())
        return _encoded(pixels, compress_level=1)

    @property
    def shown_size(self) -> tuple[int, int]:
        """Width and height in pixels, as shown on the page."""
        width, height = Image.open(BytesIO(self.png)).size
        return width // SHARPNESS, height // SHARPNESS

    def _repr_mimebundle_(self, **_: object) -> tuple[dict[str, str], dict[str, object]]:
        width, height = self.shown_size
        data = {"image/png": b64encode(self.png).decode(), "text/plain": self.text}
        return data, {"image/png": {"width": width, "height": height}}

    def __repr__(self) -> str:
        return self.text


def _encoded(image: Image.Image, **packing: object) -> bytes:
    """PNG bytes with a small palette."""
    file = BytesIO()
    flat = image.convert("RGB").quantize(
        COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE
    )
    flat.save(file, "PNG", **packing)
    return file.getvalue()


def style() -> mpl.rc_context:
    """The course's style sheet, for a `with` block; the learner's own settings stay untouched."""
    with as_file(files("course_utils.draw") / "course.mplstyle") as sheet:
        return mpl.rc_context(mpl.rc_params_from_file(sheet, use_default_template=False))


def fixed(width: float, height: float, *boxes: tuple[float, float, float, float]) -> tuple:
    """A figure of `width` × `height` inches and its axes, each in a box of its own.

    A box is left, bottom, width and height in inches. What explorers redraw stands in boxes: a
    layout engine would draw everything a second time to find the room.
    """
    figure = Figure(figsize=(width, height))
    shares = ((x / width, y / height, w / width, h / height) for x, y, w, h in boxes)
    return figure, [figure.add_axes(share) for share in shares]


def canvas(width: float, height: float, columns: int = 1) -> tuple[Figure, list]:
    """A figure of `width` × `height` inches with `columns` axes side by side, outside pyplot."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(1, columns, squeeze=False)[0]
    return figure, list(axes)
