"""Transformers: the arithmetic against the real modules, counted and weighed."""

from dataclasses import replace
from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from course_utils import measure, predict
from course_utils.predict import TransformerConfig, backward
from course_utils.train.models import next_token_loss
from course_utils.train.transformer import (
    apply_rotary,
    attention,
    rotary_embedding,
    sample,
    transformer,
)

SMALL = predict.preset("small")
LLAMA = TransformerConfig("llama", 50, 16, 2, 24, 4, 40, kv_heads=2, tied=False)
GROUPED = TransformerConfig("gpt", 50, 16, 2, 24, 4, 40, kv_heads=2, tied=False)
SHAPES = {"small": SMALL, "llama": LLAMA, "grouped gpt": GROUPED,
          "tied llama": TransformerConfig("llama", 40, 8, 1, 8, 2, 12),
          "wide heads": TransformerConfig("llama", 40, 8, 2, 8, 2, 12, head_dim=6),
          "narrow heads": TransformerConfig("gpt", 40, 8, 2, 12, 3, 12, head_dim=2)}  # fmt: skip

every_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


def shapes():
    """Any small shape whose sizes divide."""
    return st.builds(
        lambda style, V, T, L, groups, share, half, h, tied, pairs: TransformerConfig(
            style, V, T, L, groups * share * 2 * half, groups * share, h, groups, tied,
            head_dim=pairs and 2 * pairs,
        ),
        st.sampled_from(["gpt", "llama"]), st.integers(2, 40), st.integers(1, 12),
        st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(1, 4),
        st.integers(1, 30), st.booleans(), st.none() | st.integers(1, 4),
    )  # fmt: skip


def step_on_meta(shape, batch, tokens):
    """To be run outside of the meta device's block: there AdamW's counter would have no number."""
    with torch.device("meta"):
        return step_of(shape, batch, tokens, foreach=False)


def step_of(shape, batch, tokens, **options):
    model = transformer(shape)
    ids, targets = (torch.zeros(batch, tokens, dtype=torch.int64) for _ in range(2))
    optimizer = torch.optim.AdamW(model.parameters(), **options)

    def step():
        optimizer.zero_grad()
        loss = next_token_loss(model(ids), targets)
        loss.backward()
        optimizer.step()

    return step


@pytest.mark.parametrize(
    ("name", "count"),
    [("GPT-2 small", 124_439_808), ("GPT-3", 174_604_259_328), ("Llama-3 8B", 8_030_261_248),
     ("Llama-3 70B", 70_553_706_496), ("small", 366_432)],
)  # fmt: skip
def test_presets_have_their_published_sizes(name, count):
    shape = predict.preset(name)
    assert sum(predict.transformer_parameters(shape).values()) == count
    with torch.device("meta"):
        assert sum(p.numel() for p in transformer(shape).parameters()) == count


@settings(max_examples=30, deadline=None)
@given(shapes())
def test_parameters_by_part_are_the_model_s(shape):
    with torch.device("meta"):
        model = transformer(shape)
    parts = predict.transformer_parameters(shape)
    assert sum(p.numel() for p in model.parameters()) == sum(parts.values())
    norms = [m for m in model.modules() if isinstance(m, (torch.nn.LayerNorm, torch.nn.RMSNorm))]
    assert sum(p.numel() for m in norms for p in m.parameters()) == parts["norms"]
    assert len(list(model.parameters())) == predict.step_memory._tensors(shape)


@settings(max_examples=15, deadline=None)
@given(shapes(), st.integers(1, 3), st.data())
def test_flops_of_a_step_are_exact(shape, batch, data):
    tokens = data.draw(st.integers(1, shape.context))
    found = measure.flops(step_on_meta(shape, batch, tokens))
    expected = predict.transformer_flops(shape, batch, tokens)
    assert (found.forward, found.backward) == (expected.forward, expected.backward)


def test_flops_agree_with_torch_s_own_counter_where_it_counts():
    step = step_on_meta(SMALL, 2, 64)
    with FlopCounterMode(display=False) as counter:
        step()
    assert counter.get_total_flops() == predict.transformer_flops(SMALL, 2, 64).total


def test_flash_recomputes_and_a_causal_mask_halves():
    plain = predict.transformer_flops(SMALL, 2, 64)
    flash = predict.transformer_flops(SMALL, 2, 64, flash=True)
    assert measure.flops(step_of(SMALL, 2, 64, foreach=False)).total == flash.total  # real tensors
    assert flash.total - plain.total == plain.attention // 6
    half = predict.transformer_flops(SMALL, 2, 64, causal=True)
    assert 2 * half.attention == plain.attention
    assert plain.total - half.total == half.attention


@pytest.mark.parametrize("style", ["gpt", "llama"])
@pytest.mark.parametrize("how", ["early stop", "no early stop", "reentrant"])
def test_recomputing_the_layers_costs_their_forward_pass_once_more(style, how):
    """torch's checkpoint leaves out the last matmul, whose result nothing needs."""
    from torch.utils.checkpoint import checkpoint

    config = TransformerConfig(style, 50, 16, 2, 24, 4, 40, kv_heads=2, tied=False, head_dim=8)
    options = {"use_reentrant": how == "reentrant"}
    options |= {"early_stop": False} if how == "no early stop" else {}
    with torch.device("meta"):
        model, ids = transformer(config), torch.zeros(2, 16, dtype=torch.int64)
        rotary = rotary_embedding(16, config.head_width, torch.device("meta"))

    def step():
        x = model.tokens(ids)
        for block in model.blocks:
            x = checkpoint(block, x, *([rotary] if style == "llama" else []), **options)
        model.head(model.norm(x)).sum().backward()

    stops = how == "early stop"
    expected = predict.transformer_flops(config, 2, 16, recompute=True, early_stop=stops)
    assert measure.flops(step).total == expected.total
    every = predict.transformer_flops(config, 2, 16, recompute=True, early_stop=False).total
    assert every - expected.total == stops * 2 * 2 * 32 * 40 * 24  # L · 2 · rows · h · d


def test_heads_may_be_wider_than_their_share():
    """Qwen3-4B's sizes (its config.json); its norms of queries and keys are not counted here."""
    qwen = TransformerConfig("llama", 151_936, 40_960, 36, 2560, 32, 9728, kv_heads=8, head_dim=128)
    assert predict.kv_cache(qwen, 1, 1) == 147_456
    assert sum(predict.transformer_parameters(qwen).values()) == 4_022_458_880
    narrow = replace(qwen, head_dim=None)
    assert predict.kv_cache(narrow, 1, 1) == 92_160
    assert sum(predict.transformer_parameters(narrow).values()) == pytest.approx(3.67e9, rel=2e-3)


def test_the_large_model_s_flops_are_the_formula_s_to_the_last_one():
    shape = predict.preset("Llama-3 70B")
    found = predict.transformer_flops(shape, 1, 8192).total
    products = 6 * 8192 * (70_553_706_496 - 128256 * 8192 - 161 * 8192)
    assert found == products + 12 * 8192 * 8192 * 8192 * 80 == 3_943_913_849_094_144
    assert found / predict.training_flops(70_553_706_496, 8192) == pytest.approx(1.137, abs=5e-4)
    flash = predict.transformer_flops(shape, 1, 8192, flash=True).total
    assert flash / predict.training_flops(70_553_706_496, 8192) == pytest.approx(1.163, abs=5e-4)


@every_shape
@pytest.mark.parametrize("form", ["fused", "for-loop", "foreach"])
def test_memory_of_a_step_by_category_and_its_peak(shape, form):
    options = {
        "fused": {"fused": True},
        "for-loop": {"foreach": False},
        "foreach": {"foreach": True},
    }
    found = measure.memory(step_of(shape, 3, shape.context, **options[form]))
    expected = predict.transformer_memory(shape, 3, shape.context, form=form)
    assert found.largest["parameters"] == expected.parameters
    assert found.largest["gradients"] == expected.gradients
    assert found.largest["optimizer"] == expected.optimizer
    assert found.largest["activations"] == expected.activations
    assert found.peak == expected.peak


@settings(max_examples=10, deadline=None)
@given(shapes(), st.integers(1, 3))
def test_activations_of_any_shape(shape, batch):
    with measure.fake():
        found = measure.memory(step_of(shape, batch, shape.context, fused=True))
    assert found.largest["activations"] == predict.activations(shape, batch, shape.context)


def any_proportions(random):
    """A shape in which any part may hold the most: the output layer, a layer, the embedding."""
    groups, kv_heads, width = random.choice([1, 2, 3]), random.choice([1, 3]), random.randint(2, 60)
    return TransformerConfig(
        random.choice(["gpt", "llama"]), random.choice([2, 10, 256, 1000]), 64,
        random.choice([1, 2, 4]), width, groups * kv_heads,
        random.choice([1, 3 * width + 1, 8 * width]), kv_heads, random.choice([True, False]),
        head_dim=2 * random.randint(1, 6),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(60))
def test_the_peak_and_every_part_of_the_backward_pass_are_exact(seed):
    random = Random(seed)
    shape, form = any_proportions(random), random.choice(["fused", "for-loop", "foreach"])
    batch, tokens = random.choice([1, 2, 8]), random.choice([1, 2, 16])
    with measure.fake():
        step = step_of(shape, batch, tokens, fused=form == "fused", foreach=form == "foreach")
        found = measure.memory(step)
    expected = predict.transformer_memory(shape, batch, tokens, form=form)
    assert found.peak == expected.peak
    held = {"backward": [], "optimizer": []}
    for event in found.timeline:
        held.setdefault(event.phase, []).append(event.total)
    assert max(held["optimizer"]) == expected.moments["optimizer"]
    parts = [value for at, value in expected.moments.items() if at != "optimizer"]
    assert max(held["backward"]) == max(parts) and set(parts) <= set(held["backward"])


@pytest.mark.parametrize("style", ["gpt", "llama"])
def test_all_that_the_backward_pass_allocates_is_freed_or_a_gradient(style):
    """From the end of the forward pass to the optimizer: what stays are gradients and token ids."""
    config = TransformerConfig(style, 50, 16, 1, 24, 4, 40, kv_heads=2, tied=False, head_dim=8)
    sizes = {"r": 6, "d": 24, "q": 32, "k": 16, "h": 40, "H": 4, "V": 50, "C": 16, "T": 3, "w": 8}
    terms = " ".join((backward.OUTPUT[style], backward.LAYER[style].replace("(table)", "-Tw"),
                      backward.EMBEDDING[style]))  # fmt: skip
    change = sum(backward._numbers(terms, sizes))
    parameters = sum(predict.transformer_parameters(config).values())
    kept = predict.activations(config, 2, 3) - predict.transformer.INDEX * 2 * 6
    assert change == parameters - kept // 4


def test_the_kv_cache_holds_every_key_and_value():
    assert predict.kv_cache(LLAMA, 2, 10) == 2 * 2 * (2 * 6) * 2 * 10 * 2
    large = predict.preset("Llama-3 70B")
    assert predict.kv_cache(large, 1, 8192) == 2_684_354_560


@every_shape
def test_no_place_sees_what_comes_later(shape):
    torch.manual_seed(0)
    model, ids = transformer(shape), torch.randint(shape.vocabulary, (1, shape.context))
    other = ids.clone()
    other[0, -1] = (ids[0, -1] + 1) % shape.vocabulary
    with torch.no_grad():
        a, b = model(ids), model(other)
    assert torch.allclose(a[:, :-1], b[:, :-1], atol=1e-6) and not torch.allclose(a, b, atol=1e-6)
    assert a.shape == (1, shape.context, shape.vocabulary)


def test_shared_keys_equal_repeated_ones():
    q, k, v = torch.randn(2, 16, 24), torch.randn(2, 16, 12), torch.randn(2, 16, 12)
    full = TransformerConfig("llama", 50, 16, 2, 24, 4, 40)
    wide = (t.unflatten(-1, (2, 1, 6)).expand(-1, -1, -1, 2, -1).flatten(2) for t in (k, v))
    assert torch.allclose(attention(q, k, v, LLAMA), attention(q, *wide, full), atol=1e-6)


def test_a_rotary_embedding_keeps_lengths_and_knows_distances_only():
    cos, sin = rotary_embedding(12, 8, torch.device("cpu"), base=100.0)
    q, k = torch.randn(8), torch.randn(8)
    rotated_q, rotated_k = (apply_rotary(x.expand(1, 1, 12, 8), cos, sin)[0, 0] for x in (q, k))
    assert torch.allclose(rotated_q.norm(dim=-1), q.norm().expand(12), atol=1e-5)
    scores = rotated_q @ rotated_k.T
    assert torch.allclose(scores[5, 3], scores[9, 7], atol=1e-4)
    assert torch.allclose(scores[4, 4], q @ k, atol=1e-4)


def test_a_tied_output_layer_is_the_embedding():
    model = transformer(SMALL)
    assert model.head.weight is model.tokens.weight
    assert transformer(LLAMA).head.weight is not transformer(LLAMA).tokens.weight


def test_sampling_repeats_with_its_generator_and_keeps_the_beginning():
    torch.manual_seed(0)
    model, start = transformer(SMALL), torch.tensor([[1, 2, 3]])
    runs = [sample(model, start, 80, torch.Generator().manual_seed(5)) for _ in range(2)]
    assert runs[0].equal(runs[1]) and runs[0].shape == (1, 83)  # longer than the context of 64
    assert runs[0][:, :3].equal(start)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"heads": 5}, "heads must divide width, got 5 and 24"),
     ({"kv_heads": 3}, "kv_heads must divide heads, got 3 and 4"),
     ({"layers": 0}, "layers must be a whole number at least 1"),
     ({"context": 0}, "context must be"), ({"style": "bert"}, "style must be one of 'gpt'"),
     ({"heads": 24, "kv_heads": 24}, "2 · heads must divide width"),
     ({"tied": None}, "tied must be True or False"), ({"width": 1.5}, "width must be")],
)  # fmt: skip
def test_sizes_that_do_not_fit_are_named(change, message):
    sizes = {"style": "llama", "vocabulary": 50, "context": 16, "layers": 2, "width": 24}
    with pytest.raises((ValueError, TypeError), match=message):
        TransformerConfig(**{**sizes, "heads": 4, "hidden": 40, **change})


def test_unknown_presets_and_too_many_tokens_are_named():
    with pytest.raises(ValueError, match="name must be one of 'GPT-2 small', .*got 'GPT-5'"):
        predict.preset("GPT-5")
    with pytest.raises(ValueError, match="tokens must fit the context of 64, got 65"):
        predict.transformer_flops(SMALL, 1, 65)
    for ids in (torch.zeros(1, 65, dtype=torch.int64), torch.zeros(1, 0, dtype=torch.int64)):
        with pytest.raises(ValueError, match="1 to 64 tokens"):
            transformer(SMALL)(ids)


def test_seventy_billion_parameters_weigh_what_the_formula_says():
    """The whole accounting of chapter 10, on fake tensors: nothing of it is allocated."""
    shape = predict.preset("Llama-3 70B")
    with measure.fake():
        found = measure.memory(step_of(shape, 1, 8192, fused=True))
    expected = predict.transformer_memory(shape, 1, 8192)
    names = ("parameters", "gradients", "optimizer", "activations")
    assert [found.largest[name] for name in names] == [getattr(expected, name) for name in names]
    assert found.peak == expected.peak == pytest.approx(1338.0e9, rel=1e-4)


def test_fake_tensors_have_a_size_and_no_memory():
    with measure.fake():
        x = torch.ones(10**6, 10**6)
        assert (x @ x).shape == (10**6, 10**6) and x.nbytes == 4 * 10**12
        with pytest.raises(RuntimeError):
            x[0, 0].item()  # there is no number in it
