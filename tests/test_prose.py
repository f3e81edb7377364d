"""Numbers that the prose of the chapters states and no cell prints: read there, recomputed."""

import inspect
import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from course_utils import formats, hardware, measure, predict
from course_utils.train import models, optimizers
from course_utils.workshop.files import find_chapter
from tests import prose
from tests.prose import agree, numbers, says


@pytest.mark.parametrize(
    ("written", "right", "wrong"),
    [("72", 71.96, 71.4), ("1.14", 1.1449, 1.146), ("27 000", 27_400.0, 27_600.0), ("30", 30, 31),
     ("3e-8", 2.98e-8, 2.4e-8), ("−0.75", -0.75, 0.75), ("1.8e308", 1.797e308, 1.7e308)],
)  # fmt: skip
def test_a_number_is_held_to_the_digits_that_are_written(written, right, wrong):
    assert agree(written, right) and not agree(written, wrong)


def test_a_sentence_that_is_gone_or_changed_is_told(monkeypatch):
    monkeypatch.setattr(prose, "cells", lambda _: ["It takes 72 days.", "1 A or 2 A"])
    says("00", "It takes {} days", 71.96)
    for sentence, value, words in (
        ("It takes {} hours", 72, "says 0 times"),
        ("{} A", 1, "says 2 times"),
        ("It takes {} days", 73, "says 72, not 73"),
    ):
        with pytest.raises(AssertionError, match=words):
            says("00", sentence, value)


H100 = hardware.find("H100 SXM")
SMALL, GPT2, GPT3, LLAMA, LLAMA8 = map(
    predict.preset, ("small", "GPT-2 small", "GPT-3", "Llama-3 70B", "Llama-3 8B")
)


def parameters(config):
    return sum(predict.transformer_parameters(config).values())


def days(peak):
    return predict.training_days(70e9, 15e12, devices=1024, peak=peak, mfu=0.5)


def test_chapter_00_how_long():
    says("00", "one H100, whose dense bf16 peak is {} FLOP/s", H100.promised("bf16"))
    says("00", "datasheet says {} TFLOP/s, so the run takes {} days", 1979, days(1979e12))
    says("00", "reach at most half of it: {} TFLOP/s", 1979 / 2)
    says("00", "8 H100 for two weeks are {} FLOPs", 8 * H100.promised("bf16") * 7 * 86400)
    devices = math.ceil(days(H100.promised("bf16")) * 1024 / 30)
    says("00", "{} × 1024 / 30 gives {} of them", days(H100.promised("bf16")), devices)
    says("00", "1024 A100 ({} TFLOP/s each", hardware.find("A100 80GB SXM").promised("bf16") / 1e12)


def test_chapter_00_does_it_fit():
    state = predict.RECIPES["AdamW, fp32"].total * 70e9
    devices = math.ceil(state / 80e9)
    says("00", "16 × 70e9 bytes = {} TB; sharded over {} devices", state / 1e12, devices)
    assert state / devices == 80e9  # "exactly 80 GB each"
    most = predict.largest_model(80e9, 16, devices=8)
    says("00", "hold {} billion parameters.", most / 1e9)
    says("00", "with each recipe? Divide {} bytes by each total", 8 * 80e9)
    says("00", "79.25 GiB are {} bytes, more than the {} on the label", 79.25 * 2**30, 80e9)


def test_chapter_00_what_to_keep():
    says("00", "$n = 1024$: {} GFLOPs", predict.matmul_flops(1024, 1024, 1024) / 1e9)
    says("00", "70e9 × 15e12: {} |", predict.training_flops(70e9, 15e12))
    says("00", "(devices × peak × MFU) | {} days", days(H100.promised("bf16")))
    recipe = predict.RECIPES["AdamW, fp32"].total
    most = predict.largest_model(80e9, recipe, devices=8)
    says("00", "| AdamW, fp32 | {} bytes per parameter | {} on 8 × 80 GB", recipe, most)
    says("00", "1 GiB = {} GB | 79.25 GiB = {} GB", 2**30 / 1e9, 79.25 * 2**30 / 1e9)


def test_chapter_01_what_a_stride_costs():
    says("01", "most machines 64 bytes: {} numbers of 4 bytes", 64 // 4)
    says("01", "uses one of each line and throws {} away", 64 // 4 - 1)
    count = 2**18
    says("01", "The count stays at {}, k grows", count)
    near, far = (4 * count * stride // 2**20 for stride in (1, 16))
    says("01", "lie in {} MiB and may fit", near)
    says("01", "than the far ones in {} MiB", far)
    says("01", "still costs one line of 64 bytes: {} MiB of lines, as before", 64 * count // 2**20)


def test_chapter_01_what_an_allocator_rounds_to():
    says("01", "(32×32 fp32 is one already: {} × {}.)", torch.ones(32, 32).nbytes // 512, 512)


def test_chapter_02_half_a_conversion():
    nbytes = predict.tensor_bytes((12288, 49152))
    says("02", "that is {} MiB divided by 1000", nbytes // 2**20)
    says("02", "*Wrong:* {} GB", nbytes / 2**20 / 1000)
    says("02", "*Right:* {} GB or {} GiB", nbytes / 1e9, nbytes / 2**30)


def test_chapter_02_what_the_bit_explorer_shows():
    pattern = formats.encode(19303.0890, "float32")
    bit = max(i for i in range(23, 31) if not pattern >> i & 1)  # the highest 0 of the exponent
    grown = formats.decode(pattern | 1 << bit, "float32") / formats.decode(pattern, "float32")
    says("02", "flipped, it multiplies it by 2⁶⁴ here")
    assert grown == 2.0**64
    says("02", "0.1 is exact in none")
    assert not any(Fraction(formats.decode(formats.encode(0.1, f), f)) == Fraction(1, 10)
                   for f in formats.FORMATS)  # fmt: skip
    half = torch.finfo(torch.float16).max
    says("02", "{} overflows fp16, a tie between {} and {}, and E5M2", half + 16, half, half + 32)
    assert torch.tensor(half + 16).half() == math.inf
    assert formats.decode(formats.encode(half + 16, "float8_e5m2"), "float8_e5m2") == math.inf
    assert torch.tensor(half + 16).bfloat16() == 65536  # "bf16 makes it 65536"
    for name in formats.FORMATS:  # "448 is exact in all six"
        assert formats.decode(formats.encode(448.0, name), name) == 448
    says("02", "1e-8 is 0 in fp16 and fp8")
    zero = {f for f in formats.FORMATS if formats.decode(formats.encode(1e-8, f), f) == 0}
    assert zero == {"float16", "float8_e4m3fn", "float8_e5m2"}


def test_chapter_02_range():
    smallest = torch.finfo(torch.float16).smallest_normal * torch.finfo(torch.float16).eps
    says("02", "often below {}, half of fp16's smallest number", smallest / 2)
    share = torch.finfo(torch.bfloat16).max / torch.finfo(torch.float32).max
    says("02", "its largest number is {} of fp32's", share)


def test_chapter_02_where_counting_stalls():
    says("02", "fp32 stalls too, but later: at {}", 2**24)
    assert torch.tensor(2.0**24) + 1 == 2**24 != torch.tensor(2.0**24 - 1)
    for dtype, sentence in (
        (torch.bfloat16, "From {} on the spacing of bf16 is 2"),
        (torch.float16, "would stall in the same way, at {}"),
    ):
        stall = round(2 / torch.finfo(dtype).eps)
        says("02", sentence, stall)
        start = torch.tensor(float(stall), dtype=dtype)
        assert start + 0.99 == start and torch.nextafter(start, start + 9) == stall + 2


def test_chapter_02_the_bits_of_the_formats():
    written = {"float64": "float64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16",
               "float8_e4m3fn": "E4M3", "float8_e5m2": "E5M2"}  # fmt: skip
    names = " | ".join(written.values())
    shown = [(1, f.exponent_bits, f.mantissa_bits) for f in map(formats.FORMATS.get, written)]
    row = " | ".join("{} + {} + {}" for _ in written)
    says("02", f"| {names} | |---|---|---|---|---|---| | {row} |", *sum(shown, ()))


def test_chapter_02_the_table_of_formats():
    for name, dtype in {"float64": torch.float64, "float32": torch.float32,
                        "float16": torch.float16, "bfloat16": torch.bfloat16,
                        "fp8 E4M3": torch.float8_e4m3fn,
                        "fp8 E5M2": torch.float8_e5m2}.items():  # fmt: skip
        info = torch.finfo(dtype)
        says("02", f"| {name} | {{}} | {{}} | {{}} |", info.bits // 8, info.max, info.eps)


def test_chapter_04_counting():
    says("04", "1/(2·D) less, below a thousandth for D > {}.", math.ceil(1000 / 2))
    rtx, flops = hardware.find("RTX 3070"), predict.matmul_flops(16384, 32768, 8192)
    (seconds,) = numbers("04", "the same product in bf16 took {} s")
    share = flops / float(seconds) / rtx.promised("fp32")
    says("04", f"took {seconds} s: {{}} % of the peak", 100 * share)
    says("04", "of the same accumulation: {} TFLOP/s", rtx.promised("bf16") / 1e12)
    (other,) = numbers("04", "(The {} that one also reads are for fp16 summed in fp16.)")
    assert f"{other} TFLOP/s" in rtx.note


def test_chapter_04_how_accelerators_grew():
    a100, b200 = map(hardware.find, ("A100 80GB SXM", "B200"))
    steps = ((a100, H100), (H100, b200))
    grown = [new.promised("bf16") / old.promised("bf16") for old, new in steps]
    wider = [new.bandwidth / old.bandwidth for old, new in steps]
    says("04", "arithmetic grew {} and {} times, bandwidth {} and {} times", *grown, *wider)
    says("04", "From A100 to H100 the ridge doubled, and B200 kept it")
    ridges = [row.promised("bf16") / row.bandwidth for row in (a100, H100, b200)]
    assert ridges[1] / ridges[0] == pytest.approx(2, abs=0.1)
    assert ridges[2] / ridges[1] == pytest.approx(1, abs=0.05)
    rates = H100.promised("bf16"), H100.bandwidth
    says("04", "by the two bounds of the roofline ({} FLOP/s, {} B/s)", *rates)
    says("04", "by *vectors*: in bf16 one FLOP per byte")
    x, w = torch.ones(4096), torch.ones(4096, 4096)
    assert 2 * w.numel() / (2 * (w.numel() + 2 * x.numel())) == pytest.approx(1, abs=1e-3)


def test_chapter_04_rows_and_moves():
    bekman = numbers("04", "He found {} TFLOP/s on an H100 SXM, and {} of {} on an A100 SXM")
    assert f"predicted={bekman[0]}e12" in find_chapter("04").read_text("utf-8")
    assert float(bekman[2]) == hardware.find("A100 80GB SXM").promised("bf16") / 1e12
    says("04", "So an MFU of 0.5 on an H100 is more than six tenths")
    assert 0.6 < 0.5 * H100.promised("bf16") / 1e12 / float(bekman[0]) < 0.65
    ridge, n = H100.promised("bf16") / H100.bandwidth, 4096
    says("04", "why are these more than {}?", ridge)
    rows = math.ceil(ridge * n / (n - 2 * ridge))  # 2Bn² / 2(2Bn + n²) is the ridge
    says("04", "At n = 4096 it takes {} rows", rows)
    says("04", "So up to n = {} it never becomes compute-bound", math.floor(2 * ridge))
    a100 = hardware.find("A100 80GB SXM")
    rates = a100.promised("bf16") / 1e12, a100.bandwidth / 1e9
    says("04", "An A100 of 80 GB has {} TFLOP/s in bf16 and {} GB/s", *rates)
    says("04", "Six of them read one tensor and write one (2 moves), three read two (3 moves): "
         "{} moves, {} times as many", 6 * 2 + 3 * 3, (6 * 2 + 3 * 3) / 2)  # fmt: skip


def test_chapter_05_slopes():
    x, w = torch.tensor([1.0, 2.0, 3.0]), torch.ones(3, requires_grad=True)
    says("05", "x·w is {}, so the slope is {}·x", int(x @ w), int(x @ w) - 5)
    says("05", "s = e², whose slope is 2·e = {}, so e receives ½ · {} = {}", 2, 2, 1)
    (0.5 * (x @ w - 5) ** 2).backward()
    says("05", "each computes ({}, {}, {})", *map(int, w.grad))


class Operations(TorchDispatchMode):
    """Counts the operations that reach PyTorch's dispatcher, and those that compute tensors."""

    APART = ("profiler::", "aten::_local_scalar_dense", "aten::lift_fresh")

    def __init__(self):
        super().__init__()
        self.seen = self.on_tensors = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen += 1
        self.on_tensors += not func.name().startswith(self.APART)
        return func(*args, **(kwargs or {}))


def linears(layers, *widths):
    sizes = zip(widths, widths[1:], strict=False) if layers is None else [widths * 2] * layers
    return torch.nn.Sequential(*(torch.nn.Linear(a, b, bias=False) for a, b in sizes))


def step_flops(stack, rows):
    return measure.flops(lambda: stack(torch.randn(rows, stack[0].in_features)).sum().backward())


def test_chapter_05_which_gradients_are_counted():
    B, D, K = 64, 32, 16
    everything = 2 * (predict.matmul_flops(B, D, D) + predict.matmul_flops(B, D, K))
    says("05", "$4BDK + 4BDD$, here {} FLOPs", everything)
    counted = step_flops(linears(None, D, D, K), B).backward
    says("05", "$4BDK + 2BDD$: {}, as counted", counted)
    found = step_flops(linears(None, 256, 256, 64), 1024).total
    says("05", "The rule is a third too high, {},", 6 * (256 * 256 + 256 * 64) * 1024 / found)
    says("05", "four fifths of this model's weights are in its first layer")
    assert 256 * 256 / (256 * 256 + 256 * 64) == 0.8


def test_chapter_05_matmuls_of_a_stack():
    for layers, sentence in (
        (8, "A stack of eight layers takes {} matmuls forward. Backward takes {},"),
        (4, "Four layers take {} matmuls forward and {} backward"),
    ):
        found, one = step_flops(linears(layers, 16), 4), predict.matmul_flops(4, 16, 16)
        says("05", sentence, found.forward // one, found.backward // one)
    says("05", "would take 23 / 8 = {} times", 1 + 15 / 8)
    says("05", "for wide layers expect 11 / 4 = {}", 1 + 7 / 4)


def test_chapter_05_backward_calls_more_than_three_times_as_many_operations():
    says("05", "backward makes more than three times as many as forward, transposes")
    says("05", "calls, of which backward makes more than three times as many")
    stack, rows = linears(4, 32), torch.randn(64, 32)
    with Operations() as forward:
        loss = stack(rows).sum()
    with Operations() as backward:
        loss.backward()
    assert 3 < backward.seen / forward.seen < 4


def test_chapter_05_what_waits_and_what_checkpointing_costs():
    says("05", "One result is the {} bytes of the first question", 1024 * 256 * 4)
    says("05", "A hundred layers then hold {} results instead of {}", 2 * 10, 100)
    says("05", "for one more forward pass: up to {} / {}, a third more FLOPs", 8, 6)


def test_chapter_05_gpt_2_and_an_untied_embedding():
    untied = parameters(GPT2) + GPT2.vocabulary * GPT2.width
    rule = predict.training_flops(untied, 1024)
    factor = predict.transformer_flops(GPT2, 1, 1024).total / rule
    says("05", "the embedding would add {} M parameters to N, {} in all,",
         GPT2.vocabulary * GPT2.width / 1e6, untied)  # fmt: skip
    says("05", "Then the factor falls to {}", factor)
    says("05", "the two of the forward pass: {} / {} = {} × forward", 7, 2, 3.5)


def test_chapter_06_large_and_small_factors():
    says("06", "√16384 = {}, up to the chance", math.isqrt(16384))
    says("06", "a factor of 1.1 becomes {}, and 0.9 becomes {}", 1.1**30, 0.9**30)
    says("06", "the square of {} is beyond fp32", 1e31)
    assert torch.finfo(torch.float32).max < 1e31**2


def test_chapter_06_how_far_draws_lie_apart():
    squares = torch.relu(torch.randn(1_000_000, generator=seeded()).double()).square()
    assert squares.mean().item() == pytest.approx(1 / 2, rel=0.01)
    assert squares.square().mean().item() == pytest.approx(3 / 2, rel=0.02)
    assert (squares.std() / squares.mean()).item() == pytest.approx(math.sqrt(5), rel=0.02)
    says("06", "{} % for D = 256, in *every* layer", 100 * math.sqrt(5 / 256))
    spread = 0.5 * math.sqrt(30 * 5 / 256)
    says("06", "30 \\cdot 5/256} = {}$$", spread)
    says("06", "a median draw has $e^{-0.38^2} = {}$ of it", math.exp(-(spread**2)))
    assert math.erf(1.64 / math.sqrt(2)) == pytest.approx(0.9, abs=0.002)


def test_chapter_06_scales():
    w = torch.empty(16384, 32)
    stds = [torch.nn.init.kaiming_normal_(x, generator=seeded()).std().item() for x in (w, w.T)]
    says("06", "(in, out): {} instead of {}.", *stds)
    sigma = 1 / 16384**0.5
    says("06", "trunc_normal_(w, std={}, a=-3, b=3)", sigma)
    says("06", "±3 is {} standard deviations away", round(3 / sigma))
    density = math.exp(-4.5) / math.sqrt(2 * math.pi)
    kept = math.sqrt(1 - 6 * density / math.erf(3 / math.sqrt(2)))
    says("06", "leaves a standard deviation of {}·std", kept)
    says("06", "with a standard deviation of $1/\\sqrt{3 \\cdot \\text{fan-in}}$")
    drawn = torch.nn.Linear(300, 3000).weight.std().item()
    assert drawn == pytest.approx(1 / math.sqrt(3 * 300), rel=0.01)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_chapter_07_adams_first_step():
    says("07", "the step is 0.1 / {} = {} lr, too long", math.sqrt(0.001), 0.1 / math.sqrt(0.001))
    beside, under = 1e-4 / (1e-4 + 1e-6), 1e-4 / math.sqrt(1e-8 + 1e-6)
    says("07", "1e-4 / (1e-4 + 1e-6) = {} against 1e-4 / √(1e-8 + 1e-6) = {}.", beside, under)
    alpha = inspect.signature(torch.optim.RMSprop).parameters["alpha"].default
    says("07", "With α = {} it remembers", alpha)
    betas = inspect.signature(torch.optim.Adam).parameters["betas"].default
    says("07", "with β₁ = {} and β₂ = {}", *betas)


def test_chapter_07_decay_and_the_valley():
    p = torch.nn.Parameter(torch.tensor(1.0))
    p.grad = torch.tensor(0.0)
    optimizers.AdamW([p], lr=0.1, weight_decay=0.01).step()
    says("07", "In AdamW, 1 − 0.1·0.01 = {}.", p.item())
    says("07", "SGD multiplies y by 1 − 0.07·25 = {} in each step", 1 - 0.07 * 25)


def test_chapter_07_a_small_step():
    P = predict.deep_linear_parameters(4, 2)
    tiny = models.DeepLinear(4, 2)
    adagrad = optimizers.AdaGrad(tiny.parameters())
    x, y = torch.randn(2, 4), torch.randn(2)

    def step():
        adagrad.zero_grad()
        loss = torch.nn.functional.mse_loss(tiny(x), y)
        loss.backward()
        adagrad.step()

    found = measure.memory(step)
    kept = found.largest["activations"]
    says("07", "Not the {} numbers of $B", 2 * 4 * 2)
    says("07", "wait for the backward pass but {}: 3·B·D = {} inputs of matmuls, and 2·B = {} for",
         kept // 4, 3 * 2 * 4, 2 * 2)  # fmt: skip
    held = kept + sum(found.largest[name] for name in ("parameters", "gradients", "optimizer"))
    says("07", "So it is {} bytes instead of {}, and {} more for AdaGrad's three counters",
         held, held - kept + 4 * 2 * 4 * 2, 3 * 4)  # fmt: skip
    says("07", "6·B·P is {}, and [chapter 05]", 6 * 2 * P)
    says("07", "{} = {} − 2·B·D·D", predict.deep_linear_flops(2, 4, 2), 6 * 2 * P)


def test_chapter_07_the_peak():
    P = predict.deep_linear_parameters(512, 4)
    says("07", "**Guess** the peak in bytes. P is {}.", P)
    says("07", "4·B·D·(L + 1) bytes, here {} MB", (16 * P + 4 * 256 * 512 * 5) / 1e6)
    foreach = predict.deep_linear_memory(1, 512, 4, optimizer="AdamW", form="foreach")
    says("07", "AdamW's peak is **{} bytes per parameter**, not 16", foreach.peak / P)


def test_chapter_07_bytes_a_parameter():
    state = predict.OPTIMIZER_STATE
    totals = [8 + 4 * state[name] for name in ("SGD", "momentum", "Adam")]
    says("07", "SGD {}, momentum {}, Adam and AdamW {}, with activations", *totals)
    says("07", "For 70e9 parameters Adam's state alone is {} GB", 4 * state["Adam"] * 70)
    says("07", "writes p, m and s, {} bytes per parameter", 4 * (4 + 3))
    sentence = "average m ({} bytes per parameter), shrink s ({}), add g² ({}), root ({}), "
    passes = numbers("07", sentence + "divide ({}), add eps ({}), update p ({})")
    says("07", "Together {}.", sum(map(int, passes)))
    for row, name in {"SGD": "SGD", "momentum": "momentum", "AdaGrad": "AdaGrad",
                      "RMSProp": "RMSProp", "Adam, AdamW": "AdamW"}.items():  # fmt: skip
        remembers = {0: "nothing", 1: "v" if name == "momentum" else "s", 2: "m, s"}[state[name]]
        says("07", f"| {row} | {remembers} | {{}} |", 8 + 4 * state[name])
        loop, together = layers_of_scratch(name), bytes_of_scratch(name)
        scratch = f"{loop} layers / {together} bytes per parameter" if loop else "none"
        says("07", f"| {row} | {remembers} | {8 + 4 * state[name]} | {scratch} |")


def bytes_of_scratch(name):
    """Bytes per parameter that a foreach step holds beyond parameters, gradients and state."""
    P = predict.deep_linear_parameters(512, 4)
    foreach = predict.deep_linear_memory(1, 512, 4, optimizer=name, form="foreach")
    return round(foreach.moments["optimizer"] / P - 8 - 4 * predict.OPTIMIZER_STATE[name])


def layers_of_scratch(name):
    """Layers that a for-loop step holds beyond parameters, gradients, state and data."""
    plain, fused = (
        predict.deep_linear_memory(1, 512, 4, optimizer=name, form=form).moments["optimizer"]
        for form in ("for-loop", "fused" if name != "RMSProp" else "foreach")
    )
    if name == "RMSProp":  # has no fused form; foreach holds as much as all parameters
        fused -= 4 * predict.deep_linear_parameters(512, 4)
    return round((plain - fused) / (4 * 512 * 512))


def test_chapter_08_files(tmp_path):
    says("08", "enough for a vocabulary up to {}.", 2**16)
    says(
        "08",
        "A data set of 2.8 TB holds {} tokens as uint16, or {} as int32",
        2.8e12 / 2,
        2.8e12 / 4,
    )
    np.save(tmp_path / "ten.npy", np.arange(10, dtype=np.int32))
    raw = np.memmap(tmp_path / "ten.npy", dtype=np.int32, mode="r")
    says("08", "{} numbers, the first {} of them garbage", len(raw), len(raw) - 10)
    says("08", "begins with a header of {} bytes", raw.nbytes - 40)
    says("08", "for 64 windows of 257 tokens it makes {} Python integers", 64 * 257)
    says("08", "One gather for all windows moves some {} kB", 64 * 257 * 12 / 1e3)


def typical_factor(lr, runs=40_000, D=16, B=4):
    """exp of the mean logarithm of a step's factor, for errors in a random direction."""
    random = np.random.default_rng(0)
    error = np.zeros((runs, D))
    error[:, 0] = 1
    x = random.standard_normal((runs, B, D))
    step = error - lr * 2 / B * np.einsum("rbd,rb->rd", x, np.einsum("rbd,rd->rb", x, error))
    return math.exp(np.log(np.square(step).sum(1)).mean())


def mean_factor(lr, D=16, B=4):
    return 1 - 4 * lr + 4 * lr**2 * (1 + (D + 1) / B)


def test_chapter_08_learning_rates():
    squares = sum(i * i for i in range(16))
    says("08", "It starts at {}: the squares 0² to 15² are {}, and", squares + 1, squares)
    says("08", "f is lowest at 1/(2 · {}) = {}.", 1 + 17 / 4, 1 / (2 * (1 + 17 / 4)))
    (limit,) = map(float, numbers("08", "Above {} the mean grows; somewhat higher, the typical"))
    assert mean_factor(limit) == pytest.approx(1, abs=0.01)
    assert typical_factor(limit) < 1 < typical_factor(0.25)
    says("08", "does 4·B·D = {} FLOPs", 4 * 4 * 16)
    says("08", "At the rate of any peak, {} FLOPs take a tiny part", 4 * 4 * 16)


def test_chapter_08_what_a_step_starts():
    says("08", "A step launches many operations, each with a cost of its own")
    model = models.DeepLinear(width=16, depth=0)
    sgd = optimizers.SGD(model.parameters(), lr=0.1)
    x = torch.randn(4, 16)
    with Operations() as step:
        sgd.zero_grad()
        torch.nn.functional.mse_loss(model(x), torch.ones(4)).backward()
        sgd.step()
    assert 9 <= step.seen <= 15


def test_chapter_08_where_the_loss_is_infinite():
    grown, most = round(mean_factor(3)), torch.finfo(torch.float32).max
    says("08", "grows by f = {} in each step, from {} on, and fp32 ends at {}.", grown, 1241, most)
    says("08", "Step n + 1 sees {} · {}ⁿ", 1241, grown)
    assert 1241 * 178.0**15 < most < 1241 * 178.0**16  # step 17, as the cell prints
    assert typical_factor(3.0) == pytest.approx(116, rel=0.03)


def test_chapter_08_what_a_checkpoint_holds():
    says("08", "({} parameters) with AdamW", sum(p.numel() for p in models.Bigram(64).parameters()))
    says(
        "08",
        "{} bytes per parameter: the parameters and AdamW's two",
        4 + 4 * predict.OPTIMIZER_STATE["Adam"],
    )
    says("08", "(torch's has {} bytes)", torch.get_rng_state().nbytes)


def test_chapter_09_updates_that_vanish():
    step = torch.finfo(torch.bfloat16).eps
    says("09", "Near 1, bf16 numbers lie 2⁻⁷ = {} apart", step)
    assert step == 2**-7
    says("09", "0.001 < {}, half of a step", step / 2)
    median = NormalDist().inv_cdf(0.75)
    says("09", "the median of |w|, {} · 0.02 = {}.", median, 0.02 * median)
    here = torch.tensor(0.02 * median, dtype=torch.bfloat16)
    assert torch.nextafter(here, here + 1) - here == 2**-14
    weights = 0.02 * torch.randn(200_000, generator=seeded())
    edges = []
    for dtype in (torch.bfloat16, torch.float16):
        w = weights.to(dtype)
        gaps = torch.nextafter(w.abs(), torch.full_like(w, 9)) - w.abs()
        edge = gaps.float().median().item() / 2
        edges.append(edge)
        lost = [((w + lr).to(dtype) == w).float().mean().item() for lr in (edge / 1.4, edge * 1.4)]
        assert lost[0] > 0.5 > lost[1]
    assert edges == [2**-15, 2**-18]
    says("09", "three bits more and loses half only at 2⁻¹⁸ = {}", 2**-18)


def test_chapter_09_rounding_at_random():
    share = 0.001 / 2**-7
    says("09", "0.001 is {} of a step", share)
    says("09", "a whole step in {} % of the updates", 100 * share)
    says("09", "1000 · 0.128 = {} of them on average", 1000 * share)
    spread = math.sqrt(1000 * share * (1 - share)) * 2**-7
    says("09", "√(1000 · 0.128 · {}) · 2⁻⁷ = {}.", 1 - share, spread)


def test_chapter_09_what_autocast_saves():
    B, D, L = 16, 512, 4
    plain = 4 * (L + 1) * B * D
    says("09", "in fp32 they are {} kB", plain / 1e3)
    says("09", "That is ten times as much as fp32 keeps")
    assert (plain / 2 + 2 * ((L - 1) * D * D + D)) / plain == pytest.approx(10, abs=0.5)
    batch = math.ceil(((L - 1) * D * D + D) / ((L + 1) * D))
    says("09", "here from B = {} on", batch)


def test_chapter_09_rates_and_scales():
    short, full = H100.promised("bf16"), H100.promised("fp32")
    says("09", "at {} times the rate on an H100 ({} against {} TFLOP/s in fp32, {} in TF32)",
         short / full, short / 1e12, full / 1e12, H100.promised("tf32") / 1e12)  # fmt: skip
    says("09", "below 2⁻²⁵ ≈ {} everything becomes 0", 2.0**-25)
    assert torch.tensor(2.0**-25).half() == 0 != torch.tensor(2.0**-24).half()
    says("09", "with p about 1/V: {}.", 1 / (8192 * GPT2.vocabulary))
    largest = int(torch.finfo(torch.float16).max)
    defaults = inspect.signature(torch.amp.GradScaler).parameters
    says("09", "fp16 ends at {}. PyTorch's **GradScaler** starts with {},", largest,
         int(defaults["init_scale"].default))  # fmt: skip
    says("09", "after {} good steps it doubles it", defaults["growth_interval"].default)
    says("09", "S must come below {}, and 2¹⁵ is the first power that does", largest)
    assert torch.tensor(2.0**16).half() == math.inf and torch.tensor(2.0**15).half() == 2**15
    recipe = predict.Recipe(2, 2, master_copy=0, optimizer=4)
    says("09", "Pure bf16 rounds small updates away, and has {} bytes per parameter", recipe.total)


def test_chapter_09_eight_bits_and_four():
    says("09", "and half of that is 1/16 = 2⁻⁴")
    lower, upper = 1.0, formats.neighbours(formats.encode(1.0, "float8_e4m3fn"), "float8_e4m3fn")[1]
    middle = (lower + upper) / 2
    assert (middle - lower) / lower == 1 / 16 and (middle - lower) / middle == pytest.approx(1 / 17)
    says("09", "hold **E2M1** values: 0, ½, 1, 1½, 2, 3, 4, 6, and their negatives")
    found = formats.round_blocks(torch.linspace(0, 6, 32), "MXFP4").unique()
    assert found.tolist() == [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    says("09", "harms the {} or {} that share its block", 16 - 1, 32 - 1)


def test_chapter_10_the_small_model():
    says("10", "knowing nothing costs ln 256 = {}.", math.log(256))
    flops = predict.transformer_flops(SMALL, 32, SMALL.context).total
    says("10", "one step: {} GFLOPs over", flops / 1e9)
    says("10", "P = {}, L = {}, d = {}, V = {}, r = {}.", parameters(SMALL), SMALL.layers,
         SMALL.width, SMALL.vocabulary, 32 * SMALL.context)  # fmt: skip


def test_chapter_10_what_the_rule_forgets_and_what_it_counts_too_much():
    found = {}
    for config, batch in ((SMALL, 32), (LLAMA, 1)):
        rule = predict.training_flops(parameters(config), batch * config.context)
        attention = predict.transformer_flops(config, batch, config.context).attention / rule
        idle = 1 - predict.transformer_products(config) / parameters(config)
        found[config] = (attention, idle)
    attention, idle = found[SMALL]
    says("10", "It forgets attention (+{} %), and", 100 * attention)
    says("10", "positions, biases and norms ({} %)", -100 * idle)
    attention, idle = found[LLAMA]
    says("10", "attention adds {} % and the embedding, which multiplies nothing, takes {} % off: "
         "{} % more in all", 100 * attention, 100 * idle, 100 * (attention - idle))  # fmt: skip
    rule, fleet = 6 * parameters(LLAMA) * 15e12, 1024 * H100.promised("bf16") * 0.5 * 86400
    says("10", "with all {} parameters, {} days", parameters(LLAMA), rule / fleet)
    half = 1 + attention / 2 - idle
    says("10", "leaves {} % more, {} days", 100 * (half - 1), half * rule / fleet)
    assert (attention / 2) * rule / fleet == pytest.approx(11, abs=0.5)


def test_chapter_10_the_large_models():
    says("10", "{} layers and {} query heads on only {} KV heads, each {} wide", LLAMA.layers,
         LLAMA.heads, LLAMA.kv_heads, LLAMA.head_width)  # fmt: skip
    says("10", "{} layers, width {}, {} query heads on {} KV heads of {}, h = {}, three",
         LLAMA.layers, LLAMA.width, LLAMA.heads, LLAMA.kv_heads, LLAMA.head_width,
         LLAMA.hidden)  # fmt: skip
    says("10", "Its parameters alone are {} GB in fp32", 4 * parameters(LLAMA) / 1e9)
    says("10", "16 bytes per parameter are {} GB", 16 * parameters(LLAMA) / 1e9)
    flash = predict.transformer_flops(LLAMA, 1, 8192, flash=True).total
    rule = predict.training_flops(parameters(LLAMA), 8192)
    says("10", "(3.5 × instead of 3 ×) the ratio is {}.", flash / rule)
    products = predict.transformer_products(LLAMA) / 1e9
    says("10", "token's matmuls take 6 · {}e9 FLOPs", products)
    sizes = (GPT3.vocabulary, GPT3.context, GPT3.layers, GPT3.width)
    says("10", "V = {}, T = {}, L = {}, d = {}, h = 4·d", *sizes)
    says("10", "(It is published as {} billion.)", parameters(GPT3) / 1e9)
    says("10", "Llama-3 8B: {} layers, {} KV heads of width {}", LLAMA8.layers, LLAMA8.kv_heads,
         LLAMA8.head_width)  # fmt: skip
    says("10", "many tokens can an {}e9-parameter model see", parameters(LLAMA8) / 1e9)


def test_chapter_10_the_two_peaks_and_what_they_are_made_of():
    low, high = (
        predict.transformer_memory(config, batch, config.context)
        for config, batch in ((SMALL, 32), (LLAMA, 1))
    )
    assert high.peak > 10_000 * low.peak
    says("10", "{} GB of activations for *one* sequence", high.activations / 1e9)
    says("10", "{}, *if* activations, too", math.ceil(high.peak / 80e9))
    widths = []
    for config, tokens in ((SMALL, 64), (LLAMA, 8192)):
        each = predict.activations(config, 1, tokens) / 4 / tokens
        layer = (each - config.vocabulary - 3 * config.width) / config.layers
        widths.append(layer / config.width)
    says("10", "**Explain.** {}·d, and a few numbers more", widths[0])
    says("10", "| activations per token | {}·d (Llama: {}·d) numbers; checkpointed: d |", *widths)


def test_chapter_10_explorer():
    says("10", "With V = {} and 12, 24, 36 and 48 layers", GPT2.vocabulary)
    family = {768: 12, 1024: 24, 1280: 36, 1600: 48}
    shares = (100 / (1 + 12 * L * d / GPT2.vocabulary) for d, L in family.items())
    says("10", "embedding is {} % at a width of 768, {} % at 1024, {} % at 1280 and {} % at 1600.",
         *shares)  # fmt: skip
    llama = 6 * LLAMA.width + 2 * (8192 + 1024) + 4 * LLAMA.hidden
    says("10", "together {}·d.", llama / LLAMA.width)
    wide = predict.TransformerConfig("llama", LLAMA.vocabulary, LLAMA.context, LLAMA.layers,
                                     LLAMA.width, 64, LLAMA.hidden, tied=False)  # fmt: skip
    says("10", "{}e9 parameters less, and a cache of {} GB instead of {} GB for 8192 tokens",
         (parameters(wide) - parameters(LLAMA)) / 1e9, predict.kv_cache(LLAMA, 1, 8192) / 1e9,
         predict.kv_cache(wide, 1, 8192) / 1e9)  # fmt: skip
    says("10", "Attention doubles the FLOPs per token")
    assert 6 * predict.transformer_products(LLAMA) / (12 * 8192 * 80) > 50_000


def test_what_should_have_been_found_in_the_explorers_of_06_07_and_09():
    says("06", "wanders by ½·√(5·L/64), which is 1 at about {} layers", 4 * 64 / 5)
    says("06", "makes 1.05⁶⁰, about {}.", 1.05**60)
    says("07", "80e9 bytes hold {} parameters at 16 bytes each, the fused form, and {} at 20,",
         80e9 / 16, 80e9 / 20)  # fmt: skip
    says("07", "70e9 parameters at 16 bytes are {} GB: {} devices of 80 GB", 16 * 70, 14)
    assert 16 * 70 == 14 * 80
    says("09", "For fp16 any S from 2⁹ to 2²⁸ will do")
    edge = 2.0**-25 * 8192 * GPT2.vocabulary * math.sqrt(math.e)  # as the chapter's closed form
    lost = [NormalDist().cdf(math.log(edge / 2**power)) for power in (8, 9)]
    assert lost[0] > 1e-3 > lost[1]
    right = (1 - 1 / GPT2.vocabulary) / 8192  # the largest gradient: that of the right token
    assert torch.tensor(right * 2**28).half().isfinite()
    assert torch.tensor(right * 2**29).half().isinf()
    says("09", "its smallest number is 2⁻¹⁶ instead of 2⁻²⁴")
    for dtype, power in ((torch.float8_e5m2, -16), (torch.float16, -24)):
        info = torch.finfo(dtype)
        assert info.smallest_normal * info.eps == 2.0**power


def test_chapter_08_the_first_loss():
    says("08", "256 equal chances give ln 256 = {}.", math.log(256))


def test_what_the_short_explanations_of_05_to_10_say():
    says("05", "L must exceed {}.", 2.02 / 0.06)
    says("06", "so {} layers reach $2^{", 126 // 7)
    assert 2.0**126 < torch.finfo(torch.float32).max < 2.0**133
    says("07", "{} million in all, {} MB of memory traffic", 0.2, 0.2 * 28)
    inputs, copies = 2 * 5 * 16 * 512, 2 * (3 * 512 * 512 + 512)
    says("09", "The inputs are only {} kB in bf16. The copies of the weights are {} MB",
         inputs / 1e3, copies / 1e6)  # fmt: skip
    assert 2.0**-25 * 8192 * GPT2.vocabulary == pytest.approx(12, abs=0.5)
    says("09", "the mean gradient, {}, is twelve times smaller", 1 / (8192 * GPT2.vocabulary))
    says("10", "{} bytes per token. With 64 KV heads", predict.kv_cache(LLAMA, 1, 1))


def test_chapter_06_a_median_draw_lies_below_the_mean_of_squares():
    """Logarithms of the scale are normal with the spread s: the mean square is e^(2s²) medians²."""
    spread = 0.5 * math.sqrt(30 * 5 / 256)
    logs = spread * torch.randn(1_000_000, generator=seeded()).double()
    arithmetic = logs.mul(2).exp().mean().sqrt()
    assert 1 / arithmetic.item() == pytest.approx(math.exp(-(spread**2)), rel=0.01)


def test_chapter_07_smaller_states_and_calls():
    says("07", "a parameter takes 4 + 4 + 2 = {} bytes: {} parameters", 10, 80e9 / 10)
    says("07", "calls nine operations for each of the 200 parameters, some {};", 9 * 200)
    says("07", "foreach nine and fused two, each for all parameters at once")
    parameters = [torch.nn.Parameter(torch.ones(9)) for _ in range(200)]
    for p in parameters:
        p.grad = torch.ones(9)
    for form, count in ({"foreach": False}, 9 * 200), ({"foreach": True}, 9), ({"fused": True}, 2):
        adamw = torch.optim.AdamW(parameters, **form)
        adamw.step()
        with Operations() as called:
            adamw.step()
        # Beside them come reads of the step counters, a constant, and marks for the profiler.
        assert called.on_tensors == count
    says("07", "stored in {} bits each (4 bits, and one fp32 scale for every {};", 4 + 32 / 64, 64)


def test_chapter_08_the_median_run_shrinks_a_little():
    says("08", "just over half of the runs do")
    generator = torch.Generator().manual_seed(0)
    excess = torch.full((20_000,), 1.0)
    error = torch.zeros(20_000, 16)
    error[:] = -torch.arange(16.0)  # from a head of zeros
    start = error.square().sum(1)
    for _ in range(10):
        x = torch.randn(20_000, 4, 16, generator=generator)
        error = error - 0.2 * 2 / 4 * (x.transpose(1, 2) @ (x @ error[:, :, None]))[:, :, 0]
    excess = error.square().sum(1) / start
    assert 0.5 < (excess < 1).double().mean() < 0.6 and excess.mean() > 1


def test_chapter_00_the_mfu_of_a_real_run():
    days = predict.training_days(70e9, 15e12, devices=1024, peak=H100.promised("bf16"), mfu=0.5)
    says("00", "if {} would need {} days", 0.5, days)


def test_chapter_08_a_file_larger_than_the_budget():
    (size,) = numbers("08", "grown? The file has {} bytes")
    size = int(size.replace(" ", ""))
    assert 2 <= size / 50e6 < 2.02  # "twice as large" as 50 MB


def test_chapter_09_the_error_of_a_tf32_matmul():
    x = torch.randn(1_000_000, generator=seeded())
    one = ((formats.round_tf32(x) - x).double().square().mean() / x.double().square().mean()).sqrt()
    says("09", "the root of their mean square is {}.", one.item())
    says("09", "a rounding is off by 2⁻¹¹ = {} at most", 2.0**-11)
    a, b = torch.randn(2, 512, 512, generator=seeded(), dtype=torch.float64)
    short = [formats.round_tf32(part.float()).double() for part in (a, b)]
    off = (short[0] @ short[1] - a @ b).norm() / (a @ b).norm()
    assert off.item() == pytest.approx(math.sqrt(2) * one.item(), rel=0.02)


def test_chapter_10_days_of_the_whole_run():
    def days(flops_per_token):
        return flops_per_token * 15e12 / (1024 * H100.promised("bf16") * 0.5 * 86_400)

    counted, half = (
        predict.transformer_flops(LLAMA, 1, 8192, causal=causal).total / 8192
        for causal in (False, True)
    )
    rule, napkin = 6 * parameters(LLAMA), 6 * 70e9
    says("10", "parameters, {} days, attention adds {} %", days(rule),
         100 * 12 * 8192 * 8192 * 80 / rule)  # fmt: skip
    says("10", "{} % more in all. A kernel that skips the masked half of attention leaves "
         "{} % more, {} days.",
         100 * (counted / rule - 1), 100 * (half / rule - 1), days(half))  # fmt: skip
    says("10", "Over [chapter 00](00_start_here.ipynb)'s {} that is {} % and {} %", days(napkin),
         100 * (counted / napkin - 1), 100 * (half / napkin - 1))  # fmt: skip
