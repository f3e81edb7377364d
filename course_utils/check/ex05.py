"""Checks of chapter 05: gradients and what they cost."""

from collections.abc import Callable

import torch

from course_utils.arguments import shown
from course_utils.check.exercise import Wrong, exercise, function, number

ROWS = 12  # of the batch that exercise 05.3 splits


@exercise(
    "05.1",
    "Each gradient has the shape of what it belongs to: w2 is D × K. Which index is summed?",
    "The index that h1 and the incoming gradient share and w2 lacks is b: sum over it.",
    "h1 is 'b d', the gradient of h2 is 'b k', and 'd k' is wanted.",
)
def ex05_1(answer: object) -> str:
    """The gradient of w2 as an einsum."""
    grad = function(answer, "a function of h1 and the gradient of h2")
    for B, D, K in ((4, 3, 2), (5, 5, 5), (1, 2, 3)):
        h1, g = torch.randn(B, D), torch.randn(B, K)
        got = grad(h1, g)
        if not isinstance(got, torch.Tensor):
            raise Wrong(f"a tensor is expected, got {shown(got)}.")
        if tuple(got.shape) == (K, D) and K != D:
            raise Wrong("transposed: w2's gradient must have w2's shape, (D, K).")
        if tuple(got.shape) != (D, K):
            raise Wrong(f"the shape must be that of w2, {(D, K)}, got {tuple(got.shape)}.")
        if torch.allclose(got * B, h1.T @ g, atol=1e-5) and B > 1:
            raise Wrong("divided by B: the gradient is a sum over the batch; a mean is the loss's.")
        if not torch.allclose(got, h1.T @ g, atol=1e-5):
            raise Wrong("the shape is right, the values are not: which index must be summed?")
    return "right: the batch index is summed away, and it costs 2·B·D·K FLOPs."


@exercise(
    "05.2",
    "List the products of the backward pass: w2's gradient, h1's gradient, w1's gradient.",
    "A frozen w1 needs no gradient. Who needs h1's gradient then?",
    "Only w2's gradient is left: B × D × K, as in the forward pass of that layer.",
)
def ex05_2(answer: object) -> str:
    """FLOPs of the backward pass with a frozen first layer."""
    B, D, K = 64, 32, 16
    product, square = 2 * B * D * K, 2 * B * D * D
    number(
        answer,
        product,
        within=1e-9,
        unit="FLOPs",
        mistakes=[
            (2 * product, "h1's gradient is counted: but below h1 nothing needs it any more."),
            (2 * product + square, "that is the backward pass of both layers: w1 is frozen."),
            (product + square, "w1 is frozen: its gradient is not computed."),
            (product // 2, "a multiply-add is two FLOPs."),
            (2 * product + 2 * square, "nothing is frozen there, and x's gradient is counted too."),
        ],
    )
    return "right: freezing the first layer leaves a quarter of this backward pass."


@exercise(
    "05.3",
    "Call backward for each part before the optimizer steps: gradients add up.",
    "The loss of the large batch is a mean over all rows. What is the mean over one part?",
    "Divide each part's mean by the number of parts (all parts are equally large).",
)
def ex05_3(answer: object) -> str:
    """Gradient accumulation equals the large batch."""
    accumulate = function(answer, "a function of model, x, y and parts")
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    x, y = torch.randn(ROWS, 3), torch.randn(ROWS, 1)
    wanted = _mean_gradient(model, x, y)
    for parts in (1, 3, 4):
        model.zero_grad()
        rows, backs = _watched(model, lambda n=parts: accumulate(model, x, y, n))
        if model.weight.grad is None:
            raise Wrong("afterwards the weight has no gradient: call backward, and no zero_grad.")
        got = model.weight.grad.clone()
        _must_be_parts(rows, backs, parts)
        if torch.allclose(got, wanted, atol=1e-6):
            continue
        last = _mean_gradient(model, x[-ROWS // parts :], y[-ROWS // parts :])
        mistakes = [
            (wanted * parts, "too large: each part's mean must be divided by the parts."),
            (wanted * ROWS, "a sum where the mean is asked."),
            (last, "only the last part's gradient is left: no zero_grad between the parts."),
            (last / parts, "only the last part's gradient is left: no zero_grad in between."),
        ]
        reasons = [why for value, why in mistakes if torch.allclose(got, value, atol=1e-5)]
        raise Wrong((reasons or [f"it is not the large batch's gradient (parts = {parts})."])[0])
    return "right: the large batch's gradient, with the activations of one part at a time."


def _mean_gradient(model: torch.nn.Linear, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The weight's gradient of the mean squared error over these rows."""
    return torch.autograd.grad((model(x) - y).square().mean(), model.weight)[0]


def _must_be_parts(rows: list[int], backs: int, parts: int) -> None:
    """Raise `Wrong` unless forward and backward ran once for each of `parts` equal parts."""
    if parts > 1 and rows == [ROWS]:
        raise Wrong("the whole batch went through the model at once: split x and y first.")
    if rows != [ROWS // parts] * parts:
        raise Wrong(
            f"with parts = {parts} the model saw batches of {rows} rows; expected "
            f"{parts} of {ROWS // parts}: chunk(n) makes n parts, split(n) parts of n rows."
        )
    if backs != parts:
        raise Wrong(
            f"backward ran {backs} time{'s' * (backs != 1)} for {parts} parts: call it for each, "
            "so that its activations can go."
        )


def _watched(model: torch.nn.Linear, run: Callable[[], object]) -> tuple[list[int], int]:
    """The rows of each batch that `model` saw in `run`, and how often backward reached it."""
    rows, backs = [], []
    hooks = [
        model.register_forward_pre_hook(lambda _, inputs: rows.append(len(inputs[0]))),
        model.weight.register_hook(lambda _: backs.append(1)),
    ]
    try:
        run()
    finally:
        for hook in hooks:
            hook.remove()
    return rows, len(backs)


@exercise(
    "05.4",
    "Move one entry of w up and down by a small step; the loss changes by slope × 2·step.",
    "(loss(w + step) − loss(w − step)) / (2·step), for one entry at a time, the rest unchanged.",
    "Work on a copy of w, in float64: in fp32 the difference is mostly rounding.",
)
def ex05_4(answer: object) -> str:
    """A gradient check against finite differences."""
    numeric = function(answer, "a function of loss and w")
    cases = [
        (lambda w: w.square().sum(), torch.tensor([1.0, -2.0, 3.0])),
        (lambda w: w.pow(3).sum(), torch.tensor([0.5, 2.0])),
    ]
    for loss, values in cases:
        w = values.double()
        before = w.clone()
        got, wanted = numeric(loss, w), _gradient(loss, w)
        if not isinstance(got, torch.Tensor) or got.shape != w.shape:
            raise Wrong(f"a tensor of w's shape {tuple(w.shape)} is expected, got {shown(got)}.")
        if not w.equal(before):
            raise Wrong("w is changed afterwards: restore each entry, or work on a copy.")
        if torch.allclose(got.double(), wanted * 2, rtol=1e-3):
            raise Wrong("twice too large: the two points are 2·step apart.")
        if torch.allclose(got.double(), wanted, rtol=1e-5):
            continue
        if torch.allclose(got.double(), wanted, rtol=0.2):
            raise Wrong(
                "close, but not close enough: use both sides (w ± step), float64, and a step near "
                "1e-5: larger ones bend, smaller ones drown in rounding."
            )
        raise Wrong("the slopes are not those of the loss: move one entry at a time.")
    return "right. This is how an autograd engine is tested."


def _gradient(loss: object, w: torch.Tensor) -> torch.Tensor:
    leaf = w.clone().requires_grad_()
    return torch.autograd.grad(loss(leaf), leaf)[0]
