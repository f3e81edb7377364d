"""The account of a transformer: parameters, FLOPs per token, bytes of a step, and the KV cache."""

from collections.abc import Iterator
from functools import partial

from course_utils import draw, hardware, predict, units
from course_utils.draw.picture import Picture
from course_utils.explore.amount import Amount, doublings
from course_utils.explore.panel import Explorer, buttons, row, writer

STYLES = [("GPT", "gpt"), ("Llama", "llama")]
NAMES = ["GPT-2 small", "GPT-3", "Llama-3 8B", "Llama-3 70B"]
DEVICES = ["L4", "H100 SXM", "B200"]
SIZES = ("style", "layers", "width", "heads", "kv_heads", "hidden", "vocabulary", "context")
VOCABULARIES = [256, 1000, 4000, 8000, 16_000, 32_000, 50_257, 64_000, 128_256, 256_000]
POWERS = [2**power for power in range(9)]


class TransformerExplorer(Explorer):
    """The sizes of a transformer and of a batch, and buttons that write known models' sizes."""

    def __init__(self, name: str) -> None:
        start = predict.preset(name)
        controls = {
            "style": buttons("style", STYLES, start.style),
            "layers": _whole("layers L", start.layers, doublings(0, 7), (1, 1000)),
            "width": _whole("width d", start.width, doublings(5, 15), (8, 65_536)),
            "heads": _whole("heads", start.heads, POWERS, (1, 1024)),
            "kv_heads": _whole("KV heads", start.kv_heads, POWERS, (1, 1024)),
            "hidden": _whole("hidden h", start.hidden, doublings(6, 17), (8, 1_048_576)),
            "vocabulary": _whole("vocabulary V", start.vocabulary, VOCABULARIES, (2, 1_000_000)),
            "context": _whole("context T", start.context, doublings(5, 17), (2, 1_000_000)),
            "batch": _whole("batch size B", 2, doublings(0, 12), (1, 100_000)),
        }
        super().__init__(controls, _picture)
        self._presets = {name: writer(name, partial(self._write, name)) for name in NAMES}
        for name, button in self._presets.items():
            button.tooltip = f"write the sizes of {name} into the fields"
        self.box.children = (row("sizes of", [*self._presets.values()]), *self.box.children)

    def _write(self, name: str) -> None:
        """Write a known model's sizes into the fields; the batch stays."""
        config = predict.preset(name)
        self.write(**{size: getattr(config, size) for size in SIZES})


def transformer(name: str = "Llama-3 8B") -> TransformerExplorer:
    """What a transformer of any sizes costs; it begins with those of the preset `name`."""
    return TransformerExplorer(name)


def _whole(description: str, value: int, grid: list[int], limits: tuple[int, int]) -> Amount:
    return Amount(description, value, grid, limits, whole=True)


def _picture(batch: int, **sizes: object) -> Picture:
    config = _config(**sizes)
    parts = predict.transformer_parameters(config)
    N, tokens = sum(parts.values()), config.context
    found = predict.transformer_flops(config, 1, tokens)
    flops = {"weights": found.total - found.attention, "attention": found.attention}
    step = predict.transformer_memory(config, batch, tokens)
    kinds = ("parameters", "gradients", "optimizer", "activations", "peak")
    memory = {name: getattr(step, name) for name in kinds}
    ratio = units.ratio(found.total / (6 * N * tokens))
    picture = draw.account(
        {name: count for name, count in parts.items() if count},
        {name: count / tokens for name, count in flops.items()},
        memory | {"KV cache": predict.kv_cache(config, 1, tokens)},
        {name: hardware.find(name).memory for name in DEVICES},
        rule=6 * N,
        title=f"{_name(config)}: {units.amount(N)} parameters, {ratio} the FLOPs of the 6·N rule",
    )
    return Picture(picture.figure, "\n".join([picture.text, *_lines(config, batch, step)]))


def _lines(
    config: predict.TransformerConfig, batch: int, step: predict.StepMemory
) -> Iterator[str]:
    """What the bars do not say: the batch, what holds the step, and the KV cache in numbers."""
    many = f"{batch:,} sequence{'s' * (batch > 1)} of {config.context:,} tokens"
    yield f"A step: {many}, in fp32, with AdamW, without checkpointing: {_fits(step)}."
    token, sequence = (predict.kv_cache(config, 1, tokens) for tokens in (1, config.context))
    yield (
        f"KV cache in bf16: 2 · L · KV heads · {config.head_width} numbers, "
        f"{units.size(token)} per token, {units.size(sequence)} per sequence."
    )


def _config(style: str, **sizes: int) -> predict.TransformerConfig:
    """The configuration, tied as the style usually is; ValueError says which sizes disagree."""
    width, heads, kv_heads = sizes["width"], sizes["heads"], sizes["kv_heads"]
    if width % heads:
        raise ValueError(
            f"a width of {width:,} cannot be divided among {heads:,} heads: "
            f"{_divisors(width, heads)} would do"
        )
    if heads % kv_heads:
        raise ValueError(
            f"{heads:,} heads cannot share {kv_heads:,} KV heads evenly: "
            f"{_divisors(heads, kv_heads)} would do"
        )
    if style == "llama" and width // heads % 2:
        raise ValueError(
            f"heads of {width // heads} numbers cannot be rotated in pairs: Llama's kind needs an "
            "even width / heads"
        )
    return predict.TransformerConfig(style=style, tied=style == "gpt", **sizes)


def _divisors(whole: int, near: int) -> str:
    """The divisors of `whole` next to `near`, in words."""
    below = next(each for each in range(min(near, whole), 0, -1) if whole % each == 0)
    above = next((each for each in range(near, whole + 1) if whole % each == 0), below)
    return f"{below:,}" if above == below else f"{below:,} or {above:,}"


def _name(config: predict.TransformerConfig) -> str:
    """The model whose sizes these are, or the style and the shape."""
    known = (name for name in NAMES if predict.preset(name) == config)
    kind = dict(map(reversed, STYLES))[config.style]
    return next(known, f"{kind} kind, L = {config.layers:,}, d = {config.width:,}")


def _fits(step: predict.StepMemory) -> str:
    """The peak, when it is reached, and which devices hold it."""
    room = {name: hardware.find(name).memory for name in DEVICES}
    words = f"the peak is {units.size(step.peak)} at: {step.peak_at}"
    if fitting := [name for name, held in room.items() if step.peak <= held]:
        return f"{words}; it fits {', '.join(fitting)}"
    largest = max(room, key=lambda name: room[name])
    return f"{words}, {units.ratio(step.peak / room[largest])} what a {largest} has"
