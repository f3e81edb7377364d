"""Answers to the exercises of chapters 07 to 10: right ones, and wrong ones with a reply's word."""

import numpy as np
import torch


class Momentum(optimizers.Optimizer):
    average = False

    def update(self, p, g, state, lr, momentum):
        share = 1 - momentum if self.average else 1
        state["v"] = momentum * state["v"] + share * g if "v" in state else g.clone()
        p -= lr * state["v"]


class Averaged(Momentum):
    average = True


class FromZero(optimizers.Optimizer):
    def update(self, p, g, state, lr, momentum):
        old = state.get("v", torch.zeros_like(p))
        state["v"] = momentum * old + (1 - momentum) * g
        p -= lr * state["v"]


class Uphill(optimizers.Optimizer):
    def update(self, p, g, state, lr, momentum):
        state["v"] = momentum * state["v"] + g if "v" in state else g.clone()
        p += lr * state["v"]


class PlainSGD(optimizers.Optimizer):
    def update(self, p, g, state, lr, **_):
        p -= lr * g


class Still(optimizers.Optimizer):
    def update(self, p, g, state, lr, **_):
        p = p - lr * g


class RMSProp(optimizers.Optimizer):
    summed, inside = False, False

    def update(self, p, g, state, lr, alpha, eps):
        old = state.get("s", torch.zeros_like(p))
        state["s"] = old + g * g if self.summed else alpha * old + (1 - alpha) * g * g
        root = (state["s"] + eps).sqrt() if self.inside else state["s"].sqrt() + eps
        p -= lr * g / root


class Summed(RMSProp):
    summed = True


class Inside(RMSProp):
    inside = True


class SwappedAlpha(optimizers.Optimizer):
    def update(self, p, g, state, lr, alpha, eps):
        state["s"] = (1 - alpha) * state.get("s", torch.zeros_like(p)) + alpha * g * g
        p -= lr * g / (state["s"].sqrt() + eps)


class Forgetful(optimizers.Optimizer):
    def update(self, p, g, state, lr, alpha, eps):
        s = torch.zeros_like(p)
        p -= lr * g / ((alpha * s + (1 - alpha) * g * g).sqrt() + eps)


class NotANumber(optimizers.Optimizer):
    def update(self, p, g, state, lr, alpha, eps):
        p -= lr * g / (g - g)


class Adam(optimizers.Optimizer):
    corrected, swapped, m, s = True, False, True, True

    def update(self, p, g, state, lr, betas, eps):
        b1, b2 = reversed(betas) if self.swapped else betas
        zero = torch.zeros_like(p)
        state["m"] = b1 * state.get("m", zero) + (1 - b1) * g
        state["s"] = b2 * state.get("s", zero) + (1 - b2) * g * g
        t = state["t"] = state.get("t", 0) + 1
        first, second = (1 - b1**t, 1 - b2**t) if self.corrected else (1, 1)
        first, second = (first if self.m else 1), (second if self.s else 1)
        p -= lr * state["m"] / first / ((state["s"] / second).sqrt() + eps)


class Biased(Adam):
    corrected = False


class Swapped(Adam):
    swapped = True


class OnlyM(Adam):
    s = False


class OnlyS(Adam):
    m = False


def windows(tokens, T, starts, shift=1):
    rows = torch.tensor([[int(tokens[s + i]) for i in range(T + 1)] for s in starts])
    return rows[:, :-1], rows[:, shift : shift + T]


def narrow(tokens, T, starts):
    x, y = windows(tokens, T, starts)
    return x.int(), y.int()


def without(*forgotten):
    """pack and unpack that leave out some of model, optimizer, source, torch."""

    def pack(model, optimizer, source):
        states = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        states |= {"source": source.get_state(), "torch": torch.get_rng_state()}
        return {name: state for name, state in states.items() if name not in forgotten}

    def unpack(state, model, optimizer, source):
        takers = {"model": model.load_state_dict, "optimizer": optimizer.load_state_dict}
        takers |= {"source": source.set_state, "torch": torch.set_rng_state}
        for name, value in state.items():
            takers[name](value)

    return pack, unpack


LOOPS = {"A": "zero_grad", "B": "use lr", "C": "same device", "D": "train mode"}

CASES = {
    "07.1": (
        [Momentum, optimizers.Momentum],
        [(PlainSGD, "nothing is carried"), (Averaged, "average"), (Still, "does not move"),
         (FromZero, "average"), (Uphill, "climbs"), (torch.optim.SGD, "write the rule yourself"),
         (Adam, "TypeError"), (lambda: 1, "a class")],
    ),
    "07.2": (
        [RMSProp, optimizers.RMSProp],
        [(Summed, "AdaGrad"), (Inside, "under the root"), (Forgetful, "store it"),
         (SwappedAlpha, "they are swapped"), (NotANumber, "not a number"), (Still, "does not move"),
         (PlainSGD, "differs")],
    ),
    "07.3": (
        [Adam, optimizers.Adam],
        [(torch.optim.Adam, "write the rule yourself"), (OnlyM, "s is not corrected"),
         (OnlyS, "m is not corrected"), (Biased, "bias correction"), (Swapped, "swapped"),
         (Still, "does not move"), (PlainSGD, "step 1 of 50")],
    ),
    "07.4": (
        [BYTES],
        [({**BYTES, "SGD": 3e9}, "4 bytes"), ({**BYTES, "AdamW": 18e9}, "is missing"),
         ({**BYTES, "SGD": 18e9}, "too many"), ({**BYTES, "AdamW": 16}, "for one parameter"),
         ({**BYTES, "AdamW": 12e9}, "not 2"), ({**BYTES, "SGD": None}, "still open"),
         ({**BYTES, "SGD": "x"}, "number"), (12e9, "dict")],
    ),
    "07.6": (
        [1.8096, 1.81, 2 * 0.999**100],
        [(2.0, "all the same"), (2 * 0.9**100, "lr belongs"), (2 * 0.99**100, "decay belongs"),
         (1.998, "one step"),
         (0.999**100, "starts from 2"), (1.8, "multiply"), (1.0, "Adam's way"), (7.0, "too large")],
    ),
    "09.1": (
        [14],
        [(18, "in bf16 here"), (12, "is missing"), (10, "master copy"), (16, "read this one again"),
         (22, "2 bytes each"), (20, "second copy"), (8, "pure bf16"), (100, "too large")],
    ),
    "09.2": (
        [32, 2**12, 65536.0],
        [(16, "too small"), (131072, "too large"), (1000, "no power of two"), (-64, "above 0"),
         (0, "above 0"), (65504, "no power of two")],
    ),
    "09.3": (
        [{"softmax", "sum of a million numbers", "cross-entropy", "optimizer update"},
         ["Softmax ", "sum of a million numbers", "cross-entropy", "optimizer update"]],
        [({"softmax"}, "1 of 4"), ({"matmul", "softmax"}, "matmul may run"),
         ({"convolution"}, "it is a product"), ({"dropout"}, "not in the list"), ({3}, "not in"),
         (set(), "0 of 4"), ("softmax", "a set")],
    ),
    "09.4": (
        [2**-9],
        [(2**-8, "a whole step"), (2**-7, "near 1"), (2**-10, "going down"), 
         (0.001, "a larger one"),
         (2**-11, "fp16"), (0.002, "power of two exactly"),
         (1.0, "too large")],
    ),
}  # fmt: skip
