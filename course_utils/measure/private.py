"""The private names of torch that the instruments need: here, each behind one name, and only here.

torch may change them with any version. tests/test_private_torch.py says of each what it has to do,
so that a version that differs fails there, and not by a wrong count.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import torch
from torch._C import DisableTorchFunction as below_function_modes
from torch._C import _DisableAutocast as without_autocast
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode as DispatchMode
from torch.utils._pytree import tree_leaves as leaves

__all__ = [
    "DispatchMode",
    "any_autocast",
    "below_function_modes",
    "fake_tensors",
    "group_size",
    "in_backward",
    "in_backward_too",
    "instead_of_scripts",
    "is_higher_order",
    "keep_cuda_busy",
    "leaves",
    "resizes",
    "saved_by_its_maker",
    "uncoalesced",
    "version",
    "without_autocast",
]


def in_backward() -> bool:
    """Whether autograd's engine runs on this thread."""
    return torch._C._current_graph_task_id() != -1


def any_autocast() -> bool:
    """Whether autocast is on for any device."""
    return torch._C._is_any_autocast_enabled()


def is_higher_order(func: object) -> bool:
    """Whether an operation gets functions (torch.cond): it has no overloads and no parts."""
    return isinstance(func, HigherOrderOperator)


def fake_tensors() -> AbstractContextManager:
    """Inside this block every new tensor is fake: a shape and a device without numbers."""
    from torch._subclasses.fake_tensor import FakeTensorMode  # slow to import, and seldom needed

    return FakeTensorMode()


def group_size(arguments: tuple) -> int:
    """How many processes are in the group that a collective is given, by object or by name."""
    import torch.distributed as dist
    from torch.distributed.distributed_c10d import _resolve_process_group

    for argument in leaves(arguments):
        if isinstance(argument, torch.ScriptObject) and "ProcessGroup" in str(argument._type()):
            return dist.ProcessGroup.unbox(argument).size()
    names = [argument for argument in leaves(arguments) if isinstance(argument, str)]
    return _resolve_process_group(names[-1]).size()


def keep_cuda_busy(cycles: int) -> None:
    """Queue a kernel on the current CUDA device that does nothing for `cycles` of its clock."""
    torch.cuda._sleep(cycles)


def version(tensor: torch.Tensor) -> int:
    """How often `tensor`, or a view of it, was changed in place."""
    return tensor._version


def uncoalesced(tensor: torch.Tensor) -> list[torch.Tensor]:
    """The indices and values of a COO tensor as they are; the public names insist on a sum."""
    return [tensor._indices(), tensor._values()]


def saved_by_its_maker(tensor: torch.Tensor) -> bool:
    """Whether `tensor` is the result of the newest node of autograd's graph.

    Asked while autograd saves `tensor`, it says whether the node that saves it also made it.
    """
    maker = tensor.grad_fn
    return maker is not None and maker._sequence_nr() + 1 == torch._C._autograd._get_sequence_nr()


@contextmanager
def in_backward_too(mode: AbstractContextManager) -> Iterator[None]:
    """Enter `mode` whenever backward begins: torch leaves the function modes it runs in."""
    engine = torch.autograd.graph._engine_run_backward

    def backward(*args: object, **kwargs: object) -> object:
        with mode:
            return engine(*args, **kwargs)

    with (
        _replaced(torch.autograd.graph, "_engine_run_backward", backward),
        _replaced(torch.autograd, "_engine_run_backward", backward),
    ):
        yield


@contextmanager
def instead_of_scripts(call: Callable[..., object]) -> Iterator[None]:
    """Run `call` instead of every function and method of TorchScript that is called."""
    with (
        _replaced(torch._C.ScriptFunction, "__call__", call),
        _replaced(torch._C.ScriptMethod, "__call__", call),
    ):
        yield


@contextmanager
def resizes(tell: Callable[[torch.UntypedStorage], object]) -> Iterator[None]:
    """Call `tell` for each storage that is resized by hand, which is no operation."""

    def resize_(storage: torch.UntypedStorage, size: int) -> torch.UntypedStorage:
        torch._C.StorageBase.resize_(storage, size)
        tell(storage)
        return storage

    with _replaced(torch.UntypedStorage, "resize_", resize_):
        yield


@contextmanager
def _replaced(owner: object, name: str, new: object) -> Iterator[None]:
    """Give `owner` another attribute inside this block, and its own, or the inherited one, after.

    From its __dict__, since a method of C++ that getattr returns could not be bound again.
    """
    own, inherited = vars(owner).get(name), name not in vars(owner)
    setattr(owner, name, new)
    try:
        yield
    finally:
        if inherited:
            delattr(owner, name)
        else:
            setattr(owner, name, own)
