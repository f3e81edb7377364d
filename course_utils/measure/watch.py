"""Reports what a step does with tensors: operations read and return them, autograd saves them."""

from collections.abc import Callable

import torch

from course_utils.measure import private
from course_utils.measure.dispatch import Dispatch, is_wrapper, tensors

_FRESH = torch.ops.aten.lift_fresh.default  # reads what torch.tensor(...) made just now

# The methods that give the tensors that a sparse tensor consists of, by its layout.
_PARTS = {
    torch.sparse_csr: ("crow_indices", "col_indices", "values"),
    torch.sparse_bsr: ("crow_indices", "col_indices", "values"),
    torch.sparse_csc: ("ccol_indices", "row_indices", "values"),
    torch.sparse_bsc: ("ccol_indices", "row_indices", "values"),
}


class Watch(Dispatch):
    """Calls `read` for each tensor that an operation gets, `made` for each that it returns.

    Both are called with tensors that have a storage: for a sparse tensor, with each of its parts.
    """

    def __init__(
        self, read: Callable[[torch.Tensor], None], made: Callable[[torch.Tensor], None]
    ) -> None:
        super().__init__()
        self.read, self.made = read, made

    def operation(self, func: Callable, args: tuple, kwargs: dict[str, object]) -> object:
        """What the operation returns: `read` hears of what it gets, then `made` of that."""
        for tensor in stored((args, kwargs)) if func is not _FRESH else ():
            self.read(tensor)
        out = func(*args, **kwargs)
        for tensor in stored(out):
            self.made(tensor)
        return out


class Saved:
    """What autograd keeps in place of a saved tensor; calls `release` when autograd drops it.

    A tensor that the node which made it saves is kept detached: it refers to that node as its
    grad_fn, and if the node also referred to it, the cycle would keep both alive for ever.
    """

    def __init__(self, tensor: torch.Tensor, release: Callable[[], None]) -> None:
        # A node that kept its own result, which keeps the node, would never be freed.
        self.tensor = tensor.detach() if private.saved_by_its_maker(tensor) else tensor
        self.version, self.release = private.version(tensor), release

    def unpack(self) -> torch.Tensor:
        """The tensor, or torch's error if it was changed in place: torch leaves that to the hook.

        The message is torch's, without the operation that made the tensor: no hook is told that.
        """
        if (version := private.version(self.tensor)) != self.version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an "
                f"inplace operation: [{self.tensor.type()} {list(self.tensor.shape)}] is at "
                f"version {version}; expected version {self.version} instead. Hint: "
                "enable anomaly detection to find the operation that failed to compute its "
                "gradient, with torch.autograd.set_detect_anomaly(True, check_nan=False)."
            )
        return self.tensor

    def __del__(self) -> None:
        self.release()


def stored(tree: object) -> list[torch.Tensor]:
    """The tensors with a storage of their own that those in `tree` consist of."""
    return [part for tensor in tensors(tree) for part in parts(tensor)]


def parts(tensor: torch.Tensor | None) -> list[torch.Tensor]:
    """The tensors with a storage of their own that `tensor` consists of, itself if it has one."""
    if tensor is None:
        return []
    if is_wrapper(type(tensor)):
        return stored([getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]])
    if tensor.layout is torch.strided:
        return [tensor]
    if tensor.layout is torch.sparse_coo:
        return private.uncoalesced(tensor)
    if tensor.layout in _PARTS:
        return [getattr(tensor, name)() for name in _PARTS[tensor.layout]]
    raise NotImplementedError(
        f"measure.memory cannot weigh a tensor of layout {tensor.layout}, since torch does not "
        "show its storage: keep to dense and sparse tensors in the step that you measure"
    )
