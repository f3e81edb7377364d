"""Answers to the exercises of chapter 07: right ones, and wrong ones with a reply's word."""

from textwrap import dedent, indent

import numpy as np
import torch

from course_utils import predict
from course_utils.train import optimizers

SETTINGS = {"sgd": "lr", "momentum": "lr, momentum", "adagrad": "lr, eps",
            "rmsprop": "lr, alpha, eps", "adam": "lr, betas, eps",
            "adamw": "lr, betas, eps, weight_decay"}  # fmt: skip
RULES = {
    "sgd": "p -= lr * g",
    "momentum": """\
        v = state["v"] = momentum * state["v"] + g if "v" in state else g.clone()
        p -= lr * v
        """,
    "adagrad": """\
        s = state["s"] = state.get("s", torch.zeros_like(p)) + g * g
        p -= lr * g / (s.sqrt() + eps)
        """,
    "rmsprop": """\
        s = state["s"] = alpha * state.get("s", torch.zeros_like(p)) + (1 - alpha) * g * g
        p -= lr * g / (s.sqrt() + eps)
        """,
    "adam": """\
        b1, b2 = betas
        m = state["m"] = b1 * state.get("m", 0) + (1 - b1) * g
        s = state["s"] = b2 * state.get("s", 0) + (1 - b2) * g * g
        t = state["t"] = state.get("t", 0) + 1
        m_hat, s_hat = m / (1 - b1**t), s / (1 - b2**t)
        p -= lr * m_hat / (s_hat.sqrt() + eps)
        """,
}
RULES = {name: dedent(update).strip() for name, update in RULES.items()}
RULES["adamw"] = f"p *= 1 - lr * weight_decay\n{RULES['adam']}"


def written(name, update, head="", base="Optimizer"):
    """A class with this body of its update, and what stands in the class before it."""
    lines = [f"class Mine({base}):", indent(dedent(head), " " * 4)]
    lines += [f"    def update(self, p, g, state, {SETTINGS[name]}):"]
    space = {"torch": torch, "Optimizer": optimizers.Optimizer, "optimizers": optimizers}
    exec("\n".join([*lines, indent(dedent(update), " " * 8)]), space)
    return space["Mine"]


def but(name, *changes, head=""):
    """The right class, each pair of texts in its update exchanged."""
    update = RULES[name]
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert old in update, (name, old)
        update = update.replace(old, new)
    return written(name, update, head)


def right(name):
    return written(name, RULES[name])


class Borrowed(optimizers.Optimizer):
    """Lets one of torch's optimizers do the work."""

    def update(self, p, g, state, **settings):
        if "theirs" not in state:
            state["theirs"] = self.kind([p], **settings)
        state["theirs"].step()


def borrowed(kind):
    return type("Mine", (Borrowed,), {"kind": kind})


def subclass(kind):
    return type("Mine", (kind,), {})


class WholeStep(torch.optim.Optimizer):
    """Momentum on torch's own base class, with foreach."""

    def __init__(self, params, lr, momentum):
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in (p for p in group["params"] if p.grad is not None):
                v = self.state[p].setdefault("v", torch.zeros_like(p))
                v.mul_(group["momentum"]).add_(p.grad)
                p.sub_(group["lr"] * v)


ADAM_IN_PLACE = """
    m = state.setdefault("m", torch.zeros_like(p))
    s = state.setdefault("s", torch.zeros_like(p))
    state["t"] = state.get("t", 0) + 1
    m.lerp_(g, 1 - betas[0])
    s.mul_(betas[1]).addcmul_(g, g, value=1 - betas[1])
    first, second = (1 - beta ** state["t"] for beta in betas)
    p.addcdiv_(m, (s / second).sqrt().add_(eps), value=-lr / first)
    """
BY_ID = """
    v = self.kept[id(p)] = momentum * self.kept.get(id(p), 0) + g
    p -= lr * v
    """
COUNTED_IN_STEP = """\
    def step(self, closure=None):
        self.t = getattr(self, "t", 0) + 1
        return super().step(closure)
    """


def everywhere(name):
    """Wrong answers that every rule can get."""
    kind = {"sgd": "SGD", "momentum": "SGD", "adagrad": "Adagrad", "rmsprop": "RMSprop",
            "adam": "Adam", "adamw": "AdamW"}[name]  # fmt: skip
    kind = getattr(torch.optim, kind)
    step = RULES[name].splitlines()[-1].removeprefix("p -= ")
    course = {"sgd": "SGD", "momentum": "Momentum", "adagrad": "AdaGrad", "rmsprop": "RMSProp",
              "adam": "Adam", "adamw": "AdamW"}[name]  # fmt: skip
    return [
        (kind, "write the rule yourself"), (subclass(kind), "write the rule yourself"),
        (borrowed(kind), "take the step"),
        (subclass(getattr(optimizers, course)), "the course's own"),
        (but(name, "p -= ", "p += "), "climbs"),
        (but(name, f"p -= {step}", f"p.data = p - {step}"), "gets new memory"),
        (written(name, "pass"), "does not move"),
        (written(name, f"{RULES[name]}\ng *= 2"), "changes g in place"),
        (but(name, "lr * ", "0.001 * "), "lr changes nothing"),
        (written(name, "p -= lr * g / (g - g)"), "no number any more"),
        (but(name, "p -= ", "p -= 1.01 * "), "step 1 of 30"),
        (lambda: 1, "a class"), (optimizers.Optimizer, "NotImplementedError"),
        (written("adamw" if name != "adamw" else "rmsprop", "pass"), "TypeError"),
    ]  # fmt: skip


def still(name):
    """p replaced: nothing changes."""
    return but(name, "p -= ", "p = p - ")


ADAMS = [
    ("m / (1 - b1**t), s / (1 - b2**t)", "m, s", "bias correction is missing"),
    (", s / (1 - b2**t)", ", s", "s is not corrected"),
    ("m / (1 - b1**t),", "m,", "m is not corrected"),
    ("b1, b2 = betas", "b2, b1 = betas", "betas are swapped"),
    ('t = state["t"] = state.get("t", 0) + 1', 't = state.get("t", 0); state["t"] = t + 1',
     "1 − beta**0"),
    ('t = state["t"] = state.get("t", 0) + 1', "t = 1", "t stays 1"),
    ("m_hat, s_hat = m", 'm_hat, s_hat = state["m"], state["s"] = m', "corrected again"),
    ("(1 - b2) * g * g", "(1 - b2) * g", "not squared"),
    ("(s_hat.sqrt() + eps)", "(s_hat + eps)", "root is missing"),
    ("(s_hat.sqrt() + eps)", "(s_hat + eps).sqrt()", "under the root"),
    ("(s_hat.sqrt() + eps)", "((s.sqrt() + eps) / (1 - b2**t) ** 0.5)", "eps is corrected, too"),
    ("(1 - b1) * g\n", "g\n", "no average"),
    ("b1, b2 = betas", "b1, b2 = 0.9, betas[1]", "betas[0] changes nothing"),
    ("b1, b2 = betas", "b1, b2 = betas[0], 0.999", "betas[1] changes nothing"),
    ("+ eps)", "+ 1e-8)", "eps changes nothing"),
]  # fmt: skip
COUNTER = 't = state["t"] = state.get("t", 0) + 1'


def adams(name):
    return [
        *everywhere(name),
        *((but(name, old, new), word) for old, new, word in ADAMS),
        (but(name, COUNTER, "t = self.t = self.t + 1", head="t = 0"), "share one step counter"),
        (but(name, COUNTER, 't = self.__dict__["t"] = self.__dict__.get("t", 0) + 1'),
         "share one step counter"),
        (but(name, COUNTER, "t = type(self).t = type(self).t + 1", head="t = 0"), "goes on where"),
        (but(name, COUNTER, "t = self.t", head=COUNTED_IN_STEP), "a step without one"),
        (but(name, 'state["m"] = b1 * state.get("m", 0)', "self.m = b1 * getattr(self, 'm', 0)"),
         "right for one parameter"),
    ]  # fmt: skip


FORGETS = ('s = state["s"] = state.get("s", torch.zeros_like(p)) + g * g', "s = g * g")
FADES = ('state.get("s", torch.zeros_like(p)) + g * g',
         'KEEP * state.get("s", torch.zeros_like(p)) + (1 - KEEP) * g * g')  # fmt: skip
MEANS = """
    state["all"] = [*state.get("all", []), g * g]
    s = sum(state["all"]) / len(state["all"])
    p -= lr * g / (s.sqrt() + eps)
    """
OLD = """
    s = state.get("s", torch.zeros_like(p))
    p -= lr * g / (s.sqrt() + eps)
    """
BYTES = {"SGD": 12e9, "momentum": 18e9, "AdaGrad": 18e9, "AdamW": 24e9}


def each(change):
    return {name: change(value) for name, value in BYTES.items()}


STATE = {"SGD": 0, "momentum": 1, "AdaGrad": 1, "RMSProp": 1, "Adam": 2, "AdamW": 2}
LOOP = {"AdaGrad": 2, "RMSProp": 2, "Adam": 3, "AdamW": 3}
FOREACH = {"AdaGrad": 2, "RMSProp": 1, "Adam": 1, "AdamW": 1}


def parts(D, L, B, optimizer, form):
    """Parameters, state, what each layer holds in the backward pass, what the step does."""
    P = D * D * L + D
    scratch = {"for-loop": LOOP.get(optimizer, 0) * D * D,
               "foreach": FOREACH.get(optimizer, 0) * P, "fused": 0}[form]  # fmt: skip
    layers = [(L - l + 1) * D * D + l * B * D + (1 + (l > 1)) * B * D for l in range(1, L + 1)]  # noqa: E741
    return P, STATE[optimizer] * P, layers, scratch


def peak(D, L, B, optimizer, form):
    P, state, layers, scratch = parts(D, L, B, optimizer, form)
    return 4 * (P + state + max(*layers, P + B * D + scratch))


def exact(D, L, B, optimizer, form):
    return predict.deep_linear_memory(B, D, L, optimizer=optimizer, form=form).peak


def by_moments(D, L, B, optimizer, form):
    """Layer by layer, as the gradients grow and the inputs go."""
    P, state, _, scratch = parts(D, L, B, optimizer, form)
    weights, inputs, highest = D, (L + 1) * B * D, 0
    for layer in reversed(range(L)):
        weights += D * D
        inputs -= B * D
        highest = max(highest, weights + inputs + B * D * (2 if layer else 1))
    return np.float64(4 * (P + state + max(highest, 2 * B + weights + B * D + scratch)))


def peaks(combined):
    """A predictor from P, state, layers, scratch and the data's numbers."""
    return lambda D, L, B, o, f: 4 * combined(*parts(D, L, B, o, f), D, L, B, f)


WRONG_PEAKS = [
    (lambda *plan: peak(*plan) / 4, "those are numbers"),
    (lambda *plan: peak(*plan) * 2, "not 8"), (lambda *plan: peak(*plan) / 2, "not 2"),
    (peaks(lambda P, s, ls, c, D, L, B, f: P + max(*ls, P + B * D + c)), "state is forgotten"),
    (peaks(lambda P, s, ls, c, D, L, B, f: P + max(max(ls), P + s + B * D + c)),
     "in the backward pass the state is there"),
    (peaks(lambda P, s, ls, c, D, L, B, f: 3 * P + max(*ls, P + B * D + c)), "Adam's state"),
    (peaks(lambda P, s, ls, c, D, L, B, f: P + s + max(
        (L + 2) * B * D, 4 * B * D, 2 * B * D, B * D + c)), "the gradients are forgotten"),
    (peaks(lambda P, s, ls, c, D, L, B, f: P + s + max((L + 2) * B * D + P, P + B * D + c)),
     "layer by layer"),
    (peaks(lambda P, s, ls, c, D, L, B, f: P + s + max(
        *((L - l + 1) * D * D + (1 + (l > 1)) * B * D for l in range(1, L + 1)), P + c)),  # noqa: E741
     "activations are forgotten"),
    (peaks(lambda P, s, ls, c, D, L, B, f: P + s + max(
        *((L - l + 1) * D * D + (l + (l > 1)) * B * D for l in range(1, L + 1)), P + B * D + c)),  # noqa: E741
     "too few"),
    (peaks(lambda P, s, ls, c, D, L, B, f: P + s + max(
        *((L - l + 1) * D * D + l * B * D for l in range(1, L + 1)), P + B * D + c)),  # noqa: E741
     "flow back are forgotten"),
    (peaks(lambda P, s, ls, c, D, L, B, f: P + s + max(
        *((L - l + 1) * D * D + l * B * D + B * D for l in range(1, L + 1)), P + B * D + c)),  # noqa: E741
     "two gradients flow"),
    (peaks(lambda P, s, ls, c, D, L, B, f: P + s + max(
        *((L - l + 1) * D * D + l * B * D + 2 * B * D for l in range(1, L + 1)), P + B * D + c)),  # noqa: E741
     "at the first layer"),
    (peaks(lambda P, s, ls, c, D, L, B, f: P + s + max(*ls, P + c)), "data are still there"),
    (peaks(lambda P, s, ls, c, D, L, B, f: P + s + max(*ls, P + (L + 1) * B * D + c)),
     "never there together"),
    (peaks(lambda P, s, ls, c, D, L, B, f: P + s + max(*ls, P + B * D + (c if f == "foreach" else 0)
                                                       )), "the for-loop form is forgotten"),
    (peaks(lambda P, s, ls, c, D, L, B, f: P + s + max(
        *ls, P + B * D + (c if f == "for-loop" else 0))), "scratch of foreach"),
    (peaks(lambda P, s, ls, c, D, L, B, f: P + s + max(*ls, P + B * D)), "or its scratch"),
    (peaks(lambda P, s, ls, c, D, L, B, f: P + s + max(
        *ls, P + B * D + c - (D * D if c and f == "for-loop" else 0))), "leaves a tensor behind"),
    (peaks(lambda P, s, ls, c, D, L, B, f: P + s + max(
        *ls, P + B * D + (min(c, P) if f == "foreach" else c))), "AdaGrad has more"),
    (lambda D, L, B, o, f: peak(D, L, B, o, "foreach" if f == "fused" else f), "one routine"),
    (lambda D, L, B, o, f: peak(D, L, B, o, "for-loop" if f == "fused" else f), "one routine"),
    *((peaks(lambda P, s, ls, c, D, L, B, f, more=more, plus=plus:
             2 * P + s + (L + more) * B * D + plus * c), "never there together")
      for more in (0, 1, 2) for plus in (0, 1)),
    (peaks(lambda P, s, ls, c, D, L, B, f: 2 * (P + s) + ls[-1] + P + B * D + c),
     "adds up two moments"),
    (peaks(lambda P, s, ls, c, D, L, B, f: 2 * (P + s) + ls[0] + P + B * D + c),
     "adds up two moments"),
    (peaks(lambda P, s, ls, c, D, L, B, f: P + s + max(ls[0], ls[-1], P + B * D + c)), "its ends"),
    (peaks(lambda P, s, ls, c, D, L, B, f: P + s + max(ls)), "optimizer's step is left out"),
    (peaks(lambda P, s, ls, c, D, L, B, f: 2 * P + s + B * D + c), "backward pass is left out"),
    (peaks(lambda P, s, ls, c, D, L, B, f: P + s + max(ls[-1], P + B * D + c)), "its start only"),
    (peaks(lambda P, s, ls, c, D, L, B, f: P + s + max(ls[0], P + B * D + c)), "its end only"),
    (lambda D, L, B, o, f: peak(D, L, B, o, f) * (1.1 if o == "Adam" else 1), "those with Adam"),
    (lambda D, L, B, o, f: peak(D, L, B, o, f) * (0.9 if f == "foreach" else 1),
     "those in the foreach form"),
    (lambda *plan: peak(*plan) * 1.05, "0 of 20 are right"),
    (lambda *plan: 1e6, "too "), (lambda *plan: None, "a finite number"),
    (lambda *plan: {}["Adagrad"], "KeyError"), (lambda D, L: 0, "TypeError"),
]  # fmt: skip

CASES = {
    "07.1": (
        [right("sgd"), written("sgd", "p.add_(g, alpha=-lr)"), written("sgd", "p.sub_(lr * g)")],
        [*everywhere("sgd"), (still("sgd"), "does not move"),
         (written("sgd", "p.copy_(-lr * g)"), "overwritten"),
         (written("sgd", "p.data -= lr * g * g"), "differs")],
    ),
    "07.2": (
        [right("momentum"), WholeStep,
         written("momentum", """
             v = state.setdefault("v", torch.zeros_like(p))
             v *= momentum
             v += g
             p -= lr * v"""),
         written("momentum", """
             step = state["lr v"] = momentum * state.get("lr v", 0) + lr * g
             p.sub_(step)""")],
        [*everywhere("momentum"), (still("momentum"), "does not move"),
         (but("momentum", "+ g if", "+ (1 - momentum) * g if"), "average"),
         (written("momentum", """
             v = state["v"] = momentum * state.get("v", 0) + (1 - momentum) * g
             p -= lr * v"""), "average"),
         (written("momentum", "p -= lr * g"), "nothing is carried"),
         (but("momentum", "momentum *", "0.9 *"), "momentum changes nothing"),
         (but("momentum", "lr * v", "0.01 * v"), "lr changes nothing"),
         (but("momentum", "p -= lr * v", "p -= lr * (g + momentum * v)"), "Nesterov"),
         (written("momentum", """
             old = state.get("v", torch.zeros_like(p))
             state["v"] = momentum * old + g
             p -= lr * old"""), "the old v"),
         (but("momentum", "momentum *", "1 *"), "added whole"),
         (but("momentum", "+ g if", "+ lr * g if", "g.clone()", "lr * g"), "lr is there twice"),
         (written("momentum", """
             if "v" in state:
                 state["v"].mul_(momentum).add_(g)
             else:
                 state["v"] = g
             p -= lr * state["v"]"""), "what you store is g itself"),
         (but("momentum", 'state["v"] =', "self.v =", 'state["v"]', "self.v", '"v" in state',
              'hasattr(self, "v")'), "right for one parameter"),
         (written("momentum", BY_ID, head="kept = {}"), "goes on where"),
         (but("momentum", "* v", "* state['w']"), "KeyError")],
    ),
    "07.3": (
        [right("adagrad"), written("adagrad", """
            s = state.setdefault("s", torch.zeros_like(p))
            s.addcmul_(g, g)
            p.addcdiv_(g, s.sqrt().add_(eps), value=-lr)""")],
        [*everywhere("adagrad"), (still("adagrad"), "does not move"),
         (written("adagrad", MEANS), "is an average"),
         *((but("adagrad", FADES[0], FADES[1].replace("KEEP", keep)), "is an average")
           for keep in ("0.9", "0.99", "0.999")),
         (but("adagrad", *FORGETS), "forgotten"),
         (but("adagrad", "g * g", "g"), "not squared"),
         (but("adagrad", "s.sqrt() + eps", "s + eps"), "root is missing"),
         (but("adagrad", "(s.sqrt() + eps)", "(s + eps).sqrt()"), "under the root"),
         (but("adagrad", "+ eps", "+ 1e-10"), "eps changes nothing"),
         (written("adagrad", f'{dedent(OLD)}state["s"] = s + g * g'), "the old s"),
         (but("adagrad", 'state["s"] = state.get("s", torch.zeros_like(p))',
              'self.s = getattr(self, "s", 0)'), "right for one parameter")],
    ),
    "07.4": (
        [right("rmsprop"), written("rmsprop", """
            s = state.setdefault("s", torch.zeros_like(p))
            s.mul_(alpha).addcmul_(g, g, value=1 - alpha)
            p.addcdiv_(g, s.sqrt().add_(eps), value=-lr)""")],
        [*everywhere("rmsprop"), (still("rmsprop"), "does not move"),
         (but("rmsprop", "alpha * state", "state", "(1 - alpha) * g", "g"), "AdaGrad"),
         (but("rmsprop", "(1 - alpha) * g", "g"), "added whole"),
         (written("rmsprop", MEANS), "counts alike"),
         (but("rmsprop", "alpha * state", "(1 - alpha) * state", "+ (1 - alpha)", "+ alpha"),
          "swapped"),
         (written("rmsprop", """
             s = (1 - alpha) * g * g
             p -= lr * g / (s.sqrt() + eps)"""), "store it"),
         (written("rmsprop", "p -= lr * g / (g.abs() + eps)"), "store it"),
         (but("rmsprop", "alpha * state", "0.99 * state", "(1 - alpha)", "0.01"),
          "alpha changes nothing"),
         (but("rmsprop", "+ eps", "+ 1e-8"), "eps changes nothing"),
         (but("rmsprop", "g * g", "g"), "not squared"),
         (but("rmsprop", "s.sqrt() + eps", "s + eps"), "root is missing"),
         (but("rmsprop", "(s.sqrt() + eps)", "(s + eps).sqrt()"), "under the root"),
         (written("rmsprop", f'{dedent(OLD)}state["s"] = alpha * s + (1 - alpha) * g * g'),
          "the old s")],
    ),
    "07.5": (
        [right("adam"), written("adam", ADAM_IN_PLACE)],
        [*adams("adam"), (still("adam"), "does not move")],
    ),
    "07.6": (
        [right("adamw"), written("adamw", "p.mul_(1 - lr * weight_decay)\n" + dedent(
            ADAM_IN_PLACE)),
         but("adamw", "p *= 1 - lr * weight_decay", "p.sub_(lr * weight_decay * p)")],
        [*adams("adamw"), (still("adamw"), "only the decay"),
         (but("adamw", "p *= 1 - lr * weight_decay", "p = p * (1 - lr * weight_decay)"),
          "does not move"),
         (but("adamw", "p *= 1 - lr * weight_decay", "g = g + weight_decay * p"), "Adam's way"),
         (but("adamw", "1 - lr * weight_decay", "1 - weight_decay"), "lr is missing"),
         (but("adamw", "1 - lr * weight_decay", "1 + lr * weight_decay"), "grow"),
         (but("adamw", "1 - lr * weight_decay", "1"), "that is Adam"),
         (but("adamw", "1 - lr * weight_decay", "1 - lr * 0.01"), "weight_decay changes nothing"),
         (written("adamw", RULES["adam"] + "\np *= 1 - lr * weight_decay"), "after the step")],
    ),
    "07.7": (
        [BYTES, {name: 4 * many * 1.5e9 for name, many in
                 {"SGD": 2, "momentum": 3, "AdaGrad": 3, "AdamW": 4}.items()}],
        [(each(lambda value: value / 4), "4 bytes"), (each(lambda value: value / 2), "not 2"),
         (dict.fromkeys(BYTES, 12e9), "tells optimizers apart"),
         (each(lambda value: value - 6e9), "one is missing"),
         (each(lambda value: value - 12e9), "state alone"),
         (each(lambda value: value / 1.5e9), "for one parameter"),
         (each(lambda value: value / 1e9), "gigabytes"),
         (each(lambda value: round(value / 2**30, 2)), "GiB"),
         ({**BYTES, "SGD": 3e9}, "SGD: each number takes 4 bytes"),
         ({**BYTES, "AdamW": 18e9}, "AdamW: one number per parameter is missing"),
         ({**BYTES, "momentum": 12e9}, "momentum: its state is missing"),
         ({**BYTES, "SGD": 18e9}, "too many"), ({**BYTES, "AdaGrad": 24e9}, "too many"),
         ({**BYTES, "AdamW": 16}, "for one parameter"), ({**BYTES, "AdaGrad": 9e9}, "not 2"),
         ({**BYTES, "AdamW": 24e12}, "power of ten"),
         ({**BYTES, "SGD": None}, "still open"), ({**BYTES, "SGD": "x"}, "number"),
         (12e9, "dict")],
    ),
    "07.8": ([], [(1.5, "whole number"), (-64, "whole number"), (10**13, "too large to try")]),
    "07.9": ([peak, exact, by_moments], WRONG_PEAKS),
    "07.10": (
        [42.575e9, 42.6e9, 43e9, 42.3e9, 70e9 * 4.5 / 8 + 0.2e9 * 16],
        [(882.6e9, "neither gradients nor state"), (602.6e9, "keeps no state"),
         (322.6e9, "gets no gradients"), (1123.2e9, "full training"), (318.2e9, "eight bits"),
         (38.2e9, "scales"), (39.375e9, "adapter is missing"), (40.175e9, "gradients and state"),
         (40.975e9, "the state is missing"), (41.775e9, "one of gradients"),
         (283.2e9, "not in fp32"), (143.2e9, "not in bf16"), (3.2e9, "frozen parameters are miss"),
         (39.65e9, "GiB"), (39.65, "GiB"), (42.6, "gigabytes"), (42.6e6, "power of ten"),
         (50e9, "too large"), ("42.6 GB", "number")],
    ),
}  # fmt: skip
