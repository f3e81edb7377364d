"""The explorer of an optimizer's memory: its bytes, counted again, its words, what is drawn."""

import re

import pytest

from course_utils import draw, explore, hardware, predict
from course_utils.draw.picture import BLACK, PART_COLOURS
from course_utils.explore import memory

# Bytes per parameter: parameters, gradients, master copy, state and scratch, counted by hand.
CASES = [
    (("SGD", "all fp32", "foreach"), (4, 4, 0, 0, 0)),
    (("momentum", "all fp32", "foreach"), (4, 4, 0, 4, 0)),
    (("AdaGrad", "all fp32", "foreach"), (4, 4, 0, 4, 8)),
    (("RMSProp", "all fp32", "for-loop"), (4, 4, 0, 4, 0)),
    (("AdamW", "all fp32", "foreach"), (4, 4, 0, 8, 4)),
    (("AdamW", "all fp32", "fused"), (4, 4, 0, 8, 0)),
    (("AdamW", "bf16 + fp32 master", "fused"), (2, 2, 4, 8, 0)),
    (("Adam", "bf16 + fp32 master", "foreach"), (2, 2, 4, 8, 4)),
    (("AdamW", "all bf16", "foreach"), (2, 2, 0, 4, 2)),
    (("AdamW", "fp32, 8-bit state", "foreach"), (4, 4, 0, 2, 0)),
]
NAMES = ("parameters", "gradients", "master copy", "optimizer", "scratch")


def shown(optimizer, formats, form, parameters=7e9, count=1):
    """The explorer with these values."""
    explorer = explore.optimizer_memory()
    values = {"optimizer": optimizer, "formats": formats, "form": form}
    for name, value in {**values, "parameters": parameters, "count": count}.items():
        explorer.controls[name].value = value
    assert explorer.values() == explorer._drawn
    return explorer


@pytest.mark.parametrize(("values", "nbytes"), CASES)
@pytest.mark.parametrize(("parameters", "count"), [(7e9, 1), (1e6, 3), (1e12, 1024)])
def test_bytes_are_those_of_a_count_by_hand(values, nbytes, parameters, count):
    picture = shown(*values, parameters, count).current
    terms = [f"{name} {many}" for name, many in zip(NAMES, nbytes, strict=True) if many]
    assert f" {' + '.join(terms)} = {sum(nbytes)}." in picture.text
    (ax,) = picture.figure.axes
    widths = [bar.get_width() for bar in ax.patches[: len(terms)]]
    (needed,) = {line.get_xdata()[0] for line in ax.lines if line.get_color() == BLACK}
    shares = [many / sum(nbytes) for many in nbytes if many]
    assert [width / needed for width in widths] == pytest.approx(shares)
    for device in memory.DEVICES:
        has = hardware.find(device).memory
        fits = "fits" if sum(nbytes) * parameters <= count * has else "does not fit"
        (line,) = (row for row in picture.text.splitlines() if row.startswith(f"{device}, "))
        assert f", {fits}: at most " in line and line.endswith("of them.") == (count > 1)
        most, word = re.search(r"at most ([\d.]+) (\w+)", line).groups()
        scale = {"million": 1e6, "billion": 1e9, "trillion": 1e12}[word]
        assert float(most) * scale == pytest.approx(count * has / sum(nbytes), rel=5e-3)


def test_the_words_of_adamw_in_fp32():
    lines = explore.optimizer_memory().current.text.splitlines()
    here = lines.pop(7)
    assert here.startswith("this machine: ≈ ") and here.endswith(" parameters.")
    assert lines == [
        "Stacked bar. 7 billion parameters with AdamW, all fp32: 140 GB on one device",
        "Needed per device: parameters 28 GB, gradients 28 GB, optimizer 56 GB, scratch 28 GB.",
        "Bytes per parameter during a foreach step: parameters 4 + gradients 4 + optimizer 8 + "
        "scratch 4 = 20.",
        "In all: 7 billion × 20 B = 140 GB.",
        "RTX 4090, 24 GB, does not fit: at most 1.2 billion parameters.",
        "H100 SXM, 80 GB, does not fit: at most 4 billion parameters.",
        "B200, 180 GB, fits: at most 9 billion parameters.",
        "The scratch lives in the optimizer's step alone: a tensor as large as all parameters "
        "together.",
        "Activations come on top.",
    ]


def test_sharding_divides_what_each_device_needs():
    text = shown("AdamW", "bf16 + fp32 master", "fused", 70e9, 16).current.text
    assert "In all: 70 billion × 16 B = 1.12 TB, and a share of 1/16 on each device: 70 GB." in text
    assert "H100 SXM, 80 GB, fits: at most 80 billion parameters on 16 of them." in text


def test_what_the_form_needs_is_said_and_only_foreach_s_scratch_is_drawn():
    assert "2 tensors as large as all" in shown("AdaGrad", "all fp32", "foreach").current.text
    words = shown("AdamW", "all fp32", "for-loop").current.text
    assert (
        "3 tensors as large as the largest parameter tensor" in words and "scratch 4" not in words
    )
    for quiet in (("AdamW", "all fp32", "fused"), ("SGD", "all fp32", "foreach")):
        assert "scratch" not in shown(*quiet).current.text
    text = shown("AdamW", "fp32, 8-bit state", "foreach").current.text
    assert "a kernel of their own" in text


def test_a_fused_rmsprop_is_refused_and_the_picture_stays():
    explorer = explore.optimizer_memory()
    explorer.controls["optimizer"].value = "RMSProp"
    before = explorer._image.value
    explorer.controls["form"].value = "fused"
    assert "torch has no fused one" in explorer._words.value and explorer._image.value == before
    explorer.controls["optimizer"].value = "Adam"
    assert "✗" not in explorer._words.value


@pytest.mark.parametrize(
    ("name", "typed", "message"),
    [("parameters", "999999", "parameters must be from 1 million to 1 trillion"),
     ("parameters", "seven", "parameters must read as a number"),
     ("count", "1025", "devices must be a whole number from 1 to 1024"),
     ("count", "1.5", "devices must be a whole number")],
)  # fmt: skip
def test_numbers_that_cannot_be_used_are_explained(name, typed, message):
    explorer = explore.optimizer_memory()
    before = explorer._image.value
    explorer.controls[name].text.value = typed
    assert message in explorer._words.value and explorer._image.value == before


PARTS = {"parameters": 2e9, "gradients": 1e9, "scratch": 5e9}


@pytest.mark.parametrize(
    ("devices", "end"),
    [({"a": 24e9, "b": 80e9}, 24), ({"a": 1e9, "b": 7e9}, 8), ({"a": 1e12}, 32), ({}, 8)],
)
def test_the_axis_ends_at_the_smallest_device_that_fits_if_that_is_near(devices, end):
    (ax,) = draw.needs(PARTS, devices, title="t").figure.axes
    assert ax.get_xlim() == pytest.approx((0, 1.06 * end))
    bars = ax.patches[len(PARTS) :]
    shown = [min(has / 1e9, 1.06 * end) for has in devices.values()]
    assert [bar.get_width() for bar in bars] == pytest.approx(shown)
    arrows = [line for line in ax.lines if line.get_marker() == ">"]
    assert len(arrows) == sum(has > 1.06e9 * end for has in devices.values())


def test_each_part_has_a_colour_of_its_own_and_all_of_it_lies_inside_the_figure():
    explorer = shown("Adam", "bf16 + fp32 master", "foreach", 987_654_321_098, 1000)
    figure = explorer.current.figure
    (ax,) = figure.axes
    colours = [bar.get_facecolor()[:3] for bar in ax.patches[:5]]
    assert len(set(colours)) == 5 and PART_COLOURS["scratch"] != PART_COLOURS["parameters"]
    figure.draw_without_rendering()
    texts = [*ax.texts, *figure.texts, ax.xaxis.label]
    boxes = [words.get_window_extent() for words in texts]
    for words, box in zip(texts, boxes, strict=True):
        assert figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1, words
        assert figure.bbox.y0 <= box.y0 and box.y1 <= figure.bbox.y1, words
        assert box.count_overlaps(boxes) == 1, words  # itself


def test_needs_of_nothing_are_refused():
    for parts, devices, message in (
        ({}, {}, "the sum of parts must be"),
        ({"a": -1}, {}, "at least 0"),
        ({"a": 1}, {"b": 0}, r"devices\['b'\] must be"),
        ([1], {}, "must map"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            draw.needs(parts, devices, title="t")


def test_recipes_agree_with_those_of_chapter_00():
    for formats, name in (
        ("all fp32", "AdamW, fp32"),
        ("bf16 + fp32 master", "AdamW, bf16 + fp32 master"),
        ("all bf16", "AdamW, all in bf16"),
    ):
        assert predict.optimizer_recipe("AdamW", formats) == predict.RECIPES[name]
    assert predict.optimizer_recipe("SGD") == predict.RECIPES["SGD, fp32"]
