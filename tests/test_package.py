"""The package as a whole: quick to import, arrows one way, every public function documented."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import course_utils
from course_utils import blocks, train

ROOT = Path(course_utils.__file__).parent
BASE = {"arguments", "units", "table", "session", "shapes", "trap"}
# Which rooms a room may use besides the base; later rooms add their line here.
MAY_USE = {
    "arguments": set(),
    "units": {"arguments"},
    "table": {"units"},
    "session": set(),
    "shapes": {"arguments"},
    "trap": {"arguments", "units"},
    "hardware": set(),
    "predict": set(),
    "floats": set(),
    "blocks": set(),
    "measure": {"hardware", "predict"},
    "reasons": set(),
    "comparison": set(),
    "compare": {"comparison", "reasons"},
    "draw": {"measure"},
    "explore": {"predict", "hardware", "draw", "floats"},
    "train": set(),
    "check": {"predict", "hardware", "floats", "measure", "compare", "draw", "train"},
    "workshop": set(),
    "record": {"predict", "hardware", "measure"},
}


def room(path):
    relative = path.relative_to(ROOT)
    return relative.parts[0].removesuffix(".py")


def used_rooms(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            if node.module == "course_utils":
                yield from (alias.name for alias in node.names)
            elif node.module.startswith("course_utils."):
                yield node.module.split(".")[1]


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_arrows_go_one_way(path):
    if path == ROOT / "__init__.py":
        return
    here = room(path)
    allowed = MAY_USE[here] | {here} | (BASE if here not in BASE else set())
    assert set(used_rooms(path)) <= allowed, (
        f"{here} must not use {set(used_rooms(path)) - allowed}"
    )


def imported(path):
    """The modules that a file imports, each by its whole name."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide what is used"
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("path", sorted(ROOT.glob("predict/*.py")), ids=lambda p: p.name)
def test_predict_is_arithmetic_only(path):
    """No torch, no device, no clock: nothing but Python's own words for numbers and records."""
    allowed = {"collections.abc", "dataclasses", "math", "course_utils.arguments"}
    allowed |= {"course_utils.shapes"}  # sizes only
    ours = {f"course_utils.predict.{other.stem}" for other in ROOT.glob("predict/*.py")}
    assert set(imported(path)) <= allowed | ours


def test_predict_is_a_folder_with_modules():
    assert {path.name for path in ROOT.glob("predict/*.py")} >= {"counts.py", "deep_linear.py"}


@pytest.mark.parametrize("path", sorted(ROOT.glob("train/*.py")), ids=lambda p: p.name)
def test_train_stands_on_torch_and_numpy_alone(path):
    roots = {name.split(".")[0] for name in imported(path)} - set(sys.stdlib_module_names)
    assert roots <= {"torch", "numpy", "jaxtyping", "course_utils"}


def test_importing_the_package_is_quick():
    code = (
        "import time, torch, matplotlib.figure; began = time.perf_counter(); import course_utils; "
        "print(time.perf_counter() - began)"
    )
    command = [sys.executable, "-c", code]
    runs = [
        float(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(3)
    ]
    assert min(runs) < 0.3


def test_importing_the_package_brings_no_widgets():
    code = "import sys, course_utils; sys.exit('ipywidgets' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def public():
    modules = [
        course_utils.units,
        course_utils.predict,
        course_utils.hardware,
        course_utils.measure,
    ]
    modules += [course_utils.draw, course_utils.explore, course_utils.reasons]
    modules += [train, train.models, train.optimizers, train.checkpoint, train.precision]
    modules += [blocks]
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
    for path in ROOT.rglob("*.py"):
        assert len(path.read_text().splitlines()) <= 260, path


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'explode'"):
        course_utils.explode  # noqa: B018
