"""Products that involve vectors, run as matmuls: so that they are counted.

torch runs an outer product, and the gradient of a matrix-vector product, as elementwise
multiplications, which no counter can tell from others. Matmuls of the same numbers it can.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from course_utils.measure import private
from course_utils.measure.einsum import as_matmuls, outer

aten = torch.ops.aten


class UncountedOperation(RuntimeError):
    """An operation ran whose products cannot be counted; the message names it."""

    def __init__(self, name: str, why: str = "is a product without a FLOP formula") -> None:
        super().__init__(
            f"{name} {why}; write the computation with "
            "@, einsum, linear, conv or scaled_dot_product_attention"
        )


@contextmanager
def vectors_as_matmuls() -> Iterator[None]:
    """Inside this block, and in what backward calls there (checkpoints, hooks), see to vectors.

    Raises UncountedOperation where a call hides its products: TorchScript, kron, vecdot, and an
    outer product into a given `out`.
    """
    mode = _VectorsAsMatmuls()
    with private.in_backward_too(mode), private.instead_of_scripts(_refuse_script), mode:
        yield


class _VectorsAsMatmuls(TorchFunctionMode):
    """Sees every call of a function of torch before torch takes it apart.

    While it is on, nn.TransformerEncoderLayer stays off its fused path, which hides its matmuls.
    """

    def __torch_function__(
        self, func: Callable, types: object, args: tuple = (), kwargs: dict | None = None
    ) -> object:
        kwargs = kwargs or {}
        if _is_hidden(func, kwargs):
            raise UncountedOperation(func.__name__)
        made = _as_matmul(func, args, kwargs)
        return func(*args, **kwargs) if made is None else made


def _refuse_script(*_: object, **__: object) -> None:
    raise UncountedOperation("TorchScript", "hides its products")


def _is_hidden(func: Callable, named: dict[str, object]) -> bool:
    """Whether the call multiplies elementwise and cannot run as a matmul."""
    func = _packet(func)
    return func in _ELEMENTWISE or (_FORMS.get(func) in (_outer, _einsum) and not _plain(named))


def _as_matmul(func: Callable, args: tuple, named: dict[str, object]) -> Tensor | None:
    """The call's result from a matmul if a vector takes part or nothing is summed, else None.

    A call that is wrong gives None too: torch explains it.
    """
    form = _FORMS.get(_packet(func))
    if form is None or not _plain(named):
        return None
    given = [x for x in (*args, *(named.get(name) for name in _NAMES)) if x is not None]
    if form is not _einsum:
        most = 3 if form is _linear else 2
        if not 2 <= len(given) <= most or not all(isinstance(x, Tensor) for x in given):
            return None
    return form(*given)


def _packet(func: Callable) -> object:
    """The operation that an overload of torch.ops belongs to; any other function as it is."""
    return getattr(func, "overloadpacket", func)


def _plain(named: dict[str, object]) -> bool:
    """Whether the keywords name operands only: no out=, say, unless it is None."""
    return all(name in _NAMES or value is None for name, value in named.items())


# One function for each form of a product: the call's operands in, its result or None out.


def _outer(left: Tensor, right: Tensor) -> Tensor | None:
    if not left.dim() == right.dim() == 1:
        return None
    return outer(left[:, None], right[None, :])


def _matmul(left: Tensor, right: Tensor) -> Tensor | None:
    if min(left.dim(), right.dim()) != 1 or left.shape[-1] != right.shape[-2:][0]:
        return None
    if left.dtype != right.dtype and not private.any_autocast():
        return None
    if right.dim() > 1:
        return (left[None, :] @ right)[..., 0, :]
    if left.dim() > 1:
        return (left @ right[:, None])[..., 0]
    return (left[None, :] @ right[:, None])[0, 0]


def _reversed_matmul(right: Tensor, left: Tensor) -> Tensor | None:
    return _matmul(left, right)


def _mv(left: Tensor, right: Tensor) -> Tensor | None:
    """None under autocast too, whose type for the result need not be that of @."""
    fits = left.dim() == 2 and right.dim() == 1 and not private.any_autocast()
    return _matmul(left, right) if fits else None


def _dot(left: Tensor, right: Tensor) -> Tensor | None:
    """None under autocast too, whose type for the result need not be that of @."""
    fits = left.dim() == right.dim() == 1 and not private.any_autocast()
    return _matmul(left, right) if fits else None


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor | None:
    if x.dim() != 1 or weight.dim() != 2:
        return None
    return torch.nn.functional.linear(x[None, :], weight, bias)[0]


def _einsum(equation: object, *operands: object) -> Tensor | None:
    if not isinstance(equation, str):
        return None
    listed = len(operands) == 1 and isinstance(operands[0], (list, tuple))
    return as_matmuls(equation, operands[0] if listed else operands)


_NAMES = ("input", "weight", "bias", "other", "vec", "vec2", "mat2", "tensor")  # in their order
_SAME: dict[Callable, tuple[object, ...]] = {
    _outer: (torch.outer, torch.ger, Tensor.outer, Tensor.ger, aten.outer, aten.ger),
    _dot: (torch.dot, torch.inner, Tensor.dot, Tensor.inner, aten.dot, aten.inner),
    _mv: (torch.mv, Tensor.mv, aten.mv),
    _matmul: (
        torch.matmul,
        torch.linalg.matmul,
        Tensor.matmul,
        Tensor.__matmul__,
        aten.matmul,
        aten.linalg_matmul,
    ),
    _reversed_matmul: (Tensor.__rmatmul__,),
    _linear: (torch.nn.functional.linear, aten.linear),
    _einsum: (torch.einsum, aten.einsum),
}
_FORMS = {func: form for form, functions in _SAME.items() for func in functions}
_ELEMENTWISE = {torch.kron, Tensor.kron, torch.linalg.vecdot, aten.kron, aten.linalg_vecdot}
