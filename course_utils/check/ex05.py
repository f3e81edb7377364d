"""Checks of chapter 05: gradients and what they cost."""

import math
from collections.abc import Iterable
from functools import partial

import torch

from course_utils import predict
from course_utils.arguments import shown
from course_utils.check.exercise import Wrong, exercise, function, number
from course_utils.check.programs import called, equal, normal, same, settings, sizes, values
from course_utils.check.watch import Loss, passes

B, D, K = 64, 30, 12  # of the model in exercise 05.2


@exercise(
    "05.1",
    "A gradient has the shape of what it belongs to. Which of the five indices do the keys have?",
    "One index stands in g and in q, but not in k: every query looks at every key, so sum over it.",
    "Write the indices of g and of q as the formula of the scores has them; the result has k's.",
)
def ex05_1(answer: object) -> str:
    """The gradient of attention's keys, as an einsum."""
    grad = function(answer, "a function of q and the gradient of the scores")
    for b, h, n, m, d in settings(5):
        q, g = normal(b, h, n, d), normal(b, h, n, m)
        got = called(grad, q=q, g=g)
        if values(got).shape == q.shape:
            raise Wrong("that has the shape of q: the gradient of k has the shape of k.")
        same(got, torch.einsum("bhqk,bhqd->bhkd", g, q), _key_slips(q, g))
    return (
        "right: the queries are summed away, and it costs as many FLOPs as the scores did, "
        "2·b·h·q·k·d."
    )


def _key_slips(q: torch.Tensor, g: torch.Tensor) -> dict[str, torch.Tensor]:
    """What each likely mistake gives in place of the gradient of the keys, by its sentence."""
    wanted = torch.einsum("bhqk,bhqd->bhkd", g, q)
    patterns = {
        "the heads are gone: each head has keys of its own.": "bhqk,bhqd->bkd",
        "the batch is gone: each sequence has keys of its own.": "bhqk,bhqd->hkd",
        "transposed: the gradient of k has the shape of k, b h k d.": "bhqk,bhqd->bhdk",
        "heads and keys have changed places: k has the shape b h k d.": "bhqk,bhqd->bkhd",
        "the heads of q are mixed: each head's gradient comes from that head.": "bhqk,bjqd->bhkd",
        "the heads of g are mixed: each head's gradient comes from that head.": "bjqk,bhqd->bhkd",
        "the batch of q is mixed: each sequence counts for itself.": "bhqk,ahqd->bhkd",
        "the batch of g is mixed: each sequence counts for itself.": "ahqk,bhqd->bhkd",
        "all five indices are still there: sum over the queries.": "bhqk,bhqd->bhqkd",
        "all five indices are there, keys first: sum over the queries.": "bhqk,bhqd->bhkqd",
        "summed too much: g and q meet query by query.": "bhpk,bhqd->bhkd",
    }
    return {why: torch.einsum(pattern, g, q) for why, pattern in patterns.items()} | {
        "divided by b: the gradient is a sum; a mean is the loss's.": wanted / len(q),
        "divided by √d: these scores have no scale.": wanted / q.shape[-1] ** 0.5,
    }


@exercise(
    "05.2",
    "List the matmuls of the backward pass: w2's gradient, h1's gradient, w1's gradient.",
    "A frozen w1 needs no gradient. Who needs h1's gradient then?",
    "Each matmul that is left costs what its layer's matmul costs in the forward pass.",
)
def ex05_2(answer: object) -> str:
    """FLOPs of the backward pass with a frozen first layer."""
    last, square = predict.matmul_flops(B, D, K), predict.matmul_flops(B, D, D)
    whole = 2 * last + square
    number(
        answer,
        last,
        within=0,
        unit="FLOPs",
        mistakes=[
            (2 * last, "h1's gradient is counted: but below h1 nothing needs it any more."),
            (square, "that is w1's gradient: w1 is frozen."),
            (whole, "that is the backward pass of both layers: w1 is frozen."),
            (last + square, "w1 is frozen: its gradient is not computed."),
            (last // 2, "a multiply-add is two FLOPs."),
            (whole + square, "nothing is frozen there, and x's gradient is counted too."),
            (last, "that is rounded; the exact count is asked, to the last digit."),
        ],
    )
    share = 100 * last / whole
    return f"right: freezing the first layer leaves {share:.0f} % of this backward pass."


@exercise(
    "05.3",
    "Call backward for each part before the optimizer steps: gradients add up.",
    "The loss of the large batch is a mean over all rows. What is the mean over one part?",
    "All parts are equally large. So how much does each part's mean count in the mean of all?",
)
def ex05_3(answer: object) -> str:
    """Gradient accumulation equals the large batch."""
    accumulate = function(answer, "a function of model, x, y and parts")
    for parts, per, width, outputs in (sizes(4), sizes(4), [1, *sizes(3)]):
        model = _linear(width, outputs)
        x, y = normal(parts * per, width), normal(parts * per, outputs)
        weights, wanted = _flat(model.parameters()), _mean_gradient(model, x, y)
        last = _mean_gradient(model, x[-per:], y[-per:])
        run = partial(called, accumulate, model=model, x=x, y=y, parts=parts)
        events = passes(model, run)
        got = _gradient_left(model)
        _must_be_parts(events, parts, per)
        if not equal(_flat(model.parameters()), weights):
            raise Wrong("your function changed the model's weights: that is the optimizer's work.")
        if parts > 1 and _factor(got, last) is not None:
            raise Wrong("only the last part's gradient is left: no zero_grad between the parts.")
        _must_be_mean(got, wanted, {"parts": parts, "per": per, "outputs": outputs})
    return "right: the large batch's gradient, with the activations of one part at a time."


def _linear(width: int, outputs: int) -> torch.nn.Linear:
    """A layer with weights drawn anew; no global generator moves."""
    model = torch.nn.utils.skip_init(torch.nn.Linear, width, outputs, device="cpu")
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(normal(*weight.shape))
    return model.float()


def _flat(tensors: Iterable[torch.Tensor]) -> torch.Tensor:
    return torch.cat([tensor.detach().flatten() for tensor in tensors])


def _mean_gradient(model: torch.nn.Linear, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The gradient of the mean squared error over these rows, for weight and bias."""
    with torch.enable_grad():
        loss = (model(x) - y).square().mean()
    return _flat(torch.autograd.grad(loss, list(model.parameters())))


def _gradient_left(model: torch.nn.Linear) -> torch.Tensor:
    """What `.grad` of weight and bias holds; `Wrong` if one of them holds nothing."""
    for name, weight in model.named_parameters():
        if weight.grad is None:
            raise Wrong(
                f"afterwards the {name} has no gradient: call backward, and no zero_grad after it."
            )
    return _flat(weight.grad for weight in model.parameters())


def _must_be_parts(events: list[int | str], parts: int, per: int) -> None:
    """Raise `Wrong` unless each of `parts` equal parts went forward, and backward at once."""
    rows = [event for event in events if event != "backward"]
    backs = len(events) - len(rows)
    if parts > 1 and rows == [parts * per]:
        raise Wrong("the whole batch went through the model at once: split x and y first.")
    if rows != [per] * parts:
        first = f", the first of {rows[0]} rows" if rows else ""
        raise Wrong(
            f"with parts = {parts} the model saw {len(rows)} batches{first}; expected "
            f"{parts} of {per}: chunk(n) makes n parts, split(n) parts of n rows."
        )
    if backs != parts:
        raise Wrong(
            f"backward ran {backs} time{'s' * (backs != 1)} for {parts} parts: call it for each, "
            "so that its activations can go."
        )
    if events != [per, "backward"] * parts:
        raise Wrong("all parts went forward before the first backward: their activations wait.")


def _must_be_mean(got: torch.Tensor, wanted: torch.Tensor, sizes: dict[str, int]) -> None:
    """Raise `Wrong` unless `got` is `wanted`; by the factor between them if there is one."""
    if (factor := _factor(got, wanted)) is None:
        raise Wrong(f"it is not the large batch's gradient (parts = {sizes['parts']}).")
    parts, outputs = sizes["parts"], sizes["outputs"]
    part = sizes["per"] * outputs  # the numbers of y in a part
    mistakes = [
        (parts, "too large: each part's mean must be divided by the parts."),
        (1 / parts, "too small: divided by the parts twice."),
        (-1, "the sign is wrong: the gradient points uphill, as the optimizers expect."),
        (part, "a sum where the mean is asked."),
        (part * parts, "a sum where the mean is asked."),
        (outputs, "a sum over y's columns: the mean is over all its numbers."),
        (outputs * parts, "a sum over y's columns: the mean is over all its numbers."),
    ]
    number(factor, 1, within=1e-3, mistakes=mistakes, unit="times the right gradient")


@exercise(
    "05.4",
    "Move one entry of w up and down by a small step; the loss changes by slope × 2·step.",
    "While one entry moves, all others must stand where they were: put it back, or move a copy.",
    "Stay in float64, as w is: in fp32 the difference of two losses is mostly rounding.",
)
def ex05_4(answer: object) -> str:
    """A gradient check against finite differences."""
    numeric = function(answer, "a function of loss and w")
    for length in (*sizes(2), 1):
        loss = Loss(length)
        w = loss.start.clone()
        got = numeric(loss, w)
        if not isinstance(got, torch.Tensor) or got.shape != loss.start.shape:
            raise Wrong(f"a tensor of w's shape, {(length,)}, is expected, got {shown(got)}.")
        if w.shape != got.shape or not torch.allclose(w, loss.start, rtol=0, atol=1e-12):
            raise Wrong("w is changed afterwards: restore each entry, or work on a copy.")
        _must_be_both_sides(loss.moves())
        _must_be_slopes(values(got).double(), loss.slopes())
    return "right. This is how an autograd engine is tested."


def _must_be_both_sides(moves: list[list[float]]) -> None:
    """Raise `Wrong` unless the loss was asked on both sides of each entry, equally far."""
    count = sum(map(bool, moves))
    if not count:
        raise Wrong(
            "the loss was never asked beside w: take the slopes from its values there, and not "
            "from autograd, which they are to test."
        )
    if count < len(moves):
        raise Wrong(f"only {count} of {len(moves)} entries were moved; each has a slope.")
    for steps in moves:
        if min(steps) > 0 or max(steps) < 0:
            raise Wrong("one side alone: the loss is to be asked at w + step and at w − step.")
        if not math.isclose(max(steps), -min(steps), rel_tol=1e-3):
            raise Wrong("w + step and w − step must lie equally far from w.")


def _must_be_slopes(got: torch.Tensor, wanted: torch.Tensor) -> None:
    """Raise `Wrong` unless `got` is as close to `wanted` as central differences come."""
    if (got - wanted).norm() <= 2e-7 * (1 + wanted.norm()):
        return
    factor = _factor(got, wanted)
    if factor and abs(factor - 1) > 0.01:
        mistakes = [
            (2, "twice too large: the two points are 2·step apart."),
            (0.5, "half of it: the two points are 2·step apart, and the slope is for 1."),
            (-1, "the sign is wrong: a loss that rises with w has a slope above 0."),
        ]
        number(factor, 1, mistakes=mistakes, unit="times the slopes")
    if (got - wanted).norm() <= 0.2 * wanted.norm():
        raise Wrong("close, but not close enough: subtract the losses of the two sides in float64.")
    raise Wrong("the slopes are not those of the loss: divide the difference of the two losses.")


def _factor(one: torch.Tensor, other: torch.Tensor) -> float | None:
    """The factor between two vectors, if there is one."""
    factor = (one @ other / (other @ other)).item()
    return factor if (one - factor * other).norm() <= 1e-4 * one.norm() else None
