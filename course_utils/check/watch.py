"""What the checks of chapter 05 watch while a learner's function runs: passes, and a loss asked."""

from collections.abc import Callable

import torch

from course_utils.arguments import shown
from course_utils.check.exercise import Wrong
from course_utils.check.programs import normal

STEPS = 1e-7, 1e-4  # how small and how large a step near 1e-5 may be


def passes(model: torch.nn.Linear, run: Callable[[], object]) -> list[int | str]:
    """In order: the rows of each batch that `model` recorded in `run`, and each 'backward'."""
    events = []

    def forward(_: object, inputs: tuple, named: dict) -> None:
        if torch.is_grad_enabled():
            events.append(len([*inputs, *named.values()][0]))

    hooks = [
        model.register_forward_pre_hook(forward, with_kwargs=True),
        model.weight.register_hook(lambda _: events.append("backward")),
    ]
    try:
        with torch.enable_grad():
            run()
    finally:
        for hook in hooks:
            hook.remove()
    return events


class Loss:
    """A loss in which all entries of w meet, and which notes each point where it is asked."""

    def __init__(self, length: int) -> None:
        w = normal(length, dtype=torch.float64)
        self.start = w + w.sign() / 2  # an entry that is set to 0 moves far
        self.mix = normal(length, length, dtype=torch.float64) / length**0.5
        self.points: list[torch.Tensor] = []

    def __call__(self, w: torch.Tensor) -> torch.Tensor:
        """The loss at `w`; `Wrong` if it is no vector of float64 as long as the start."""
        if not isinstance(w, torch.Tensor) or w.shape != self.start.shape:
            raise Wrong(f"the loss expects a w of shape {tuple(self.start.shape)}, got {shown(w)}.")
        if w.dtype != torch.float64:
            raise Wrong(f"the loss was asked in {w.dtype}: there the difference is rounding.")
        self.points.append(w.detach().clone())
        return self._value(w)

    def _value(self, w: torch.Tensor) -> torch.Tensor:
        # autograd does not see the second term: who asks it instead of the loss misses that.
        return (self.mix @ w).sin().sum() + (self.mix[0] @ w.detach()).square()

    def slopes(self) -> torch.Tensor:
        """The gradient at the start, in closed form."""
        w, first = self.start, self.mix[0]
        return self.mix.T @ (self.mix @ w).cos() + 2 * (first @ w) * first

    def moves(self) -> list[list[float]]:
        """How far each entry was moved, once for each point; `Wrong` unless it moved alone."""
        moves: list[list[float]] = [[] for _ in self.start]
        for point in self.points:
            away = point - self.start
            moved = (away.abs() > 1e-11).nonzero().flatten().tolist()
            if len(moved) > 1:
                raise Wrong(
                    f"the loss was asked where {len(moved)} entries had moved: move one at a "
                    "time, and put it back before the next."
                )
            for i in moved:
                _must_be_a_step(away[i].item(), point[i].item())
                moves[i].append(away[i].item())
        return moves


def _must_be_a_step(step: float, there: float) -> None:
    """Raise `Wrong` unless an entry that is now `there` moved by a step near 1e-5."""
    smallest, largest = STEPS
    if abs(there) < 1e-2:  # at the start none is so small
        raise Wrong(f"an entry was set to {there:g}: move it by a step from where it stands.")
    if not smallest / 1.001 <= abs(step) <= largest * 1.001:  # rounding moves it a little
        raise Wrong(
            f"an entry moved by {abs(step):.2g}; a step near 1e-5, please: larger ones bend, "
            "smaller ones drown in rounding."
        )
