"""The transformer explorer: its numbers, counted again, its words, presets and impossible sizes."""

import ipywidgets as widgets
import pytest

from course_utils import draw, explore, predict
from course_utils.explore import transformers

FIELDS = ("style", "layers", "width", "heads", "kv_heads", "hidden", "vocabulary", "context")
SHAPES = {
    "GPT's kind": ("gpt", 4, 128, 8, 2, 512, 1000, 64),
    "Llama's kind": ("llama", 3, 96, 6, 6, 250, 500, 32),
    "the least": ("gpt", 1, 8, 1, 1, 8, 2, 2),
    "the most": ("llama", 1000, 65_536, 1024, 1, 1_048_576, 1_000_000, 1_000_000),
    "odd heads": ("gpt", 2, 21, 3, 1, 40, 300, 10),
}
every_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


def shown(*values, batch=1):
    """The explorer with these sizes, written at once."""
    explorer = explore.transformer()
    explorer.write(**dict(zip(FIELDS, values, strict=True)), batch=batch)
    assert "✗" not in explorer._words.value and explorer.values() == explorer._drawn
    return explorer


def bars(explorer):
    """The width of each bar of the picture, by the name at its height, panel by panel."""
    (ax,) = explorer.current.figure.axes
    panels = [{}, {}, {}]
    for box in ax.patches:
        middle = box.get_y() + box.get_height() / 2
        lefts = [left for left, _ in draw.transformers.PANELS.values()]
        panel = max(i for i, left in enumerate(lefts) if left <= box.get_x() + 1e-9)
        names = [t.get_text() for t in ax.texts
                 if abs(t.get_position()[1] - middle) < 1e-9
                 and abs(t.get_position()[0] - (lefts[panel] - 0.08)) < 1e-9]  # fmt: skip
        panels[panel][names[0]] = box.get_width()
    return panels


def counted(style, L, d, heads, kv, h, V, T):
    """Parameters by part, and FLOPs per token and sequence, term by term."""
    w, gpt = d // heads, style == "gpt"
    parts = {
        "embedding": V * d,
        "positions": T * d * gpt,
        "attention": L * (2 * d * d + 2 * d * kv * w + gpt * (2 * d + 2 * kv * w)),
        "feed-forward": L * ((2 if gpt else 3) * d * h + gpt * (d + h)),
        "norms": (2 * L + 1) * d * (1 + gpt),
        "head": V * d * (not gpt),
    }
    biases = gpt * L * (2 * d + 2 * kv * w + d + h)
    matmuls = 6 * (parts["attention"] + parts["feed-forward"] - biases + V * d)
    return {part: count for part, count in parts.items() if count}, matmuls, 12 * T * d * L


@every_shape
def test_the_bars_are_those_of_an_independent_count(shape):
    parts, matmuls, among = counted(*shape)
    first, second, _ = bars(shown(*shape))
    most = max(parts.values())
    assert first == pytest.approx({part: 1.2 * count / most for part, count in parts.items()})
    flops = {"weights": matmuls, "attention": among, "6·N": 6 * sum(parts.values())}
    most = max(flops.values())
    assert second == pytest.approx({name: 1.05 * count / most for name, count in flops.items()})


def test_the_words_of_llama():
    explorer = explore.transformer()
    explorer.write(batch=1)
    assert explorer.current.text.splitlines() == [
        "Three bar charts. Llama-3 8B: 8.03 billion parameters, 1.2 × the FLOPs of the 6·N rule",
        "Parameters: embedding 525.3 million, attention 1.342 billion, feed-forward 5.637 billion, "
        "norms 266200, head 525.3 million.",
        "FLOPs per token: weights 45.03 GFLOPs, attention 12.88 GFLOPs; 6·N is 48.18 GFLOPs.",
        "Bytes of a step: parameters 32.12 GB, gradients 32.12 GB, optimizer 64.24 GB, activations "
        "101.3 GB, peak 206.1 GB, KV cache 1.074 GB. Dashed, what devices have: L4 24 GB, H100 SXM "
        "80 GB, B200 180 GB.",
        "A step: 1 sequence of 8,192 tokens, in fp32, with AdamW, without checkpointing: the peak "
        "is 206.1 GB at: backward, loss, 1.14 × what a B200 has.",
        "KV cache in bf16: 2 · L · KV heads · 128 numbers, 131.1 kB per token, 1.074 GB per "
        "sequence.",
    ]


@pytest.mark.parametrize("name", transformers.NAMES)
def test_a_preset_s_button_writes_its_sizes_and_draws_once(monkeypatch, name):
    explorer, drawn = explore.transformer(), []
    explorer.write(layers=7, batch=3)
    draw_it = explorer._picture
    monkeypatch.setattr(explorer, "_picture", lambda **v: drawn.append(v) or draw_it(**v))
    explorer._presets[name].click()
    config = predict.preset(name)
    (values,) = drawn
    assert values == {size: getattr(config, size) for size in FIELDS} | {"batch": 3}
    assert explorer.current.text.startswith(f"Three bar charts. {name}: ")
    step = predict.transformer_memory(config, 3, config.context)
    _, _, bytes_ = bars(explorer)
    order = sorted(bytes_, key=lambda name: bytes_[name])
    cache = predict.kv_cache(config, 1, config.context)
    held = {"parameters": step.parameters, "gradients": step.gradients, "peak": step.peak,
            "optimizer": step.optimizer, "activations": step.activations,
            "KV cache": cache}  # fmt: skip
    assert [held[name] for name in order] == sorted(held.values())


def test_sizes_that_are_no_preset_s_have_the_style_s_name_and_the_batch_grows_activations():
    small, large = (shown("gpt", 2, 64, 4, 4, 256, 500, 32, batch=many) for many in (1, 8))
    assert small.current.text.startswith("Three bar charts. GPT kind, L = 2, d = 64: ")
    assert "A step: 8 sequences of 32 tokens" in large.current.text
    assert "it fits L4, H100 SXM, B200." in large.current.text
    assert bars(large)[2]["activations"] > bars(small)[2]["activations"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"heads": 30}, "a width of 4,096 cannot be divided among 30 heads: 16 or 32 would do"),
     ({"kv_heads": 5}, "32 heads cannot share 5 KV heads evenly: 4 or 8 would do"),
     ({"kv_heads": 64}, "32 heads cannot share 64 KV heads evenly: 32 would do"),
     ({"width": 96, "heads": 32}, "heads of 3 numbers cannot be rotated in pairs"),
     ({"width": 8, "heads": 1000, "kv_heads": 1}, "divided among 1,000 heads: 8 would do")],
)  # fmt: skip
def test_sizes_that_do_not_go_together_are_explained_and_nothing_is_lost(changes, message):
    explorer = explore.transformer()
    before = explorer._image.value, explorer.current
    explorer.write(**changes)
    assert message in explorer._words.value and "stays as it was" in explorer._words.value
    assert (explorer._image.value, explorer.current) == before
    explorer._presets["GPT-2 small"].click()
    assert "✗" not in explorer._words.value and "GPT-2 small" in explorer.current.text


@pytest.mark.parametrize("name", FIELDS[1:])
def test_every_limit_of_every_field_has_a_picture_where_the_sizes_go_together(name):
    for style in ("gpt", "llama"):
        explorer = explore.transformer("GPT-2 small")
        explorer.write(style=style, width=65_536, heads=1, kv_heads=1)
        low, high = explorer.controls[name].limits
        for value in (low, high):
            explorer.write(**{"heads": value if name == "kv_heads" else 1, name: value})
            assert "✗" not in explorer._words.value, value
            assert str(explorer._drawn[name]) == str(value)


@pytest.mark.parametrize(
    ("name", "typed", "message"),
    [("layers", "0", "layers L must be a whole number from 1 to 1000"),
     ("width", "100.5", "width d must be a whole number"),
     ("vocabulary", "many", "vocabulary V must read as a number"),
     ("context", "1", "context T must be a whole number from 2"),
     ("batch", "1e9", "batch size B must be a whole number")],
)  # fmt: skip
def test_numbers_that_cannot_be_used_are_explained(name, typed, message):
    explorer = explore.transformer()
    before = explorer._image.value
    explorer.controls[name].text.value = typed
    assert message in explorer._words.value and explorer._image.value == before


def test_the_presets_stand_above_the_fields():
    first, style, *_ = explore.transformer().box.children
    assert [child.description for child in first.children[1:]] == transformers.NAMES
    assert isinstance(first.children[0], widgets.Label) and first.children[0].value == "sizes of"
    assert style.description == "style"


@pytest.mark.parametrize("name", [*SHAPES, *transformers.NAMES])
def test_no_words_hide_each_other(name):
    explorer = shown(*SHAPES[name]) if name in SHAPES else explore.transformer(name)
    figure = explorer.current.figure
    figure.set_dpi(176)
    figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in figure.axes[0].texts]
    for label, box in zip(figure.axes[0].texts, boxes, strict=True):
        assert box.count_overlaps(boxes) == 1, label.get_text()  # itself
        assert figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1, label.get_text()
        assert figure.bbox.y0 <= box.y0 and box.y1 <= figure.bbox.y1, label.get_text()


GIVEN = {"parameters": {"a": 1}, "flops": {"b": 2}, "memory": {"peak": 3}, "devices": {"L4": 4}}


@pytest.mark.parametrize(
    ("change", "message"),
    [({"parameters": {"a": -1}}, "parameters"), ({"flops": {"b": "2"}}, "flops"),
     ({"memory": 3}, "memory"), ({"rule": 0}, "rule must be"), ({"title": ""}, "title must be")],
)  # fmt: skip
def test_an_account_of_nothing_is_refused(change, message):
    with pytest.raises((TypeError, ValueError), match=message):
        draw.account(**{**GIVEN, "rule": 1, "title": "t", **change})
