"""How a learner's optimizer is tried: step by step beside torch's own, in more than one way."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_pre_hook

from course_utils.arguments import shown
from course_utils.check.exercise import Wrong
from course_utils.check.programs import normal
from course_utils.train import optimizers

STEPS = 30
SHAPES = (5, 3), (7,), (2, 2, 3), (7,)  # two alike: state is kept by parameter, not by shape
TINIEST = 5  # powers of ten between the largest gradients and the smallest, where eps matters

Make = Callable[[list[Tensor]], torch.optim.Optimizer]
Gradients = list[Tensor | None]


@dataclass(frozen=True)
class Problem:
    """Where the parameters begin, and their gradients in each step, None where one has none."""

    starts: list[Tensor]
    gradients: list[Gradients]
    reuse: bool = False  # whether one tensor holds the gradients of all steps

    def parameters(self) -> list[Tensor]:
        """New parameters at their starts."""
        return [start.clone().requires_grad_() for start in self.starts]


@dataclass(frozen=True)
class Run:
    """Every parameter after each step, and what an update must not do but did."""

    path: list[list[Tensor]]
    changed: bool  # a gradient
    replaced: bool  # a parameter's memory

    def like(self, other: "Run") -> bool:
        """Whether both took the same path, up to rounding."""
        pairs = zip(self.path, other.path, strict=True)
        return all(_same(mine, theirs) for mine, theirs in pairs)

    @property
    def finite(self) -> bool:
        """Whether every parameter stays a number."""
        return all(p.isfinite().all() for step in self.path for p in step)

    @property
    def still(self) -> bool:
        """Whether no parameter moved."""
        return all(_same(step, self.path[0]) for step in self.path)


def drawn(*shapes: tuple[int, ...], skipping: bool = False) -> Problem:
    """Parameters of these shapes in float64, with gradients from about 1 to about 1e-5.

    With `skipping`, the second parameter has no gradient in the first step and in some others.
    """
    scales = [10.0 ** (-TINIEST * _uniform(*shape)) for shape in shapes]
    starts = [normal(*shape, dtype=torch.float64) for shape in shapes]
    steps = [[scale * normal(*scale.shape, dtype=torch.float64) for scale in scales]
             for _ in range(STEPS)]  # fmt: skip
    if skipping:
        for step in (0, *random.Random().sample(range(1, STEPS), 9)):
            steps[step][1] = None
    return Problem(starts, steps)


def run(make: Make, problem: Problem, parameters: list[Tensor] | None = None) -> Run:
    """What an optimizer makes of new parameters, or of the given ones, which are at the starts."""
    parameters = parameters or problem.parameters()
    views = [p.detach() for p in parameters]
    held = [torch.zeros_like(view) for view in views]
    optimizer, path, changed = make(parameters), [], False
    for gradients in problem.gradients:
        for p, g, hold in zip(parameters, gradients, held, strict=True):
            p.grad = None if g is None else hold.copy_(g) if problem.reuse else g.clone()
        given = [p.grad for p in parameters]
        with nullcontext() if is_torchs(type(optimizer)) else without_torchs():
            optimizer.step()
        pairs = zip(given, gradients, strict=True)
        changed |= any(g is not None and not torch.equal(now, g) for now, g in pairs)
        path.append([p.detach().clone() for p in parameters])
    pairs = zip(parameters, views, strict=True)
    return Run(path, changed, any(p.data_ptr() != view.data_ptr() for p, view in pairs))


def runs_again_as_before(make: Make, problem: Problem) -> bool:
    """Whether a second optimizer takes the same parameters the same way from their starts."""
    parameters = problem.parameters()
    first = run(make, problem, parameters)
    for p, start in zip(parameters, problem.starts, strict=True):
        p.data.copy_(start)
    return run(make, problem, parameters).like(first)


def reusing(problem: Problem) -> Problem:
    """The same problem, where each step overwrites the gradient of the step before."""
    return replace(problem, reuse=True)


def must_be_written_by_hand(answer: object) -> type:
    """`answer` if it is an optimizer class whose rule is neither torch's nor the course's."""
    if not isinstance(answer, type) or not issubclass(answer, torch.optim.Optimizer):
        raise Wrong(f"a class on optimizers.Optimizer is expected, got {shown(answer)}.")
    for base in answer.__mro__:
        if is_torchs(base):
            raise Wrong(f"{base.__name__} is PyTorch's own: write the rule yourself.")
        if base.__module__ == optimizers.__name__ and base is not optimizers.Optimizer:
            raise Wrong(f"{base.__name__} is the course's own: write the rule yourself.")
    return answer


def is_torchs(kind: type) -> bool:
    """Whether it is one of torch's optimizers, and not the class on which all are built."""
    return (
        issubclass(kind, torch.optim.Optimizer)
        and kind is not torch.optim.Optimizer
        and kind.__module__.startswith("torch.optim")
    )


@contextmanager
def without_torchs() -> Iterator[None]:
    """In this block a step of one of torch's optimizers raises `Wrong`."""

    def refuse(optimizer: torch.optim.Optimizer, *_: object) -> None:
        if is_torchs(type(optimizer)):
            name = type(optimizer).__name__
            raise Wrong(f"it lets torch.optim.{name} take the step: write the rule yourself.")

    handle = register_optimizer_step_pre_hook(refuse)
    try:
        yield
    finally:
        handle.remove()


def _uniform(*shape: int) -> Tensor:
    """Random numbers from 0 to 1, drawn anew; the global generator does not move."""
    source = torch.Generator("cpu")
    source.seed()
    return torch.rand(shape, generator=source, dtype=torch.float64, device="cpu")


def _same(mine: list[Tensor], theirs: list[Tensor]) -> bool:
    pairs = zip(mine, theirs, strict=True)
    return all(torch.allclose(a, b, rtol=1e-9, atol=1e-12, equal_nan=True) for a, b in pairs)
