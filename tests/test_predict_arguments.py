"""What `predict` is given: other kinds of numbers count the same, and what is none is named."""

import math
from decimal import Decimal
from fractions import Fraction
from inspect import signature

import numpy as np
import pytest
import torch

from course_utils import predict

CONFIG = predict.preset("small")
SIZES = {"style": "gpt", "vocabulary": 50, "context": 16, "layers": 2, "width": 24, "heads": 4,
         "hidden": 40, "kv_heads": 2, "tied": True, "head_dim": 6}  # fmt: skip
# Every function of `predict` and every argument, with a value that is right.
CALLS = {
    "Recipe": {"parameters": 4, "gradients": 4, "master_copy": 0, "optimizer": 8},
    "TransformerConfig": SIZES,
    "activations": {"config": CONFIG, "batch": 2, "tokens": 16},
    "ceil_to_whole": {"value": 1.5},
    "checkpoint_interval": {"save_seconds": 9.0, "seconds_between_failures": 50.0},
    "collective_bytes": {"collective": "all-reduce", "tensor_bytes": 12, "devices": 3},
    "deep_linear_flops": {"B": 2, "D": 3, "L": 4},
    "deep_linear_memory": {"B": 2, "D": 3, "L": 4, "optimizer": "Adam", "form": "fused"},
    "deep_linear_parameters": {"D": 3, "L": 4},
    "einsum_flops": {"equation": "ab,bc->ac", "a": 2, "b": 3, "c": 4},
    "foreach_scratch": {"optimizer": "Adam", "formats": "all bf16"},
    "optimizer_recipe": {"optimizer": "Adam", "formats": "all bf16"},
    "scratch_copies": {"optimizer": "Adam", "form": "fused"},
    "elements": {"sizes": (2, 3)},
    "intensity": {"flops": 10.0, "nbytes": 4.0},
    "kv_cache": {"config": CONFIG, "batch": 2, "tokens": 16, "element": 2},
    "largest_model": {"memory": 80e9, "bytes_per_parameter": 16, "devices": 8, "sharded": True},
    "link_seconds": {"sent_bytes": 8.0, "bandwidth": 2.0, "messages": 3, "latency": 0.5},
    "lost_share": {"interval": 30.0, "save_seconds": 9.0, "seconds_between_failures": 50.0,
                   "restart_seconds": 2.0},
    "pipeline_bubble": {"stages": 4, "microbatches": 8},
    "layer_scale": {"D": 256, "s": 0.1, "activation": "relu"},
    "matmul_flops": {"B": 2, "D": 3, "K": 4, "batch": 5},
    "position": {"index": (1, 2), "stride": (4, 1), "offset": 3},
    "preset": {"name": "small"},
    "roofline_seconds": {"flops": 10.0, "nbytes": 4.0, "peak": 2.0, "bandwidth": 3.0},
    "sharded_recipe": {"recipe": predict.RECIPES["AdamW, fp32"], "devices": 4, "stage": 2},
    "step_traffic": {"parameter_bytes": 4000, "devices": 4, "stage": 3, "by_layer": True},
    "seconds": {"work": 10.0, "rate": 3.0},
    "tensor_parallel_bytes": {"tokens": 64, "width": 32, "layers": 2, "devices": 4,
                              "element_bytes": 2},
    "tensor_bytes": {"sizes": (2, 3), "dtype": "float32"},
    "training_days": {"parameters": 1e9, "tokens": 1e9, "devices": 8, "peak": 1e12, "mfu": 0.5},
    "training_flops": {"parameters": 1e9, "tokens": 1e9},
    "transformer_flops": {"config": CONFIG, "batch": 2, "tokens": 16, "causal": False,
                          "flash": False, "recompute": True, "early_stop": True},
    "transformer_memory": {"config": CONFIG, "batch": 2, "tokens": 16, "optimizer": "AdamW",
                           "form": "fused"},
    "transformer_parameters": {"config": CONFIG},
    "transformer_products": {"config": CONFIG},
}  # fmt: skip
STRANGE = [
    None, True, "x", "12", b"3", [2], {}, object(), 1j, float("nan"), float("inf"), -float("inf"),
    -1, 0.5, 1e308, 10**400, Decimal(3), np.float64("nan"), np.array([1, 2]), torch.tensor(2),
]  # fmt: skip


def test_every_function_and_argument_is_among_the_calls():
    functions = {n for n in predict.__all__ if callable(getattr(predict, n))}
    assert functions - {"LayerScale", "StepFlops", "StepMemory"} == set(CALLS)  # these are results
    for name in set(CALLS) - {"einsum_flops"}:
        assert list(signature(getattr(predict, name)).parameters) == list(CALLS[name])


@pytest.mark.parametrize(("name", "argument"), [(n, a) for n, args in CALLS.items() for a in args])
def test_no_bad_value_passes_or_raises_without_the_argument_s_name(name, argument):
    """Either it is a right one, and the result is finite, or the error names the argument."""
    for bad in STRANGE:
        try:
            found = getattr(predict, name)(**{**CALLS[name], argument: bad})
        except (TypeError, ValueError) as error:
            assert argument in str(error), (bad, error)
        else:
            assert argument in BOOLEANS or type(bad) is not bool, bad
            assert not isinstance(found, float) or math.isfinite(found)
            assert bad is not None or argument in ("kv_heads", "head_dim")
            assert not isinstance(bad, (str, bytes, dict, torch.Tensor, np.ndarray, Decimal))
            assert not isinstance(bad, list) or argument in ("sizes", "index", "stride")


BOOLEANS = ("by_layer", "causal", "flash", "recompute", "early_stop", "sharded", "tied")


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.float32, float, Fraction])
@pytest.mark.parametrize("name", CALLS)
def test_other_kinds_of_numbers_give_what_python_s_own_give(name, kind):
    """No overflow at 32 or 64 bits, no float from a count that came as 1024.0."""
    function, plain = getattr(predict, name), CALLS[name]

    def turned(value):
        if isinstance(value, tuple):
            return tuple(turned(inside) for inside in value)
        whole = isinstance(value, int) and not isinstance(value, bool)
        return kind(value) if whole else value

    found, expected = function(**{k: turned(v) for k, v in plain.items()}), function(**plain)
    assert found == expected
    assert repr(found) == repr(expected) or name == "Recipe" or isinstance(expected, float)


def test_large_counts_do_not_overflow_at_64_bits():
    small, large = predict.preset("GPT-2 small"), predict.preset("Llama-3 70B")
    flops = predict.transformer_flops(small, 8, np.int32(1024))
    assert flops.forward == 2_333_186_457_600
    assert predict.activations(small, np.int32(8), np.int32(1024)) == 6_535_487_492
    step = predict.transformer_flops(large, np.int64(8192), 8192)
    assert type(step.total) is int and step.total == 8192 * 3_943_913_849_094_144
    config = predict.TransformerConfig("gpt", 50, 16, 2, 24.0, 4, 40)
    assert type(config.width) is int and config == predict.TransformerConfig("gpt", 50, 16, 2, 24,
                                                                             4, 40)  # fmt: skip
