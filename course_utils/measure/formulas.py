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

from course_utils.measure.einsum import as_products, outer

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

# Their gradients are elementwise multiplications, which are not counted.
VECTORS = {aten.mv.default, aten.dot.default}


def is_hidden(func: Callable, named: dict[str, object]) -> bool:
    """Whether the call multiplies elementwise, so that its product cannot be told from others."""
    func = _packet(func)
    return func in _ELEMENTWISE or (
        _FORMS.get(func) in (_outer_product, _einsum_product) and not _plain(named)
    )


def as_matrix_product(func: Callable, args: tuple, named: dict[str, object]) -> torch.Tensor | None:
    """The call as a product of matrices if a vector takes part or nothing is summed, else None.

    Outer products and the gradient of a matrix-vector product run as elementwise multiplications,
    which no counter can tell from others; as matrix products of the same numbers they are counted.
    A call that is wrong gives None too: torch explains it.
    """
    form = _FORMS.get(_packet(func))
    if form is None or not _plain(named):
        return None
    given = [x for x in (*args, *(named.get(name) for name in _NAMES)) if x is not None]
    if form is not _einsum_product:
        most = 3 if form is _linear_product else 2
        if not 2 <= len(given) <= most or not all(isinstance(x, torch.Tensor) for x in given):
            return None
    return form(*given)


def _outer_product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor | None:
    if not left.dim() == right.dim() == 1:
        return None
    return outer(left[:, None], right[None, :])


def _matrix_product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor | None:
    if min(left.dim(), right.dim()) != 1 or left.shape[-1] != right.shape[-2:][0]:
        return None
    if left.dtype != right.dtype and not _autocast():
        return None
    if right.dim() > 1:
        return (left[None, :] @ right)[..., 0, :]
    if left.dim() > 1:
        return (left @ right[:, None])[..., 0]
    return (left[None, :] @ right[:, None])[0, 0]


def _reversed_product(right: torch.Tensor, left: torch.Tensor) -> torch.Tensor | None:
    return _matrix_product(left, right)


def _mv_product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor | None:
    """None under autocast too, whose type for the result need not be that of @."""
    fits = left.dim() == 2 and right.dim() == 1 and not _autocast()
    return _matrix_product(left, right) if fits else None


def _dot_product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor | None:
    """None under autocast too, whose type for the result need not be that of @."""
    fits = left.dim() == right.dim() == 1 and not _autocast()
    return _matrix_product(left, right) if fits else None


def _linear_product(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor | None:
    if x.dim() != 1 or weight.dim() != 2:
        return None
    return torch.nn.functional.linear(x[None, :], weight, bias)[0]


def _einsum_product(equation: object, *operands: object) -> torch.Tensor | None:
    if not isinstance(equation, str):
        return None
    listed = len(operands) == 1 and isinstance(operands[0], (list, tuple))
    return as_products(equation, operands[0] if listed else operands)


def _autocast() -> bool:
    """Whether autocast is on for any device. Needs torch._C._is_any_autocast_enabled."""
    return torch._C._is_any_autocast_enabled()


def _packet(func: Callable) -> object:
    """The operation that an overload of torch.ops belongs to; any other function as it is."""
    return getattr(func, "overloadpacket", func)


def _plain(named: dict[str, object]) -> bool:
    """Whether the keywords name operands only: no out=, say, unless it is None."""
    return all(name in _NAMES or value is None for name, value in named.items())


_NAMES = ("input", "weight", "bias", "other", "vec", "vec2", "mat2", "tensor")  # in their order
_TENSOR = torch.Tensor
_SAME: dict[Callable, tuple[object, ...]] = {
    _outer_product: (torch.outer, torch.ger, _TENSOR.outer, _TENSOR.ger, aten.outer, aten.ger),
    _dot_product: (torch.dot, torch.inner, _TENSOR.dot, _TENSOR.inner, aten.dot, aten.inner),
    _mv_product: (torch.mv, _TENSOR.mv, aten.mv),
    _matrix_product: (
        torch.matmul,
        torch.linalg.matmul,
        _TENSOR.matmul,
        _TENSOR.__matmul__,
        aten.matmul,
        aten.linalg_matmul,
    ),
    _reversed_product: (_TENSOR.__rmatmul__,),
    _linear_product: (torch.nn.functional.linear, aten.linear),
    _einsum_product: (torch.einsum, aten.einsum),
}
_FORMS = {func: form for form, functions in _SAME.items() for func in functions}
_ELEMENTWISE = {torch.kron, _TENSOR.kron, torch.linalg.vecdot, aten.kron, aten.linalg_vecdot}
