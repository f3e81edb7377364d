"""Checks of chapter 03: einops and jaxtyping."""

import torch

from course_utils.arguments import shown
from course_utils.check.exercise import Wrong, exercise, function


@exercise(
    "03.1",
    "Nothing is summed: every index of the inputs stays.",
    "x is 'b i', y is 'b j', the result 'b i j'.",
)
def ex03_1(answer: object) -> str:
    """A batched outer product."""
    outer = function(answer, "a function of x and y")
    for b, i, j in ((2, 3, 4), (1, 5, 5)):
        x, y = torch.randn(b, i), torch.randn(b, j)
        wanted = x[:, :, None] * y[:, None, :]
        mistakes = {
            "transposed: i comes before j.": wanted.transpose(1, 2),
            "that sums over the batch; keep b in the result.": wanted.sum(0),
        }
        _same(outer(x, y), wanted, mistakes)
    return "right: no index disappears, so nothing is summed."


@exercise(
    "03.2",
    "Height is made of rows of patches and rows within a patch: (h p) becomes two names.",
    "The result lists the patches first, (h w), then what lies in one, (p q c).",
    "'b c (h p) (w q) -> b (h w) (p q c)', with the sizes of p and q given.",
)
def ex03_2(answer: object) -> str:
    """Patches of an image."""
    patches = function(answer, "a function of images and size")
    for size, (h, w) in ((2, (2, 3)), (3, (1, 2))):
        images = torch.arange(2 * 3 * h * size * w * size).reshape(2, 3, h * size, w * size)
        split = images.reshape(2, 3, h, size, w, size)
        wanted = split.permute(0, 2, 4, 3, 5, 1).reshape(2, h * w, size * size * 3)
        channels_first = split.permute(0, 2, 4, 1, 3, 5).reshape(2, h * w, size * size * 3)
        columns_first = split.permute(0, 4, 2, 3, 5, 1).reshape(2, h * w, size * size * 3)
        mistakes = {
            "the channel must be last within a patch: (p q c).": channels_first,
            "the patches go row by row: (h w), not (w h).": columns_first,
            "a plain reshape tears the patches apart: split height and width first.": (
                images.reshape(2, h * w, -1)
            ),
        }
        _same(patches(images, size), wanted, mistakes)
    return "right: one pattern splits, reorders and merges."


@exercise(
    "03.3",
    "Each head compares its own queries with its own keys; the width d is summed.",
    "'b h q d, b h k d -> b h q k', and then the scale 1/√d.",
)
def ex03_3(answer: object) -> str:
    """Multi-head attention scores, scaled by 1/√d."""
    scores = function(answer, "a function of q and k")
    for b, h, n, m, d in ((2, 3, 4, 5, 6), (1, 2, 3, 3, 4)):
        q, k = torch.randn(b, h, n, d), torch.randn(b, h, m, d)
        plain = q @ k.transpose(-1, -2)
        wanted = plain / d**0.5
        mistakes = {
            "the scale 1/√d is missing.": plain,
            "scaled by d; the scale is √d.": plain / d,
            "queries are rows and keys columns: q before k.": wanted.transpose(-1, -2),
            "the heads were summed: keep h in the result.": wanted.sum(1),
        }
        _same(scores(q, k), wanted, mistakes)
    return "right: 2·b·h·q·k·d FLOPs, whatever the notation."


@exercise(
    "03.4",
    "Each key head serves a group of query heads: split the query heads into (kv group).",
    "q: 'b (kv g) n d -> b kv g n d'; keys have no g, so einsum shares them.",
    "'b kv g n d, b kv m d -> b kv g n m', then merge (kv g) again.",
)
def ex03_4(answer: object) -> str:
    """Grouped-query attention scores, without copying the keys."""
    scores = function(answer, "a function of q and k")
    for kv, group in ((2, 3), (3, 1), (1, 4)):
        q, k = torch.randn(2, kv * group, 4, 8), torch.randn(2, kv, 5, 8)
        wanted = q @ k.repeat_interleave(group, dim=1).transpose(-1, -2)
        mistakes = {
            "the groups are interleaved: heads 0 and 1 share a key head, so (kv g), not (g kv).": (
                q @ k.repeat(1, group, 1, 1).transpose(-1, -2)
            ),
            "no scale here, please: the plain products.": wanted / 8**0.5,
        }
        _same(scores(q, k), wanted, mistakes)
    return "right: fewer keys to store, the same FLOPs."


@exercise(
    "03.5",
    "Sum the positions that count, and divide by how many count.",
    "einsum of x ('b s d') and the mask ('b s') gives 'b d'; the mask must be a float.",
    "Divide by the mask's sum over s, with a dimension added for d.",
)
def ex03_5(answer: object) -> str:
    """A mean over the positions that a mask allows."""
    pool = function(answer, "a function of x and mask")
    x = torch.randn(3, 5, 4)
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 1, 0, 1]]).bool()
    summed = (x * mask[:, :, None]).sum(1)
    mistakes = {
        "the padding is in the mean: weight each position by the mask.": x.mean(1),
        "divided by all positions; only those in the mask count.": summed / 5,
        "that is the sum: divide by how many count.": summed,
    }
    _same(pool(x, mask), summed / mask.sum(1, keepdim=True), mistakes)
    return "right: padding neither adds nor divides."


@exercise(
    "03.6",
    "Which line only *looks* as if it exchanged two dimensions?",
    "reshape keeps the order of the elements and cuts it anew; nothing is exchanged.",
    "rearrange(x, 'b s h d -> b h s d') says what you mean.",
)
def ex03_6(answer: object) -> str:
    """A silently wrong transpose, mended."""
    mended = function(answer, "a function of x")
    x = torch.randn(2, 4, 4, 3)
    mistakes = {
        "still a reshape: the shape is right, the elements are not where they belong.": (
            x.reshape(2, 4, 4, 3)
        ),
        "those are other dimensions: s and h must change places.": x.transpose(0, 2),
    }
    _same(mended(x), x.transpose(1, 2), mistakes)
    y = torch.randn(2, 5, 3, 4)
    _same(mended(y), y.transpose(1, 2), {"reshaped, not exchanged.": y.reshape(2, 3, 5, 4)})
    return "right. With equal sizes, no shape would ever have told you."


def _same(got: object, wanted: torch.Tensor, mistakes: dict[str, torch.Tensor]) -> None:
    """Accept `wanted`; else say which known mistake `got` is, or what differs."""
    if not isinstance(got, torch.Tensor) or got.is_meta:
        raise Wrong(f"a tensor with values is expected, got {shown(got)}.")
    if got.shape == wanted.shape and torch.allclose(got.double(), wanted.double(), atol=1e-5):
        return
    for reason, values in mistakes.items():
        close = got.shape == values.shape and values.dtype == got.dtype
        if close and torch.allclose(got.double(), values.double(), atol=1e-5):
            raise Wrong(reason)
    if got.shape != wanted.shape:
        raise Wrong(f"the shape must be {tuple(wanted.shape)}, got {tuple(got.shape)}.")
    raise Wrong("the shape is right, the values are not: follow each name through the pattern.")
