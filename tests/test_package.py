"""The package as a whole: quick to import, arrows one way, every public function documented."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import course_utils

ROOT = Path(course_utils.__file__).parent
BASE = {"arguments", "units", "table", "session", "trap"}
# Which rooms a room may use besides the base; `train` and later rooms add their line here.
MAY_USE = {
    "arguments": set(),
    "units": {"arguments"},
    "table": {"units"},
    "session": set(),
    "trap": {"arguments", "units"},
    "hardware": set(),
    "predict": set(),
    "floats": set(),
    "measure": {"hardware", "predict"},
    "reasons": set(),
    "compare": {"reasons"},
    "draw": {"measure"},
    "explore": {"predict", "hardware", "draw", "floats"},
    "check": {"predict", "hardware", "floats", "measure", "compare", "draw"},
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


def test_predict_has_no_torch_and_no_clock():
    code = "import sys, course_utils.arguments, runpy; "
    code += f"runpy.run_path({str(ROOT / 'predict.py')!r})"
    source = (ROOT / "predict.py").read_text()
    assert "torch" not in {n.name for n in ast.walk(ast.parse(source)) if isinstance(n, ast.alias)}
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


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
