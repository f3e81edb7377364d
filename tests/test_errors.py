"""A trap prints the error's type and the course's words, and admits when nothing was raised."""

from io import BytesIO

import numpy as np
import pytest
import torch
from beartype import beartype
from einops import rearrange
from jaxtyping import Float, jaxtyped
from torch import Tensor

from course_utils import trap
from course_utils.arguments import cause


def test_the_type_and_the_course_s_own_words(capsys):
    trap(lambda: [][1], "there is no second element")
    ours, theirs = capsys.readouterr().out.splitlines()
    assert ours == "IndexError: there is no second element"
    assert theirs == "in its own words: ≈ list index out of range"


def test_no_error_is_said(capsys):
    trap(lambda: 1, "one is two")
    assert capsys.readouterr().out.startswith("No error was raised here.")


@pytest.mark.parametrize(("action", "why"), [(3, "x"), (lambda: 1, ""), (lambda: 1, None)])
def test_bad_arguments(action, why):
    with pytest.raises(TypeError, match="must be"):
        trap(action, why)


def raised(action):
    with pytest.raises(Exception) as caught:
        action()
    return caught.value


@jaxtyped(typechecker=beartype)
def square(x: Float[Tensor, "a a"]) -> Float[Tensor, "a"]:
    return x.sum(0)


# What CUDA says on a GPU that the installed PyTorch has no kernels for.
CUDA = """CUDA error: no kernel image is available for execution on the device
Search for `cudaErrorNoKernelImageForDevice' in the documentation for more information.
CUDA kernel errors might be asynchronously reported at some other API call.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.
"""


def _raise(words):
    raise RuntimeError(words)


def _refused_by_torch_load():
    file = BytesIO()
    torch.save({"numpy": np.random.get_state()}, file)
    file.seek(0)
    torch.load(file, weights_only=True)


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (
            lambda: rearrange(torch.ones(3, 4), "(a b) c -> a b c", a=2),
            "can't divide axis of length 3",
        ),
        (lambda: square(torch.ones(3, 4)), "Actual value: f32[3,4](torch)"),
        (lambda: square(torch.ones(3, 4)), "Expected type: Float[Tensor, 'a a']."),
        (lambda: torch.ones(2, 3) @ torch.ones(4, 5), "(2x3 and 4x5)"),
        (lambda: int("x" * 150 + " end"), "end'"),
        (lambda: _refused_by_torch_load(), "WeightsUnpickler error: Unsupported"),
        (lambda: torch.eye(2).to_sparse().view(4), "Could not run 'aten::view'"),
        (lambda: _raise(CUDA), "no kernel image is available for execution on the device"),
    ],
)
def test_the_sentence_that_names_the_cause_is_shown_whole(action, words, capsys):
    error = raised(action)
    assert words in cause(error) and "\n" not in cause(error)
    trap(action, "it must")
    assert words in capsys.readouterr().out.splitlines()[1]


def test_an_error_without_words():
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError

    assert cause(Mute()) == cause(AssertionError()) == cause(ValueError("\n \n")) == ""
