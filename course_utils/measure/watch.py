"""Reports what a step does with tensors: operations read and return them, autograd saves them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# Operations that only ask about a tensor, such as a fake tensor's device: nothing to count.
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

# The tensors that a sparse tensor consists of, by its layout.
_PARTS = {
    torch.sparse_coo: ("_indices", "_values"),
    torch.sparse_csr: ("crow_indices", "col_indices", "values"),
    torch.sparse_bsr: ("crow_indices", "col_indices", "values"),
    torch.sparse_csc: ("ccol_indices", "row_indices", "values"),
    torch.sparse_bsc: ("ccol_indices", "row_indices", "values"),
}


class Watch(TorchDispatchMode):
    """Calls `read` for each tensor that an operation gets, `made` for each that it returns.

    Both are called with tensors that have a storage: for a sparse tensor, with each of its parts.
    """

    def __init__(
        self, read: Callable[[torch.Tensor], None], made: Callable[[torch.Tensor], None]
    ) -> None:
        super().__init__()
        self.read, self.made = read, made

    def __torch_dispatch__(
        self, func: Callable, types: tuple = (), args: tuple = (), kwargs: dict | None = None
    ) -> object:
        if func in QUERIES:
            return func(*args, **(kwargs or {}))
        if any(map(is_wrapper, types)):
            return NotImplemented  # it calls operations on what it wraps: watch those
        for tensor in stored((args, kwargs)) if func is not _FRESH else ():
            self.read(tensor)
        out = func(*args, **(kwargs or {}))
        for tensor in stored(out):
            self.made(tensor)
        return out


class Saved:
    """What autograd keeps in place of a saved tensor; calls `release` when autograd drops it."""

    def __init__(self, tensor: torch.Tensor, release: Callable[[], None]) -> None:
        self.tensor = tensor.detach() if _saved_by_its_maker(tensor) else tensor
        self.version, self.release = tensor._version, release

    def unpack(self) -> torch.Tensor:
        """The tensor, or torch's error if it was changed in place, which hooks turn off in torch.

        The message is torch's, without the operation that made the tensor: no hook is told that.
        """
        if self.tensor._version != self.version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an "
                f"inplace operation: [{self.tensor.type()} {list(self.tensor.shape)}] is at "
                f"version {self.tensor._version}; expected version {self.version} instead. Hint: "
                "enable anomaly detection to find the operation that failed to compute its "
                "gradient, with torch.autograd.set_detect_anomaly(True, check_nan=False)."
            )
        return self.tensor

    def __del__(self) -> None:
        self.release()


def _saved_by_its_maker(tensor: torch.Tensor) -> bool:
    """Whether `tensor` is the result of the graph's newest node, the one that saves it now.

    If so, `Saved` keeps a detached tensor. The tensor refers to the node as its grad_fn; if the
    node also referred to the tensor, this cycle would keep both alive for ever. Needs the private
    torch._C._autograd._get_sequence_nr and Node._sequence_nr.
    """
    maker = tensor.grad_fn
    return maker is not None and maker._sequence_nr() + 1 == torch._C._autograd._get_sequence_nr()


@contextmanager
def resizes(tell: Callable[[torch.UntypedStorage], object]) -> Iterator[None]:
    """Call `tell` for each storage that `resize_` changes, which no operation reports.

    Needs torch._C.StorageBase, whose method torch.UntypedStorage inherits.
    """

    def resize_(storage: torch.UntypedStorage, size: int) -> torch.UntypedStorage:
        torch._C.StorageBase.resize_(storage, size)
        tell(storage)
        return storage

    torch.UntypedStorage.resize_ = resize_
    try:
        yield
    finally:
        del torch.UntypedStorage.resize_


def tensors(tree: object) -> list[torch.Tensor]:
    """The tensors in `tree`."""
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def stored(tree: object) -> list[torch.Tensor]:
    """The tensors with a storage of their own that those in `tree` consist of."""
    return [
        part for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor) for part in parts(leaf)
    ]


def parts(tensor: torch.Tensor | None) -> list[torch.Tensor]:
    """The tensors with a storage of their own that `tensor` consists of, itself if it has one."""
    if tensor is None:
        return []
    if is_wrapper(type(tensor)):
        return stored([getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]])
    if tensor.layout is torch.strided:
        return [tensor]
    if tensor.layout in _PARTS:
        return [getattr(tensor, name)() for name in _PARTS[tensor.layout]]
    raise NotImplementedError(
        f"measure.memory cannot weigh a tensor of layout {tensor.layout}, since torch does not "
        "show its storage: keep to dense and sparse tensors in the step that you measure"
    )


def is_wrapper(kind: type) -> bool:
    """Whether tensors of this type wrap others, as jagged ones do."""
    return hasattr(kind, "__tensor_flatten__")
