"""Answers to the exercises of chapter 05: right ones, and wrong ones with a word of the reply."""

from dataclasses import dataclass, field
from functools import partial

import torch
import torch.nn.functional as F
from einops import einsum

# Exercise 05.1: the gradient of attention's keys


def keys_by_pattern(pattern):
    return lambda q, g: torch.einsum(pattern, g, q)


def keys_by_autograd(q, g):
    k = torch.zeros(*q.shape[:2], g.shape[3], q.shape[3], requires_grad=True, dtype=q.dtype)
    with torch.enable_grad():
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k)
    return torch.autograd.grad(scores, k, g)[0]


def keys_head_by_head(q, g):
    heads = [g[:, i].mT @ q[:, i] for i in range(q.shape[1])]
    return torch.stack(heads, dim=1)


# Exercises 05.3 and 05.4: gradients in parts, and by differences


def accumulated(model, x, y, parts, scale=None, between=lambda: None):
    for a, b in zip(x.chunk(parts), y.chunk(parts), strict=True):
        between()
        ((model(a) - b).square().mean() / (scale or parts)).backward()


def loss_of_parts(model, x, y, parts):
    pairs = zip(x.chunk(parts), y.chunk(parts), strict=True)
    return sum((model(a) - b).square().mean() for a, b in pairs) / parts


def forward_first(model, x, y, parts):
    pairs = zip(x.chunk(parts), y.chunk(parts), strict=True)
    for loss in [(model(a) - b).square().mean() / parts for a, b in pairs]:
        loss.backward()


def split_in_rows(model, x, y, parts):
    rows = len(x) // parts
    for start in range(0, len(x), rows):
        here = slice(start, start + rows)
        (F.mse_loss(model(input=x[here]), y[here]) * (rows / len(x))).backward()


def divided_at_the_end(model, x, y, parts):
    model.zero_grad()
    accumulated(model, x, y, parts, scale=1)
    for weight in model.parameters():
        weight.grad /= parts


def summed_columns(model, x, y, parts):
    for a, b in zip(x.chunk(parts), y.chunk(parts), strict=True):
        ((model(a) - b).square().sum(1).mean() / parts).backward()


def with_a_step(model, x, y, parts):
    accumulated(model, x, y, parts)
    torch.optim.SGD(model.parameters(), lr=0.1).step()


def no_bias(model, x, y, parts):
    accumulated(model, x, y, parts)
    model.bias.grad = None


def first_part_again(model, x, y, parts):
    for _ in range(parts):
        rows = len(x) // parts
        ((model(x[:rows]) - y[:rows]).square().mean() / parts).backward()


def slopes(loss, w, step=1e-5):
    found = torch.zeros_like(w)
    for i in range(len(w)):
        move = torch.zeros_like(w)
        move[i] = step
        found[i] = (loss(w + move) - loss(w - move)) / (2 * step)
    return found


def in_place(loss, w, step=1e-5):
    found = []
    for i in range(len(w)):
        w[i] += step
        up = loss(w).item()
        w[i] -= 2 * step
        down = loss(w).item()
        w[i] += step
        found.append((up - down) / (2 * step))
    return torch.tensor(found)


def of_fourth_order(loss, w):
    return (4 * slopes(loss, w, 1e-5) - slopes(loss, w, 2e-5)) / 3


def moved(loss, w, up, down, share, entries=None, restore=True):
    """Slopes from a copy in which `up` and `down` change entries, which `restore` puts back."""
    found, copy = torch.zeros_like(w), w.clone()
    for i in range(len(w))[:entries]:
        old = copy[i].item()
        copy[i] = up(old)
        high = loss(copy)
        copy[i] = down(old)
        found[i] = (high - loss(copy)) / share(old)
        if restore:
            copy[i] = old
    return found


H = 1e-5
differences = partial(moved, up=lambda x: x + H, down=lambda x: x - H, share=lambda x: 2 * H)
one_sided = partial(moved, up=lambda x: x + H, down=lambda x: x, share=lambda x: H)
set_to_zero = partial(moved, up=lambda x: x, down=lambda x: 0.0, share=lambda x: x)
set_to_step = partial(moved, up=lambda x: H, down=lambda x: -H, share=lambda x: 2 * H)
uneven = partial(moved, up=lambda x: x + 2 * H, down=lambda x: x - H, share=lambda x: 3 * H)


def never_restored(loss, w):
    found = torch.zeros_like(w)
    for i in range(len(w)):
        w[i] += H
        up = loss(w)
        w[i] -= 2 * H
        found[i] = (up - loss(w)) / (2 * H)
    return found


def together(loss, w):
    return torch.full_like(w, (loss(w + H) - loss(w - H)) / (2 * H))


def autograd_beside(loss, w):
    """Asks the loss on both sides of each entry, and returns what autograd says."""
    differences(loss, w)
    return autograd(loss, w)


def autograd(loss, w):
    leaf = w.clone().requires_grad_()
    return torch.autograd.grad(loss(leaf), leaf)[0]


def one_side_with_a_show(loss, w):
    """Asks on both sides, and uses one."""
    slopes(loss, w)
    return one_sided(loss, w)


# Exercise 05.6: autograd engines, most of them with one mistake


class Value:
    """An engine in which a Value knows its inputs and the slopes for them."""

    def __init__(self, data, inputs=()):
        self.data, self.grad, self.inputs = data, 0.0, inputs

    def made(self, data, *inputs):
        return type(self)(data, inputs)

    def __add__(self, other):
        return self.made(self.data + other.data, (self, 1.0), (other, 1.0))

    def __mul__(self, other):
        return self.made(self.data * other.data, (self, other.data), (other, self.data))

    def order(self):
        """Every Value once, results before their inputs."""
        found, seen = [], set()

        def visit(value):
            if id(value) not in seen:
                seen.add(id(value))
                for one, _ in value.inputs:
                    visit(one)
                found.append(value)

        visit(self)
        return found[::-1]

    def hand_on(self):
        for one, slope in self.inputs:
            one.grad += slope * self.grad

    def backward(self):
        self.grad = 1.0
        for value in self.order():
            value.hand_on()


class Closures:
    """As in micrograd: each operation leaves a function behind."""

    def __init__(self, data, _children=()):
        self.data, self.grad = data, 0
        self._prev, self._backward = set(_children), lambda: None

    def __add__(self, other):
        out = Closures(self.data + other.data, (self, other))

        def _backward():
            self.grad += out.grad
            other.grad += out.grad

        out._backward = _backward
        return out

    def __mul__(self, other):
        out = Closures(self.data * other.data, (self, other))

        def _backward():
            self.grad += other.data * out.grad
            other.grad += self.data * out.grad

        out._backward = _backward
        return out

    def backward(self):
        topo, visited = [], set()

        def build(v):
            if v not in visited:
                visited.add(v)
                for child in v._prev:
                    build(child)
                topo.append(v)

        build(self)
        self.grad = 1
        for v in reversed(topo):
            v._backward()


class Tape(Value):
    """Writes every operation of the kernel on one tape, and reads it from its end."""

    tape = []

    def made(self, data, *inputs):
        self.tape.append(super().made(data, *inputs))
        return self.tape[-1]

    def order(self):
        return self.tape[::-1]


@dataclass(eq=False)
class Waiting:
    """Hands on when all uses have reported, without recursion."""

    data: float
    inputs: list = field(default_factory=list)
    grad: float = 0.0

    def __add__(self, other):
        return Waiting(self.data + other.data, [(self, 1.0), (other, 1.0)])

    def __mul__(self, other):
        return Waiting(self.data * other.data, [(self, other.data), (other, self.data)])

    def backward(self):
        uses, below = {}, [self]
        while below:
            value = below.pop()
            for one, _ in value.inputs:
                if id(one) not in uses:
                    below.append(one)
                uses[id(one)] = uses.get(id(one), 0) + 1
        self.grad, ready = 1.0, [self]
        while ready:
            value = ready.pop()
            for one, slope in value.inputs:
                one.grad += slope * value.grad
                uses[id(one)] -= 1
                if not uses[id(one)]:
                    ready.append(one)


class EveryPath(Value):
    """Right, and exponentially slow."""

    def backward(self, share=1.0):
        self.grad += share
        for one, slope in self.inputs:
            one.backward(slope * share)


class Overwrites(Value):
    def hand_on(self):
        for one, slope in self.inputs:
            one.grad = slope * self.grad


class NeverBegins(Value):
    def backward(self):
        for value in self.order():
            value.hand_on()


class OwnData(Value):
    def __mul__(self, other):
        return self.made(self.data * other.data, (self, self.data), (other, other.data))


class LikeSums(Value):
    def __mul__(self, other):
        return self.made(self.data * other.data, (self, 1.0), (other, 1.0))


class OnlyLeft(Value):
    def hand_on(self):
        for one, slope in self.inputs[:1]:
            one.grad += slope * self.grad


class ForgetfulSums(Value):
    def __add__(self, other):
        return self.made(self.data + other.data)


class Doubled(Value):
    def hand_on(self):
        for one, slope in self.inputs:
            one.grad += 2 * slope * self.grad


class OneLevel(Value):
    def order(self):
        return [self]


class NoChainRule(Value):
    def hand_on(self):
        for one, slope in self.inputs:
            one.grad += slope


class SumOfSlopes(Value):
    def hand_on(self):
        for one, slope in self.inputs:
            one.grad += slope + self.grad - 1


class AgainAndAgain(Value):
    """Recursion that hands on all that has arrived, at every visit."""

    def backward(self, begins=True):
        self.grad = 1.0 if begins else self.grad
        self.hand_on()
        for one in dict.fromkeys(one for one, _ in self.inputs):
            one.backward(begins=False)


class TooEarly(Value):
    """Each Value once, results before the first of their inputs: not a topological order."""

    def order(self):
        found, seen = [], set()

        def visit(value):
            if id(value) not in seen:
                seen.add(id(value))
                found.append(value)
                for one, _ in value.inputs:
                    visit(one)

        visit(self)
        return found


class LevelByLevel(Value):
    def order(self):
        found = [self]
        for value in found:
            found += dict.fromkeys(one for one, _ in value.inputs if one not in found)
        return found


class LevelByLevelFromTheRight(Value):
    def order(self):
        found = [self]
        for value in found:
            inputs = dict.fromkeys(one for one, _ in value.inputs[::-1])
            found += [one for one in inputs if one not in found]
        return found


class ByData(Value):
    """Takes two Values with the same data for one."""

    def order(self):
        first = {}
        for value in super().order():
            first.setdefault(value.data, value)
        return list(first.values())


class ForgetsSquares(Value):
    def __mul__(self, other):
        if self is other:
            return self.made(self.data * self.data, (self, 2 * self.data))
        return super().__mul__(other) if self.data > -1 else self.made(self.data * other.data)


class ChangesData(Value):
    def backward(self):
        super().backward()
        for value in self.order():
            value.data -= 0.1 * value.grad


class PlainSum(Value):
    def __add__(self, other):
        return self.data + other.data


class InPlace(Value):
    def __add__(self, other):
        self.data += other.data
        return self


class ChangesItsInput(Value):
    def __mul__(self, other):
        made = super().__mul__(other)
        self.data = made.data
        return made


class SumsForProducts(Value):
    def __mul__(self, other):
        return self.made(self.data + other.data, (self, 1.0), (other, 1.0))


class NoBackward:
    __init__, __add__, __mul__ = Value.__init__, Value.__add__, Value.__mul__


class NoOperators:
    __init__, backward = Value.__init__, Value.backward


class NoGrad(Value):
    def __init__(self, data, inputs=()):
        self.data, self.inputs = data, inputs


class GradIsNone(Value):
    def __init__(self, data, inputs=()):
        super().__init__(data, inputs)
        self.grad = None


class GradIsOne(Value):
    def __init__(self, data, inputs=()):
        super().__init__(data, inputs)
        self.grad = 1.0


class Whole(Value):
    def __init__(self, data, inputs=()):
        super().__init__(int(data), inputs)


class NothingYet(Value):
    def __add__(self, other):
        pass


class Raises(Value):
    def backward(self):
        raise KeyError("no such node")


class ForEver(Value):
    def backward(self):
        self.backward()


# For each exercise: right answers, and wrong ones with a word of the reply that each must get.
CASES = {
    "05.1": (
        [keys_by_pattern("bhqk,bhqd->bhkd"), lambda q, g: g.transpose(-2, -1) @ q,
         lambda q, g: einsum(q, g, "b h q d, b h q k -> b h k d"), keys_by_autograd,
         keys_head_by_head, lambda q, g: (q.mT @ g).mT.contiguous(),
         lambda q, g: (g[..., None] * q[..., None, :]).sum(2)],
        [(keys_by_pattern("bhqk,bhqd->bkd"), "heads are gone"),
         (keys_by_pattern("bhqk,bhqd->hkd"), "batch is gone"),
         (keys_by_pattern("bhqk,bjqd->bhkd"), "heads of q are mixed"),
         (keys_by_pattern("bjqk,bhqd->bhkd"), "heads of g are mixed"),
         (keys_by_pattern("bhqk,ahqd->bhkd"), "batch of q is mixed"),
         (keys_by_pattern("ahqk,bhqd->bhkd"), "batch of g is mixed"),
         (keys_by_pattern("bhqk,bhqd->bhdk"), "transposed"),
         (keys_by_pattern("bhqk,bhqd->bkhd"), "changed places"),
         (keys_by_pattern("bhqk,bhqd->bhqd"), "the shape of q"), (lambda q, g: q, "shape of q"),
         (keys_by_pattern("bhqk,bhqd->bhqkd"), "sum over the queries"),
         (keys_by_pattern("bhqk,bhqd->bhkqd"), "sum over the queries"),
         (keys_by_pattern("bhpk,bhqd->bhkd"), "query by query"),
         (lambda q, g: g.mT @ q / len(q), "divided by b"),
         (lambda q, g: g.mT @ q / q.shape[-1] ** 0.5, "divided by √d"),
         (lambda q, g: g, "the shape must be"), (lambda q, g: -g.mT @ q, "values are not"),
         (lambda q, g: (g.mT @ q).squeeze(0), "batch is gone"),
         (lambda q, g: (g.mT @ q).squeeze(2), "the shape must be"),
         (lambda q, g: (g.mT @ q).abs(), "values are not"),
         (lambda q, g: g @ q, "RuntimeError"), (lambda q, g: g.zero_().mT @ q, "changed g"),
         (lambda q, g: g.mT @ q.mul_(2) / 2, "changed q"),
         (lambda q, g: (g.mT @ q).to("meta"), "meta"),
         (lambda q, g: None, "a tensor is expected"), (lambda q: q, "TypeError")],
    ),
    "05.2": (
        [46080],
        [(92160, "h1's gradient"), (207360, "both layers"), (161280, "its gradient is not"),
         (115200, "that is w1's gradient"), (23040, "two FLOPs"), (322560, "counted too"),
         (46081, "rounded"), (4.61e4, "rounded"), (57600, "too large"),
         (9.22e4, "h1's gradient"), (1, "too small")],
    ),
    "05.3": (
        [accumulated, split_in_rows, divided_at_the_end],
        [(lambda m, x, y, parts: None, "no gradient"), (no_bias, "the bias has no gradient"),
         (partial(accumulated, scale=1), "divided by the parts"),
         (lambda m, x, y, parts: accumulated(m, x, y, parts, parts**2), "parts twice"),
         (lambda m, x, y, parts: accumulated(m, x, y * 2, parts), "not the large batch's"),
         (first_part_again, "not the large batch's"), (forward_first, "their activations wait"),
         (lambda m, x, y, parts: accumulated(m, x[:6], y[:6], 2), "the first of 3 rows"),
         (lambda m, x, y, parts: accumulated(m, x, y, 1), "whole batch went through"),
         (lambda m, x, y, parts: accumulated(m, x, y, len(x) // parts), "split(n)"),
         (lambda m, x, y, parts: loss_of_parts(m, x, y, parts).backward(), "backward ran 1 time"),
         (lambda m, x, y, parts: accumulated(m, x, y, parts, between=m.zero_grad), "only the last"),
         (lambda m, x, y, parts: accumulated(m, x, y, parts, 1, m.zero_grad), "only the last"),
         (lambda m, x, y, parts: accumulated(m, x, y, parts, parts / y.numel()), "a sum where"),
         (lambda m, x, y, parts: accumulated(m, x, y, parts, parts**2 / y.numel()), "a sum where"),
         (summed_columns, "columns"), (with_a_step, "the optimizer's work"),
         (lambda m, x, y, parts: accumulated(m, x, y, parts, -parts), "the sign is wrong"),
         (lambda m, x, y, parts: accumulated(m, x.mul_(2), y, parts), "changed x")],
    ),
    "05.4": (
        [slopes, in_place, differences, of_fourth_order, partial(slopes, step=1e-4),
         partial(slopes, step=1e-6), lambda loss, w: slopes(loss, w).float()],
        [(set_to_zero, "was set to 0"), (set_to_step, "was set to 1e-05"),
         (never_restored, "w is changed"), (partial(differences, restore=False), "had moved"),
         (one_sided, "one side alone"), (one_side_with_a_show, "close, but not close enough"),
         (partial(differences, entries=1), "only 1 of"), (autograd, "not from autograd"),
         (autograd_beside, "slopes are not those"),
         (lambda loss, w: torch.func.grad(loss)(w), "not from autograd"), (together, "had moved"),
         (uneven, "equally far"), (partial(slopes, step=0.3), "moved by 0.3"),
         (partial(slopes, step=1e-10), "a step near 1e-5"),
         (lambda loss, w: slopes(loss, w.float()), "in torch.float32"),
         (lambda loss, w: 2 * slopes(loss, w), "twice"),
         (lambda loss, w: slopes(loss, w) / 2, "half of it"),
         (lambda loss, w: -slopes(loss, w), "the sign"), (lambda loss, w: None, "a tensor of w"),
         (lambda loss, w: slopes(loss, w) * 2e-5, "times the slopes is too small"),
         (lambda loss, w: slopes(loss, w).abs() + 1, "not those of the loss"),
         (lambda loss, w: slopes(loss, w) + 1e-4, "close, but not close enough"),
         (lambda loss, w: w * 7, "never asked beside w"),
         (lambda loss, w: slopes(loss, w.mul_(1.5)), "w is changed")],
    ),
    "05.5": (
        [16, 16.0, torch.tensor(16)],
        [(8, "gradients of the parameters"), (4, "all 8 layers"), (1, "1 part peaks at"),
         (32, "half as many fit"), (4096, "half as many fit"), (3, "a divisor of 4096"),
         (0, "a divisor"), (8192, "a divisor"), (-16, "a divisor"), (15.5, "a divisor"),
         ("x", "a finite number")],
    ),
    "05.6": (
        [Value, Closures, Tape, Waiting, EveryPath],
        [(Overwrites, "overwrites the first"), (NeverBegins, "every grad is 0"),
         (OwnData, "its own data"), (LikeSums, "both slopes"), (OnlyLeft, "only one of the two"),
         (ForgetfulSums, "+ hands no gradient"), (Doubled, "of a single + are wrong"),
         (OneLevel, "below the last operation"), (NoChainRule, "the chain rule's factor c"),
         (SumOfSlopes, "and those of a single *"),
         (AgainAndAgain, "first share of gradient on twice"),
         (TooEarly, "before all of it has arrived"),
         (LevelByLevel, "before all of it has arrived"),
         (LevelByLevelFromTheRight, "before all of it has arrived"), (ByData, "grad"),
         (ForgetsSquares, "random graph"), (ChangesData, "changed the data"),
         (PlainSum, "+ gave "), (InPlace, "gave back one of its inputs"),
         (ChangesItsInput, "* changed the data of an input"),
         (SumsForProducts, "gave a Value whose data is"), (NoBackward, "has no backward"),
         (NoOperators, "__add__, __mul__"), (NoGrad, "no .grad"),
         (GradIsNone, ".grad must be a finite number, got None"), (GradIsOne, "must be 0.0"),
         (Whole, "must be 2.5"), (NothingYet, "+ gave None"), (Raises, "KeyError"),
         (ForEver, "RecursionError"), (Value(1.0), "the class Value itself"),
         (lambda data: Value(data), "the class Value itself"), (object, "no __add__"),
         (float, "no backward")],
    ),
    "05.7": (
        [0.6745, 0.674, 0.675, 2 / 3 + 2 * 16 / 4096, torch.tensor(0.67448)],
        [(2 / 3, "own FLOPs are missing"), (0.667, "own FLOPs are missing"),
         (0.67, "two digits"), (67.45, "percentage"), (1.4826, "upside down"),
         (0.0078125, "the adapters alone"), (0.0078, "the adapters alone"),
         (0.78, "the adapters alone"), (0.00775, "the adapters alone"),
         (0.3411, "pass through the frozen W"), (1 / 3, "pass through the frozen W"),
         (0.3359, "forward pass of LoRA"), (1.0078, "no gradient of its own"),
         (1, "no gradient of its own"), (0.6706, "two adapters"), (0.6719, "both gradients"),
         (0.6693, "adapters' forward pass"), (0.3255, "the share that is saved"),
         (0.33724, "a multiply-add"), (67_895_296, "per token and layer"),
         (0.7, "too large"), (0.6, "too small")],
    ),
}  # fmt: skip
