"""The work that every instrument gets, with its FLOPs by arithmetic alone."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention as sdpa


@dataclass(frozen=True)
class Case:
    """A module, its inputs and its products: (batch, m, k, n) is `batch` times (m×k) @ (k×n).

    `attention` lists the same for scaled_dot_product_attention, whose kernel recomputes in the
    backward pass. Where `grad` is False everything runs under no_grad.
    """

    name: str
    module: nn.Module
    inputs: tuple[torch.Tensor, ...]
    products: tuple[tuple[int, int, int, int], ...] = ()
    attention: tuple[tuple[int, int, int, int], ...] = ()
    grad: bool = True

    @property
    def forward(self) -> int:
        """FLOPs forward: 2·batch·m·k·n for each product."""
        return _flops(self.products) + _flops(self.attention)

    @property
    def both(self) -> int:
        """FLOPs forward and backward: 3 × forward; 3.5 × for attention's recomputing kernel."""
        return 3 * _flops(self.products) + 7 * _flops(self.attention) // 2

    def run(self) -> torch.Tensor:
        """The forward pass."""
        with torch.set_grad_enabled(self.grad):
            return self.module(*self.inputs)

    def run_both(self) -> None:
        """The forward and the backward pass."""
        self.module(*self.inputs).sum().backward()


class Call(nn.Module):
    """A function as a module, which is what some peers ask for."""

    def __init__(self, fn: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.fn = fn

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Call the function."""
        return self.fn(*inputs)


def _flops(products: tuple[tuple[int, int, int, int], ...]) -> int:
    return sum(2 * batch * m * k * n for batch, m, k, n in products)


def _numbers(*shapes: tuple[int, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(shape, requires_grad=True) for shape in shapes)


def cases() -> list[Case]:
    """Everything whose FLOPs are counted, with sizes that no two dimensions share."""
    return [*_plain(), *_attention(), *_layers(), *_vectors()]


def _plain() -> list[Case]:
    linears = nn.Sequential(nn.Linear(48, 80), nn.ReLU(), nn.Linear(80, 64), nn.Linear(64, 10))
    stack = ((1, 3 * 7, 48, 80), (1, 3 * 7, 80, 64), (1, 3 * 7, 64, 10))
    einsum = Call(lambda x, w: torch.einsum("bsd,dk->bsk", x, w))
    conv, image = nn.Conv2d(3, 8, (5, 3), stride=2, padding=1), _numbers((4, 3, 33, 31))
    return [
        Case("linears on 3-D input", linears, _numbers((3, 7, 48)), stack),
        Case("x @ W", Call(lambda x, w: x @ w), _numbers((33, 48), (48, 20)), ((1, 33, 48, 20),)),
        Case("einsum", einsum, _numbers((3, 7, 48), (48, 20)), ((1, 21, 48, 20),)),
        Case("conv2d", conv, image, ((4, 16 * 16, 3 * 5 * 3, 8),)),
    ]


def _attention() -> list[Case]:
    shape, scores = (2, 3, 40, 16), (6, 40, 16, 40)
    full, causal = Call(sdpa), Call(lambda q, k, v: sdpa(q, k, v, is_causal=True))
    pair = (scores, (6, 40, 40, 16))
    by_hand = Call(lambda q, k, v: (q @ k.transpose(-2, -1) / 4).softmax(-1) @ v)
    qkv = (shape,) * 3
    return [
        Case("sdpa", full, _numbers(*qkv), attention=pair),
        Case("sdpa, causal", causal, _numbers(*qkv), attention=pair),
        Case("sdpa, no_grad", full, _numbers(*qkv), attention=pair, grad=False),
        Case("sdpa, causal, no_grad", causal, _numbers(*qkv), attention=pair, grad=False),
        Case("attention by hand", by_hand, _numbers(*qkv), pair),
    ]


def _layers() -> list[Case]:
    tokens, d, ff, heads, size = 2 * 24, 32, 72, 4, 24
    linear = ((1, tokens, d, 3 * d), (1, tokens, d, d), (1, tokens, d, ff), (1, tokens, ff, d))
    pair = ((2 * heads, size, d // heads, size), (2 * heads, size, size, d // heads))

    def layer(dropout: float = 0.0) -> nn.Module:
        return nn.TransformerEncoderLayer(d, heads, ff, dropout, batch_first=True)

    x = _numbers((2, size, d))
    return [
        Case("encoder layer, train", layer().train(), x, linear, pair),
        Case("encoder layer, train, dropout", layer(0.1).train(), x, linear + pair),
        Case("encoder layer, eval, no_grad", layer().eval(), x, linear, pair, grad=False),
    ]


def _vectors() -> list[Case]:
    outer = Call(lambda a, b: torch.einsum("i,j->ij", a, b))
    batched = Call(lambda a, b: torch.einsum("bi,bj->bij", a, b))
    return [
        Case("matrix-vector", Call(torch.matmul), _numbers((50, 30), (30,)), ((1, 50, 30, 1),)),
        Case("outer product, einsum", outer, _numbers((50,), (30,)), ((1, 50, 1, 30),)),
        Case("bi,bj->bij", batched, _numbers((6, 50), (6, 30)), ((6, 50, 1, 30),)),
    ]


def products_to_refuse() -> dict[str, tuple[Callable[[], object], int | None]]:
    """Products that a counter may miss, with their FLOPs where there is one formula for them."""
    r, bytes_ = torch.randn, torch.ones(32, 32, dtype=torch.int8)
    lstm, twice = nn.LSTM(8, 6), nn.Bilinear(3, 4, 5)
    return {
        "dot": (lambda: torch.dot(r(8), r(8)), 16),
        "addmv": (lambda: torch.addmv(r(3), r(3, 4), r(4)), 24),
        "addbmm": (lambda: torch.addbmm(r(3, 5), r(2, 3, 4), r(2, 4, 5)), 240),
        "addr": (lambda: torch.addr(r(3, 4), r(3), r(4)), 24),
        "einsum i,j": (lambda: torch.einsum("i,j", r(3), r(4)), 24),
        "einsum ...i,...j->...ij": (lambda: torch.einsum("...i,...j->...ij", r(2, 3), r(2, 4)), 48),
        "LSTM": (lambda: lstm(r(5, 2, 8)), 2 * 5 * 2 * 4 * 6 * (8 + 6)),
        "Bilinear": (lambda: twice(r(2, 3), r(2, 4)), None),
        "cdist": (lambda: torch.cdist(r(30, 4), r(40, 4)), None),
        "sparse.mm": (lambda: torch.sparse.mm(r(4, 4).to_sparse(), r(4, 5)), None),
        "_int_mm": (lambda: torch._int_mm(bytes_, bytes_), 2 * 32**3),
        "linalg.inv": (lambda: torch.linalg.inv(r(4, 4)), None),
        "matrix_exp": (lambda: torch.matrix_exp(r(4, 4)), None),
    }


@dataclass
class Training:
    """The MLP whose training step is weighed: 4 × 512² and a head, AdamW."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    x: torch.Tensor
    y: torch.Tensor

    def step(self) -> None:
        """Forward, backward, optimizer."""
        loss = ((self.model(self.x) - self.y) ** 2).mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


def training(**adamw: bool) -> Training:
    """A fresh model and optimizer with a batch of 256; options such as fused=True go to AdamW."""
    hidden = [part for _ in range(4) for part in (nn.Linear(512, 512, bias=False), nn.ReLU())]
    model = nn.Sequential(*hidden, nn.Linear(512, 1, bias=False))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, **adamw)
    return Training(model, optimizer, torch.randn(256, 512), torch.randn(256, 1))
