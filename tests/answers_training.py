"""Answers to chapters 06 and 08 to 10: right ones, and wrong ones with a word of the reply."""

import numpy as np
import torch


def own(seed, permutation=True, numbers=True):
    source = torch.Generator().manual_seed(seed if numbers else 0)
    order = np.random.default_rng(seed if permutation else 0).permutation(8)
    return torch.randn(4, generator=source), order


def globally(seed):
    torch.manual_seed(seed)
    return torch.randn(4), np.random.default_rng(seed).permutation(8)


def unseeded(seed):
    return torch.randn(4), np.random.default_rng(seed).permutation(8)


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
    "06.1": (
        [235_146],
        [(234_752, "weights alone"), (235_146 + 784, "need no bias"), (940_584, "not bytes"),
         (235_920, "each output"), (784 * 256 * 1280, "add up"), (10, "too small")],
    ),
    "06.2": (
        [{"middle", "scale"}, ["scale", "middle"]],
        [({"middle"}, "1 of 2"), ({"last"}, "nn.Sequential is a module"),
         ({"middle", "scale", "shift"}, "nn.Parameter"), ({"first", "middle"}, "nn.Linear"),
         ({"bias"}, "no attribute"), ({1}, "no attribute"), (set(), "0 of 2"), ("middle", "a set")],
    ),
    "06.3": (
        [0.0625],
        [(0.04419, "half of it away"), (0.00390625, "variance"), (0.08839, "under the root"),
         (0.02795, "Xavier"), (0.03125, "the gradient"), (0.0221, "over the inputs"),
         (1 / 512, "twice as much"), (1.0, "too large")],
    ),
    "06.4": (
        [own, lambda seed: tuple(part.tolist() for part in own(seed))],
        [(globally, "generator of torch"), (unseeded, "two calls"),
         (lambda seed: own(seed, permutation=False), "permutation stays"),
         (lambda seed: own(seed, numbers=False), "numbers stay"),
         (lambda seed: (own(seed)[0].sigmoid(), own(seed)[1]), "between 0 and 1"),
         (lambda seed: (own(seed)[0], torch.from_numpy(own(seed)[1])), "comes from torch"),
         (lambda seed: torch.ones(4), "a pair"), (lambda seed: ([1, 2], range(8)), "4 numbers"),
         (lambda seed: (torch.ones(4), [0] * 8), "permutation of 0 to 7"),
         (lambda: None, "TypeError")],
    ),
    "08.1": (
        [windows],
        [(lambda d, T, s: windows(d, T, s, shift=0), "the inputs"),
         (lambda d, T, s: windows(d, T, s)[::-1], "swapped"),
         (lambda d, T, s: windows(d, T, np.minimum(s, max(0, len(d) - T - 2))), "too early"),
         (narrow, "int64"),
         (lambda d, T, s: windows(d, T, np.asarray(s) * 0), "not the tokens"),
         (lambda d, T, s: windows(d, T - 1, s), "shape"), (lambda d, T, s: None, "a pair"),
         (lambda d, T, s: (1, 2), "must be a tensor"), (lambda: 1, "TypeError")],
    ),
    "08.2": (
        [498_976],
        [(498_975, "last start"), (498_977, "T + 1"), (998_976, "2 bytes"), (488, "overlap"),
         (487, "overlap"), (500_000 / 1025, "overlap"),
         (998_975, "2 bytes"), (1_000_000, "2 bytes"), (500_000, "no room"), (3, "too small")],
    ),
    "08.3": (
        [LOOPS, {**LOOPS, "A": " Zero_grad"}],
        [({**LOOPS, "A": "use lr"}, "A: 'use lr' does not"), ({**LOOPS, "D": None}, "D is still"),
         ({**LOOPS, "B": "more lr"}, "none of the four"), ({**LOOPS, "B": 3}, "none of the four"),
         ("zero_grad", "dict")],
    ),
    "08.4": (
        [without()],
        [(without("optimizer"), "Adam begins anew"), (without("source"), "the data differ"),
         (without("model"), "the first loss differs"), (without("torch"), "the first loss differs"),
         ((1, 2), "a function"), (lambda: 1, "the pair"), ((lambda *a: {}, print), "neither")],
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
    "10.1": (
        [174_604_259_328, 174.6e9],
        [(175e9, "published"), (12 * 12288**2, "one layer"),
         (96 * 12 * 12288**2, "embeddings are missing"),
         (174_604_259_328 + 50257 * 12288, "tied"), (174_604_259_328 / 96, "single layer"),
         (698e9, "not bytes"), (1e9, "too small")],
    ),
    "10.2": (
        [53_024, 53_000],
        [(159_000, "like with like"), (17_675, "backward pass in it"), (4_241_943, "80 layers"),
         (106_048, "equals the products"), (26_512, "equals the products"),
         (434_375_000, "width"), (10, "too small")],
    ),
    "10.3": (
        [68_719_476_736, 68.7e9],
        [(34_359_738_368, "half of it"), (137_438_953_472, "2 bytes"), (1_073_741_824, "64"),
         (274_877_906_944, "share"), (2_147_483_648, "32 layers"), (8_388_608, "one token"),
         (64, "GiB"), (131_072, "one conversation"),
         (536_870_912, "128 numbers"), (5, "too small")],
    ),
    "10.4": (
        [6.36e11, 635.96e9],
        [(1.272e12, "sparsity"), (1.59e12, "MFU is missing"),
         (2.544e11, "counts once"), (4.306e10, "fp32 peak"), (1.908e12, "forward"),
         (9.937e9, "single device"),
         (4.543e10, "one day"), (3.816e12, "divide by 6"), (7.36e6, "86 400"), (636, "number of")],
    ),
}  # fmt: skip
