"""Checks of chapter 06 about depth: a scale that is tried here, and one for residual branches."""

from math import exp, sqrt

import torch
from torch.nn.functional import leaky_relu

from course_utils import hardware, units
from course_utils.check.exercise import Wrong, exercise, finite, mistaken, number

WIDTH, DEPTH, SLOPE = 300, 30, 0.3
# The logarithm of one network's RMS after all layers has a standard deviation of 0.27. With the
# right scale its mean is -0.07, and five of nine leave 0.5 to 2 about once in ten million tries;
# with Kaiming's scale for a plain ReLU it is 1.23, and five stay inside once in 100 000.
NETWORKS, ROWS, KEPT = 9, 128, 2.0
TRIED = 1e-6, 10.0
KEEPS = (1 + SLOPE**2) / 2  # the share of the mean square that a leaky ReLU leaves


@exercise(
    "06.5",
    "A layer multiplies the mean square by 300 × variance. What does the LeakyReLU leave of it?",
    "Half of the numbers pass as they are, the others times 0.3. What happens to their squares?",
    "300 × variance × the share that is left must be 1: solve it for the standard deviation.",
    measured=True,
)
def ex06_5(answer: object) -> str:
    """A scale for a leaky ReLU, tried here."""
    s = finite(answer)
    mistaken(s, _slips(), within=1e-9)
    low, high = TRIED
    if not low <= s <= high:
        told = units.digits(s)
        raise Wrong(f"a standard deviation from {low:g} to {high:g} can be tried, got {told}.")
    rms = _median_rms(s)
    words = (
        f"after {DEPTH} layers the median RMS of {NETWORKS} networks is {units.digits(rms, 2)}, "
        f"× {units.digits(rms ** (1 / DEPTH), 4)} per layer"
    )
    if not 1 / KEPT <= rms <= KEPT:
        raise Wrong(f"{words}: a {'smaller' if rms > 1 else 'larger'} s keeps it nearer to 1.")
    return f"{words}: the signal is kept, up to the chance of {NETWORKS} draws."


def _slips() -> list[tuple[float, str]]:
    """What likely mistakes lead to, each with its sentence."""
    right = sqrt(1 / (WIDTH * KEEPS))
    return [
        (sqrt(2 / WIDTH), "that is for a plain ReLU: this one lets a part of the rest through."),
        (
            sqrt(1 / WIDTH),
            "that is LeCun's, and in a square layer Xavier's: as if nothing were lost.",
        ),
        (right**2, "that is the variance: the standard deviation is its root."),
        (1 / WIDTH, "that is LeCun's variance: take the root, and mind the LeakyReLU."),
        (2 / WIDTH, "that is a variance, and for a plain ReLU: take the root, mind the slope."),
        (sqrt(2 / (WIDTH * (1 + SLOPE))), "in a mean square the slope counts squared."),
        (2 / (1 + SLOPE) / sqrt(WIDTH), "average the squares of 1 and the slope, not the two."),
        (sqrt(1 / (WIDTH * (1 + SLOPE**2))), "the 2 is missing: each half counts half."),
        (sqrt(2 / (WIDTH * (1 - SLOPE**2))), "the negative half adds to the mean square."),
        (sqrt(1 / WIDTH) / SLOPE, "only the negative half is multiplied by the slope."),
        (right * sqrt(3), "that is the bound of uniform numbers: a standard deviation is less."),
        (sqrt(1 / (3 * WIDTH)), "that is what nn.Linear draws by itself: the signal shrinks."),
    ]


@torch.no_grad()
def _median_rms(s: float) -> float:
    """The median, over the networks, of the signal's RMS after all layers; it enters with 1.

    All networks run at once. Scaling a signal by a positive number commutes with the LeakyReLU: so
    each layer's scale is taken out and noted, and nothing overflows.
    """
    device = hardware.backend()
    x, total = torch.randn(NETWORKS, ROWS, WIDTH, device=device), torch.zeros(NETWORKS)
    for _ in range(DEPTH):
        weights = torch.randn(NETWORKS, WIDTH, WIDTH, device=device).mul_(s)
        x = leaky_relu(x @ weights, SLOPE)
        scale = x.square().mean((1, 2), keepdim=True).sqrt()
        x, total = x / scale, total + scale.flatten().cpu().log()
    return exp(total.median().item())


@exercise(
    "06.7",
    "Mean squares of independent terms add up. Which terms are there?",
    "A branch that is scaled by a has a mean square of a². How many branches have 12 blocks?",
    "The input brings 1 of the 2 along: what is left is for all branches together.",
)
def ex06_7(answer: object) -> str:
    """A scale for residual branches."""
    branches = 24
    number(
        answer,
        1 / sqrt(branches),
        within=0.002,
        mistakes=[
            (1 / branches, "mean squares add up, not scales: that is the mean square per branch."),
            (
                1 / sqrt(12),
                "that gives the branches 2: each block has two, and the input brings 1 along.",
            ),
            (1 / 12, "that is a mean square, and each block has two branches."),
            (sqrt(branches), "upside down: the more branches, the smaller each."),
            (branches, "upside down, and mean squares add up, not scales."),
            (sqrt(3 / branches), "that makes the RMS 2: the mean square is to be 2."),
            (1 / 8, "that makes the RMS 2, and mean squares add up, not scales."),
            (1 / sqrt(branches + 1), "the input is not scaled: 1 is left for the branches alone."),
            (1 / sqrt(branches - 1), "each block has two branches: there are 24."),
            (1 / sqrt(2 * branches), "2·L counts them all: you doubled once more."),
            (sqrt(1 / 2), "that is for a single branch: all of them share what is left."),
            (2 ** (1 / branches), "branches add to the signal; they do not multiply it."),
            (2 ** (1 / (2 * branches)), "branches add to the signal; they do not multiply it."),
        ],
    )
    return (
        "right, 1/√(2·L): GPT-2 draws the last weight of each branch smaller by it, "
        "so that the signal stays in bounds however many blocks there are."
    )
