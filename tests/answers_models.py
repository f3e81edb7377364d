"""Answers to the exercises of chapter 06: right ones, and wrong ones with a reply's word."""

import random
from functools import cache
from math import sqrt

import numpy as np
import torch
from torch import nn

# 06.4: numbers that repeat


def normal(seed):
    return torch.randn(4, generator=torch.Generator().manual_seed(seed))


def order(seed):
    return np.random.default_rng(seed).permutation(8)


def own(seed, permutation=True, numbers=True):
    return normal(seed if numbers else 0), order(seed if permutation else 0)


def by_methods(seed):
    source, other = torch.Generator(), np.random.Generator(np.random.PCG64(seed))
    source.manual_seed(seed)
    places = np.arange(8)
    other.shuffle(places)
    return [torch.empty(4, dtype=torch.float64).normal_(generator=source), places]


def by_old_state(seed):
    return normal(seed + 1) * 1.0, np.random.RandomState(seed).permutation(8).astype(np.int32)


SOURCE = torch.Generator()


def reseeded(seed):
    return torch.randn(4, generator=SOURCE.manual_seed(seed)), np.argsort(
        np.random.default_rng([seed, 1]).random(8)
    )


def globally(seed):
    torch.manual_seed(seed)
    return torch.randn(4), order(seed)


def numpy_globally(seed):
    np.random.seed(seed)
    return normal(seed), np.random.permutation(8)


def python_globally(seed):
    random.seed(seed)
    return own(seed)


def unseeded(seed):
    return torch.randn(4), order(seed)


def changed(change):
    """A right program whose normal numbers are changed."""
    return lambda seed: (change(normal(seed)), order(seed))


def uniform(seed):
    return torch.rand(4, generator=torch.Generator().manual_seed(seed)) * 2 - 1


class SharedOutside:
    """Right for the first seeds, and carried along after that."""

    def __init__(self, right):
        self.calls, self.right, self.source = 0, right, np.random.default_rng(0)

    def __call__(self, seed):
        self.calls += 1
        if self.calls <= self.right:
            return own(seed)
        return normal(int(self.source.integers(2**31))), order(seed)


def first_only():
    """A generator outside the function, seeded once."""
    source = []

    def draw(seed):
        source[:] = source or [torch.Generator().manual_seed(seed)]
        return torch.randn(4, generator=source[0]), order(seed)

    return draw


# 06.6: registries


class ByVars:
    def named_parameters(self):
        seen = set()
        for name, p in self._every():
            if id(p) not in seen:
                seen.add(id(p))
                yield name, p

    def _every(self):
        for name, value in vars(self).items():
            if isinstance(value, nn.Parameter):
                yield name, value
        for name, value in vars(self).items():
            if isinstance(value, ByVars):
                yield from ((f"{name}.{inner}", p) for inner, p in value._every())


class ByNotes:
    """As torch does it: two dictionaries, and attributes that are found there."""

    def __init__(self):
        object.__setattr__(self, "own", {})
        object.__setattr__(self, "inside", {})

    def __setattr__(self, name, value):
        for notes in (self.own, self.inside):
            if value is None:
                notes.pop(name, None)
        if isinstance(value, nn.Parameter):
            self.own[name] = value
        elif isinstance(value, ByNotes):
            self.inside[name] = value
        else:
            object.__setattr__(self, name, value)

    def __getattr__(self, name):
        for notes in (self.own, self.inside):
            if name in notes:
                return notes[name]
        raise AttributeError(name)

    def __delattr__(self, name):
        for notes in (self.own, self.inside):
            if name in notes:
                del notes[name]
                return
        object.__delattr__(self, name)

    def named_parameters(self):
        found = {}
        for name, p in self.own.items():
            found.setdefault(id(p), (name, p))
        for name, module in self.inside.items():
            for inner, p in module.named_parameters():
                found.setdefault(id(p), (f"{name}.{inner}", p))
        return list(found.values())


class Base:
    """A registry with options: each leaves something out."""

    dotted, inner, shared, ordered = "{}.{}", True, False, True
    counted = nn.Parameter

    def named_parameters(self):
        found = {}
        for name, p in self.every():
            found.setdefault(id(p) if not self.shared else (id(p), name), (name, p))
        return list(found.values())

    def every(self):
        values = list(vars(self).items())
        if self.ordered:
            values.sort(key=lambda item: isinstance(item[1], Base))
        for name, value in values:
            if isinstance(value, self.counted):
                yield name, value
            elif isinstance(value, Base) and self.inner:
                yield from ((self.named(name, n), p) for n, p in value.every())
            else:
                yield from self.more(name, value)

    def named(self, name, inner):
        return self.dotted.format(name, inner)

    def more(self, name, value):
        return ()


def variant(**options):
    return type("Module", (Base,), options)


class InLists(Base):
    def more(self, name, value):
        if isinstance(value, (list, tuple)):
            for i, each in enumerate(value):
                yield from self.more(f"{name}.{i}", each)
        elif isinstance(value, nn.Parameter):
            yield name, value


class OneLevel(Base):
    def every(self):
        yield from ((n, v) for n, v in vars(self).items() if isinstance(v, nn.Parameter))
        for name, value in vars(self).items():
            if isinstance(value, Base):
                inside = ((n, v) for n, v in vars(value).items() if isinstance(v, nn.Parameter))
                yield from ((f"{name}.{n}", v) for n, v in inside)


class LastLevel(Base):
    """Names of three levels lose the outermost."""

    def named(self, name, inner):
        return inner if "." in inner else f"{name}.{inner}"


class OuterLast(Base):
    def named(self, name, inner):
        return f"{inner}.{name}"


class Kept(ByNotes):
    """Never forgets what was assigned."""

    def __setattr__(self, name, value):
        if isinstance(value, nn.Parameter | ByNotes) or name not in {**self.own, **self.inside}:
            super().__setattr__(name, value)


class NotDeleted(ByNotes):
    def __delattr__(self, name):
        pass


class Renewed(ByNotes):
    """What is replaced moves to the end."""

    def __setattr__(self, name, value):
        self.own.pop(name, None)
        self.inside.pop(name, None)
        super().__setattr__(name, value)


class Doubled(ByVars):
    def named_parameters(self):
        return [*super().named_parameters(), *super().named_parameters()]


class Snapshot:
    """Asks a submodule when it is assigned, and never again."""

    def __init__(self):
        object.__setattr__(self, "notes", {})
        object.__setattr__(self, "deeper", {})

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)
        for notes in (self.notes, self.deeper):
            for known in [n for n in notes if n.split(".")[0] == name and n != name]:
                del notes[known]
        self.deeper.pop(name, None)
        if isinstance(value, nn.Parameter):
            self.notes[name] = value
        else:
            self.notes.pop(name, None)
        if isinstance(value, Snapshot):
            self.deeper |= {f"{name}.{n}": p for n, p in value.named_parameters()}

    def named_parameters(self):
        return [*self.notes.items(), *self.deeper.items()]


class OneForAll:
    """The registry belongs to the class."""

    registry = {}

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)
        self.registry[name] = value

    def named_parameters(self):
        return [(n, v) for n, v in self.registry.items() if isinstance(v, nn.Parameter)]


class Unreadable:
    def __init__(self):
        self.__dict__["notes"] = {}

    def __setattr__(self, name, value):
        self.notes[name] = value

    def named_parameters(self):
        return self.notes.items()


class Inside:
    def __init__(self):
        object.__setattr__(self, "inner", nn.Module())

    def __setattr__(self, name, value):
        setattr(self.inner, name, value)

    def named_parameters(self):
        return self.inner.named_parameters()


class Circling(Base):
    def every(self):
        yield from self.named_parameters()


class Endless(Base):
    def named_parameters(self):
        while True:
            yield "weight", None


def giving(result):
    return type("Module", (), {"named_parameters": lambda self: result})


WEIGHTS, BIASES = 784 * 256 + 256 * 128 + 128 * 10, 256 + 128 + 10
KEPT = sqrt(2 / (1.09 * 300))

CASES = {
    "06.1": (
        [235_146, sum(a * b + b for a, b in ((784, 256), (256, 128), (128, 10)))],
        [(234_752, "weights alone"), (235_146 + 784, "need no bias"), (940_584, "not bytes"),
         (235_920, "each output"), (784 * 256 * 1280, "add up"), (10, "too small"),
         (235_146 + 384, "the ReLUs"), (200_960, "first layer alone"), (200_704, "first weight"),
         (234_762, "last bias alone"), (234_755, "a single number"), (233_856, "the last layer"),
         (34_186, "the first layer, 784"), (7850, "hidden layers"), (1178, "the widths"),
         (470_292, "twice"), (235_147, "too large"), (235_145, "too small")],
    ),
    "06.2": (
        [{"middle", "scale"}, ["scale", "middle"], frozenset({" Middle", "SCALE"})],
        [({"middle"}, "1 of 2"), ({"scale"}, "1 of 2"), ({"last"}, "nn.Sequential is a module"),
         ({"middle", "scale", "shift"}, "nn.Parameter"), ({"first", "middle"}, "nn.Linear"),
         ({"bias"}, "no attribute"), ({1}, "no attribute"), (set(), "0 of 2"), ("middle", "a set"),
         ({"first", "middle", "scale", "shift", "last"}, "nn.Sequential")],
    ),
    "06.3": (
        [0.0625, (2 / 512) ** 0.5, 1 / 16],
        [(0.04419, "half of it away"), (0.00390625, "variance"), (0.08839, "under the root"),
         (0.00276, "root of 2 alone"), (0.02552, "nn.Linear draws"), (0.10825, "uniform"),
         (16, "upside down"), (0.0628, "too large"),
         (0.02795, "Xavier"), (0.03125, "the gradient"), (0.0221, "over the inputs"),
         (1 / 512, "twice as much"), (1.0, "too large")],
    ),
    "06.4": (
        [own, by_methods, by_old_state, reseeded, cache(own), SharedOutside(10**6)],
        [(globally, "generator of torch"), (numpy_globally, "generator of NumPy"),
         (python_globally, "generator of Python"), (unseeded, "two calls"),
         (first_only(), "two calls"), (SharedOutside(1), "two calls"),
         (SharedOutside(40), "carried along"),
         (lambda seed: own(seed, permutation=False), "permutation stays"),
         (lambda seed: own(seed, numbers=False), "numbers stay"),
         (lambda seed: own(seed % 2), "give only 2 different results for the numbers"),
         (lambda seed: own(seed % 1000), "different results for the numbers"),
         (lambda seed: (normal(seed), order(seed % 100)), "different results for the permutation"),
         (lambda seed: (normal(seed), np.roll(np.arange(8), seed)), "only 8 different"),
         (changed(torch.sigmoid), "between 0 and 1"), (changed(torch.tanh), "between -1 and 1"),
         (lambda seed: (uniform(seed), order(seed)), "between -1 and 1"),
         (lambda seed: (uniform(seed) * sqrt(3), order(seed)), "not normal"),
         (lambda seed: (uniform(seed) / 2 * sqrt(12), order(seed)), "not normal"),
         (changed(lambda x: x.sign() * (x.abs() + 0.5).sqrt() * 0.89), "not normal"),
         (changed(lambda x: x * 2), "standard deviation is"),
         (changed(lambda x: x * 1.1), "standard deviation is"),
         (changed(lambda x: x + 1), "mean of many numbers is"),
         (changed(lambda x: x.abs()), "mean of many numbers"),
         (changed(lambda x: x[:1].expand(4)), "always equal"),
         (changed(lambda x: torch.cat([x[:3], x[:1]])), "always equal"),
         (changed(lambda x: torch.stack([x[0], -x[0], x[1], -x[1]])), "depend on each other"),
         (changed(lambda x: x.sort().values), "depend on each other"),
         (changed(lambda x: x / 0), "finite real"), (changed(lambda x: x.int()), "finite real"),
         (lambda seed: (normal(seed), np.r_[np.random.default_rng(seed).permutation(7), 7]),
          "stands at position"),
         (lambda seed: (normal(seed), torch.from_numpy(order(seed))), "comes from torch"),
         (lambda seed: (normal(seed), torch.randperm(
             8, generator=torch.Generator().manual_seed(seed))), "comes from torch"),
         (lambda seed: (normal(seed), order(seed).tolist()), "must be a permutation"),
         (lambda seed: (normal(seed).tolist(), order(seed)), "a tensor of 4 numbers"),
         (lambda seed: (normal(seed).numpy(), order(seed)), "a tensor of 4 numbers"),
         (lambda seed: (order(seed), normal(seed)), "in this order"),
         (lambda seed: torch.ones(4), "a pair"),
         (lambda seed: (torch.ones(2), np.arange(8)), "4 numbers"),
         (lambda seed: (torch.ones(4), np.arange(8) + 1), "permutation of 0 to 7"),
         (lambda: None, "TypeError")],
    ),
    "06.5": (
        [KEPT, 0.0782, 0.078, torch.nn.init.calculate_gain("leaky_relu", 0.3) / sqrt(300),
         torch.tensor(KEPT)],
        [(0.0816, "plain ReLU"), (0.08165, "plain ReLU"), (0.0577, "LeCun"), (0.00612, "root"),
         (0.0061, "a larger s"), (1 / 300, "LeCun's variance"), (2 / 300, "plain ReLU"),
         (0.0716, "squared"), (0.0888, "average the squares"), (0.0553, "the 2 is missing"),
         (0.0856, "negative half adds"), (0.192, "only the negative half"), (0.1355, "uniform"),
         (0.0333, "nn.Linear draws"), (0.09, "a smaller s"), (0.07, "a larger s"),
         (0.5, "a smaller s"), (0.0, "can be tried"), (1e-9, "can be tried"), (99, "can be tried")],
    ),
    "06.6": (
        [ByVars, ByNotes, Base, variant()],
        [(nn.Module, "inherits"), (type("Module", (nn.Module,), {}), "inherits"),
         (Inside, "torch's Module inside"),
         (type("Module", (), {"named_parameters": nn.Module.named_parameters}), "Module inside"),
         (variant(dotted="{1}"), "need the submodule's name"),
         (variant(dotted="{}_{}"), "a dot, and only one"),
         (variant(dotted="{}{}"), "a dot, and only one"),
         (variant(dotted="{}..{}"), "a dot, and only one"),
         (variant(dotted="module.{}.{}"), "is listed as"),
         (variant(inner=False), "the parameters of submodules are missing"),
         (variant(shared=True), "that two attributes share is listed twice"),
         (variant(ordered=False), "in another order"),
         (variant(counted=torch.Tensor), "a plain tensor"),
         (variant(counted=(nn.Parameter, int)), "is no parameter but 7"),
         (InLists, "in a list"), (OneLevel, "submodules' submodules"),
         (LastLevel, "each level"), (OuterLast, "the outer name"),
         (Kept, "was set to None"), (NotDeleted, "was deleted"), (Renewed, "in another order"),
         (Doubled, "of a single attribute is listed twice"),
         (Snapshot, "after it was assigned itself"), (OneForAll, "its own notes"),
         (Unreadable, "must give that value back"), (Circling, "without end"),
         (Endless, "never ends"), (giving(None), "pairs"), (giving({"weight": 1}), "pairs"),
         (giving([]), "nothing is listed"), (giving(7), "pairs"),
         (object, "no method"), (int, "no method"),
         (lambda: 1, "a class"), (ByVars(), "a class")],
    ),
    "06.7": (
        [0.2041, 24**-0.5, 1 / sqrt(2 * 12)],
        [(1 / 24, "per branch"), (0.0417, "per branch"), (12**-0.5, "two, and the input"),
         (0.0833, "each block has two"), (4.899, "upside down"), (24, "upside down"),
         (0.3536, "RMS 2"), (0.125, "RMS 2"), (0.2, "the input is not scaled"),
         (23**-0.5, "there are 24"), (48**-0.5, "doubled once more"), (0.7071, "single branch"),
         (2 ** (1 / 24), "do not multiply"), (2 ** (1 / 48), "do not multiply"),
         (1.0, "too large"), (0.1, "too small")],
    ),
}  # fmt: skip
