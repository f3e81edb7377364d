"""FLOP formulas that torch's own counter lacks, and the rewriting of vector products.

Each formula gets the operation's arguments and its result as `out_val`, as torch's own do.
"""

from collections.abc import Callable
from math import prod

import torch
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

aten = torch.ops.aten


def _mv(matrix: torch.Tensor, vector: torch.Tensor, *_: object, **__: object) -> int:
    return 2 * matrix.numel()


def _dot(x: torch.Tensor, *_: object, **__: object) -> int:
    return 2 * x.numel()


def _add_products(
    _: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *__: object, **___: object
) -> int:
    """addmm, addbmm and baddbmm, in place or not: the product alone, as torch counts addmm."""
    return 2 * a.numel() * b.shape[-1]


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *_: object, **__: object) -> int:
    return sdpa_flop_count(q.shape, k.shape, v.shape)


def _attention_backward(
    grad: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *_: object, **__: object
) -> int:
    return sdpa_backward_flop_count(grad.shape, q.shape, k.shape, v.shape)


FORMULAS: dict[object, Callable[..., int]] = {
    **flop_registry,
    aten.mv: _mv,
    aten.dot: _dot,
    aten.vdot: _dot,
    aten.addmm_: _add_products,
    aten.addbmm: _add_products,
    aten.addbmm_: _add_products,
    aten.baddbmm_: _add_products,
    aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
    aten._scaled_dot_product_attention_math_for_mps: _attention,
}

_OUTER = (torch.outer, torch.ger, torch.Tensor.outer, torch.Tensor.ger)
_MATMUL = (
    torch.matmul,
    torch.mv,
    torch.Tensor.matmul,
    torch.Tensor.mv,
    torch.Tensor.__matmul__,
    torch.Tensor.__rmatmul__,
)


def as_matrix_product(func: Callable, args: tuple) -> Callable[[], torch.Tensor] | None:
    """The call as a product of matrices if a vector takes part or nothing is summed, else None.

    Outer products and the gradient of a matrix-vector product run as elementwise multiplications,
    which no counter can tell from others; as matrix products of the same numbers they are counted.
    """
    if func in _OUTER and len(args) == 2:
        return lambda: args[0][:, None] @ args[1][None, :]
    if func in _MATMUL and len(args) == 2:
        left, right = reversed(args) if func is torch.Tensor.__rmatmul__ else args
        return _vector_product(left, right)
    if func is torch.nn.functional.linear and args[0].dim() == 1:
        return lambda: func(args[0][None, :], *args[1:])[0]
    if func is torch.einsum and args and isinstance(args[0], str):
        operands = args[1] if isinstance(args[1], (list, tuple)) else args[1:]
        return _outer_einsum(args[0].replace(" ", ""), operands)
    return None


def _vector_product(left: torch.Tensor, right: torch.Tensor) -> Callable[[], torch.Tensor] | None:
    if left.dim() >= 2 and right.dim() == 1:
        return lambda: (left @ right[:, None])[..., 0]
    if left.dim() == 1 and right.dim() >= 2:
        return lambda: (left[None, :] @ right)[..., 0, :]
    return None


def _outer_einsum(equation: str, operands: tuple) -> Callable[[], torch.Tensor] | None:
    """An einsum of two operands that sums over nothing, as (batch, left, 1) @ (batch, 1, right)."""
    inputs, arrow, out = equation.partition("->")
    names = inputs.split(",")
    if len(operands) != 2 or not arrow or "." in equation or set("".join(names)) - set(out):
        return None
    left, right = names
    if any(len(set(part)) < len(part) for part in names):  # a diagonal: torch's own business
        return None
    batch = [i for i in left if i in right]
    rows, columns = [i for i in left if i not in right], [i for i in right if i not in left]
    if not rows or not columns:  # elementwise, possibly broadcast
        return None
    sizes = dict(zip(left, operands[0].shape, strict=True))
    sizes |= dict(zip(right, operands[1].shape, strict=True))

    def product() -> torch.Tensor:
        a = _grouped(operands[0], left, batch, rows, sizes)
        b = _grouped(operands[1], right, batch, columns, sizes)
        made = a[:, :, None] @ b[:, None, :]
        order = [*batch, *rows, *columns]
        shaped = made.reshape([sizes[i] for i in order])
        return shaped.permute([order.index(i) for i in out])

    return product


def _grouped(
    x: torch.Tensor, names: str, batch: list[str], rest: list[str], sizes: dict[str, int]
) -> torch.Tensor:
    """`x` as (all batch indices, all other indices)."""
    ordered = x.permute([names.index(i) for i in [*batch, *rest]])
    return ordered.reshape(prod(sizes[i] for i in batch), prod(sizes[i] for i in rest))
