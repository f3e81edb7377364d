"""Random training runs of small transformers, and what the instruments find of each."""

import random
from collections.abc import Iterator
from dataclasses import astuple, dataclass

import torch

from course_utils import measure, predict
from course_utils.predict import TransformerConfig
from course_utils.train.models import next_token_loss
from course_utils.train.transformer import transformer

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
FORMS = {"fused": {"fused": True}, "for-loop": {"foreach": False}, "foreach": {"foreach": True}}
OPTIMIZERS = {"AdamW": torch.optim.AdamW, "SGD": torch.optim.SGD}


@dataclass(frozen=True)
class Run:
    """What a learner's predictor is asked about, in the order of its arguments."""

    config: TransformerConfig
    batch: int
    tokens: int
    dtype: str
    optimizer: str
    form: str
    checkpointing: bool

    def asked(self) -> tuple:
        """The arguments of the predictor."""
        return (self.config, *astuple(self)[1:])

    @property
    def rows(self) -> int:
        """Tokens in a batch."""
        return self.batch * self.tokens

    @property
    def nbytes(self) -> int:
        """Bytes of one number."""
        return DTYPES[self.dtype].itemsize

    @property
    def logits(self) -> int:
        """Bytes of the logits of a batch."""
        return self.nbytes * self.rows * self.config.vocabulary

    def __str__(self) -> str:
        """In a few words."""
        style = {"gpt": "GPT", "llama": "Llama"}[self.config.style]
        again = ", checkpointing" if self.checkpointing else ""
        return f"{style} kind, {self.dtype}, {self.optimizer} ({self.form}){again}"


def random_runs() -> list[Run]:
    """Eight: each style, format and way to keep activations once with every other.

    Half of them have so many tokens that the loss holds the most, half so few that the end of the
    backward pass or the optimizer does.
    """
    drawn = random.Random()
    return [run for style in ("gpt", "llama") for run in _of_style(style, drawn)]


def _of_style(style: str, drawn: random.Random) -> Iterator[Run]:
    """Four runs, so dealt that each cost counts in one of them: see `_deal`."""
    *short, other = drawn.sample([("fp32", False), ("fp32", True), ("bf16", True)], 3)
    # Only several layers show that RMSNorm computes in fp32, whatever the model's format.
    ways = [*short, *drawn.sample([other, ("bf16", False)], 2)]
    grouped = drawn.sample((True, True, False, False), 4)
    for (dtype, again), group, deal in zip(ways, grouped, _deal(drawn), strict=True):
        long, tied, name, form = deal
        # The instruments take as long as there are layers: only long runs have several.
        config = _config(style, drawn.choice((2, 3)) if long else 1, tied, group, drawn)
        batch, tokens = _batch(config, long, drawn)
        yield Run(config, batch, tokens, dtype, name, form, again)


def _deal(drawn: random.Random) -> list[tuple[bool, bool, str, str]]:
    """Whether a run is long, whether it is tied, its optimizer and its form.

    Of the short runs, one peaks at the optimizer's scratch, and the other at the sum of a tied
    embedding's two gradients.
    """
    any_form = [drawn.choice(list(FORMS)) for _ in range(2)]
    sgd = drawn.choice((True, False))  # in a short run, or in a long one
    return [
        (False, False, "AdamW", drawn.choice(("for-loop", "foreach"))),
        (False, True, "SGD", any_form[0]) if sgd else (False, True, "AdamW", "fused"),
        (True, False, "AdamW", any_form[0]),
        (True, True, "AdamW" if sgd else "SGD", any_form[1]),
    ]


def _config(
    style: str, layers: int, tied: bool, grouped: bool, drawn: random.Random
) -> TransformerConfig:
    """Heads of any even width, and a vocabulary of 20 to 25 widths: the usual proportions."""
    kv_heads, share = drawn.choice((1, 2, 3)), drawn.choice((2, 4)) if grouped else 1
    heads = max(kv_heads * share, 2) if grouped else drawn.choice((2, 3, 4, 6))
    width = heads * drawn.choice((32, 40, 48, 64))
    hidden = 4 * width if style == "gpt" else 8 * round(width * drawn.uniform(2.6, 3.6) / 8)
    return TransformerConfig(
        style,
        vocabulary=round(width * drawn.uniform(20, 25)),
        context=drawn.randrange(200, 1000),
        layers=layers,
        width=width,
        heads=heads,
        hidden=hidden,
        kv_heads=kv_heads if grouped else heads,
        tied=tied,
    )


def _batch(config: TransformerConfig, long: bool, drawn: random.Random) -> tuple[int, int]:
    """Sequences and tokens of each: many tokens per parameter, or few."""
    tokens = drawn.randrange(100, config.context)
    if not long:
        return 1, drawn.randrange(4, 30)
    parameters = sum(predict.transformer_parameters(config).values())
    enough = 3 * parameters // config.vocabulary  # the gradients of the logits outweigh the state
    return drawn.randrange(2, 5) + enough // tokens, tokens


def found(run: Run) -> dict[str, int]:
    """What the instruments count and weigh: FLOPs on meta tensors, bytes on fake ones."""
    with torch.device("meta"):
        step, model = _step(run)
    counted = measure.flops(step).total
    with measure.fake():
        weighed = measure.memory(_step(run, optimize=True)[0])
    largest = weighed.largest
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "weights": largest["parameters"],
        "gradients": largest["gradients"],
        "state": largest["optimizer"],
        "flops": counted,
        "activations": largest["activations"],
        "peak": weighed.peak,
    }


def _step(run: Run, optimize: bool = False) -> tuple:
    """A training step of the run, and its model; with the optimizer or without."""
    model = _made(run)
    ids, targets = (torch.zeros(run.batch, run.tokens, dtype=torch.int64) for _ in range(2))
    parameters = list(model.parameters())
    optimizer = OPTIMIZERS[run.optimizer](parameters, lr=1e-3, **FORMS[run.form])

    def step() -> None:
        optimizer.zero_grad()
        next_token_loss(model(ids), targets).backward()
        if optimize:
            optimizer.step()

    return step, model


def _made(run: Run) -> torch.nn.Module:
    """The model in its format: fake parameters cannot be cast afterwards."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(DTYPES[run.dtype])
    try:
        return transformer(run.config, checkpointing=run.checkpointing)
    finally:
        torch.set_default_dtype(before)
