"""Generation with a KV cache: the same tokens, the predicted bytes, what happens past the context;
and blocks that are computed again instead of kept."""

import pytest
import torch

from course_utils import measure, predict
from course_utils.train.kv_cache import KVCache
from course_utils.train.models import next_token_loss
from course_utils.train.transformer import attention, rotary_embedding, sample, transformer
from tests.test_transformer import GROUPED, LLAMA, SHAPES, every_shape


@pytest.fixture(autouse=True)
def doubles():
    """So that rounding draws no other token."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def started(shape, tokens=3, batch=1, **options):
    """A model of random weights, and the beginning of a text."""
    torch.manual_seed(0)
    return transformer(shape, **options), torch.randint(shape.vocabulary, (batch, tokens))


@every_shape
@pytest.mark.parametrize("prompt", [1, 3])
@pytest.mark.parametrize("beyond", [0, 5])
def test_the_cache_changes_no_token_within_the_context_and_beyond(shape, prompt, beyond):
    model, start = started(shape, prompt, batch=2)
    count = shape.context - prompt + beyond
    written = [
        sample(model, start, count, torch.Generator().manual_seed(5), cache)
        for cache in (None, KVCache(shape))
    ]
    assert written[0].equal(written[1]) and written[0].shape == (2, prompt + count)


@every_shape
def test_every_logit_is_that_of_the_whole_text(shape):
    model, ids = started(shape, shape.context)
    cache, parts = KVCache(shape), [ids[:, :2], *ids[:, 2:].split(1, dim=1)]
    with torch.no_grad():
        pieces = torch.cat([model(part, cache) for part in parts], dim=1)
        assert torch.allclose(pieces, model(ids), atol=1e-10)
    assert cache.tokens == shape.context


@every_shape
@pytest.mark.parametrize("more", [1, 4])
def test_the_cache_has_the_predicted_bytes(shape, more):
    model, start = started(shape, batch=2)
    cache = KVCache(shape)
    assert (cache.tokens, cache.nbytes) == (0, 0)
    sample(model, start, more, torch.Generator(), cache)
    assert cache.tokens == 3 + more - 1  # the last one is drawn and not yet read
    assert cache.nbytes == predict.kv_cache(shape, 2, cache.tokens, element=8)
    stored = {x.untyped_storage().nbytes() for layer in cache.layers for x in vars(layer).values()}
    assert sum(stored) * 2 * shape.layers == cache.nbytes  # no view of something larger


def test_a_cache_goes_on_where_a_call_ended():
    model, start = started(LLAMA)
    source, cache = torch.Generator().manual_seed(5), KVCache(LLAMA)
    halfway = sample(model, start, 4, source, cache)
    whole = sample(model, halfway, 4, source, cache)
    assert whole.equal(sample(model, start, 8, torch.Generator().manual_seed(5)))


@pytest.mark.parametrize("shape", [LLAMA, GROUPED], ids=["llama", "gpt"])
def test_with_a_cache_the_model_reads_each_token_once_until_the_window_slides(shape):
    model, start = started(shape)
    read = []
    model.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0].shape[1]))
    sample(model, start, shape.context, torch.Generator(), KVCache(shape))
    within = shape.context - 3
    assert read == [3] + [1] * within + [shape.context] * (shape.context - 1 - within)
    read.clear()
    sample(model, start, 3, torch.Generator())
    assert read == [3, 4, 5]


def test_what_does_not_fit_behind_the_cache_is_named():
    model, ids = started(LLAMA, 16)
    cache = KVCache(LLAMA)
    with torch.no_grad():
        model(ids[:, :15], cache)
        for more in (ids[:, :2], ids[:, :0]):
            with pytest.raises(ValueError, match="one at a time behind the 15 of the cache, got"):
                model(more, cache)
        model(ids[:, :1], cache)
        with pytest.raises(ValueError, match="1 to 16 tokens.*behind the 16 of the cache, got 1"):
            model(ids[:, :1], cache)
    cache.clear()
    assert cache.tokens == 0


def test_a_rotary_embedding_may_begin_at_any_position():
    whole, end = (rotary_embedding(n, 8, torch.device("cpu"), first=12 - n) for n in (12, 5))
    assert all(torch.equal(a[7:], b) for a, b in zip(whole, end, strict=True))


@every_shape
def test_computing_blocks_again_changes_no_gradient(shape):
    grads = []
    for again in (False, True):
        model, ids = started(shape, 8, checkpointing=again)
        next_token_loss(model(ids), ids).backward()
        grads.append([p.grad for p in model.parameters()])
    assert all(torch.allclose(a, b) for a, b in zip(*grads, strict=True))


@every_shape
def test_computing_blocks_again_costs_their_forward_pass_and_keeps_their_inputs(shape):
    rows = 2 * shape.context
    with torch.device("meta"):
        model, ids = started(shape, shape.context, 2, checkpointing=True)
    found = measure.flops(lambda: next_token_loss(model(ids), ids).backward())
    again = {"recompute": True, "early_stop": False}
    assert found.total == predict.transformer_flops(shape, 2, shape.context, **again).total
    kept = []
    for checkpointing in (False, True):
        with measure.fake():
            model, ids = started(shape, shape.context, 2, checkpointing=checkpointing)
            step = measure.memory(lambda: next_token_loss(model(ids), ids).backward())  # noqa: B023
        kept.append(step.largest["activations"])
    inputs = 8 * rows * shape.width * shape.layers
    ends = 8 * rows * (shape.vocabulary + 3 * shape.width + 8)
    assert inputs < kept[1] < inputs + ends + 16 * shape.context * shape.head_width + 64
    assert kept[1] < kept[0]


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_model_of_bf16_stays_in_bf16(shape):
    torch.set_default_dtype(torch.bfloat16)
    model, ids = started(shape, 8)
    logits = model(ids)
    next_token_loss(logits, ids).backward()
    assert {x.dtype for p in model.parameters() for x in (p, p.grad)} == {torch.bfloat16}
    assert logits.dtype == torch.bfloat16


def test_attention_without_a_cache_is_as_it_was():
    q, k, v = (torch.randn(1, 1, 24) for _ in range(3))
    shape = predict.TransformerConfig("gpt", 50, 16, 2, 24, 4, 40)
    assert torch.allclose(attention(q, k, v, shape), v)
