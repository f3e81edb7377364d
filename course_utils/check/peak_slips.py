"""The peak of a training step with a switch for each likely mistake: what a wrong formula gives.

The deep linear model in fp32: L layers D × D, a head D × 1, B rows. Numbers too few to matter are
left out: the loss's inputs, the step counters, the head's gradient in the backward pass.
"""

from typing import NamedTuple

from course_utils.predict import OPTIMIZER_STATE, scratch_copies

ALL = "first", "between", "last", "optimizer"  # moments: the layers from the data on, and the step


class Plan(NamedTuple):
    """What a predictor is asked for."""

    D: int
    L: int
    B: int
    optimizer: str
    form: str

    @property
    def parameters(self) -> int:
        """Of the layers and the head."""
        return self.D * self.D * self.L + self.D

    @property
    def in_backward(self) -> bool:
        """Whether the peak lies in the backward pass."""
        return peak(self) > peak(self, moments=("optimizer",))


def peak(plan: Plan, *, moments: tuple[str, ...] = ALL, size: int = 4, state: float | None = None,
         state_in_backward: bool = True, way: str = "", **parts: float) -> float:  # fmt: skip
    """Bytes at the peak: the largest sum of one of these moments.

    `state` sets the numbers that every optimizer keeps per parameter; `way` combines what is never
    there together; `parts` are the switches of `_backward` and `_optimizer`.
    """
    P = plan.parameters
    kept = P * (OPTIMIZER_STATE[plan.optimizer] if state is None else state)
    held = {
        "first": _backward(plan, 1, **parts),
        "between": max(_backward(plan, layer, **parts) for layer in range(1, plan.L)),
        "last": _backward(plan, plan.L, **parts),
        "optimizer": _optimizer(plan, **parts),
    }
    early = kept if state_in_backward else 0
    sums = {at: P + (kept if at == "optimizer" else early) + held[at] for at in moments}
    if way == "all at once":
        together = P + kept + P + (plan.L + parts.get("more", 1)) * plan.B * plan.D
        return size * (together + parts.get("plus", 0) * _scratch(plan))
    return size * (sum(sums.values()) if way == "added" else max(sums.values()))


def _backward(
    plan: Plan, layer: int, *, gradients: float = 1, whole: bool = False, inputs: float = 1,
    fewer: int = 0, flowing: float = 2, at_first: float = 1, **_: float,
) -> float:  # fmt: skip
    """Numbers beside parameters and state while the gradients of `layer` are computed."""
    layers = plan.L if whole else plan.L - layer + 1
    rows = inputs * (layer - fewer) + (min(at_first, flowing) if layer == 1 else flowing)
    return gradients * layers * plan.D**2 + rows * plan.B * plan.D


def _optimizer(
    plan: Plan, *, gradients: float = 1, data: float = 1, inputs: float = 1,
    activations: bool = False, **parts: float,
) -> float:  # fmt: skip
    """Numbers beside parameters and state in the optimizer's step."""
    rows = (plan.L + 1 if activations else data) * inputs * plan.B * plan.D
    return gradients * plan.parameters + rows + _scratch(plan, **parts)


def _scratch(
    plan: Plan, *, loop: float = 1, foreach: float = 1, fused: str = "", behind: bool = True,
    same: int | None = None, **_: float,
) -> float:  # fmt: skip
    """Numbers in the temporary tensors of the optimizer's step."""
    form = fused if fused and plan.form == "fused" else plan.form
    if form == "for-loop":
        many = scratch_copies(plan.optimizer, form)
        return loop * plan.D**2 * (many if behind else max(0, many - 1))
    if form == "foreach":
        many = scratch_copies(plan.optimizer, form)
        return foreach * plan.parameters * (min(many, same) if same is not None else many)
    return 0


SCRATCH = "the optimizer's step is left out, or its scratch is: it can hold more than any layer."
TOGETHER = (
    "it adds up what is never there together: gradients grow while activations go, and scratch "
    "comes when they are gone. Take the largest sum of one moment."
)
BOTH = "it adds up two moments: the peak is the larger of them."
FUSED = "the fused form has no scratch: one routine does it all in place."
SLIPS: list[tuple[dict, str]] = [
    ({"size": 1}, "those are numbers: in fp32 each takes 4 bytes."),
    ({"size": 2}, "fp32 takes 4 bytes per number, not 2."),
    ({"size": 8}, "fp32 takes 4 bytes per number, not 8."),
    ({"state": 0}, "the optimizer's state is forgotten, which is there from the first step on."),
    ({"state": 2}, "every optimizer gets Adam's state here: SGD keeps none, some keep one number."),
    ({"state_in_backward": False}, "in the backward pass the state is there, too, from before."),
    ({"gradients": 0}, "the gradients are forgotten."),
    ({"whole": True}, "the gradients come layer by layer: at first there is only the last one's."),
    ({"inputs": 0}, "the activations are forgotten: the inputs of the layers, and the data."),
    ({"fewer": 1}, "the activations are too few: the data, too, are an input that is kept."),
    ({"data": 0}, "in the optimizer's step the data are still there."),
    ({"flowing": 0}, "the gradients that flow back are forgotten: one comes in, one goes out."),
    ({"flowing": 1}, "two gradients flow at a layer: one comes in while the other goes out."),
    ({"at_first": 2}, "at the first layer no gradient goes out: the data need none."),
    ({"loop": 0}, "the scratch of the for-loop form is forgotten."),
    ({"foreach": 0}, "the scratch of foreach is forgotten, which is as large as all parameters."),
    ({"loop": 0, "foreach": 0}, SCRATCH),
    ({"behind": False}, "in the for-loop form the layer before leaves a tensor behind."),
    ({"same": 1}, "in foreach, AdaGrad has more scratch than the others."),
    ({"fused": "for-loop"}, FUSED),
    ({"fused": "foreach"}, FUSED),
    *(({"way": "all at once", "more": more, "plus": plus}, TOGETHER)
      for more in (0, 1, 2) for plus in (0, 1)),
    ({"activations": True}, TOGETHER),
    *(({"way": "added", "moments": (layer, "optimizer")}, BOTH) for layer in ("first", "last")),
    ({"moments": ("optimizer",)}, "the backward pass is left out."),
    ({"moments": ("last", "optimizer")}, "the backward pass is looked at at its start only."),
    ({"moments": ("first", "optimizer")}, "the backward pass is looked at at its end only."),
    ({"moments": ("first", "last", "optimizer")}, "in the backward pass only its ends are seen."),
]  # fmt: skip
