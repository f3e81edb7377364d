"""What a layer with random weights does to the scale of a signal: on average, and in one draw."""

from dataclasses import dataclass
from math import exp, lgamma, log, pi, sqrt

from course_utils.arguments import number, one_of

EULER = 0.577215664901532860606512090082
WIDEST = 65_536
LARGEST = 1e100  # of a standard deviation: its square still is a number


@dataclass(frozen=True)
class LayerScale:
    """By how much a layer multiplies the root mean square of a signal, or of a gradient.

    `factor` is the root of the mean square's average over all draws of the weights. In one draw the
    logarithm of what the layer does has the mean log(`typical`) and the standard deviation
    `spread`, whatever comes in: so over layers the means and the variances add up.
    """

    factor: float
    typical: float
    spread: float


def layer_scale(D: int, s: float, activation: str = "relu") -> LayerScale:
    """The scale of D → D weights, normal with a standard deviation of `s`, then an activation.

    `activation` is 'none' or 'relu'; for others no such closed form is known. Of one row x,
    x @ W is D independent normal numbers of variance s²·|x|², of which a ReLU leaves a binomial
    number k: their squares sum up to s²·|x|²·χ²(k). For a wide layer the mean square's logarithm
    has a variance of 2/D, with a ReLU 5/D, and a mean lower by half of that than the logarithm of
    its average (B. Hanin and M. Nica, *Products of many large random matrices and gradients in deep
    neural networks*, 2018). That no unit is left, one case in 2^D, is not in it.
    """
    D = int(number("D", D, at_least=1, at_most=WIDEST, whole=True))
    s = number("s", s, above=0, at_most=LARGEST)
    kept = 1.0 if one_of("activation", activation, ("none", "relu")) == "none" else 0.5
    mean, variance = _log_of_squares(D, activation)
    return LayerScale(s * sqrt(kept * D), s * exp(mean / 2), sqrt(variance) / 2)


def _log_of_squares(D: int, activation: str) -> tuple[float, float]:
    """Mean and variance of the logarithm of the sum of squares that a layer with s = 1 leaves."""
    means, variances = _log_chi_squared(D)
    if activation == "none":
        return means[D], variances[D]
    shares = [0.0, *(exp(lgamma(D + 1) - lgamma(k + 1) - lgamma(D - k + 1) - D * log(2))
                     for k in range(1, D + 1))]  # fmt: skip
    whole = sum(shares)
    mean = sum(share * each for share, each in zip(shares, means, strict=True)) / whole
    pairs = zip(shares, means, variances, strict=True)
    return mean, sum(share * (v + (m - mean) ** 2) for share, m, v in pairs) / whole


def _log_chi_squared(most: int) -> tuple[list[float], list[float]]:
    """Mean ψ(k/2) + log 2 and variance ψ'(k/2) of log χ²(k), for k = 0 (not used) to `most`."""
    means, variances = [0.0, -EULER - log(2), log(2) - EULER], [0.0, pi**2 / 2, pi**2 / 6]
    for k in range(3, most + 1):
        means.append(means[k - 2] + 2 / (k - 2))
        variances.append(variances[k - 2] - 4 / (k - 2) ** 2)
    return means[: most + 1], variances[: most + 1]
