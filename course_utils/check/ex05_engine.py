"""The check of exercise 05.6: an autograd engine of the learner's own, beside torch's.

Small graphs with known slips come first, so that a mistake is named; then random ones.
"""

from contextlib import suppress

from course_utils.arguments import shown
from course_utils.check.exercise import Wrong, exercise, finite
from course_utils.check.graphs import OPERATORS, Counted, Graph, close, drawn
from course_utils.check.programs import different

GRAPHS = 30
FEWEST, MOST = 5, 25  # operations
METHODS = {"__add__": "+", "__mul__": "*", "backward": "backward()"}
SQUARINGS = 12


@exercise(
    "05.6",
    "Let + and * make a new Value that remembers its two inputs. Which slope has each of them?",
    "To each input, add its slope times the result's grad. Add, since a Value may be used twice.",
    "A grad must be complete before it is handed on: list every Value once, inputs before results, "
    "and let backward() walk through that list from its end.",
)
def ex05_6(answer: object) -> str:
    """An autograd engine of your own."""
    if not isinstance(answer, type):
        raise Wrong(f"the class Value itself is expected, got {shown(answer)}.")
    _must_be_complete(answer)
    for try_out in (_single, _reused, _chained, _diamond):
        try_out(answer)
    for count in range(GRAPHS):
        _random(answer, drawn(FEWEST + (MOST - FEWEST) * count // (GRAPHS - 1)))
    return f"right on {GRAPHS} random graphs: autograd is this, with tensors.{_paths(answer)}"


def _must_be_complete(engine: type) -> None:
    """Raise `Wrong` if a method or an attribute is missing, or does not start as it should."""
    lost = [name for name in METHODS if not callable(getattr(engine, name, None))]
    if lost:
        signs = ", ".join(METHODS[name] for name in lost)
        raise Wrong(f"your class has no {', '.join(lost)}: write what {signs} is to do.")
    leaf = engine(2.5)
    if _read(leaf, "data") != 2.5:
        raise Wrong(f"the data of Value(2.5) must be 2.5, got {leaf.data}.")
    if _read(leaf, "grad") != 0:
        raise Wrong(f"the grad of a new Value must be 0.0, got {leaf.grad}.")


def _read(value: object, name: str) -> float:
    """The number that a Value holds by this name; `Wrong` if it holds none."""
    if not hasattr(value, name):
        raise Wrong(f"a Value has no .{name}: set it in __init__.")
    try:
        return finite(getattr(value, name))
    except Wrong:
        held = shown(getattr(value, name))
        raise Wrong(f".{name} must be a finite number, got {held}.") from None


def _grads(engine: type, graph: Graph) -> list[float]:
    """The leaves' gradients by the engine; `Wrong` if a step makes no Value, or a wrong one."""
    leaves = [engine(number) for number in graph.leaves]
    nodes = list(leaves)
    for sign, one, other in graph.steps:
        nodes.append(_made(engine, sign, nodes[one], nodes[other]))
    before = [_read(node, "data") for node in nodes]
    nodes[-1].backward()
    if [_read(node, "data") for node in nodes] != before:
        raise Wrong("backward() changed the data of a Value: it must fill grad, and only grad.")
    return [_read(leaf, "grad") for leaf in leaves]


def _made(engine: type, sign: str, one: object, other: object) -> object:
    """What the engine's + or * gives; `Wrong` unless it is a new Value with the right data."""
    inputs = _read(one, "data"), _read(other, "data")
    made = OPERATORS[sign](one, other)
    if not isinstance(made, engine):
        raise Wrong(f"{sign} gave {shown(made)}: it must give a Value, which knows its inputs.")
    if made is one or made is other:
        raise Wrong(f"{sign} gave back one of its inputs: it must make a new Value.")
    if (_read(one, "data"), _read(other, "data")) != inputs:
        raise Wrong(f"{sign} changed the data of an input: it must make a new Value.")
    if not close(found := _read(made, "data"), OPERATORS[sign](*inputs)):
        raise Wrong(f"{inputs[0]:g} {sign} {inputs[1]:g} gave a Value whose data is {found:g}.")
    return made


def _numbers(count: int) -> list[float]:
    """Different numbers above 1, drawn anew."""
    return [number / 8 for number in different(count, 9, 40)]


def _same(found: list[float], wanted: list[float]) -> bool:
    return all(map(close, found, wanted))


def _single(engine: type) -> None:
    """A single + and a single *."""
    a, b = _numbers(2)
    sums, products = (_grads(engine, Graph((a, b), ((sign, 0, 1),))) for sign in "+*")
    if not any(sums + products):
        raise Wrong("after backward() every grad is 0: what is the slope of the result for itself?")
    for sign, found in (("+", sums), ("*", products)):
        if not any(found):
            raise Wrong(f"{sign} hands no gradient on to its inputs.")
        if not all(found):
            raise Wrong(f"only one of the two inputs of {sign} gets a gradient.")
    if _same(products, [a, b]):
        raise Wrong("in a * b each input's slope is its own data: if a grows, what multiplies it?")
    if _same(products, [1, 1]):
        raise Wrong("both slopes of a * b are 1: that is right for +, and for the result's own.")
    for sign, found, wanted in (("+", sums, [1, 1]), ("*", products, [b, a])):
        if not _same(found, wanted):
            raise Wrong(f"the two gradients of a single {sign} are wrong.")


def _reused(engine: type) -> None:
    """The same Value as both inputs."""
    (x,) = _numbers(1)
    for sign, half in (("+", 1), ("*", x)):
        (found,) = _grads(engine, Graph((x,), ((sign, 0, 0),)))
        if close(found, half):
            raise Wrong(f"in x {sign} x the second share of x's grad overwrites the first.")
        if not close(found, 2 * half):
            raise Wrong(f"the grad of x in x {sign} x is {found:g} for x = {x:g}.")


def _chained(engine: type) -> None:
    """An operation on the result of another."""
    a, b, c = _numbers(3)
    for sign, slopes in (("+", [1, 1]), ("*", [b, a])):
        first, second, last = _grads(engine, Graph((a, b, c), ((sign, 0, 1), ("*", 3, 2))))
        words = f"in (a {sign} b) * c"
        if not (first or second):
            raise Wrong(f"{words} a and b get no gradient: go on below the last operation.")
        if _same([first, second], slopes):
            raise Wrong(f"{words} the gradients of a and b lack the chain rule's factor c.")
        wanted = [c * slope for slope in slopes]
        if not _same([first, second, last], [*wanted, OPERATORS[sign](a, b)]):
            raise Wrong(f"{words} the gradients are wrong, and those of a single {sign} are right.")


def _diamond(engine: type) -> None:
    """A Value in the middle that is used twice, once nearer to the result than the other time."""
    a, b, c, e, f = _numbers(5)
    ways = ("*", 0, 1), ("*", 5, 2), ("*", 5, 3), ("*", 7, 4)  # d = a·b, d·c, d·e, (d·e)·f
    for ends in ((6, 8), (8, 6)):
        found = _grads(engine, Graph((a, b, c, e, f), (*ways, ("+", *ends))))[0]
        wanted = b * (c + e * f)
        if close(found, wanted):
            continue
        if found > wanted:
            raise Wrong("a result that is used twice hands its first share of gradient on twice.")
        raise Wrong("a result that is used twice hands its grad on before all of it has arrived.")


def _random(engine: type, graph: Graph) -> None:
    """Raise `Wrong` if the engine and torch differ on this graph."""
    for leaf, (found, wanted) in enumerate(
        zip(_grads(engine, graph), graph.by_torch()[1], strict=True), start=1
    ):
        if not close(found, wanted):
            raise Wrong(
                f"on a random graph of {len(graph.steps)} operations the grad of leaf {leaf} is "
                f"{found:g}; by torch it is {wanted:g}."
            )


def _paths(engine: type) -> str:
    """A remark if the engine follows every path through a graph, which is right and slow."""
    Counted.products = 0
    with suppress(Exception):  # the engine may refuse such numbers, and be right
        y = engine(Counted(1.0))
        for _ in range(SQUARINGS):
            y = y * y
        y.backward()
    if Counted.products < 2**SQUARINGS:
        return ""
    return (
        f" But it walks every path: {SQUARINGS} squarings in a row took it {Counted.products:,} "
        f"multiplications, and {3 * SQUARINGS} are enough."
    )
