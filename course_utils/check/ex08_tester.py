"""The check of chapter 08's test for training loops: it is tried on right and on broken ones."""

import random
from collections.abc import Callable

import numpy as np
import torch

from course_utils.arguments import cause, shown
from course_utils.check.exercise import Wrong, exercise, function
from course_utils.check.flawed_loops import FLAWED
from course_utils.check.loops import RIGHT, Fit


@exercise(
    "08.6",
    "Run fit on a model so small that you know every loss and parameter of three steps.",
    "A flaw shows only where it matters: which model, gradients and batches make each one show?",
    "Write the right loop once more and compare: losses, parameters, batches left, steps taken.",
)
def ex08_6(answer: object) -> str:
    """A test for training loops."""
    broken = function(answer, "a function broken(fit)")
    trials = [(loop, True) for loop in FLAWED] + [(loop, False) for loop in RIGHT]
    random.Random().shuffle(trials)
    said = {loop: _verdict(broken, loop, flawed) for loop, flawed in trials}
    alarms = [loop for loop in RIGHT if said[loop]]
    missed = [flaw for flaw in FLAWED if not said[flaw]]
    if not alarms and not missed:
        return f"right: it passes {len(RIGHT)} right loops and finds {len(FLAWED)} broken ones."
    counts = (
        f"it lets {len(missed)} of {len(FLAWED)} broken loops pass, and calls {len(alarms)} of "
        f"{len(RIGHT)} right ones broken."
    )
    raise Wrong(f"{counts} {_why(missed[0].kind if missed else '')}")


def _why(kind: str) -> str:
    """The next thing to look at: a broken loop that passed, else that none did."""
    if kind:
        return f"One that passes {kind}."
    return "A right loop may be written in another way: judge what it does, not how."


def _verdict(broken: Callable, loop: Fit, flawed: bool) -> bool:
    """What the learner's test says of a loop, whose name it cannot see."""

    def fit(
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        batches: object,
        loss_fn: Callable,
        steps: int,
    ) -> list[float]:
        return loop(model, optimizer, batches, loss_fn, steps)

    fit.__qualname__ = "fit"
    try:
        with torch.enable_grad():
            said = broken(fit)
    except Exception as error:
        what = f"{type(error).__name__}{f' ({cause(error)})' if cause(error) else ''}"
        which = "broken" if flawed else "right"
        raise Wrong(
            f"your test raised {what} on a {which} loop: it must catch what a loop raises, and "
            "answer True or False."
        ) from None
    if not isinstance(said, bool | np.bool_):
        raise Wrong(f"True or False is expected, got {shown(said)}.")
    return bool(said)
