"""A figure as a notebook shows it: a PNG, sharp and small, and a description in words."""

from base64 import b64encode
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from importlib.resources import as_file, files
from io import BytesIO
from threading import Lock

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import TICKDOWN, TICKLEFT
from matplotlib.textpath import TextPath
from matplotlib.ticker import NullLocator
from PIL import Image

from course_utils.arguments import text

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
    "scratch": SKY,
}

PIXELS_PER_INCH = 88  # as shown
SHARPNESS = 2  # stored pixels per shown pixel, for high-resolution screens and projectors
COLOURS = 128  # a flat figure needs no more, and the file is a third of the size
# What stands in for ticks, and how many inches its words are away from the axis.
MARKS = {"linestyle": "", "color": "#444444", "markersize": 3.5, "clip_on": False}
WORDS, AWAY = {"color": "#444444", "size": 10.5}, 0.09
MARGIN = 0.03  # inches around a page, for edges that lie on its border
ONE_DRAWING = Lock()  # the canvases of quick pictures are kept and used again


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
        return _packed(_flat(Image.open(raw).convert("RGB")), optimize=True)

    def quick(self) -> bytes:
        """The whole figure as PNG bytes, as sharp as `png`, drawn once and packed loosely.

        For what is redrawn while a control moves: the file is larger, but it takes a third of the
        time. Its margins are the figure's own.
        """
        with ONE_DRAWING, style():
            self.figure.set_dpi(PIXELS_PER_INCH * SHARPNESS)
            drawn = _canvas_of(*self.figure.bbox.size)
            drawn.clear()
            self.figure.draw(drawn)
            buffer = drawn.buffer_rgba()
            pixels = Image.frombuffer("RGBA", buffer.shape[1::-1], buffer).convert("RGB")
        # To find the colours takes long, to give each pixel one does not: a quarter has them all.
        quarter = pixels.resize((pixels.width // 2, pixels.height // 2), Image.Resampling.NEAREST)
        flat = pixels.quantize(palette=_flat(quarter), dither=Image.Dither.NONE)
        return _packed(flat, compress_level=1)

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


def _flat(image: Image.Image) -> Image.Image:
    """The image with a small palette."""
    return image.quantize(COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)


def _packed(image: Image.Image, **packing: object) -> bytes:
    """PNG bytes."""
    file = BytesIO()
    image.save(file, "PNG", **packing)
    return file.getvalue()


@lru_cache(4)
def _canvas_of(width: float, height: float) -> RendererAgg:
    """A canvas in pixels for quick pictures; it remembers how wide the words are."""
    return RendererAgg(width, height, PIXELS_PER_INCH * SHARPNESS)


def style() -> mpl.rc_context:
    """The course's style sheet, for a `with` block; the learner's own settings stay untouched."""
    return mpl.rc_context(_sheet())


@cache
def _sheet() -> mpl.RcParams:
    """The settings of the style sheet, read once."""
    with as_file(files("course_utils.draw") / "course.mplstyle") as sheet:
        return mpl.rc_params_from_file(sheet, use_default_template=False)


def fixed(width: float, height: float, *boxes: tuple[float, float, float, float]) -> tuple:
    """A figure of `width` × `height` inches and its axes, each in a box of its own.

    A box is left, bottom, width and height in inches. What explorers redraw stands in boxes: a
    layout engine would draw everything a second time to find the room.
    """
    figure = Figure(figsize=(width, height))
    shares = ((x / width, y / height, w / width, h / height) for x, y, w, h in boxes)
    return figure, [figure.add_axes(share) for share in shares]


def page(width: float, height: float, title: str = "") -> tuple[Figure, Axes]:
    """A figure and its axes, whose units are inches, with a thin margin and `title` above."""
    wide, high = width + 2 * MARGIN, height + 2 * MARGIN
    figure, (ax,) = fixed(wide, high + (0.45 if title else 0), (0, 0, wide, high))
    ax.set(xlim=(-MARGIN, width + MARGIN), ylim=(-MARGIN, height + MARGIN))
    ax.axis("off")
    if title:
        ax.set_title(text("title", title))
    return figure, ax


@lru_cache(1024)
def inches(words: str, size: float, weight: str = "normal") -> float:
    """How wide one line of `words` is in the style's font."""
    font = FontProperties(family="DejaVu Sans", weight=weight)
    return TextPath((0, 0), words, size=size, prop=font).get_extents().width / 72


def across(ax: Axes, places: Iterable[float], word: Callable[[float], str]) -> None:
    """Marks and words at `places` under axes in a box, whose limits are set.

    True ticks take five times as long to draw. The axis's label needs a pad.
    """
    places, under = list(places), ax.get_xaxis_transform()
    ax.xaxis.set(major_locator=NullLocator(), minor_locator=NullLocator())
    ax.plot(places, [0] * len(places), marker=TICKDOWN, transform=under, **MARKS)
    far = AWAY * ax.figure.dpi / ax.bbox.height
    for at in places:
        ax.text(at, -far, word(at), transform=under, ha="center", va="top", **WORDS)


def upward(ax: Axes, places: Iterable[float], word: Callable[[float], str]) -> None:
    """As `across`, at the left."""
    places, left = list(places), ax.get_yaxis_transform()
    ax.yaxis.set(major_locator=NullLocator(), minor_locator=NullLocator())
    ax.plot([0] * len(places), places, marker=TICKLEFT, transform=left, **MARKS)
    far = AWAY * ax.figure.dpi / ax.bbox.width
    for at in places:
        ax.text(-far, at, word(at), transform=left, ha="right", va="center", **WORDS)


def canvas(width: float, height: float, columns: int = 1) -> tuple[Figure, list]:
    """A figure of `width` × `height` inches with `columns` axes side by side, outside pyplot."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(1, columns, squeeze=False)[0]
    return figure, list(axes)
