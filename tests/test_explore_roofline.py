"""The roofline explorer: its arithmetic, counted again, its words, and the devices' buttons."""

import ipywidgets as widgets
import pytest

from course_utils import explore, hardware
from course_utils.explore import rooflines

SIZES = {"fp32": 4, "bf16": 2, "fp8": 1}
FIELDS = ("dtype", "peak", "bandwidth", "rows", "width")
CASES = [
    ("bf16", 989.5e12, 3350e9, 64, 4096),
    ("bf16", 989.5e12, 3350e9, 512, 512),
    ("fp8", 1979e12, 3350e9, 700, 1024),
    ("fp32", 1e9, 1e9, 1, 64),
    ("fp32", 67e12, 1e14, 3, 65_536),
    ("bf16", 1e16, 1e9, 65_536, 65_536),
    ("fp8", 1e9, 1e14, 1, 64),
    ("bf16", 250e9, 7.5e9, 40, 96),
]


def shown(dtype, peak, bandwidth, rows, width):
    """The explorer with these values."""
    explorer = explore.roofline()
    for name, value in zip(FIELDS, (dtype, peak, bandwidth, rows, width), strict=True):
        explorer.controls[name].value = value
    assert explorer.values() == explorer._drawn
    return explorer


def last(explorer):
    """The last line of its words."""
    return explorer.current.text.splitlines()[-1]


def offered(explorer):
    """The devices whose buttons can be seen."""
    found = explorer._devices.items()
    return [device for device, button in found if button.layout.visibility == "visible"]


def counted(dtype, rows, width):
    """FLOPs and bytes of the matmul, term by term."""
    weight, activation = width * width, rows * width
    return 2 * rows * weight, SIZES[dtype] * (activation + weight + activation)


def is_compute_bound(dtype, peak, bandwidth, rows, width):
    """FLOPs / bytes is at least peak / bandwidth, in whole numbers."""
    flops, nbytes = counted(dtype, rows, width)
    assert peak == int(peak) and bandwidth == int(bandwidth)
    return flops * int(bandwidth) >= nbytes * int(peak)


def said(text, start):
    """The number that stands in the words after `start`."""
    word = text.split(start)[1].split()[0].rstrip(".:,")
    return float(word.replace(",", ""))


@pytest.mark.parametrize("case", CASES)
def test_the_numbers_are_those_of_an_independent_count(case):
    dtype, peak, bandwidth, rows, width = case
    text = shown(*case).current.text
    flops, nbytes = counted(dtype, rows, width)
    assert said(text, "FLOPs / bytes = ") == pytest.approx(flops / nbytes, rel=1e-3)
    assert said(text, "peak / bandwidth = ") == pytest.approx(peak / bandwidth, rel=1e-3)
    share = min(1, flops / peak / (nbytes / bandwidth))
    assert said(text, "so at most ") == pytest.approx(100 * share, rel=1e-2)
    bound = "compute-bound" if is_compute_bound(*case) else "memory-bound"
    first, _, _, _, times, *_ = text.splitlines()
    assert first.endswith(f"weight, {dtype}: {bound}") and times.endswith(f"peak: {bound}.")
    (ax,) = shown(*case).current.figure.axes
    at, rate = ax.lines[-1].get_xydata()[0]
    assert at == pytest.approx(flops / nbytes)
    assert rate == pytest.approx(flops / max(flops / peak, nbytes / bandwidth))


def test_the_words_of_a_memory_bound_matmul():
    assert explore.roofline().current.text.splitlines() == [
        "Roofline, both axes logarithmic. A 64 × 4096 activation times a 4096 × 4096 weight, bf16: "
        "memory-bound",
        "FLOPs: 2 · B·n·n = 2.147 GFLOPs.",
        "Bytes: 2 · (B·n + n·n + B·n) = 34.6 MB, each moved once.",
        "Intensity: FLOPs / bytes = 62.06. Ridge: peak / bandwidth = 295.4.",
        "At the roof, computing takes 2.17 µs, moving 10.33 µs. The longer one counts, so at most "
        "21 % of the peak: memory-bound.",
        "With this n it is compute-bound from B = 346 on.",
        "Peak and bandwidth are those of the H100 SXM's datasheet, dense bf16.",
    ]


@pytest.mark.parametrize("dtype", SIZES)
@pytest.mark.parametrize(("peak", "bandwidth"), [(989.5e12, 3350e9), (121e12, 300e9), (3e9, 7e9)])
@pytest.mark.parametrize("width", [64, 300, 1024, 4096, 65_536])
def test_the_batch_at_which_it_becomes_compute_bound_is_exact(dtype, peak, bandwidth, width):
    turn = rooflines._turn(dtype, peak, bandwidth, width)
    given = dtype, peak, bandwidth
    if turn == float("inf"):
        assert not is_compute_bound(*given, 10**15, width)
    else:
        assert is_compute_bound(*given, turn, width) and turn == int(turn)
        assert turn == 1 or not is_compute_bound(*given, turn - 1, width)


def test_a_width_at_the_limit_is_never_compute_bound_and_one_more_is():
    """With a ridge of 256 and 2 bytes per number, n / 2 stays below it up to n = 512."""
    text = shown("bf16", 256e9, 1e9, 65_536, 512).current.text
    assert "never compute-bound: however large B, the intensity stays below n / 2 = 256." in text
    assert "An n above 512 could reach the ridge." in text and "memory-bound." in text
    assert rooflines._turn("bf16", 256e9, 1e9, 512) == float("inf")
    text = shown("bf16", 256e9, 1e9, 65_536, 513).current.text
    assert "it is compute-bound from B = 131,328 on." in text


def test_where_both_take_equally_long_it_is_compute_bound():
    """At least, as exercise 04.2 says: 96 × 96 by 96 × 96 in fp32 does 96 / 6 FLOPs per byte."""
    explorer = shown("fp32", 16e9, 1e9, 96, 96)
    assert "it is compute-bound from B = 96 on." in explorer.current.text
    assert explorer.current.text.splitlines()[0].endswith("weight, fp32: compute-bound")
    explorer.controls["rows"].value = 95
    assert explorer.current.text.splitlines()[0].endswith("weight, fp32: memory-bound")


def test_a_device_s_button_writes_its_numbers_for_the_format_and_draws_once(monkeypatch):
    explorer, drawn = explore.roofline(), []
    draw = explorer._picture
    monkeypatch.setattr(
        explorer, "_picture", lambda **values: drawn.append(values) or draw(**values)
    )
    explorer.controls["dtype"].value = "fp32"
    for device, button in explorer._devices.items():
        drawn.clear()
        button.click()
        found = hardware.find(device)
        (values,) = drawn
        assert (values["peak"], values["bandwidth"]) == (found.peak["fp32"], found.bandwidth)
        assert (values["dtype"], values["rows"], values["width"]) == ("fp32", 64, 4096)
        assert explorer.current.text.endswith(f"those of the {device}'s datasheet, dense fp32.")
        assert last(explorer) in explorer._words.value.replace("&#x27;", "'")
    assert explorer.controls["peak"].text.value == "75 TFLOP/s"
    assert explorer.controls["bandwidth"].text.value == "7.7 TB/s"


def test_the_peak_does_not_follow_the_format_and_the_words_say_whose_it_is():
    explorer = explore.roofline()
    explorer.controls["dtype"].value = "fp8"
    assert explorer.controls["peak"].value == 989.5e12
    assert last(explorer) == "The peak is the H100 SXM's in bf16: its button writes the fp8 peak."
    explorer._devices["H100 SXM"].click()
    assert explorer.controls["peak"].value == 1979e12 and last(explorer).endswith("dense fp8.")
    explorer.controls["dtype"].value = "bf16"
    explorer._devices["A100 80GB SXM"].click()
    explorer.controls["dtype"].value = "fp8"
    words = "The peak is the A100 80GB SXM's in bf16: its datasheet has no fp8 peak."
    assert last(explorer) == words
    explorer.controls["peak"].value = 313e12
    words = "Peak and bandwidth are your own: the answer holds if that is a peak in fp8."
    assert last(explorer) == words


def test_a_device_without_a_peak_for_the_format_is_not_offered():
    explorer = explore.roofline()
    assert offered(explorer) == rooflines.DEVICES
    explorer.controls["dtype"].value = "fp8"
    assert offered(explorer) == ["L4", "H100 SXM", "B200"]
    before = explorer.current
    explorer._devices["A100 80GB SXM"].click()
    assert explorer.current is before
    explorer.controls["dtype"].value = "bf16"
    assert offered(explorer) == rooflines.DEVICES


def test_a_device_s_button_mends_fields_that_cannot_be_read():
    explorer = explore.roofline()
    explorer.controls["peak"].text.value = "fast"
    assert "✗ peak must read as a number" in explorer._words.value
    explorer._devices["L4"].click()
    assert "✗" not in explorer._words.value and explorer.controls["peak"].value == 121e12


def test_the_buttons_stand_above_the_fields_that_they_write_into():
    explorer = explore.roofline()
    format_, row, peak, bandwidth, *_ = explorer.box.children
    assert format_ is explorer.controls["dtype"]
    assert [child.description for child in row.children[1:]] == rooflines.DEVICES
    assert isinstance(row.children[0], widgets.Label) and row.children[0].value == "datasheet of"
    assert [peak, bandwidth] == [explorer.controls[name].box for name in ("peak", "bandwidth")]


@pytest.mark.parametrize(
    ("typed", "number"),
    [("312 TFLOP/s", 312e12), ("312tflop/s", 312e12), ("312T", 312e12), ("312e12", 312e12),
     ("2.25 PFLOP/s", 2.25e15), (" 1e15 FLOP/s ", 1e15), ("40 gflop/s", 40e9)],
)  # fmt: skip
def test_a_rate_is_typed_with_its_unit_or_without(typed, number):
    explorer = explore.roofline()
    explorer.controls["peak"].text.value = typed
    assert explorer.controls["peak"].value == number and "✗" not in explorer._words.value


@pytest.mark.parametrize(
    ("name", "typed", "message"),
    [("peak", "312 TB/s", "peak must read as a number"),
     ("peak", "1e17", "peak must be from 1 GFLOP/s to 10 PFLOP/s, got &#x27;1e17&#x27;"),
     ("bandwidth", "900 MB/s", "bandwidth must be from 1 GB/s to 100 TB/s"),
     ("rows", "0", "rows B must be a whole number from 1 to 65536"),
     ("width", "63", "width n must be a whole number from 64 to 65536"),
     ("width", "100.5", "width n must be a whole number")],
)  # fmt: skip
def test_numbers_that_cannot_be_used_are_explained(name, typed, message):
    explorer = explore.roofline()
    before = explorer._image.value
    explorer.controls[name].text.value = typed
    assert message in explorer._words.value and explorer._image.value == before
