"""The arithmetic, against torch, against other formulas and against the course's own figures."""

import math
from functools import partial
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from course_utils import hardware, measure, predict

SIZES = st.lists(st.integers(0, 6), min_size=0, max_size=4).map(tuple)
FULL_SIZES = st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple)


@given(SIZES, st.sampled_from(sorted(predict.ELEMENT_BYTES)))
def test_tensor_bytes_agree_with_torch(sizes, dtype):
    tensor = torch.empty(sizes, dtype=getattr(torch, dtype))
    assert predict.tensor_bytes(sizes, dtype) == tensor.numel() * tensor.element_size()


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
    assert round(days, 2) == 143.93


def test_question_two():
    adamw = predict.RECIPES["AdamW, fp32"].total
    assert adamw == 16
    assert predict.largest_model(80e9, adamw, devices=8) == 40e9
    assert predict.largest_model(80e9, adamw, devices=8, sharded=False) == 5e9


def test_recipes():
    totals = {name: recipe.total for name, recipe in predict.RECIPES.items()}
    assert list(totals.values()) == [8, 16, 16, 18, 12, 8]
    fits = [round(predict.largest_model(80e9, t, devices=8) / 1e9, 1) for t in totals.values()]
    assert fits == [80, 40, 40, 35.6, 53.3, 80]


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
        (lambda: predict.training_flops(1e200, 1e200), "parameters and tokens must give a finite"),
        (lambda: predict.training_flops(1e154, 1e154), "parameters and tokens must give a finite"),
        (lambda: predict.seconds(1e300, 1e-300), "work and rate must give a finite number"),
        (lambda: predict.seconds(1e-300, 1e300), "work and rate must give a finite number"),
        (lambda: predict.intensity(10**300, 1e-9), "flops and nbytes must give a finite number"),
        (lambda: predict.Recipe(float("nan"), 4, 0, 8), "parameters must be a finite number"),
        (lambda: predict.Recipe(4, 4, 0, -8), "optimizer must be a finite number at least 0"),
        (lambda: predict.deep_linear_memory(1, 1, 1e308), "L must be .* at most 100000, got"),
        (lambda: predict.largest_model(1, 1, devices=-3, sharded=False), "devices must be"),
        (lambda: predict.largest_model(1, 1, sharded="no"), "sharded must be True or False"),
        (lambda: predict.tensor_bytes((2,), "float33"), "dtype must be one of .*float32.*float33"),
        (lambda: predict.position((1, 2), (4,)), "same length, got 2 and 1"),
    ],
)
def test_bad_values_say_what_was_expected(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_einsum_flops_count_every_index_once():
    assert predict.einsum_flops("bqd,bkd->bqk", b=4, q=8, k=16, d=32) == 2 * 4 * 8 * 16 * 32
    assert predict.einsum_flops("bd, dk -> bk", b=2, d=3, k=5) == predict.matmul_flops(2, 3, 5)
    assert predict.einsum_flops("row d, d col -> row col", row=2, d=3, col=5) == 60
    assert predict.einsum_flops("bd,dk", b=2, d=3, k=5) == 60  # as torch reads it without ->
    assert predict.einsum_flops("i, j -> i j", i=3, j=5) == 30  # outer: a matmul of inner size 1
    assert predict.einsum_flops("ij,ij->", i=3, j=5) == 30


def test_more_operands_go_in_pairs_along_the_cheapest_path():
    ten = dict.fromkeys("ijkl", 10)
    assert predict.einsum_flops("i j, j k, k l -> i l", **ten) == 4000
    thin = {"i": 100, "j": 2, "k": 50, "l": 3}
    assert predict.einsum_flops("ij,jk,kl->il", **thin) == 2 * (50 * 2 * 3 + 100 * 2 * 3)
    assert predict.einsum_flops("ij,jk,kl->il", i=2, j=50, k=3, l=100) == 2 * 3 * (100 + 200)


TERMS = st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True).map("".join)


@settings(max_examples=150)
@given(st.lists(TERMS, min_size=2, max_size=4), st.data())
def test_einsum_flops_are_what_running_it_in_pairs_counts(terms, data):
    """Two operands: what `measure.flops` counts. More: no order of pairs counts less."""
    names = sorted(set("".join(terms)))
    out = "".join(data.draw(st.lists(st.sampled_from(names), unique=True, max_size=3)))
    sizes = {name: data.draw(st.integers(2, 5)) for name in names}
    tensors = [torch.randn([sizes[name] for name in term]) for term in terms]
    equation = f"{','.join(terms)}->{out}"
    counted = measure.flops(lambda: torch.einsum(equation, *tensors)).total
    try:
        predicted = predict.einsum_flops(equation, **sizes)
    except ValueError as error:
        assert "element by element" in str(error)
        assert counted == 0 or len(terms) > 2
        return
    assert predicted == counted if len(terms) == 2 else predicted <= max(counted, predicted)
    if len(terms) == 3:
        orders = [measure.flops(partial(_in_order, terms, tensors, out, pair)).total
                  for pair in ((0, 1), (0, 2), (1, 2))]  # fmt: skip
        assert predicted in orders


def _in_order(terms, tensors, out, pair):
    """The einsum of three with two of them contracted first."""
    (rest,) = {0, 1, 2} - set(pair)
    a, b = pair
    made = "".join(sorted((set(terms[a]) | set(terms[b])) & (set(out) | set(terms[rest]))))
    first = torch.einsum(f"{terms[a]},{terms[b]}->{made}", tensors[a], tensors[b])
    return torch.einsum(f"{made},{terms[rest]}->{out}", first, tensors[rest])


@pytest.mark.parametrize(
    ("equation", "sizes", "message"),
    [
        ("bd,dk->bk", {"b": 2, "d": 3}, "sizes must name every index .* k is missing"),
        ("bd,dk->bk", {"b": 2, "d": 3, "k": 4, "z": 5}, "sizes must be of indices .* z is none"),
        ("bd->b", {"b": 2, "d": 3}, "equation must have 2 to 6 operands"),
        (",".join(["ab"] * 7), {"a": 2, "b": 3}, "equation must have 2 to 6 operands"),
        ("...d,dk->...k", {"d": 3, "k": 4}, r"equation must name every index instead of '...'"),
        ("bd,dk->bz", {"b": 2, "d": 3, "k": 4, "z": 1}, "equation must take its result from"),
        ("bd,bd->bd", {"b": 2, "d": 3}, "equation must be a matmul or an outer product"),
        ("b,bd->bd", {"b": 2, "d": 3}, "which measure.flops counts as 0"),
        ("bd,dk->bk", {"b": 2, "d": 3, "k": 0}, "k must be a whole number at least 1"),
        (None, {}, "equation must be a text"),
    ],
)
def test_einsums_without_a_count_are_refused(equation, sizes, message):
    with pytest.raises((TypeError, ValueError), match=message):
        predict.einsum_flops(equation, **sizes)


def test_the_roofline_of_an_h100():
    ridge = predict.intensity(989.5e12, 3350e9)
    assert round(ridge, 1) == 295.4
    assert predict.ceil_to_whole(3 * ridge) == 887
    for n, limit in ((800, "memory"), (1000, "arithmetic")):
        flops, nbytes = 2 * n**3, 3 * n * n * 2
        seconds = predict.roofline_seconds(flops, nbytes, peak=989.5e12, bandwidth=3350e9)
        assert seconds == (nbytes / 3350e9 if limit == "memory" else flops / 989.5e12)


def test_the_rtx_3070_example():
    work, promise = (
        predict.matmul_flops(16384, 32768, 8192),
        hardware.find("RTX 3070").promised("fp32"),
    )
    assert round(work / 1.2285 / 1e12, 2) == 7.16 and round(work / 1.2285 / promise, 4) == 0.3525
    assert round(work / 0.42 / promise, 2) == 1.03


def test_gpt2_small_over_the_rule():
    rule = predict.training_flops(124_439_808, 1024)
    for flash, factor in ((False, 1.144), (True, 1.170)):
        found = predict.transformer_flops(predict.preset("GPT-2 small"), 1, 1024, flash=flash)
        assert round(found.total / rule, 3) == factor
