"""The arithmetic, against torch, against other formulas and against the course's own figures."""

import inspect
import math
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from course_utils import predict

SIZES = st.lists(st.integers(0, 6), min_size=0, max_size=4).map(tuple)
FULL_SIZES = st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple)


@given(SIZES, st.sampled_from(sorted(predict.ELEMENT_BYTES)))
def test_tensor_bytes_agree_with_torch(sizes, dtype):
    tensor = torch.empty(sizes, dtype=getattr(torch, dtype))
    assert predict.tensor_bytes(sizes, dtype) == tensor.numel() * tensor.element_size()


@given(SIZES)
def test_contiguous_stride_agrees_with_torch(sizes):
    assert predict.contiguous_stride(sizes) == torch.empty(sizes).stride()


@given(FULL_SIZES, st.data())
def test_position_finds_the_element(sizes, data):
    x = torch.arange(math.prod(sizes) + 3)[3:].view(sizes)
    x = x.permute(data.draw(st.permutations(range(len(sizes)))))
    index = tuple(data.draw(st.integers(0, size - 1)) for size in x.shape)
    assert predict.position(index, x.stride(), x.storage_offset()) == int(x[index])


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9), st.integers(1, 4))
def test_matmul_flops_agree_with_torchs_counter(B, D, K, batch):
    with FlopCounterMode(display=False) as counter:
        torch.ones(batch, B, D) @ torch.ones(batch, D, K)
    assert predict.matmul_flops(B, D, K, batch=batch) == counter.get_total_flops()


def test_matmul_flops_count_every_multiply_and_add():
    B, D, K = 3, 5, 2
    multiplications = sum(1 for _ in product(range(B), range(K), range(D)))
    additions = sum(1 for _ in product(range(B), range(K), range(D - 1)))
    assert predict.matmul_flops(B, D, K) - (multiplications + additions) == B * K


def test_question_one():
    h100 = 1979e12 / 2
    work = predict.training_flops(70e9, 15e12)
    days = predict.training_days(70e9, 15e12, devices=1024, peak=h100, mfu=0.5)
    assert work == 6.3e24
    assert 1024 * h100 * 0.5 * 86400 == pytest.approx(4.377e22, rel=1e-4)
    assert round(days, 2) == 143.93
    assert round(6.4e6 / 1024 / 24) == 260
    assert round(0.5 * days / (6.4e6 / 1024 / 24), 2) == 0.28


def test_question_two():
    adamw = predict.RECIPES["AdamW, fp32"].total
    assert adamw == 16
    assert predict.largest_model(80e9, adamw, devices=8) == 40e9
    assert predict.largest_model(80e9, adamw, devices=8, sharded=False) == 5e9


def test_recipes():
    totals = {name: recipe.total for name, recipe in predict.RECIPES.items()}
    assert list(totals.values()) == [8, 16, 16, 18, 12]
    fits = [round(predict.largest_model(80e9, t, devices=8) / 1e9, 1) for t in totals.values()]
    assert fits == [80, 40, 40, 35.6, 53.3]


def test_a_week_and_two():
    assert pytest.approx(4.788e21, rel=1e-4) == 8 * 989.5e12 * 7 * 86400
    assert pytest.approx(9.575e21, rel=1e-4) == 8 * 989.5e12 * 14 * 86400


def test_gpt3_by_the_rule():
    assert predict.training_flops(175e9, 300e9) == pytest.approx(3.15e23)


def test_the_notes_large_product():
    assert predict.matmul_flops(16384, 32768, 8192) == 8_796_093_022_208


@given(st.floats(1e6, 1e13), st.floats(1e6, 1e15), st.integers(1, 10**6), st.floats(0.01, 1))
def test_days_scale_as_they_should(parameters, tokens, devices, mfu):
    one = predict.training_days(parameters, tokens, devices=devices, peak=1e15, mfu=mfu)
    twice = predict.training_days(parameters, tokens, devices=2 * devices, peak=1e15, mfu=mfu)
    assert one / twice == pytest.approx(2)
    assert predict.seconds(6 * parameters * tokens, devices * 1e15 * mfu) == pytest.approx(
        one * 86400
    )


GOOD = {
    "training_flops": {"parameters": 1e9, "tokens": 1e9},
    "training_days": {"parameters": 1e9, "tokens": 1e9, "devices": 8, "peak": 1e12, "mfu": 0.5},
    "largest_model": {"memory": 80e9, "bytes_per_parameter": 16, "devices": 8},
    "matmul_flops": {"B": 2, "D": 3, "K": 4, "batch": 1},
    "seconds": {"work": 1e9, "rate": 1e9},
}
BAD = [-1, float("nan"), float("inf"), "2", None, True, [3]]


@pytest.mark.parametrize(("name", "argument"), [(n, a) for n, args in GOOD.items() for a in args])
@pytest.mark.parametrize("bad", BAD, ids=str)
def test_bad_arguments_are_named(name, argument, bad):
    with pytest.raises((TypeError, ValueError), match=rf"^{argument} must be .*got"):
        getattr(predict, name)(**{**GOOD[name], argument: bad})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: predict.training_days(1, 1, devices=1, peak=1, mfu=1.01), "mfu must be"),
        (lambda: predict.training_days(1, 1, devices=1, peak=1, mfu=0), "mfu must be"),
        (lambda: predict.training_days(1, 1, devices=0, peak=1, mfu=1), "devices must be"),
        (lambda: predict.training_days(1, 1, devices=1.5, peak=1, mfu=1), "whole number"),
        (lambda: predict.seconds(1, 0), "rate must be"),
        (lambda: predict.tensor_bytes((2, -1)), r"sizes\[1\] must be"),
        (lambda: predict.tensor_bytes("23"), "sizes must be a tuple"),
        (lambda: predict.tensor_bytes(7), "sizes must be a tuple"),
        (lambda: predict.tensor_bytes({2, 3}), "sizes must be a tuple"),
        (lambda: predict.seconds(10**400, 1), "work must be a finite number"),
        (lambda: predict.training_flops(1e200, 1e200), "parameters × tokens must be"),
        (lambda: predict.largest_model(1, 1, devices=-3, sharded=False), "devices must be"),
        (lambda: predict.largest_model(1, 1, sharded="no"), "sharded must be True or False"),
        (lambda: predict.tensor_bytes((2,), "float33"), "dtype must be one of .*float32.*float33"),
        (lambda: predict.position((1, 2), (4,)), "same length, got 2 and 1"),
    ],
)
def test_bad_values_say_what_was_expected(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_predict_never_touches_torch_or_a_clock():
    source = inspect.getsource(predict)
    assert "import torch" not in source and "import time" not in source


def test_einsum_flops_count_every_index_once():
    assert predict.einsum_flops("bqd,bkd->bqk", b=4, q=8, k=16, d=32) == 2 * 4 * 8 * 16 * 32
    assert predict.einsum_flops("bd, dk -> bk", b=2, d=3, k=5) == predict.matmul_flops(2, 3, 5)
    with pytest.raises(ValueError, match="sizes must name every index .* k is missing"):
        predict.einsum_flops("bd,dk->bk", b=2, d=3)


def test_the_roofline_of_an_h100():
    ridge = predict.intensity(989.5e12, 3350e9)
    assert round(ridge, 1) == 295.4
    assert predict.ceil_to_whole(3 * ridge) == 887
    for n, limit in ((800, "memory"), (1000, "arithmetic")):
        flops, nbytes = 2 * n**3, 3 * n * n * 2
        seconds = predict.roofline_seconds(flops, nbytes, peak=989.5e12, bandwidth=3350e9)
        assert seconds == (nbytes / 3350e9 if limit == "memory" else flops / 989.5e12)


def test_the_rtx_3070_example():
    rate = predict.matmul_flops(16384, 32768, 8192) / 1.2285
    assert round(rate / 1e12, 2) == 7.16 and round(rate / 20.31e12, 4) == 0.3525
    assert round(predict.matmul_flops(16384, 32768, 8192) / 0.42 / 20.31e12, 2) == 1.03


def test_gpt2_small_over_the_rule():
    products = 12 * 12 * 768**2 + 50257 * 768
    parameters = products + 1024 * 768 + 12 * 13 * 768 + 2 * 768
    attention = 3 * 4 * 1024 * 768 * 12
    assert parameters == 124_439_808
    assert round((6 * products + attention) / (6 * parameters), 3) == 1.144
    assert round((6 * products + attention * 3.5 / 3) / (6 * parameters), 3) == 1.170
