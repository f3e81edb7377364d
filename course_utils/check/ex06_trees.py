"""Random structures of modules for exercise 06.6: built with torch's Module and with another."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import nn

# More than a module gets, so that no name is used again for another kind of thing: there torch's
# order depends on how it keeps them. And none that a learner's class is likely to use for itself.
NAMES = ("weight", "bias", "scale", "shift", "gate", "up", "down", "head", "norm", "embed", "mixer",
         "stem", "query", "proj", "conv", "gain")  # fmt: skip
CHANGES = ("", "added", "replaced", "deleted", "set to None")
GONE = object()  # in place of a value: the attribute is deleted
Listing = list[tuple[str, nn.Parameter]]


@dataclass(eq=False)
class Plan:
    """What is assigned to one module, in order: parameters, other plans, and what never counts."""

    steps: list[tuple[str, object]] = field(default_factory=list)

    def names_of(self, kind: type) -> Iterator[str]:
        """The attributes whose value is of this kind."""
        return (name for name, value in self.steps if isinstance(value, kind))


class Side:
    """One way to build plans: as instances of a subclass of `base`, each plan once."""

    def __init__(self, base: type) -> None:
        side = self

        class Node(base):
            def __init__(self, plan: Plan) -> None:
                super().__init__()
                side.fill(self, plan.steps)

        self.node, self.built = Node, {}

    def fill(self, module: object, steps: Sequence[tuple[str, object]]) -> None:
        """Assign, or delete, one attribute after the other."""
        for name, value in steps:
            if value is GONE:
                delattr(module, name)
            else:
                setattr(module, name, self.value(value))

    def value(self, value: object) -> object:
        """What is assigned for a value of a plan: the module where a plan stands, also inside."""
        if isinstance(value, Plan):
            if value not in self.built:
                self.built[value] = self.node(value)
            return self.built[value]
        if isinstance(value, (list, tuple)):
            return type(value)(self.value(each) for each in value)
        if isinstance(value, dict):
            return {key: self.value(each) for key, each in value.items()}
        return value


class Tree:
    """A random structure, once of torch's modules and once of `base`, with the same parameters.

    With `shared`, some parameters and modules are assigned twice. `change` says what happens after
    `alter`. `never` maps the ids of tensors that do not count to the sentence that says why.
    """

    def __init__(self, base: type, *, shared: bool, change: str) -> None:
        self.drawn, self.shared, self.change = random.Random(), shared, change
        self.never: dict[int, str] = {}
        self.parameters: list[nn.Parameter] = []
        self.plans: list[Plan] = []
        self.root = self._plan(2)
        self.torchs, self.others = Side(nn.Module), Side(base)
        self.expected, self.other = self.torchs.value(self.root), self.others.value(self.root)

    def wanted(self, *, again: bool = False) -> Listing:
        """What torch lists; with `again`, a shared parameter under each of its names."""
        return list(self.expected.named_parameters(remove_duplicate=not again))

    def alter(self) -> None:
        """Change the root and two other modules, in both structures alike."""
        inside = [plan for plan in self.plans if plan is not self.root]
        for plan in (self.root, *self.drawn.sample(inside, 2)):
            steps = self._changes(plan)
            for side in (self.torchs, self.others):
                side.fill(side.built[plan], steps)

    def _changes(self, plan: Plan) -> list[tuple[str, object]]:
        names = [next(plan.names_of(kind), "") for kind in (nn.Parameter, Plan)]
        if self.change == "added":
            free = [name for name in NAMES if name not in dict(plan.steps)]
            names = self.drawn.sample(free, 2)
        if self.change in ("added", "replaced"):
            values = [self._parameter(), self._plan(0)]
        else:
            values = [None if self.change == "set to None" else GONE] * 2
        return [step for step in zip(names, values, strict=True) if step[0]]

    def _plan(self, depth: int) -> Plan:
        values = [self._parameter() for _ in range(2)] + self.drawn.sample(self._decoys(), 2)
        if self.shared and self.parameters[2:]:
            values.append(self.drawn.choice(self.parameters))
        if depth:
            values += [self._plan(depth - 1) for _ in range(2)]
            if self.shared:
                values.append(self.drawn.choice(self.plans))
        self.drawn.shuffle(values)
        names = self.drawn.sample(NAMES, len(values))
        self.plans.append(Plan(list(zip(names, values, strict=True))))
        return self.plans[-1]

    def _parameter(self) -> nn.Parameter:
        self.parameters.append(nn.Parameter(torch.zeros(2)))
        return self.parameters[-1]

    def _decoys(self) -> list[object]:
        """Values that no module registers."""
        inside = "{} is in a list, a tuple or a dictionary: torch looks at attributes alone."
        plain = "{} is a plain tensor: only an nn.Parameter counts."
        hidden = [self._never(nn.Parameter(torch.zeros(2)), inside) for _ in range(4)]
        tensors = [self._never(torch.zeros(2, requires_grad=bool(i)), plain) for i in range(2)]
        module = Plan([("weight", hidden[3])])
        containers = [[hidden[0]], (hidden[1],), {"weight": hidden[2]}, [module]]
        return [*tensors, *containers, 7, 0.5, "text", None]

    def _never(self, tensor: torch.Tensor, why: str) -> torch.Tensor:
        self.never[id(tensor)] = why
        self._kept = [*getattr(self, "_kept", []), tensor]  # or another could get its id
        return tensor
