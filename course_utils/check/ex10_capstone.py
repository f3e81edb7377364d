"""Checks of chapter 10's capstone: a predictor of whole training runs, and of a step's seconds."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType

import torch

from course_utils import hardware, measure, predict, units
from course_utils.arguments import shown
from course_utils.check.ex10_runs import OPTIMIZERS, Run, found, random_runs
from course_utils.check.ex10_slips import named
from course_utils.check.exercise import Unsure, Wrong, exercise, finite, function
from course_utils.train.models import next_token_loss
from course_utils.train.transformer import GPT, Llama, transformer

# How far off each may be; the order is that in which they build on each other.
LIMITS = {
    "parameters": 0.0,
    "weights": 0.0,
    "gradients": 0.0,
    "state": 1e-3,  # with the step counters of 4 bytes per tensor or without
    "flops": 0.005,
    "activations": 0.1,
    "peak": 0.1,
}
PREDICTOR = "a function predict_run(config, batch, tokens, dtype, optimizer, form, checkpointing)"
ANSWERS = (predict.transformer_parameters, predict.transformer_products, predict.transformer_flops,
           predict.transformer_memory, predict.activations)  # fmt: skip
INSTRUMENTS = (measure.flops, measure.memory, GPT.__init__, Llama.__init__)
WITHIN = 1.5
BATCH = 32


@exercise(
    "10.6",
    "Begin with the parameters: weights, gradients and state are multiples of them, and a matmul "
    "takes 2 FLOPs per parameter and token, three times with backward.",
    "Count what autograd keeps per token and layer from the chapter's list; with checkpointing, a "
    "block keeps its input alone and runs again. A bf16 RMSNorm computes in fp32.",
    "The peak is the larger of two moments: at the loss, with all activations and the gradients of "
    "the logits, or at the end, with all gradients and what the optimizer needs for a moment.",
    measured=True,
)
def ex10_6(answer: object) -> str:
    """The capstone: your own predictor of a run."""
    predictor, runs = function(answer, PREDICTOR), random_runs()
    given = [_predicted(predictor, run) for run in runs]
    right = [found(run) for run in runs]
    off = {name: [_off(g[name], r[name]) for g, r in zip(given, right, strict=True)]
           for name in LIMITS}  # fmt: skip
    failing = [name for name, shares in off.items() if max(shares) > LIMITS[name]]
    score = ", ".join(f"{name} {_within(name, shares)}" for name, shares in off.items())
    if failing:
        why = named(failing[0], runs, given, right) or _where(failing[0], runs, off[failing[0]])
        raise Wrong(
            f"within the limits: {score}. {_most(off, failing)}. {why[0].upper()}{why[1:]}."
        )
    return f"right for {len(runs)} random runs: {score}. The instruments agree with you."


def _predicted(predictor: Callable, run: Run) -> dict[str, float]:
    """The learner's numbers for a run; `Wrong` if some are missing or were not their own."""
    with _called() as codes:
        got = predictor(*run.asked())
    if codes & {answer.__code__ for answer in ANSWERS}:
        raise Wrong("it asks predict for the answer: predict.matmul_flops may help, the rest is "
                    "your own arithmetic.")  # fmt: skip
    if codes & {instrument.__code__ for instrument in INSTRUMENTS}:
        raise Wrong("it builds or measures the model: a prediction comes from the sizes alone.")
    if not isinstance(got, Mapping):
        raise Wrong(f"a dict with {', '.join(LIMITS)} is expected, got {shown(got)}.")
    for name in LIMITS:
        if got.get(name) is None:
            raise Wrong(f"{name} is missing: the dict has {', '.join(LIMITS)}.")
    return {name: _number(name, got[name]) for name in LIMITS}


def _number(name: str, value: object) -> float:
    try:
        return finite(value)
    except Wrong as reason:
        raise Wrong(f"{name}: {reason}") from None


@contextmanager
def _called() -> Iterator[set]:
    """The code objects of all Python functions that are called in this block."""
    codes, before = set(), sys.getprofile()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            codes.add(frame.f_code)

    sys.setprofile(note)
    try:
        yield codes
    finally:
        sys.setprofile(before)


def _off(given: float, right: float) -> float:
    """How far off, as a share of what is right; of 0, any other number is all off."""
    return abs(given - right) / right if right else float(given != 0)


def _within(name: str, shares: Sequence[float]) -> str:
    return f"{sum(share <= LIMITS[name] for share in shares)}/{len(shares)}"


def _most(off: Mapping[str, Sequence[float]], failing: Sequence[str]) -> str:
    """Which quantity is off most, and which one to mend first."""
    worst = max(failing, key=lambda name: max(off[name]))
    words = f"Most off: {worst}, by up to {units.digits(100 * max(off[worst]), 2)} %"
    return words if worst == failing[0] else f"{words}; but begin with {failing[0]}"


def _where(name: str, runs: Sequence[Run], shares: Sequence[float]) -> str:
    """What the runs that are off have in common, in words."""
    failed = [share > LIMITS[name] for share in shares]
    if all(failed):
        return "it is off in every run"
    for words, holds in COMMON.items():
        if [holds(run) for run in runs] == failed:
            return f"it is off in exactly the runs {words}"
    return f"the worst run is one of {runs[shares.index(max(shares))]}"


COMMON: dict[str, Callable[[Run], bool]] = {
    "of GPT's kind": lambda run: run.config.style == "gpt",
    "of Llama's kind": lambda run: run.config.style == "llama",
    "in bf16": lambda run: run.dtype == "bf16",
    "in fp32": lambda run: run.dtype == "fp32",
    "with checkpointing": lambda run: run.checkpointing,
    "without checkpointing": lambda run: not run.checkpointing,
    "with a tied output layer": lambda run: run.config.tied,
    "with an output layer of its own": lambda run: not run.config.tied,
    "with fewer KV heads than heads": lambda run: run.config.kv_heads < run.config.heads,
    "with SGD": lambda run: run.optimizer == "SGD",
    "with AdamW": lambda run: run.optimizer == "AdamW",
    "with a single sequence": lambda run: run.batch == 1,
    "with several sequences": lambda run: run.batch > 1,
}


@exercise(
    "10.7",
    "Which FLOPs does the step take, backward included, and at which rate do matmuls of these "
    "sizes run here?",
    "A step of this model reaches less than the peak: measure the rate of a matmul of its own "
    "sizes, (B·T) × d times d × h.",
    "Not all of a step is matmuls. Time attention, the norms and the loss, too, or take the share "
    "of the time that they took in the chapter.",
    measured=True,
)
def ex10_7(answer: object) -> str:
    """The seconds of a step, predicted and measured here."""
    seconds = finite(answer)
    if seconds <= 0:
        raise Wrong(f"seconds above 0 are expected, got {seconds:g}.")
    took = _step_time()
    words = f"the step took {units.duration(took.value, significant=3)}"
    if took.doubt:
        raise Unsure(f"{words}, and {took.doubt}")
    if max(seconds / took.value, took.value / seconds) <= WITHIN:
        return f"{words}. You predicted it from FLOPs and a rate, and the clock agrees."
    raise Wrong(f"{words}, and you said {units.duration(seconds, significant=3)}: "
                f"{_why(seconds / took.value)}")  # fmt: skip


def _why(ratio: float) -> str:
    """What a prediction that is off by `ratio` may have forgotten."""
    if 1 / WITHIN < ratio / 1000 < WITHIN:
        return "are those milliseconds?"
    if ratio > 1:
        return "too long. Was the rate measured while the machine was busy, or on a smaller matmul?"
    if ratio < 0.4:
        return ("too short. Are the backward pass and the whole batch in it, and is the rate one "
                "of its own matmuls, not the peak?")  # fmt: skip
    return "too short. Some of the step is no matmul: attention, norms, the loss, the optimizer."


def _step_time() -> measure.Time:
    """Of the small model's training step, B = 32, in fp32 with fused AdamW, on the best device."""
    config, device = predict.preset("small"), hardware.backend()
    with torch.device(device):
        model = transformer(config)
        ids = torch.randint(config.vocabulary, (BATCH, config.context))
    optimizer = OPTIMIZERS["AdamW"](model.parameters(), lr=1e-3, fused=True)

    def step() -> None:
        optimizer.zero_grad()
        next_token_loss(model(ids), ids).backward()
        optimizer.step()

    with torch.enable_grad():
        return measure.time(step, budget=1.0, device=device)
