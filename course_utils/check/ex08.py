"""Checks of chapter 08's numbers: windows, tokens per second, and what a disk delivers."""

from course_utils import hardware, measure, units
from course_utils.check.exercise import Unsure, Wrong, exercise, finite, number
from course_utils.train import Batches, models, one_step, optimizers, text_tokens

B, T = 16, 64  # of 08.5
NEAR = 1.5  # a prediction may be so many times too high or too low
PAGE = 4096
CUT = "windows may overlap: they start at any token."
SPLIT = "the tokens are split, not the windows: none may reach into the last tenth."


@exercise(
    "08.3",
    "First count tokens, not bytes, and leave out what is not for training.",
    "How many tokens does one window need with its targets, and where does the last one start?",
    "Try it with 5 tokens and T = 2: write the windows down, and count where they start.",
)
def ex08_3(answer: object) -> str:
    """Count the windows."""
    length = 450_000
    number(
        answer,
        length - 1024,
        within=0,
        exact_mistakes=True,
        mistakes=[
            (length - 1025, "one start is forgotten: the first is 0, and the last counts too."),
            (length - 1023, "a window has T + 1 tokens: the target of the last input counts."),
            (500_000 - 1024, "that is the whole file: the last tenth is not for training."),
            (500_000 - 1025, "that is the whole file, and one start is forgotten."),
            (50_000 - 1024, "that is the part that is kept back."),
            (900_000 - 1024, "those are bytes: a token takes 2."),
            (900_000 - 1025, "those are bytes: a token takes 2."),
            (1_000_000 - 1024, "those are bytes, and of the whole file."),
            (225_000 - 1024, "that is int32: a token takes 2 bytes here."),
            (length, "near the end there is no room for a window."),
            *((value, CUT) for value in _one_after_the_other(length)),
            *((value, SPLIT) for value in (449_078, 449_078.4, 449_079)),
            (449_000, "that is rounded: the exact number is asked for."),
        ],
    )
    return "right: len − T of the part that is trained on."


def _one_after_the_other(length: int) -> list[float]:
    """How many windows there are if none overlaps, in the ways to round it."""
    exact = [length / 1024, length / 1025]
    return [rounded for value in exact for rounded in (value, round(value, 2), int(value), 440)]


@exercise(
    "08.5",
    "Run a few steps of it yourself: train returns how long a step took.",
    "How many tokens has a batch, and how many batches does a second have room for?",
    "This model is four times as wide as the chapter's: which part of a step grows with it?",
    measured=True,
)
def ex08_5(answer: object) -> str:
    """Tokens per second, predicted and measured here."""
    predicted = finite(answer)
    if predicted <= 0:
        raise Wrong(f"a number of tokens per second above 0 is expected, got {predicted:g}.")
    step = _step_time()
    trained = B * T / step.median
    words = f"it trains {trained:,.0f} tokens per second, and you predicted {predicted:,.0f}"
    if step.doubt:
        raise Unsure(f"{words}, and {step.doubt}")
    off = predicted / trained
    if 1 / NEAR <= off <= NEAR:
        return f"{words}. That is close enough to plan with."
    for factor, what in ((B * T, "steps"), (T, "windows")):
        if 1 / NEAR <= off * factor <= NEAR:
            raise Wrong(f"{words}. Those look like {what} per second.")
    raise Wrong(f"{words}: {units.ratio(max(off, 1 / off))} too {'many' if off > 1 else 'few'}.")


def _step_time() -> measure.Time:
    """Of one step of the byte bigram of width 256, where this machine computes best."""
    device = hardware.backend()
    model = models.Bigram(width=256).to(device).train()
    adamw = optimizers.AdamW(model.parameters(), lr=1e-2)
    feed = Batches(text_tokens(), batch=B, context=T, seed=1, device=device)
    return measure.time(
        lambda: one_step(model, adamw, *next(feed), models.next_token_loss),
        budget=0.9,
        device=device,
        threads=1,
    )


@exercise(
    "08.7",
    "How many bytes of a window are used, and what does the disk deliver if it lies in one page?",
    "A window that begins near the end of a page needs the next one, too. How often is that so?",
    "Of the 2048 even bytes of a page, from how many does a window reach past the page's end?",
)
def ex08_7(answer: object) -> str:
    """Read amplification."""
    used = 2 * 129
    number(
        answer,
        expected_pages(used, 2) * PAGE / used,
        within=0.01,
        mistakes=[
            (PAGE / used, "windows that cross the end of a page need two."),
            (PAGE / 129, "that is two pages for each window, or one byte for each token."),
            (expected_pages(used, 2) * PAGE / 129, "a token has 2 bytes."),
            (expected_pages(129, 1) * PAGE / 129, "that is uint8: a token has 2 bytes here."),
            (used / PAGE, "the ratio is upside down."),
            (used / PAGE / expected_pages(used, 2), "the ratio is upside down."),
            (expected_pages(used, 2), "those are pages for each window: bytes are asked for."),
            (expected_pages(used, 2) * PAGE, "those are bytes for each window, used or not."),
            (8 * expected_pages(used, 2) * PAGE / used, "a byte has eight bits: count bytes."),
        ],
    )
    return "right. A loader that reads each page once, in order, gets only bytes that it uses."


def expected_pages(nbytes: int, itemsize: int) -> float:
    """Pages that `nbytes` in a row touch on average, from a random multiple of `itemsize` on."""
    starts = range(0, PAGE, itemsize)
    return sum(1 + (start + nbytes - 1) // PAGE for start in starts) / len(starts)
