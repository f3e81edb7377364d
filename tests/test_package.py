"""The package as a whole: arrows one way, no circles, quick to import, documented, short."""

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path
from statistics import mean
from types import ModuleType

import pytest

import course_utils
from course_utils import draw, explore, formats, hardware, live, measure, predict, train, units

ROOT = Path(course_utils.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
# What each room, or loose file, uses of the others: exactly this, lazy imports included.
USES = {
    "arguments": set(),
    "units": {"arguments"},
    "table": {"units"},
    "session": set(),
    "errors": {"arguments", "units"},
    "formats": {"arguments"},
    "predict": {"arguments"},
    "hardware": {"arguments", "units", "table"},
    "measure": {"arguments", "units", "table", "session", "hardware", "predict"},
    "compare": {"arguments", "units", "table", "session"},
    "draw": {"arguments", "units", "table"},
    "live": {"arguments", "measure", "draw"},
    "explore": {"arguments", "units", "predict", "hardware", "formats", "draw"},
    "train": {"arguments", "predict", "formats"},
    "check": {"arguments", "units", "table", "session", "predict", "hardware", "formats",
              "compare", "measure", "train"},
    "workshop": {"session"},
}  # fmt: skip
WHERE = {"compare": "compare", "trap": "errors"}  # functions that the package itself exports


def module_name(path: Path) -> str:
    """'course_utils.measure.clock', or 'course_utils.measure' for its __init__.py."""
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in FILES}


@cache
def imports(path: Path) -> frozenset[str]:
    """Every module that a file imports, at any depth of its code, by its whole name."""
    return frozenset(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(path, node)
            for alias in node.names:
                inner = f"{base}.{WHERE.get(alias.name, alias.name)}"
                yield inner if inner in MODULES else base


def _absolute(path: Path, node: ast.ImportFrom) -> str:
    """The module that a `from ... import` names, dots resolved."""
    if not node.level:
        return node.module
    package = path.relative_to(ROOT.parent).parts[: -node.level]
    return ".".join([*package, *filter(None, [node.module])])


def room(module: str) -> str:
    return module.split(".")[1]


def ours(path: Path) -> set[str]:
    return {name for name in imports(path) if name in MODULES and name != "course_utils"}


def test_arrows_go_one_way():
    used = {here: set() for here in USES}
    for name, path in MODULES.items():
        if name != "course_utils":
            used[room(name)] |= {room(other) for other in ours(path)} - {room(name)}
    assert used == USES


def test_there_are_no_circles():
    """Neither between rooms nor between modules, lazy imports included."""
    list(TopologicalSorter(USES).static_order())
    graph = {}
    for name, path in MODULES.items():
        graph[name] = ours(path) - {name}
    list(TopologicalSorter(graph).static_order())


def test_no_import_is_hidden():
    """Where `import course_utils` or import_module stands, the arrows could not be read."""
    for path in FILES:
        if path != ROOT / "__init__.py":
            assert not imports(path) & {"course_utils", "importlib"}, path
            assert "__import__" not in path.read_text(), path


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import course_utils.measure.clock", "course_utils.measure.clock"),
        ("from course_utils.measure import clock", "course_utils.measure.clock"),
        ("from course_utils.measure.clock import time", "course_utils.measure.clock"),
        ("from course_utils import trap", "course_utils.errors"),
        ("from . import clock", "course_utils.measure.clock"),
        ("from .clock import time", "course_utils.measure.clock"),
        ("from ..predict import counts", "course_utils.predict.counts"),
        ("def lazy():\n    from course_utils import draw", "course_utils.draw"),
    ],
)
def test_every_way_to_import_is_seen(code, found, monkeypatch):
    monkeypatch.setattr(Path, "read_text", lambda self: code)
    assert set(_imports(ROOT / "measure" / "other.py")) == {found}


def packages() -> list[ModuleType]:
    names = [name for name, path in MODULES.items() if path.name == "__init__.py"]
    return [sys.modules.get(name) or import_module(name) for name in names]


@pytest.mark.parametrize("package", packages(), ids=lambda package: package.__name__)
def test_no_name_hides_a_module(package):
    """What a package exports has no module's name, or the module could not be reached by it."""
    exported = getattr(package, "__all__", ())
    for name in exported:
        if f"{package.__name__}.{name}" in MODULES and package.__name__ != "course_utils":
            assert isinstance(getattr(package, name), ModuleType), name


def test_the_house_has_few_rooms_and_few_loose_files():
    rooms = {path.parent for path in ROOT.glob("*/*.py")}
    loose = {path.name for path in ROOT.glob("*.py")} - {"__init__.py"}
    assert len(rooms) <= 11 and len(loose) <= 5


def function_lengths() -> Iterator[tuple[str, int]]:
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                first = body[0].lineno if body else node.end_lineno + 1
                yield f"{path.name}: {node.name}", 1 + node.end_lineno + 1 - first


def test_functions_are_short():
    """Lines of code, the signature counted as one, without the docstring."""
    lengths = dict(function_lengths())
    assert mean(lengths.values()) <= 9 and max(lengths.values()) <= 40


@pytest.mark.parametrize("path", sorted(ROOT.glob("predict/*.py")), ids=lambda p: p.name)
def test_predict_is_arithmetic_only(path):
    """No torch, no device, no clock: nothing but Python's own words for numbers and records."""
    allowed = {"collections.abc", "dataclasses", "fractions", "itertools", "math", "re"}
    allowed |= {"course_utils.arguments"}
    inside = {name for name in MODULES if name.startswith("course_utils.predict.")}
    assert imports(path) <= allowed | inside


@pytest.mark.parametrize("path", sorted(ROOT.glob("train/*.py")), ids=lambda p: p.name)
def test_train_stands_on_torch_and_numpy_alone(path):
    roots = {name.split(".")[0] for name in imports(path)} - set(sys.stdlib_module_names)
    assert roots <= {"torch", "numpy", "jaxtyping", "course_utils"}


NEW_MODULES = """
import sys, torch
before = set(sys.modules)
import course_utils
print(*sorted(set(sys.modules) - before))
"""


def test_importing_the_package_brings_little_beside_torch():
    """So that it is quick, which the bench measures in seconds: no figures, widgets, compiler."""
    command = [sys.executable, "-c", NEW_MODULES]
    new = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    packages = {name.split(".")[0] for name in new} - sys.stdlib_module_names
    assert packages <= {"course_utils", "jaxtyping", "numpy", "psutil", "torch"}
    assert sum(name.startswith("torch.") for name in new) <= 5  # torch._dynamo brings hundreds
    rooms = {name.split(".")[1] for name in new if name.startswith("course_utils.")}
    assert "measure" in rooms and not rooms & {
        "check",
        "draw",
        "explore",
        "live",
        "train",
        "workshop",
    }


def public() -> Iterator[tuple[str, object]]:
    modules = [units, predict, hardware, measure, draw, live, explore, formats]
    modules += [train, train.models, train.optimizers, train.checkpoint, train.precision]
    for module in modules:
        for name, member in inspect.getmembers(module, inspect.isfunction):
            if not name.startswith("_") and member.__module__.startswith("course_utils"):
                yield f"{module.__name__}.{name}", member


@pytest.mark.parametrize(("name", "function"), sorted(dict(public()).items()))
def test_public_functions_are_documented_and_typed(name, function):
    assert function.__doc__ and len(function.__doc__) > 20, name
    hints = inspect.signature(function)
    assert hints.return_annotation is not inspect.Signature.empty, name
    for parameter in hints.parameters.values():
        assert parameter.annotation is not inspect.Parameter.empty, f"{name}: {parameter.name}"


def test_modules_stay_short():
    for path in FILES:
        assert len(path.read_text().splitlines()) <= 250, path


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'explode'"):
        course_utils.explode  # noqa: B018


UNCHANGED = """
import torch
torch.set_num_threads(7)
state = torch.manual_seed(3).get_state()
import course_utils, course_utils.train
from course_utils import check, draw, explore, live
assert torch.get_num_threads() == 7 and state.equal(torch.get_rng_state())
assert torch.is_grad_enabled() and torch.get_default_dtype() is torch.float32
"""


def test_importing_the_package_changes_nothing_in_torch():
    subprocess.run([sys.executable, "-c", UNCHANGED], check=True)
