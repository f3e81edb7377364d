"""The operations that reach torch's dispatcher, one by one: what every instrument looks through."""

from collections.abc import Callable

import torch

from course_utils.measure import private

# Questions about a tensor that is not a plain one (a fake tensor's device): nothing to count.
QUERIES = {
    torch.ops.prim.device.default,
    torch.ops.prim.layout.default,
    torch.ops.aten.size.default,
    torch.ops.aten.sym_size.default,
    torch.ops.aten.stride.default,
    torch.ops.aten.sym_stride.default,
    torch.ops.aten.storage_offset.default,
    torch.ops.aten.sym_storage_offset.default,
    torch.ops.aten.numel.default,
    torch.ops.aten.sym_numel.default,
    torch.ops.aten.dim.default,
    torch.ops.aten.is_contiguous.default,
    torch.ops.aten.is_contiguous.memory_format,
    torch.ops.aten.is_strides_like_format.default,
    torch.ops.aten.is_non_overlapping_and_dense.default,
}


class Dispatch(private.DispatchMode):
    """While it is on, each operation on this thread comes to `operation`, which runs it.

    Queries do not. Of a tensor that wraps others come the operations on what it wraps, unless
    `opens_wrappers` is False: then the operation on the wrapper comes, and nothing of its inside.
    """

    opens_wrappers = True

    def __torch_dispatch__(
        self, func: Callable, types: tuple = (), args: tuple = (), kwargs: dict | None = None
    ) -> object:
        if func in QUERIES:
            return func(*args, **(kwargs or {}))
        if self.opens_wrappers and any(map(is_wrapper, types)):
            return NotImplemented  # it calls operations on what it wraps
        return self.operation(func, args, kwargs or {})

    def operation(self, func: Callable, args: tuple, kwargs: dict[str, object]) -> object:
        """What `func(*args, **kwargs)` returns. Operations called in here do not come again."""
        raise NotImplementedError

    def in_parts(self, func: Callable, args: tuple, kwargs: dict[str, object]) -> object:
        """The result of an operation that is made of others, which come to `operation` themselves.

        NotImplemented, and nothing has run, if it is one by itself.
        """
        with self:
            return func.decompose(*args, **kwargs)


def is_wrapper(kind: type) -> bool:
    """Whether tensors of this type wrap others, as jagged ones do."""
    return hasattr(kind, "__tensor_flatten__")


def tensors(tree: object) -> list[torch.Tensor]:
    """The tensors in `tree`: lists, tuples and dicts in each other, of anything."""
    return [leaf for leaf in private.leaves(tree) if isinstance(leaf, torch.Tensor)]
