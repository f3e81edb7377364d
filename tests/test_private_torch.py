"""What each private name of torch has to do; a version of torch that differs fails here."""

import ast
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed._functional_collectives import all_reduce
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint

import course_utils
from course_utils.measure import private

ROOT = Path(course_utils.__file__).parent
X = torch.randn(3, 3, requires_grad=True)


class Calls(TorchFunctionMode):
    """Notes every call of a function of torch."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


class Operations(private.DispatchMode):
    """Notes every operation, and takes those apart that are made of others."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types=(), args=(), kwargs=None):
        with self:
            parts = func.decompose(*args, **(kwargs or {}))
        if parts is not NotImplemented:
            return parts
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


# What each name does


def test_dispatchmode():
    """It sees forward and backward; each operation knows its names, and whether it is a view."""
    with Operations() as mode:
        (X @ X).sum().backward()
    names = [func.overloadpacket.__name__ for func in mode.seen]
    assert names.count("mm") == 3 and {func.namespace for func in mode.seen} == {"aten"}
    views = {func.overloadpacket.__name__ for func in mode.seen if func.is_view}
    assert views >= {"expand", "t"} and views.isdisjoint({"mm", "sum"})


def test_dispatchmode_takes_operations_apart():
    """In inference mode an operation that is made of others arrives whole."""
    with torch.inference_mode(), Operations() as mode:
        nn.functional.linear(X, X)
    assert [func.overloadpacket.__name__ for func in mode.seen] == ["t", "mm"]


def test_in_backward():
    seen = []
    y = X * 2
    y.register_hook(lambda g: seen.append(private.in_backward()))
    assert not private.in_backward()
    y.sum().backward()
    assert seen == [True] and not private.in_backward()


def test_any_autocast():
    assert not private.any_autocast()
    with torch.autocast("cpu", torch.bfloat16):
        assert private.any_autocast()
        with torch.autocast("cpu", enabled=False):
            assert not private.any_autocast()


def test_without_autocast():
    with torch.autocast("cpu", torch.bfloat16):
        with private.without_autocast():
            assert (X @ X).dtype == torch.float32
        assert (X @ X).dtype == torch.bfloat16


def test_below_function_modes():
    with Calls() as mode:
        X.sin()
        with private.below_function_modes():
            X.cos()
    assert mode.seen == [torch.Tensor.sin]


def test_is_higher_order():
    assert private.is_higher_order(torch.ops.higher_order.cond)
    assert not private.is_higher_order(torch.ops.aten.mm.default)
    assert not private.is_higher_order(torch.mm)


def test_leaves():
    tree = ((1, ["x", None]), {"a": (2, {"b": "c"})})
    assert private.leaves(tree) == [1, "x", None, 2, "c"]


def test_fake_tensors():
    with private.fake_tensors():
        x = torch.ones(10**6, 10**6)
        assert (x @ x).shape == (10**6, 10**6)
        assert x.device.type == "cpu" and x.untyped_storage().nbytes() == 4 * 10**12
    assert torch.ones(2).sum().item() == 2


def test_version():
    x = torch.ones(3)
    assert private.version(x) == 0
    x.add_(1)
    x[:1].mul_(2)  # of a view
    assert private.version(x) == private.version(x.detach()) == 2
    assert private.version(x + 1) == 0


def test_uncoalesced():
    twice = torch.sparse_coo_tensor([[1, 1]], [2.0, 3.0], (4,), check_invariants=True)
    indices, values = private.uncoalesced(twice)
    assert indices.tolist() == [[1, 1]] and values.tolist() == [2.0, 3.0]
    assert values.untyped_storage().nbytes() == 8


def test_saved_by_its_maker():
    """exp saves its result, which it made; a multiplication saves what others made."""
    seen = []

    def save(tensor):
        seen.append(private.saved_by_its_maker(tensor))
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
        y = X.exp()
        assert seen == [True]
        y * X.sin()  # sin saves X, a leaf; the product saves exp's result and sin's
    assert seen == [True, False, False, False]


@pytest.mark.parametrize("reentrant", [False, True])
def test_in_backward_too(reentrant):
    """Torch leaves a function mode while it runs backward; a checkpoint computes there."""
    seen = {}
    for inside in (False, True):
        mode = Calls()
        y = checkpoint(torch.sinh, X, use_reentrant=reentrant)
        with mode:
            if inside:
                with private.in_backward_too(mode):
                    y.sum().backward()
            else:
                y.sum().backward()
        seen[inside] = torch.sinh in mode.seen
    assert seen == {False: False, True: True}


def test_in_backward_too_is_over_after_an_error():
    places = [
        (torch.autograd.graph, "_engine_run_backward"),
        (torch.autograd, "_engine_run_backward"),
    ]
    before = [vars(owner)[name] for owner, name in places]
    with pytest.raises(ZeroDivisionError), private.in_backward_too(Calls()):
        assert not {id(vars(owner)[name]) for owner, name in places} & {id(own) for own in before}
        1 / 0  # noqa: B018
    assert [vars(owner)[name] for owner, name in places] == before


def doubled(x):
    return 2 * x


@pytest.mark.filterwarnings("ignore:.*deprecated")
def test_instead_of_scripts():
    script, module = torch.jit.script(doubled), torch.jit.trace(nn.Linear(3, 3), X)
    with private.instead_of_scripts(lambda *_, **__: "instead"):
        assert script(X) == "instead" and module.forward(X) == "instead"
    assert torch.equal(script(X), 2 * X) and module(X).shape == (3, 3)


def test_resizes():
    storage, told = torch.ones(4).untyped_storage(), []
    before = dict(vars(torch.UntypedStorage))
    with pytest.raises(ZeroDivisionError), private.resizes(told.append):
        assert storage.resize_(0) is storage and storage.nbytes() == 0
        1 / 0  # noqa: B018
    assert told == [storage] and vars(torch.UntypedStorage) == before
    storage.resize_(8)
    assert len(told) == 1 and storage.nbytes() == 8


def test_group_size():
    """The group stands among a collective's arguments as an object, or by its name."""
    seen = []

    class Watch(private.DispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func.name() in ("c10d::allreduce_", "_c10d_functional::all_reduce"):
                seen.append(private.group_size((args, kwargs or {})))
            return func(*args, **(kwargs or {}))

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        with Watch():
            dist.all_reduce(torch.ones(2))
            all_reduce(torch.ones(2), "sum", dist.group.WORLD)
    finally:
        dist.destroy_process_group()
    assert seen == [1, 1]


def test_keep_cuda_busy():
    assert callable(torch.cuda._sleep)
    if not torch.cuda.is_available():
        return
    done = torch.cuda.Event()
    private.keep_cuda_busy(10**9)  # some half a second
    done.record()
    assert not done.query()
    done.synchronize()


def test_every_name_has_its_test():
    tested = {name for name in globals() if name.startswith("test_")}
    assert {f"test_{name.lower()}" for name in private.__all__} <= tested


# They stand in one module

HELD = (torch.Tensor, torch.UntypedStorage, torch.autograd.graph.Node, torch.optim.Optimizer)
OF_TENSORS = {name for kind in HELD for name in dir(kind) if name[0] == "_" != name[1]}


def private_names(code):
    """Every private name of torch in a file: imported, reached by dots, or in a text.

    Operators such as aten._to_copy are no private names: PyTorch calls them so in each version.
    """
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            dotted = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            dotted = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute):
            dotted = [ast.unparse(node)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            dotted = [f"torch.{node.value}" if node.value in OF_TENSORS else ""]
            dotted += [word for word in node.value.split() if word.startswith("torch.")]
        else:
            continue
        yield from filter(_is_private, dotted)


def _is_private(dotted):
    root, *names = dotted.split(".")
    if root in ("self", "cls", "aten") or dotted.startswith("torch.ops.aten."):
        return False
    hidden = [name for name in names if name[:1] == "_" != name[1:2]]
    return bool(hidden) and (root == "torch" or not OF_TENSORS.isdisjoint(hidden))


FILES = sorted(set(ROOT.rglob("*.py")) - {Path(private.__file__)})


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_private_names_stand_in_one_module(path):
    assert list(private_names(path.read_text())) == []


@pytest.mark.parametrize(
    "code",
    [
        "import torch._ops",
        "from torch._ops import OpOverload",
        "from torch import _C",
        "from torch.utils import _pytree as tree",
        "from torch.utils._pytree import tree_leaves",
        "def lazy():\n    from torch._subclasses.fake_tensor import FakeTensorMode",
        "torch._C._current_graph_task_id()",
        "torch.autograd.graph._engine_run_backward",
        "tensor._version",
        "one.grad_fn._sequence_nr()",
        "getattr(tensor, '_indices')",
        "def f():\n    'Needs torch._C._DisableAutocast.'",
    ],
)
def test_a_private_name_is_found(code):
    assert list(private_names(code))


@pytest.mark.parametrize(
    "code", ["torch.ops.aten._to_copy", "aten._unsafe_view", "self._version", "torch.__version__",
             "from course_utils.measure.einsum import _order", "recipe._product(x)"],
)  # fmt: skip
def test_other_names_are_not(code):
    assert not list(private_names(code))


def test_no_mock_in_the_package():
    assert not [path for path in ROOT.rglob("*.py") if "mock" in path.read_text()]
