"""Check of exercise 06.6: a registry of parameters of one's own, beside torch's.

Asked is a class `Module`, without torch's inside, whose subclasses list their parameters as torch's
do. They call `super().__init__()` first. `named_parameters()` gives pairs of a name and a
parameter: first each attribute that is an `nn.Parameter`, under its name, then those of each
attribute that is a `Module`, with that attribute's name and a dot before; both in order of
assignment. Plain tensors, lists and numbers do not count. A parameter that is met twice is listed
once, under its first name. Assigning again replaces an attribute in its place; deleting it, or
setting it to None, removes it. The stub:

    class Module:
        def named_parameters(self):
            return []
"""

import re
from collections.abc import Iterable
from itertools import islice

import torch
from torch import nn

from course_utils.arguments import shown
from course_utils.check.ex06_trees import CHANGES, Listing, Tree
from course_utils.check.exercise import Wrong, exercise

TORCHS = "torch.nn.modules.module"
MOST = 10_000  # names; a tree has fewer than a hundred
TREES = 5  # of each kind


@exercise(
    "06.6",
    "vars(self) knows an instance's attributes in order of assignment: what is each of them?",
    "First yield the module's own parameters. Then ask each submodule for its own, and put the "
    "attribute's name and a dot before each of its names.",
    "A shared parameter shows when its id was met before: who remembers ids, across submodules?",
)
def ex06_6(answer: object) -> str:
    """A registry of your own."""
    if not isinstance(answer, type):
        raise Wrong(f"a class is expected, got {shown(answer)}.")
    _own(answer)
    _instances(answer)
    count = 0
    for shared in (False, True):
        for change in CHANGES:
            for _ in range(TREES):
                _same(Tree(answer, shared=shared, change=change))
                count += 1
    return f"right for {count} random structures: the same names, order and parameters as torch's."


def _own(answer: type) -> None:
    """Raise `Wrong` for a class that borrows torch's Module."""
    if issubclass(answer, nn.Module):
        raise Wrong("it inherits from torch.nn.Module: write the registry yourself.")
    if not callable(getattr(answer, "named_parameters", None)):
        raise Wrong("the class has no method named_parameters.")
    methods = (value for kind in answer.__mro__ for value in vars(kind).values())
    instance = vars(type("Empty", (answer,), {})()).values()
    borrowed = any(getattr(method, "__module__", "") == TORCHS for method in methods)
    if borrowed or any(isinstance(value, nn.Module) for value in instance):
        raise Wrong("it has torch's Module inside: write the registry yourself.")


def _instances(answer: type) -> None:
    """Raise `Wrong` unless attributes can be read again, and each instance has its own."""
    kind = type("Layer", (answer,), {})
    one, other = kind(), kind()
    values = {"weight": nn.Parameter(torch.zeros(2)), "note": torch.zeros(2)}
    for name, value in (values | {"inner": kind(), "size": 2}).items():
        setattr(one, name, value)
        if getattr(one, name, None) is not value:
            raise Wrong(f"after module.{name} = value, module.{name} must give that value back.")
        if _listed(other):
            raise Wrong("another instance lists what this one was given: each needs its own notes.")


def _listed(module: object) -> Listing:
    """The pairs that a module lists; `Wrong` if they are none, or never end."""
    try:
        found = module.named_parameters()
        if not isinstance(found, Iterable):
            raise Wrong(f"named_parameters() must give pairs, got {shown(found)}.")
        pairs = list(islice(found, MOST + 1))
    except RecursionError:
        raise Wrong("named_parameters calls itself without end: of whom does it ask?") from None
    if len(pairs) > MOST:
        raise Wrong("named_parameters never ends.")
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not isinstance(pair[0], str):
            raise Wrong(f"named_parameters() must give pairs of name and parameter: {shown(pair)}.")
    return pairs


def _same(tree: Tree) -> None:
    """Raise `Wrong` unless both structures list the same, before they are changed and after."""
    _compare(tree, before := tree.wanted(), before)
    if tree.change:
        tree.alter()
        _compare(tree, tree.wanted(), before)


def _compare(tree: Tree, wanted: Listing, before: Listing) -> None:
    got = _listed(tree.other)
    if [(name, id(p)) for name, p in got] == [(name, id(p)) for name, p in wanted]:
        return
    if not got:
        raise Wrong("nothing is listed, not even the module's own parameters.")
    names = {id(p): name for name, p in wanted}
    earlier = {id(p) for _, p in before}
    for name, p in got:
        if id(p) not in names:
            raise Wrong(_stranger(tree, name, p, id(p) in earlier))
    if len({id(p) for _, p in got}) < len(got):
        which = "that two attributes share" if tree.shared else "of a single attribute"
        raise Wrong(f"a parameter {which} is listed twice: once is enough, by its first name.")
    wrong = [(name, names[id(p)]) for name, p in got if name != names[id(p)]]
    if wrong:
        raise Wrong(_misnamed(wrong, {name for name, _ in tree.wanted(again=True)}))
    listed = {id(p) for _, p in got}
    missing = {name: id(p) in earlier for name, p in wanted if id(p) not in listed}
    if missing:
        raise Wrong(_missing(missing, list(names.values())))
    raise Wrong("all are there, in another order: a module's own parameters come first, then those "
                "of its submodules, both in order of assignment.")  # fmt: skip


def _stranger(tree: Tree, name: str, found: object, earlier: bool) -> str:
    """Why something that is listed under `name` does not count."""
    if id(found) in tree.never:
        return tree.never[id(found)].format(name)
    if earlier:
        return f"{name} was {tree.change}, and the old one is still listed."
    if isinstance(found, nn.Parameter):
        return f"{name} belongs to another instance: each needs its own notes."
    return f"{name} is no parameter but {shown(found)}."


def _misnamed(wrong: list[tuple[str, str]], every: set[str]) -> str:
    """What is wrong with names, given as pairs of the one that came and torch's."""
    if all(name == right.rpartition(".")[2] for name, right in wrong):
        return "the names of submodules' parameters need the submodule's name and a dot before."
    name, right = wrong[0]
    if name in every:
        return f"{right} is listed as {name}: a shared parameter keeps the name met first."
    if re.findall("[a-z]+", name) == re.findall("[a-z]+", right) or name == right.replace(".", ""):
        return f"{right} is listed as {name}: a dot, and only one, stands between the names."
    if right.endswith(name):
        return f"{right} is listed as {name}: each level puts its own name before."
    if name.split(".")[::-1] == right.split("."):
        return f"{right} is listed as {name}: the outer name comes first."
    return f"{right} is listed as {shown(name)}."


def _missing(missing: dict[str, bool], names: list[str]) -> str:
    """What the missing names have in common; each says whether it was there before a change."""
    nested = [name for name in names if "." in name]
    if set(nested) == set(missing):
        return "the parameters of submodules are missing."
    if {name for name in nested if name.count(".") > 1} == set(missing):
        return "the parameters of submodules' submodules are missing."
    first = next(iter(missing))
    if not all(missing.values()) and "." in first:
        return f"{first} is missing: a submodule may get it after it was assigned itself."
    return f"{first} is missing."
