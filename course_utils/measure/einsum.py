"""Einsums as matmuls, so that outer products in them are counted too."""

from collections.abc import Sequence
from itertools import chain, islice
from math import prod
from string import ascii_letters

import torch

from course_utils.measure import private


def as_matmuls(equation: str, operands: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """The einsum as (batch, rows, inner) @ (batch, inner, columns) for each pair of operands.

    Three operands and more are contracted in pairs, in the order that torch takes: from left to
    right, or as opt_einsum chooses where that package is installed. Returns None, which leaves the
    call to torch, if there is only one operand or if the equation does not fit the operands.
    """
    if not all(isinstance(x, torch.Tensor) for x in operands):
        return None
    names, out = _spelled_out(equation, operands)
    if len(names) < 2 or not _consistent(names, out, operands):
        return None
    return _in_pairs(names, out, operands, _order(equation, operands))


def outer(columns: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """(..., m, 1) @ (..., 1, n), in the dtype that columns * rows has: autocast does not apply.

    Integers, which few devices can matmul, are multiplied elementwise; a matmul of the same shapes
    on the meta device is what the counter sees.
    """
    dtype = torch.result_type(columns, rows)
    if not (dtype.is_floating_point or dtype.is_complex):
        columns.to("meta", dtype) @ rows.to("meta", dtype)
        return columns * rows
    with private.without_autocast():
        return columns.to(dtype) @ rows.to(dtype)


def _order(equation: str, operands: Sequence[torch.Tensor]) -> list[tuple[int, ...]]:
    """For each step, its two operands' positions in the list, to which the result is appended."""
    chooser = torch.backends.opt_einsum
    if len(operands) > 2 and chooser.enabled:
        choose = chooser.get_opt_einsum().contract_path
        return choose(equation, *operands, optimize=chooser.strategy)[0]
    return [(0, 1), *((0, last) for last in range(len(operands) - 2, 0, -1))]


def _in_pairs(
    names: list[str], out: str, operands: Sequence[torch.Tensor], order: list[tuple[int, ...]]
) -> torch.Tensor:
    """The einsum, contracted pair by pair in `order`."""
    remaining = _plain(names, operands)
    for pair in order:
        (right, b), (left, a) = (remaining.pop(i) for i in sorted(pair, reverse=True))
        later = "".join(name for name, _ in remaining)
        wanted = _kept(left + right, later + out) if remaining else out
        remaining.append((wanted, _product(left, right, wanted, a, b)))
    return remaining[0][1]


def _plain(names: list[str], operands: Sequence[torch.Tensor]) -> list[tuple[str, torch.Tensor]]:
    """The operands with a repeated index replaced by its diagonal, and broadcast 1s dropped."""
    wide = {i for i, n in _sizes(names, operands) if n != 1}

    def plain(name: str, x: torch.Tensor) -> tuple[str, torch.Tensor]:
        sizes = dict(zip(name, x.shape, strict=True))
        kept = "".join(i for i, n in sizes.items() if n != 1 or i not in wide)
        diagonal = torch.einsum(f"{name}->{''.join(sizes)}", x)
        return kept, diagonal.reshape([sizes[i] for i in kept])

    return [plain(name, x) for name, x in zip(names, operands, strict=True)]


def _sizes(names: list[str], operands: Sequence[torch.Tensor]) -> set[tuple[str, int]]:
    return {*zip("".join(names), chain(*(x.shape for x in operands)), strict=True)}


def _product(left: str, right: str, out: str, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Two operands' einsum, as a matmul unless it is elementwise."""
    shared = _kept(left, right)
    batch, inner = [i for i in shared if i in out], [i for i in shared if i not in out]
    rows = [i for i in _kept(left, out) if i not in right]
    columns = [i for i in _kept(right, out) if i not in left]
    if not inner and not (rows and columns):
        return torch.einsum(f"{left},{right}->{out}", a, b)
    sizes = dict(zip(left + right, (*a.shape, *b.shape), strict=True))
    factors = _grouped(a, left, batch, rows, inner), _grouped(b, right, batch, inner, columns)
    made = outer(*factors) if factors[0].shape[-1] == 1 else torch.matmul(*factors)
    order = [*batch, *rows, *columns]
    return torch.einsum(f"{''.join(order)}->{out}", made.reshape([sizes[i] for i in order]))


def _grouped(x: torch.Tensor, names: str, *groups: list[str]) -> torch.Tensor:
    """`x` with one dimension for each group; an index in no group is summed over."""
    ordered = torch.einsum(f"{names}->{''.join(chain(*groups))}", x)
    sizes = iter(ordered.shape)
    return ordered.reshape([prod(islice(sizes, len(group))) for group in groups])


def _kept(names: str, needed: str) -> str:
    """The indices in `names` that are also in `needed`, each once."""
    return "".join(i for i in dict.fromkeys(names) if i in needed)


def _spelled_out(equation: str, operands: Sequence[torch.Tensor]) -> tuple[list[str], str]:
    """The indices of each operand and of the result, with unused letters for each ellipsis."""
    inputs, arrow, out = equation.replace(" ", "").partition("->")
    names, free = inputs.split(","), [i for i in ascii_letters if i not in equation]
    if not arrow:
        out = "..." + "".join(sorted(i for i in set(inputs) - set(".,") if inputs.count(i) == 1))
    hidden = [max(0, x.dim() - len(part.replace("...", ""))) for part, x in zip(names, operands)]  # noqa: B905
    spelled = [
        part.replace("...", "".join(reversed(free[:n])))
        for part, n in zip(names, hidden)  # noqa: B905
    ]
    longest = max((n for part, n in zip(names, hidden) if "..." in part), default=0)  # noqa: B905
    return spelled, out.replace("...", "".join(reversed(free[:longest])))


def _consistent(names: list[str], out: str, operands: Sequence[torch.Tensor]) -> bool:
    """Whether each index has one size (or 1), and the result names known indices, each once."""
    if [len(part) for part in names] != [x.dim() for x in operands]:
        return False
    sizes = _sizes(names, operands)
    known, wide = {i for i, _ in sizes}, [i for i, n in sizes if n != 1]
    return len(wide) == len(set(wide)) and set(out) <= known and len(set(out)) == len(out)
