"""Checks of chapter 03: einops and jaxtyping."""

from collections.abc import Callable

import torch

from course_utils.check.exercise import Wrong, exercise, function
from course_utils.check.programs import called, different, normal, same, settings, sizes


@exercise(
    "03.1",
    "Nothing is summed: every index of the inputs stays.",
    "Which index do x and y share, and so have only once in the result?",
)
def ex03_1(answer: object) -> str:
    """A batched outer product."""
    outer = function(answer, "a function of x and y")
    for b, i, j in settings(3):
        x, y = normal(b, i), normal(b, j)
        wanted = x[:, :, None] * y[:, None, :]
        mistakes = {
            "transposed: i comes before j.": wanted.transpose(1, 2),
            "the batch is gone: keep b in the result.": wanted.sum(0),
        }
        same(called(outer, x=x, y=y), wanted, mistakes)
    return "right: no index disappears, so nothing is summed."


@exercise(
    "03.2",
    "Height is made of rows of patches and rows within a patch: two names. Width is too.",
    "The result lists the patches first, row by row, then what lies in one.",
    "rearrange splits and merges by parentheses; give it the sizes within a patch.",
)
def ex03_2(answer: object) -> str:
    """Patches of an image."""
    patches = function(answer, "a function of images and size")
    for b, c, size, h, w in settings(5):
        images = normal(b, c, h * size, w * size)
        split = images.reshape(b, c, h, size, w, size)
        mistakes = {
            "the channel must be last within a patch.": (0, 2, 4, 1, 3, 5),
            "the patches go row by row.": (0, 4, 2, 3, 5, 1),
            "each patch is transposed: its rows come first, too.": (0, 2, 4, 5, 3, 1),
        }
        orders = {why: split.permute(order) for why, order in mistakes.items()}
        orders["a plain reshape tears the patches apart: split height and width first."] = images
        shape = b, h * w, size * size * c
        named = {why: order.reshape(shape) for why, order in orders.items()}
        wanted = split.permute(0, 2, 4, 3, 5, 1).reshape(shape)
        same(called(patches, images=images, size=size), wanted, named)
    return "right: one pattern splits, reorders and merges."


@exercise(
    "03.3",
    "Each head compares its own queries with its own keys; the width d is summed.",
    "Which names must the result keep, and in which order? The scale comes after the product.",
)
def ex03_3(answer: object) -> str:
    """Multi-head attention scores, scaled by 1/√d."""
    scores = function(answer, "a function of q and k")
    for b, h, n, m, d in settings(5):
        q, k = normal(b, h, n, d), normal(b, h, m, d)
        plain = q @ k.transpose(-1, -2)
        wanted = plain / d**0.5
        mistakes = {
            "the scale 1/√d is missing.": plain,
            "scaled by d; the scale is √d.": plain / d,
            "multiplied by √d; the scale divides.": plain * d**0.5,
            "scaled by another size than d, the last of q and k.": plain / n**0.5,
            "scaled by another size than d, the last of q and of k.": plain / m**0.5,
            "those are shares: the scores come before the softmax.": wanted.softmax(-1),
            "queries are rows and keys columns: q before k.": wanted.transpose(-1, -2),
            "the heads were summed: keep h in the result.": wanted.sum(1),
        }
        same(called(scores, q=q, k=k), wanted, mistakes)
    return "right: 2·b·h·q·k·d FLOPs, whatever the notation."


@exercise(
    "03.4",
    "Each key head serves a group of query heads: which two names do the query heads split into?",
    "Only q needs the name of the place within a group. k lacks it, so an einsum shares k.",
    "At the end the two names become one dimension again, in the same order.",
)
def ex03_4(answer: object) -> str:
    """Grouped-query attention scores, without copying the keys."""
    scores = function(answer, "a function of q and k")
    for b, kv, group, n, m, d in (*settings(6), [2, 1, 3, 4, 5, 7], [2, 3, 1, 4, 5, 7]):
        q, k = normal(b, kv * group, n, d), normal(b, kv, m, d)
        wanted = q @ k.repeat_interleave(group, dim=1).transpose(-1, -2)
        mistakes = {
            "the groups are interleaved: heads 0 and 1 share a key head, so (kv g), not (g kv).": (
                q @ k.repeat(1, group, 1, 1).transpose(-1, -2)
            ),
            "no scale here, please: the plain products.": wanted / d**0.5,
            "queries are rows and keys columns: q before k.": wanted.transpose(-1, -2),
        }
        got, read = _with_what_was_read(scores, q, k)
        same(got, wanted, mistakes)
        _must_be_in_place(k, read)
    return "right: fewer keys to store, the same FLOPs."


def _with_what_was_read(
    scores: Callable, q: torch.Tensor, k: torch.Tensor
) -> tuple[object, list[torch.Tensor]]:
    """What `scores` gives, and what its products read: autograd keeps both operands of each."""
    read = []
    keep = torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: read.append(tensor.detach()) or tensor, lambda tensor: tensor
    )
    with torch.enable_grad(), keep:
        return called(scores, q=q.requires_grad_(), k=k.requires_grad_()), read


def _must_be_in_place(k: torch.Tensor, read: list[torch.Tensor]) -> None:
    """Raise `Wrong` if a product read the numbers of `k` from another storage than its own."""
    own = k.untyped_storage()
    if not read:
        raise Wrong(
            "the values are right, but autograd recorded no product, which would show what it "
            "reads: use torch, and no no_grad."
        )
    for tensor in filter(torch.is_floating_point, read):
        storage = tensor.untyped_storage()
        if storage.data_ptr() != own.data_ptr() and torch.isin(tensor, k.detach()).all():
            raise Wrong(
                f"the values are right, but k was copied on the way: its {own.nbytes()} bytes were "
                f"read from another storage, of {storage.nbytes()}. (@ copies too, where it has to "
                "expand a dimension.)"
            )


@exercise(
    "03.5",
    "Sum the positions that count, and divide by how many count.",
    "The mask chooses in the sum; for that it must hold numbers.",
    "Each row has its own count, the mask's sum over s; d needs a dimension to divide along.",
)
def ex03_5(answer: object) -> str:
    """A mean over the positions that a mask allows."""
    pool = function(answer, "a function of x and mask")
    for b, d, s in (sorted(sizes(3)), sorted(sizes(3)), (1, 3, 4), (3, 1, 4)):
        x, mask = normal(b, s, d), _mask(b, s)
        summed, others = (x * mask[:, :, None]).sum(1), (x * ~mask[:, :, None]).sum(1)
        count = mask.sum(1, keepdim=True)
        mistakes = {
            "the padding is in the mean: weight each position by the mask.": x.mean(1),
            "divided by all positions; only those in the mask count.": summed / s,
            "that is the sum: divide by how many count.": summed,
            "divided by the whole mask's count: each row has its own.": summed / mask.sum(),
            "that is the mean of the others: True marks what counts.": others / (s - count),
        }
        same(called(pool, x=x, mask=mask), summed / count, mistakes)
    return "right: padding neither adds nor divides."


def _mask(b: int, s: int) -> torch.Tensor:
    """A mask (b, s) whose rows count 1, s and other numbers of positions, never the first alone."""
    counts = [1, s, *different(s - 2, 2, s - 1)][:b]
    rows = [normal(s).argsort() < count for count in counts]
    rows[0] = rows[0] if not rows[0][0] else rows[0].roll(1)
    return torch.stack(rows)


@exercise(
    "03.6",
    "Which line only *looks* as if it exchanged two dimensions?",
    "reshape keeps the order of the elements and cuts it anew; nothing is exchanged.",
    "With rearrange you would name the four dimensions twice: in which order each time?",
)
def ex03_6(answer: object) -> str:
    """A silently wrong transpose, mended."""
    mended = function(answer, "a function of x")
    b, s, d = sizes(3)
    for shape in ([b, s, s, d], *settings(4)):
        x = normal(*shape)
        wanted = x.transpose(1, 2)
        mistakes = {
            "still a reshape: the shape is right, the elements are not where they belong.": (
                x.reshape(wanted.shape)
            ),
            "those are other dimensions: s and h must change places.": x.transpose(0, 2),
            "those are other dimensions than s and h.": x.transpose(2, 3),
            "those are other dimensions than h and s.": x.transpose(1, 3),
        }
        same(called(mended, x=x), wanted, mistakes)
    return "right. With equal sizes, no shape would ever have told you."
