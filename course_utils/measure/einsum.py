"""Einsums as products of matrices, so that outer products in them are counted too."""

from collections.abc import Callable, Sequence
from itertools import chain, islice
from math import prod
from string import ascii_letters

import torch


def as_products(
    equation: str, operands: Sequence[torch.Tensor]
) -> Callable[[], torch.Tensor] | None:
    """The einsum as (batch, rows, inner) @ (batch, inner, columns) for each pair of operands.

    Three operands and more go from left to right, as in torch without opt_einsum. None, which
    leaves the call to torch, if it is elementwise, broadcasts, has one operand or is wrong.
    """
    if not all(isinstance(x, torch.Tensor) for x in operands):
        return None
    names, out = _spelled_out(equation, operands)
    if len(names) < 2 or not _consistent(names, out, operands):
        return None
    if len(names) == 2:
        return _pair(*names, out, *operands)
    if torch.backends.opt_einsum.is_available():
        return None
    return lambda: _from_left(names, out, operands)


def _from_left(names: list[str], out: str, operands: Sequence[torch.Tensor]) -> torch.Tensor:
    made, have = operands[0], names[0]
    for position, (name, operand) in enumerate(zip(names[1:], operands[1:], strict=True), 2):
        last = position == len(names)
        wanted = out if last else _kept(have + name, "".join(names[position:]) + out)
        product = _pair(have, name, wanted, made, operand)
        made = product() if product else torch.einsum(f"{have},{name}->{wanted}", made, operand)
        have = wanted
    return made


def _pair(
    left: str, right: str, out: str, a: torch.Tensor, b: torch.Tensor
) -> Callable[[], torch.Tensor] | None:
    shared = [i for i in _kept(left, right)]
    batch, inner = [i for i in shared if i in out], [i for i in shared if i not in out]
    rows = [i for i in _kept(left, out) if i not in right]
    columns = [i for i in _kept(right, out) if i not in left]
    if not inner and not (rows and columns):  # elementwise
        return None
    sizes = dict(zip(left + right, (*a.shape, *b.shape), strict=True))

    def product() -> torch.Tensor:
        made = _grouped(a, left, batch, rows, inner) @ _grouped(b, right, batch, inner, columns)
        order = [*batch, *rows, *columns]
        return torch.einsum(f"{''.join(order)}->{out}", made.reshape([sizes[i] for i in order]))

    return product


def _grouped(x: torch.Tensor, names: str, *groups: list[str]) -> torch.Tensor:
    """`x` with one dimension for each group; an index in no group is summed over."""
    ordered = torch.einsum(f"{names}->{''.join(chain(*groups))}", x)
    sizes = iter(ordered.shape)
    return ordered.reshape([prod(islice(sizes, len(group))) for group in groups])


def _kept(names: str, needed: str) -> str:
    """The different indices in `names` that are in `needed`."""
    return "".join(i for i in dict.fromkeys(names) if i in needed)


def _spelled_out(equation: str, operands: Sequence[torch.Tensor]) -> tuple[list[str], str]:
    """The indices of each operand and of the result, with letters in place of the dots."""
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
    """Whether each index has one size and the result names each of its indices once."""
    if [len(part) for part in names] != [x.dim() for x in operands]:
        return False
    pairs = {*zip("".join(names), chain(*(x.shape for x in operands)), strict=True)}
    known = {i for i, _ in pairs}
    return len(pairs) == len(known) and set(out) <= known and len(set(out)) == len(out)
