"""The memory of a transformer's training step: four categories, and the most held in each part."""

from course_utils.arguments import count, one_of
from course_utils.predict.backward import moments
from course_utils.predict.configs import TransformerConfig, checked
from course_utils.predict.optimizers import (
    COUNTS_STEPS,
    FORMS,
    FP32,
    OPTIMIZER_STATE,
    StepMemory,
)
from course_utils.predict.transformer import INDEX, activations, fitting, transformer_parameters


def transformer_memory(
    config: TransformerConfig,
    batch: int,
    tokens: int,
    *,
    optimizer: str = "AdamW",
    form: str = "fused",
) -> StepMemory:
    """Bytes of a training step of `train.transformer` in fp32, from the second step on.

    Exact, categories and peak, with the processor's flash attention. The moments are the most that
    is held in each part of the backward pass, and in the optimizer's step. `optimizer` is 'Adam' or
    'AdamW'.
    """
    P = sum(transformer_parameters(config).values())
    state = OPTIMIZER_STATE[one_of("optimizer", optimizer, ("Adam", "AdamW"))] * P
    steps = _tensors(config) if optimizer in COUNTS_STEPS else 0
    batch, tokens = count("batch", batch), fitting(config, tokens)
    kept = activations(config, batch, tokens)
    start = FP32 * (P + state + steps + 2) + kept  # 2: the loss and its gradient
    held = {at: start + FP32 * more for at, more in moments(config, batch, tokens).items()}
    ids = INDEX * 2 * batch * tokens
    held["optimizer"] = FP32 * (2 * P + state + steps + 1 + _scratch(config, P, form)) + ids
    return StepMemory(FP32 * P, FP32 * P, FP32 * (state + steps), kept, held)


def _ends(config: TransformerConfig) -> tuple[list[int], list[int], list[int]]:
    """Numbers in each parameter tensor, in the order of the modules: before, in, after layers."""
    d, h, q, kv = config.width, config.hidden, config.q_width, config.kv_width
    table = config.vocabulary * d
    head = [] if config.tied else [table]
    if config.style == "gpt":
        layer = [d, d, d, d, d * (q + 2 * kv), q + 2 * kv, q * d, d, d * h, h, h * d, d]
        return [table, config.context * d], layer, [d, d, *head]
    return [table], [d, d, d * q, q * d, d * kv, d * kv, d * h, d * h, h * d], [d, *head]


def _tensors(config: TransformerConfig) -> int:
    """How many parameter tensors there are."""
    before, layer, after = _ends(checked(config))
    return len(before) + config.layers * len(layer) + len(after)


def _scratch(config: TransformerConfig, parameters: int, form: str) -> int:
    """Numbers in the temporary tensors of Adam's step, at their most: see `deep_linear`."""
    one_of("form", form, FORMS)
    if form == "for-loop":
        before, layer, after = _ends(config)
        sizes = [*before, *layer, *after]  # further layers repeat these
        return max(2 * size + last for last, size in zip([0, *sizes], sizes, strict=False))
    return parameters if form == "foreach" else 0
