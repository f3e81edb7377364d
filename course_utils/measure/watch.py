"""Reports the tensors that operations read and return."""

from collections.abc import Callable

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

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

_FRESH = torch.ops.aten.lift_fresh.default  # reads what torch.tensor(...) made just now


class Watch(TorchDispatchMode):
    """Calls `read` for each tensor an operation gets, `made` for each that it returns."""

    def __init__(
        self, read: Callable[[torch.Tensor], None], made: Callable[[torch.Tensor], None]
    ) -> None:
        super().__init__()
        self.read, self.made = read, made

    def __torch_dispatch__(
        self, func: Callable, types: object, args: tuple = (), kwargs: dict | None = None
    ) -> object:
        if func in QUERIES:
            return func(*args, **(kwargs or {}))
        for tensor in tensors((args, kwargs)) if func is not _FRESH else ():
            self.read(tensor)
        out = func(*args, **(kwargs or {}))
        for tensor in tensors(out):
            self.made(tensor)
        return out


def tensors(tree: object) -> list[torch.Tensor]:
    """Those in `tree` that have a storage; the parts of a sparse one are tensors of their own."""
    leaves = (leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor))
    return [leaf for leaf in leaves if leaf.layout is torch.strided]
