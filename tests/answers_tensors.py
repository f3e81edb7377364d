"""Answers to the exercises of chapters 01 to 04: right ones, and wrong ones with a reply's word."""

import math
import struct
from functools import partial

import torch
import torch.nn.functional as F
from beartype import beartype
from einops import einsum, rearrange, reduce, repeat
from jaxtyping import Bool, Float, Shaped, jaxtyped
from torch import Tensor

from course_utils import check, formats

VIEWS = {name: kind for name, kind in check.ex01.KINDS.items()}
EXACT = {"float16": 2**11, "bfloat16": 2**8, "float32": 2**24, "float64": 2**53}
EINSUMS = {"bsd,dk->bsk": 1_433_600, "bqd,bkd->bqk": 4_423_680, "bd,d->b": 512}
CHOSEN = check.ex02.SITUATIONS
FORMATS = list(CHOSEN.values())

# Chapter 01: programs on a tensor's storage


def masks(T):
    return torch.ones(T, T).tril().bool()


def windows(x, width, more=0, offset=None, stride=None):
    step = x.stride(0) if stride is None else stride
    sizes = (len(x) - width + 1 + more, width)
    return x.as_strided(sizes, (step, step), x.storage_offset() if offset is None else offset)


def patches(x, height, width, steps=None, offset=None):
    steps = x.stride() if steps is None else steps
    sizes = (x.shape[0] - height + 1, x.shape[1] - width + 1, height, width)
    return x.as_strided(sizes, steps * 2, x.storage_offset() if offset is None else offset)


def encoded(value, rounded=round, carry=True, largest=15, lowest=-14):
    """The bits of fp16, by arithmetic; the options leave a step of it out."""
    front = "1" if math.copysign(1, value) < 0 else "0"
    power = math.frexp(value)[1] - 1
    if power < -14 and lowest < -14:
        return front + "0" * 15
    power = max(power, lowest)
    units = rounded(abs(value) * 2.0 ** (10 - power))
    if carry and units == 2048:
        power, units = power + 1, 1024
    if power > largest:
        return front + "1" * 5 + "0" * 10
    stored = min(power + 15, 31) if units >= 1024 else 0
    return front + f"{stored:05b}{units % 1024:010b}"


def encoded_by_struct(value):
    try:
        packed = struct.pack(">e", value)
    except OverflowError:
        packed = struct.pack(">e", math.copysign(math.inf, value))
    return f"{int.from_bytes(packed, 'big'):016b}"


# Chapter 03: what is checked at the call, and an einsum by hand


def pool_plain(x, mask):
    return (x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


@jaxtyped(typechecker=beartype)
def pool_by_types(
    x: Float[Tensor, "batch token width"], mask: Bool[Tensor, "batch token"]
) -> Float[Tensor, "batch width"]:
    return pool_plain(x, mask)


def pool_by_hand(x, mask):
    assert x.is_floating_point() and x.dim() == 3
    assert mask.dtype == torch.bool and mask.shape == x.shape[:2]
    return pool_plain(x, mask)


def pool_unchecked(x: Float[Tensor, "batch token width"], mask: Bool[Tensor, "batch token"]):
    return pool_plain(x, mask)


@jaxtyped(typechecker=beartype)
def pool_loose(x: Float[Tensor, "batch token width"], mask: Bool[Tensor, "rows columns"]):
    return pool_plain(x, mask)


@jaxtyped(typechecker=beartype)
def pool_any_kind(x: Shaped[Tensor, "batch token width"], mask: Bool[Tensor, "batch token"]):
    return pool_plain(x, mask)


def by_broadcasting(pattern, x, y, summed=True, ordered=True):
    inputs, result = pattern.replace(" ", "").split("->")
    left, right = inputs.split(",")
    result = result if ordered else "".join(sorted(result))
    order = result + "".join(sorted(set(left + right) - set(result)))

    def aligned(tensor, letters):
        kept = [letters.index(letter) for letter in order if letter in letters]
        return tensor.permute(kept)[tuple(slice(None) if c in letters else None for c in order)]

    made = aligned(x, left) * aligned(y, right)
    lost = tuple(range(len(result), len(order)))
    return made.sum(dim=lost) if lost and summed else made


def both(B, D, K, nbytes, peak, bandwidth):
    return 2 * B * D * K / peak, nbytes * (B * D + D * K + B * K) / bandwidth


def words(plan):
    arithmetic, memory = both(**plan)
    return "arithmetic" if arithmetic > memory else "memory"


def least(**plan):
    return max(both(**plan)), words(plan)


def emptied(x, width):
    wrong = windows(x, width)
    x.zero_()
    return wrong


def shrunk(x):
    row = x[0].clone()
    x.untyped_storage().resize_(0)
    return row


# Chapter 02: a decoder with a mistake at each place


def fp16(bits):
    return torch.tensor(int(bits, 2), dtype=torch.int32).to(torch.int16).view(torch.float16).item()


def decoded(bits, bias=15, implied=1, steps=1024, least=-14, special=True, negative=-1):
    e, m = int(bits[1:6], 2), int(bits[6:], 2)
    sign = negative if bits[0] == "1" else 1
    if e == 31 and special:
        return math.nan if m else sign * math.inf
    if e == 0:
        return sign * 2.0**least * m / steps
    return sign * 2.0 ** (e - bias) * (implied + m / steps)


def decoded_at_once(bits):
    e, m = int(bits[1:6], 2), int(bits[6:], 2)
    return (-1) ** int(bits[0]) * 2.0 ** (e - 15) * (1 + m / 1024)


# Chapter 03: grouped queries


def groups(q, k):
    return q.shape[1] // k.shape[1]


def split_heads(q, k):
    return q.unflatten(1, (k.shape[1], -1))


def by_einsum(q, k):
    products = torch.einsum("bkgnd,bkmd->bkgnm", split_heads(q, k), k)
    return products.flatten(1, 2)


def by_einops(q, k):
    q = rearrange(q, "b (kv g) n d -> b kv g n d", kv=k.shape[1])
    products = einsum(q, k, "b kv g n d, b kv m d -> b kv g n m")
    return rearrange(products, "b kv g n m -> b (kv g) n m")


def by_rows(q, k):
    b, h, n, d = q.shape
    return (q.reshape(b, k.shape[1], -1, d) @ k.mT).reshape(b, h, n, -1)


def by_heads(q, k):
    return torch.stack([q[:, i] @ k[:, i // groups(q, k)].mT for i in range(q.shape[1])], 1)


def interleaved_names(q, k):
    q = rearrange(q, "b (g kv) n d -> b kv g n d", kv=k.shape[1])
    products = einsum(q, k, "b kv g n d, b kv m d -> b g kv n m")
    return rearrange(products, "b g kv n m -> b (g kv) n m")


@torch.no_grad()
def unrecorded(q, k):
    return q @ k.repeat_interleave(groups(q, k), 1).mT


def masked_mean(x, mask, dim=1):
    return einsum(x, mask.float(), "b s d, b s -> b d") / reduce(mask.float(), "b s -> b 1", "sum")


def unfolded(x, n):
    patches = F.unfold(x, n, stride=n)  # (b, c · n · n, patches)
    return patches.unflatten(1, (x.shape[1], -1)).permute(0, 3, 2, 1).flatten(2)


# For each exercise: right answers, and wrong ones with a word of the reply that each must get.
CASES = {
    "01.1": (
        [(2, 48, 8), [2, 48, 8], (torch.tensor(2), 48, torch.tensor([8])[0]),
         torch.zeros(4, 6, 8).permute(2, 0, 1)[::2, 1:].stride()],
        [((48, 8, 1), "own strides"), ((1, 48, 8), "step"), ((8, 48, 2), "another order"),
         ((18, 6, 1), "contiguous copy"), ((24, 6, 1), "contiguous copy"),
         ((4, 3, 6), "shape of y"), ((8, 192, 32), "bytes"), ((16, 1, 48), "other way round"),
         ((2, 8, 48), "another order"), ((2, 48, 1), "stride is not 1"), ((2, 48), "3 in all"),
         ((2, 48, 9), "2 of 3")],
    ),
    "01.2": (
        [170, 170.0, torch.tensor(170)],
        [(122, "offset is missing"), (171, "from 0"), (169, "the step of the slice"),
         (123, "count from 0"), (121, "the step of the slice too"), (169.99, "too small"),
         (680, "in bytes"), (500, "too large")],
    ),
    "01.3": (
        [VIEWS, {name: f" {kind.upper()}" for name, kind in VIEWS.items()}],
        [({**VIEWS, "x.T": "copy"}, "9 of 10"), ({**VIEWS, "x.T": "both"}, "'view' or 'copy'"),
         ({**VIEWS, "x.T": None}, "9 of 10 answered"), ({"x.T": "view"}, "missing"),
         (dict.fromkeys(VIEWS, "view"), "5 of 10"),
         (["view"], "dict")],
    ),
    "01.4": (
        [lambda T: torch.arange(T) <= torch.arange(T)[:, None], masks,
         lambda T: torch.arange(T).expand(T, T) <= torch.arange(T).expand(T, T).mT,
         lambda T: torch.arange(T).unsqueeze(1).ge(torch.arange(T).unsqueeze(0))],
        [(lambda T: masks(T).mT, "future"), (lambda T: ~masks(T).mT, "diagonal"),
         (lambda T: torch.arange(T) < torch.arange(T)[:, None], "diagonal"),
         (lambda T: ~masks(T), "inverted"), (lambda T: masks(T).float(), "dtype"),
         (lambda T: torch.arange(T) <= torch.arange(T), "shape"),
         (lambda T: None, "a tensor is expected"), (lambda: 1, "TypeError"),
         (lambda T: torch.ones(T, T).bool(), "the future too"),
         (lambda T: torch.eye(T).bool(), "query 0"), (lambda T: masks(T).flip(1), "query 0"),
         (lambda T: masks(T).to("meta"), "meta"), (lambda T: masks(4), "shape"),
         (lambda T: masks(T) if T > 1 else masks(T).squeeze(), "shape")],
    ),
    "01.5": (
        [lambda x, width: x.unfold(0, width, 1), windows,
         lambda x, w: x.as_strided((len(x) - w + 1, w), (x.stride(0),) * 2),
         lambda x, w: x.unfold(0, len(x) - w + 1, 1).mT],
        [(lambda x, w: x.unfold(0, w, 1).clone(), "copied"),
         (lambda x, w: torch.stack([x[i : i + w] for i in range(len(x) - w + 1)]), "copied"),
         (lambda x, w: windows(x, w).contiguous(), "copied"),
         (lambda x, w: x[torch.arange(len(x) - w + 1)[:, None] + torch.arange(w)], "copied"),
         (lambda x, w: x.unfold(0, w, 1).double(), "some rows are not"),
         (partial(windows, stride=1), "own stride"), (partial(windows, offset=0), "own stride"),
         (partial(windows, more=-1), "n − width + 1"), (partial(windows, more=1), "n − width + 1"),
         (lambda x, w: x.unfold(0, w, w), "n − width + 1"), (lambda x, w: x, "shape must be"),
         (lambda x, w: x.unfold(0, w, 1).mT, "Transposed"), (lambda x, w: x.sum(), "got ()."),
         (lambda x, w: x.unfold(0, w, 1).flip(0), "some rows are not"), (emptied, "changed x"),
         (lambda x, w: 3, "a tensor is expected"), (lambda x: x, "TypeError")],
    ),
    "01.6": (
        [lambda x: x[0].clone(), lambda x: torch.tensor(x[0].tolist()), lambda x: x[0] + 0,
         lambda x: x[:1].clone()[0], lambda x: torch.empty(x.shape[1]).copy_(x[0])],
        [(lambda x: x[0], "view of x"), (lambda x: x[0].contiguous(), "contiguous() does not"),
         (lambda x: x[0].detach(), "view of x"), (lambda x: x.flatten()[: x.shape[1]], "view of x"),
         (lambda x: x.clone()[0], "the row first"), (lambda x: x[1].clone(), "values"),
         (lambda x: x.as_strided((x.shape[1],), (1,)).clone(), "values"),
         (lambda x: x[:1].clone(), "got shape (1, "), (lambda x: x[0].to("meta"), "meta"),
         (lambda x: x[0].double(), "dtype"), (lambda x: x[:, 0].clone(), "has shape"),
         (lambda x: x.zero_()[0].clone(), "changed x"), (shrunk, "changed x"),
         (lambda x: 1 / 0, "ZeroDivisionError")],
    ),
    "01.7": ([], [(1.5, "whole number"), (-64, "whole number"), (10**14, "too large to try")]),
    "01.8": (
        [patches, lambda x, height, width: x.unfold(0, height, 1).unfold(1, width, 1)],
        [(lambda x, h, w: patches(x, h, w).clone(), "a copy"),
         (lambda x, h, w: patches(x.contiguous(), h, w), "a copy"),
         (lambda x, h, w: patches(x, h, w, offset=0), "cell 0"),
         (lambda x, h, w: patches(x, h, w, steps=(x.shape[1], 1)), "contiguous matrix"),
         (lambda x, h, w: patches(x, h, w)[1:], "the shape must be"),
         (lambda x, h, w: patches(x, h, w).flatten(0, 1), "the shape must be"),
         (lambda x, h, w: x, "the shape must be"), (lambda x, h, w: None, "a tensor is expected")],
    ),
    "01.9": (
        [701, 701.0],
        [(700, "straight down"), (1, "to the right"), (501, "as columns"), (699, "to the left"),
         (2804, "bytes"), (2, "a whole row"), (702, "too large"), (500, "number of rows")],
    ),
    "02.1": (
        [14_450_688, 14_450_688.0],
        [(4_816_896, "those are the numbers"), (9_633_792, "the mask"),
         (19_267_584, "two bytes"), (24_084_480, "fp32"), (451_584, "one image"),
         (11_239_424, "colours too"), (115_605_504, "byte has 8"), (14.45, "not in MB"),
         (0.01445, "not in GB"), (13.78, "not in MiB"), (14.45e6, "rounded"),
         (14_450_689, "rounded")],
    ),
    "02.2": (
        [EXACT, {name: float(n) for name, n in EXACT.items()}],
        [({**EXACT, "float16": 1024}, "implied"), ({**EXACT, "float32": 2**24 - 1}, "exact too"),
         ({**EXACT, "bfloat16": 257}, "skipped"), ({**EXACT, "float16": 65504}, "largest number"),
         ({**EXACT, "bfloat16": 3.39e38}, "largest number"),
         ({**EXACT, "float16": 4096}, "too many"),
         *(({**EXACT, "float64": 2**53 + more}, word) for more, word in (
             (-9000, "rounded"), (9000, "rounded"), (2, "rounded"), (1, "skipped"),
             (-1, "exact too"))),
         ({**EXACT, "float64": 9.007e15}, "rounded"), ({**EXACT, "float32": 16.8e6}, "rounded"),
         ({**EXACT, "float64": None}, "open"), (256, "dict"),
         ({**EXACT, "float16": "a"}, "number")],
    ),
    "02.3": (
        [CHOSEN, dict(zip(CHOSEN, ("fp64", "fp32", "bf16", "fp16"), strict=True)),
         dict(zip(CHOSEN, ("FP64", " FP32", "BF16", "half"), strict=True)),
         {name: f"torch.{form}" for name, form in CHOSEN.items()},
         {name: getattr(torch, form) for name, form in CHOSEN.items()}],
        [(dict.fromkeys(CHOSEN, "float32"), "add up"), ({}, "open"),
         (dict(zip(CHOSEN, FORMATS[::-1], strict=True)), "float16 does not suit"),
         (dict(zip(CHOSEN, [*FORMATS[:2], torch.half, "bf16"], strict=True)), "wide range"),
         (dict.fromkeys(CHOSEN, "int8"), "needs one of"), ("float32", "dict"),
         (dict.fromkeys(CHOSEN, torch.int8), "needs one of"),
         (dict.fromkeys(CHOSEN, [1]), "needs one of")],
    ),
    "02.4": (
        [fp16, decoded, lambda bits: formats.decode(int(bits, 2), "float16"),
         lambda bits: torch.tensor(fp16(bits))],
        [(lambda bits: fp16(bits) if bits[1:6] != "00000" else 0.0, "subnormal"),
         (lambda bits: fp16(bits) if bits[1:6] != "11111" else 65536.0, "infinities"),
         (lambda bits: abs(fp16(bits)), "The sign is wrong"), (lambda bits: None, "a number"),
         (partial(decoded, negative=1), "The sign is wrong"),
         (lambda bits: fp16(bits) + 0.0, "minus zero"),
         (decoded_at_once, "this one is special"), (partial(decoded, special=False), "is special"),
         (partial(decoded, implied=0), "leading 1 is missing"),
         (partial(decoded, bias=0), "bias is missing"), (partial(decoded, bias=16), "is 15"),
         (partial(decoded, bias=127), "fp32's"), (partial(decoded, steps=1023), "steps of 2⁻¹⁰"),
         (partial(decoded, least=-15), "not the exponent of these"),
         (lambda bits: fp16(bits[0] + bits[:0:-1]), "normal numbers"),
         (lambda bits: fp16(bits) if fp16(bits) == fp16(bits) else math.inf, "NaN"),
         (lambda bits: str(fp16(bits)), "a number"), (lambda: 0, "TypeError"), (3, "function")],
    ),
    "02.5": (
        [2.0**-24 * (1 + 2.0**-23), 5.960465e-08, 5.9604652e-08, torch.tensor(5.960465e-08),
         2.0**-24 + 2.0**-47],
        [(2.0**-23, "eps"), (1.19e-7, "eps"), (1.2e-7, "eps"), (2.0**-24, "tie"),
         (5.9604645e-08, "tie"), (5.96e-8, "every digit"), (5.960464e-8, "every digit"),
         (2.0**-53, "float64"), (2.22e-16, "float64"), (1.18e-38, "normal"), (2.0**-149, "lost"),
         (1.4e-45, "lost"), (-6e-8, "positive"), (1e-8, "too small"), (1.0, "too large")],
    ),
    "02.6": ([], [(0.5, "whole number"), (-1, "whole number"), (10**14, "too large to try")]),
    "02.7": (
        [encoded, encoded_by_struct],
        [(lambda value: encoded(value, rounded=int), "cut off"),
         (lambda value: encoded(value, rounded=lambda units: int(units + 0.5)), "not always up"),
         (lambda value: encoded(value, carry=False), "next power of two"),
         (lambda value: encoded(value, rounded=lambda units: (
             int(units + 0.5) if units < 1024 else round(units))), "subnormal"),
         (lambda value: encoded(value, rounded=lambda units: (
             min(round(units), 1023) if units < 1024 else round(units))), "smallest normal"),
         (lambda value: encoded(value, rounded=lambda units: (
             2047 if units == 2047.5 else round(units))), "below a power of two"),
         (lambda value: encoded(value, largest=99), "too large becomes infinity"),
         (lambda value: encoded(value, lowest=-99), "subnormal ones"),
         (lambda value: encoded(abs(value)), "the sign"),
         (lambda value: encoded(value)[::-1], "a power of two"),
         (lambda value: "0" * 16, "a power of two"),
         (lambda value: int(encoded(value), 2), "a text"),
         (lambda value: f"0b{encoded(value)}", "a text")],
    ),
    "02.8": (
        [2**18, 262144.0],
        [(18, "exponent"), (2**17, "counts"), (2**19, "earlier already"), (2**24, "where 1"),
         (167772.16, "a power of two"), (26_214_400, "cents")],
    ),
    "03.1": (
        [lambda x, y: x[:, :, None] * y[:, None], lambda x, y: einsum(x, y, "b i, b j -> b i j"),
         lambda x, y: torch.einsum("bi,bj->bij", x, y), lambda x, y: torch.vmap(torch.outer)(x, y),
         lambda x, y: torch.bmm(x.unsqueeze(2), y.unsqueeze(1))],
        [(lambda x, y: y[:, :, None] * x[:, None], "transposed"),
         (lambda x, y: torch.einsum("bi,bj->ij", x, y), "batch is gone"),
         (lambda x, y: torch.einsum("bi,cj->bij", x, y), "values are not"),
         (lambda x, y: x, "the shape"), (lambda x, y: None, "a tensor"), (lambda x: x, "TypeError"),
         (lambda x, y: x.mul_(2)[:, :, None] * y[:, None] / 2, "changed x"),
         (lambda x, y: (x[:, :, None] * y[:, None]).squeeze(0), "batch is gone"),
         (lambda x, y: (x[:, :, None] * y[:, None]).squeeze(2), "the shape"),
         (lambda x, y: (x[:, :, None] * y[:, None]).round(), "values are not"),
         (lambda x, y: (x[:, :, None] * y[:, None]).to(torch.complex64), "values are not"),
         (lambda x, y: 2 * x[:, :, None] * y[:, None], "values are not")],
    ),
    "03.2": (
        [lambda x, n: rearrange(x, "b c (h p) (w q) -> b (h w) (p q c)", p=n, q=n), unfolded,
         lambda x, n: x.unfold(2, n, n).unfold(3, n, n).permute(0, 2, 3, 4, 5, 1).flatten(3)
                       .flatten(1, 2)],
        [(lambda x, n: rearrange(x, "b c (h p) (w q) -> b (h w) (c p q)", p=n, q=n), "channel"),
         (lambda x, n: F.unfold(x, n, stride=n).mT, "channel"),
         (lambda x, n: rearrange(x, "b c (h p) (w q) -> b (w h) (p q c)", p=n, q=n), "row by row"),
         (lambda x, n: rearrange(x, "b c (h p) (w q) -> b (h w) (q p c)", p=n, q=n), "transposed"),
         (lambda x, n: rearrange(x, "b c (p h) (q w) -> b (h w) (p q c)", p=n, q=n), "values are"),
         (lambda x, n: x.reshape(len(x), -1, x.shape[1] * n * n), "tears"),
         (lambda x, n: x, "the shape")],
    ),
    "03.3": (
        [lambda q, k: q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5,
         lambda q, k: einsum(q, k, "b h q d, b h k d -> b h q k") / math.sqrt(k.shape[-1]),
         lambda q, k: torch.matmul(q * q.shape[-1] ** -0.5, k.mT)],
        [(lambda q, k: q @ k.transpose(-1, -2), "1/√d is missing"),
         (lambda q, k: q @ k.transpose(-1, -2) / q.shape[-1], "scaled by d"),
         (lambda q, k: q @ k.mT * q.shape[-1] ** 0.5, "multiplied by √d"),
         (lambda q, k: q @ k.mT / q.shape[-2] ** 0.5, "another size"),
         (lambda q, k: q @ k.mT / k.shape[-2] ** 0.5, "another size"),
         (lambda q, k: (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1), "softmax"),
         (lambda q, k: k @ q.transpose(-1, -2) / q.shape[-1] ** 0.5, "q before k"),
         (lambda q, k: torch.einsum("bhqd,bhkd->bqk", q, k) / q.shape[-1] ** 0.5, "heads"),
         (lambda q, k: torch.einsum("bhqd,bgkd->bhqk", q, k) / q.shape[-1] ** 0.5, "values are")],
    ),
    "03.4": (
        [by_einsum, by_einops, by_rows, by_heads],
        [(lambda q, k: q @ k.repeat_interleave(groups(q, k), 1).mT, "k was copied"),
         (lambda q, k: q @ repeat(k, "b kv m d -> b (kv g) m d", g=groups(q, k)).mT, "was copied"),
         (lambda q, k: q @ k[:, torch.arange(q.shape[1]) // groups(q, k)].mT, "k was copied"),
         (lambda q, k: by_einsum(q, k.clone()), "k was copied"),
         (lambda q, k: (split_heads(q, k) @ k[:, :, None].mT).flatten(1, 2), "@ copies too"),
         (lambda q, k: by_rows(q.detach(), k.detach().clone()), "autograd recorded no"),
         (unrecorded, "autograd recorded no"), (interleaved_names, "(kv g)"),
         (lambda q, k: q @ k.repeat(1, groups(q, k), 1, 1).transpose(-1, -2), "(kv g)"),
         (lambda q, k: by_einsum(q, k) / q.shape[-1] ** 0.5, "no scale"),
         (lambda q, k: by_einsum(q, k).mT, "q before k"),
         (lambda q, k: by_einsum(q, k) + 1, "values are not"),
         (lambda q, k: k, "the shape"), (lambda q, k: (q @ q.transpose(-1, -2)), "the shape")],
    ),
    "03.5": (
        [lambda x, m: torch.stack([row[keep].mean(0) for row, keep in zip(x, m, strict=True)]),
         masked_mean, lambda x, m: (x * m[..., None]).sum(1) / m.sum(1)[:, None],
         lambda x, m: x.masked_fill(~m[..., None], math.nan).nanmean(1)],
        [(lambda x, m: x.mean(1), "padding"), (lambda x, m: (x * m[..., None]).sum(1), "the sum"),
         (lambda x, m: (x * m[..., None]).mean(1), "all positions"), (lambda x, m: x, "shape"),
         (lambda x, m: (x * m[..., None]).sum(1) / m.sum(), "whole mask"),
         (lambda x, m: masked_mean(x, ~m), "the mean of the others"),
         (lambda x, m: torch.stack([row[: n.sum()].mean(0) for row, n in zip(x, m, strict=True)]),
          "values are not"),
         (lambda x, m: x.masked_fill(~m[..., None], 0).amax(1), "values are not"),
         (lambda x, m: masked_mean(x.mul_(m[..., None]), m), "changed x")],
    ),
    "03.6": (
        [lambda x: x.transpose(1, 2), lambda x: x.permute(0, 2, 1, 3), lambda x: x.swapaxes(2, 1),
         lambda x: rearrange(x, "b s h d -> b h s d").contiguous()],
        [(lambda x: x.reshape(x.shape[0], x.shape[2], x.shape[1], -1), "still a reshape"),
         (lambda x: x, "still a reshape"), (lambda x: x.transpose(0, 2), "other dimensions"),
         (lambda x: x.transpose(2, 3), "other dimensions"), (lambda x: x.mT.mT, "still a reshape"),
         (lambda x: x.transpose(1, 3), "other dimensions"),
         (lambda x: x.zero_().transpose(1, 2), "changed x"),
         (lambda x: x.transpose(1, 2).flip(1), "values are not"),
         (lambda x: x.transpose(1, 2) * 2, "values are not")],
    ),
    "03.7": ([], [(1.5, "whole number"), (-3, "whole number"), (200_000, "too large to try")]),
    "03.8": (
        [by_broadcasting],
        [(lambda pattern, x, y: by_broadcasting(pattern, y, x), "raised"),
         (lambda pattern, x, y: x @ y, "matmul"),
         (lambda pattern, x, y: torch.einsum(pattern.replace(" ", ""), x, y), "einsum does it"),
         (lambda pattern, x, y: einsum(x, y, pattern), "einsum does it"),
         (lambda pattern, x, y: by_broadcasting(pattern, x, y, summed=False), "must be"),
         (lambda pattern, x, y: by_broadcasting(pattern, x, y) * 2, "the values are not"),
         (lambda pattern, x, y: by_broadcasting(pattern, x, y, ordered=False), "must be"),
         (lambda pattern, x, y: by_broadcasting(pattern, x.zero_(), y), "changed x"),
         (lambda pattern, x, y: None, "a tensor is expected")],
    ),
    "03.9": (
        [pool_by_types, pool_by_hand],
        [(pool_plain, "a mask of numbers is accepted"), (pool_unchecked, "a mask of numbers"),
         (pool_loose, "a mask of one row for a whole batch is accepted"),
         (pool_any_kind, "an x of whole numbers is accepted"),
         (lambda x, mask: pool_by_types(x, mask) * 2, "the values are not"),
         (lambda x, mask: x.mean(1), "the values are not"),
         (lambda x, mask: pool_by_types(x.transpose(0, 1), mask), "raised"),
         (lambda x, mask: None, "a tensor is expected"), (3, "a function")],
    ),
    "03.10": (
        [400_000, 4e5],
        [(200_000, "multiplications"), (40_000_000, "dearer"), (20_000_000, "half of the dearer"),
         (100_000, "of one of the two"), (40_400_000, "you choose one"), (200_000_000, "in one")],
    ),
    "04.1": (
        [EINSUMS],
        [({**EINSUMS, "bd,d->b": 256}, "two FLOPs"),
         ({**EINSUMS, "bd,d->b": 128}, "size 4 is missing"),
         ({**EINSUMS, "bd,d->b": 64}, "size 4 is missing, and the factor 2"),
         ({**EINSUMS, "bd,d->b": 508}, "d − 1 additions"),
         ({**EINSUMS, "bsd,dk->bsk": 1_422_400}, "d − 1 additions"),
         ({**EINSUMS, "bsd,dk->bsk": 1.43e6}, "rounded"),
         ({**EINSUMS, "bqd,bkd->bqk": 61440}, "size 72 is missing"),
         ({**EINSUMS, "bqd,bkd->bqk": 2 * 4 * 120 * 120 * 64}, "too large"),
         ({**EINSUMS, "bd,d->b": 512 * 64}, "both inputs"),
         ({**EINSUMS, "bsd,dk->bsk": 1433600 * 64}, "both inputs"),
         ({**EINSUMS, "bqd,bkd->bqk": 4423680 * 120}, "size 120 is counted twice"),
         ({**EINSUMS, "bqd,bkd->bqk": 4423681}, "rounded"),
         ({**EINSUMS, "bd,d->b": None}, "still open"), ({**EINSUMS, "bd,d->b": "x"}, "number"),
         ({**EINSUMS, "bqd,bkd->bqk": 4423680 * 4 + 1}, "bqd,bkd->bqk"), ([1, 2, 3], "dict")],
    ),
    "04.2": (
        [887, 887.0],
        [(886, "round up"), (886.12, "whole number"), (886.1, "whole number"), (295.37, "which n"),
         (295.4, "which n"), (295, "which n"), (296, "which n"), (1772.2, "not 4"), (1773, "not 4"),
         (590.75, "three matrices"), (591, "three matrices"), (443.06, "each number takes 2"),
         (444, "each number takes 2"), (888, "the first that is"), (887.0001, "whole number"),
         (100, "too small"), (900, "too large")],
    ),
    "04.3": (
        [0.3434, 0.343, 6 * 7e9 * 4_194_304 / (8.1 * 64 * 989.5e12)],
        [(34.34, "percentage"), (34.3, "percentage"), (5.0717, "fp32 promise"), (5.07, "fp32"),
         (21.98, "64 GPUs"), (22, "64 GPUs"), (0.11447, "forward"), (0.114, "forward"),
         (0.2289, "backward"), (0.1717, "sparsity"), (2.7816, "seconds"), (2.912, "upside down")],
    ),
    "04.4": (
        [{2: "random data", 5: "warm-up", 6: "synchronise", 8: "repeats"},
         {8: "Repeat", 6: "synchronize", 5: "warm up ", 2: "random_data"}],
        [({2: "random data"}, "1 of 4"), ({1: "random data"}, "nothing is missing there"),
         ({2: "random data", 5: "warm-up", 6: "synchronise", 8: "repeats", 4: "synchronise"},
          "nothing is missing there"), ({7: "synchronise"}, "nothing is missing there"),
         ({5: "repeats"}, "would not mend"), ({8: "warm-up"}, "would not mend"),
         ({2: "fresh data"}, "would not mend"), ({6: "a second GPU"}, "would not mend"),
         ({}, "0 of 4"), ({9: "repeats"}, "1 to 8"), ({True: "repeats"}, "1 to 8"),
         ({"2": "random data"}, "1 to 8"), ({2: "a faster GPU"}, "not one of the six"),
         ({2: 3}, "not one of the six"), ({"warm-up", "repeats"}, "a dict"), ("warm-up", "a dict"),
         (3, "a dict")],
    ),
    "04.5": ([], [(1.5, "whole number"), (0, "whole number"), (10**6, "whole number")]),
    "04.6": (
        [least, lambda **plan: list(least(**plan)), lambda **plan: (least(**plan)[0], words(plan)),
         lambda **plan: (least(**plan)[0],
                         words(plan).replace("arithmetic", "compute") + "-bound")],
        [(lambda **plan: (min(both(**plan)), words(plan)), "the longer one"),
         (lambda **plan: (sum(both(**plan)), words(plan)), "adds"),
         (lambda **plan: (both(**plan)[0], words(plan)), "arithmetic only"),
         (lambda **plan: (both(**plan)[1], words(plan)), "memory only"),
         (lambda **plan: (max(both(**plan)[0] / 2, both(**plan)[1]), words(plan)), "two FLOPs"),
         (lambda **plan: (max(both(**plan)[0], both(**{**plan, "nbytes": 1})[1]), words(plan)),
          "not numbers"),
         (lambda **plan: (least(**plan)[0], "memory"), "not what it waits for"),
         (lambda **plan: (least(**plan)[0] * 1.1, words(plan)), "too long"),
         (lambda **plan: (least(**plan)[0] / 3, words(plan)), "too short"),
         (lambda **plan: least(**plan)[0], "a pair"),
         (lambda **plan: (1.0, "disk"), "'arithmetic'"),
         (lambda **plan: least(**plan)[::-1], "the seconds come first"),
         (lambda **plan: (-1.0, "memory"), "a negative time"),
         (lambda **plan: ("x", "memory"), "a finite number")],
    ),
    "04.7": (
        [191.43, 8 * 3.35e12 / 140e9],
        [(382.86, "two bytes"), (95.71, "fp32"), (23.93, "one H100"), (56543, "arithmetic's"),
         (5.224e-3, "seconds per token"), (5.224, "milliseconds")],
    ),
}  # fmt: skip
