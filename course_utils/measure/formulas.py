"""FLOP formulas that torch's own counter lacks, and the rewriting of vector products.

Each formula gets the operation's arguments and its result as `out_val`, as torch's own do.
"""

from collections.abc import Callable

import torch
from torch.utils.flop_counter import (
    conv_flop_count,
    flop_registry,
    sdpa_backward_flop_count,
    sdpa_flop_count,
)

from course_utils.measure.einsum import as_products

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


def _convolution_backward(
    grad: torch.Tensor, x: torch.Tensor, w: torch.Tensor, *rest: object, **_: object
) -> int:
    """As many as forward for each gradient asked for; torch's own formula ignores the groups."""
    *_, transposed, _padding, _groups, (for_x, for_w, _for_bias) = rest
    return (for_x + for_w) * conv_flop_count(x.shape, w.shape, grad.shape, transposed)


FORMULAS: dict[object, Callable[..., int]] = {
    **flop_registry,
    aten.mv: _mv,
    aten.dot: _dot,
    aten.convolution_backward: _convolution_backward,
    aten.addmm_: _add_products,
    aten.addbmm: _add_products,
    aten.addbmm_: _add_products,
    aten.baddbmm_: _add_products,
    aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
    aten._scaled_dot_product_attention_math_for_mps: _attention,
}

# Made of elementwise operations, so that the products in them cannot be told from others.
UNCOUNTED = {torch.kron, torch.Tensor.kron, torch.linalg.vecdot}

_OUTER = (torch.outer, torch.ger, torch.Tensor.outer, torch.Tensor.ger)
_DOT = (torch.dot, torch.inner, torch.Tensor.dot, torch.Tensor.inner)
_MATMUL = (
    torch.matmul,
    torch.mv,
    torch.linalg.matmul,
    torch.Tensor.matmul,
    torch.Tensor.mv,
    torch.Tensor.__matmul__,
    torch.Tensor.__rmatmul__,
)
_NAMES = ("input", "weight", "bias", "other", "vec", "vec2", "mat2", "tensor")  # in their order


def as_matrix_product(
    func: Callable, args: tuple, named: dict[str, object]
) -> Callable[[], torch.Tensor] | None:
    """The call as a product of matrices if a vector takes part or nothing is summed, else None.

    Outer products and the gradient of a matrix-vector product run as elementwise multiplications,
    which no counter can tell from others; as matrix products of the same numbers they are counted.
    """
    if not set(named) <= set(_NAMES):
        return None
    args = (*args, *(named[name] for name in _NAMES if name in named))
    if func is torch.nn.functional.linear and args[0].dim() == 1:
        return lambda: func(args[0][None, :], *args[1:])[0]
    if func is torch.einsum and isinstance(args[0], str):
        operands = args[1] if isinstance(args[1], (list, tuple)) else args[1:]
        return as_products(args[0], operands)
    if len(args) != 2:
        return None
    left, right = reversed(args) if func is torch.Tensor.__rmatmul__ else args
    if func in _OUTER:
        return lambda: left[:, None] @ right[None, :]
    if func in _MATMUL or (func in _DOT and left.dim() == right.dim() == 1):
        return _vector_product(left, right)
    return None


def _vector_product(left: torch.Tensor, right: torch.Tensor) -> Callable[[], torch.Tensor] | None:
    if left.dim() == right.dim() == 1:
        return lambda: (left[None, :] @ right[:, None])[0, 0]
    if left.dim() >= 2 and right.dim() == 1:
        return lambda: (left @ right[:, None])[..., 0]
    if left.dim() == 1 and right.dim() >= 2:
        return lambda: (left[None, :] @ right)[..., 0, :]
    return None
