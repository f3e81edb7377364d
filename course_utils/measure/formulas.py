"""FLOP formulas of operations: torch's own, and those that torch lacks or gets wrong.

Each formula gets the operation's arguments and its result as `out_val`, as torch's own do.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.flop_counter import conv_flop_count, flop_registry

aten = torch.ops.aten


def _mv(matrix: Tensor, vector: Tensor, *_: object, **__: object) -> int:
    return 2 * matrix.numel()


def _dot(x: Tensor, *_: object, **__: object) -> int:
    return 2 * x.numel()


def _add_matmul(_: Tensor, a: Tensor, b: Tensor, *__: object, **___: object) -> int:
    """addmm, addbmm and baddbmm, in place or not: the matmul alone, as torch counts addmm."""
    return 2 * a.numel() * b.shape[-1]


def _attention(q: Tensor, k: Tensor, v: Tensor, *_: object, **__: object) -> int:
    """The scores q @ kᵀ, and their matmul with v, for every query head.

    Heads may share keys and values, which the formula of torch 2.11 refuses.
    """
    return _scores(q, k) * (q.shape[-1] + v.shape[-1])


def _attention_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, *_: object, **__: object
) -> int:
    """The scores again and the gradients of q and k; the gradients of the scores and of v."""
    return _scores(q, k) * (3 * q.shape[-1] + 2 * v.shape[-1])


def _scores(q: Tensor, k: Tensor) -> int:
    """FLOPs of the scores for one element of the heads' width."""
    batch, heads, queries, _ = q.shape
    return 2 * batch * heads * queries * k.shape[-2]


def _convolution_backward(grad: Tensor, x: Tensor, w: Tensor, *rest: object, **_: object) -> int:
    """As many as forward for each gradient asked for; torch's own formula ignores the groups."""
    *_, transposed, _padding, _groups, (for_x, for_w, _for_bias) = rest
    return (for_x + for_w) * conv_flop_count(x.shape, w.shape, grad.shape, transposed)


def _linear_backward(
    x: Tensor, grad: Tensor, weight: Tensor, asked: list[bool], **_: object
) -> int:
    """Of MPS: grad @ weight for the input, gradᵀ @ x for the weight, each if asked for."""
    for_x, for_weight, _for_bias = asked
    return (for_x + for_weight) * 2 * grad.numel() * weight.shape[-1]


FORMULAS: dict[object, Callable[..., int]] = {
    **flop_registry,
    aten.mv: _mv,
    aten.dot: _dot,
    aten.convolution_backward: _convolution_backward,
    aten.addmm_: _add_matmul,
    aten.addbmm: _add_matmul,
    aten.addbmm_: _add_matmul,
    aten.baddbmm_: _add_matmul,
    aten._scaled_dot_product_flash_attention: _attention,
    aten._scaled_dot_product_efficient_attention: _attention,
    aten._scaled_dot_product_cudnn_attention: _attention,
    aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    aten._scaled_dot_product_attention_math_for_mps: _attention,
    aten._scaled_dot_product_fused_attention_overrideable: _attention,  # XPU's
    aten._scaled_dot_product_flash_attention_backward: _attention_backward,
    aten._scaled_dot_product_efficient_attention_backward: _attention_backward,
    aten._scaled_dot_product_cudnn_attention_backward: _attention_backward,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
    aten._scaled_dot_product_fused_attention_overrideable_backward: _attention_backward,
    aten.linear_backward: _linear_backward,
}

# Their gradients are elementwise multiplications, which are not counted.
VECTORS = {aten.mv.default, aten.dot.default}
