"""Checks of chapter 06's first part: what is a parameter, and a scale for one layer."""

from course_utils.check.exercise import Wrong, exercise, names, number

ATTRIBUTES = {"first", "middle", "scale", "shift", "last"}
UNREGISTERED = {"middle", "scale"}


@exercise(
    "06.1",
    "An nn.Linear from a to b has a weight of a·b numbers and a bias. How long is the bias?",
    "Three layers: 784 → 256, 256 → 128, 128 → 10. And which numbers does a ReLU learn?",
    "Count the smallest layer by hand, 128 → 10. Then do the others in the same way, and add up.",
)
def ex06_1(answer: object) -> str:
    """Parameters of an MLP."""
    weights, biases = 784 * 256 + 256 * 128 + 128 * 10, 256 + 128 + 10
    number(
        answer,
        weights + biases,
        within=1e-9,
        unit="parameters",
        exact_mistakes=True,
        mistakes=[
            (weights, "that is the weights alone: each nn.Linear has a bias, too."),
            (weights + 784 + 256 + 128, "a bias has one number for each output, not each input."),
            (weights + 10, "you counted the last bias alone: each of the three layers has one."),
            (weights + 3, "a bias is not a single number: each output has its own."),
            (weights + biases + 784, "the inputs need no bias."),
            (weights + biases + 256 + 128, "you counted the ReLUs: they have no parameters."),
            (784 * 256 * 128 * 10, "layers add up; they do not multiply."),
            (784 * 256 + 256, "that is the first layer alone, and there are three."),
            (784 * 256, "that is the first weight alone: there are three, and their biases."),
            (weights + biases - 1290, "the last layer, 128 → 10, is missing."),
            (weights + biases - 784 * 256 - 256, "the first layer, 784 → 256, is missing."),
            (784 * 10 + 10, "that is one layer from 784 to 10: the hidden layers are missing."),
            (784 + 256 + 128 + 10, "those are the widths: a weight has inputs × outputs numbers."),
            (2 * (weights + biases), "that counts each twice: gradients are no parameters."),
            (4 * (weights + biases), "parameters are asked for, not bytes."),
        ],
    )
    return "right. Most of them sit in the first layer."


@exercise(
    "06.2",
    "A module registers what is assigned to it as a Parameter or as a Module. Nothing else.",
    "Go through the five: is it a Parameter? Is it a Module? Or does it only look like one?",
    "Print the names that Suspicious().named_parameters() gives: which attributes never appear?",
)
def ex06_2(answer: object) -> str:
    """Find what is not registered."""
    found = names(answer, ATTRIBUTES, "the model has no attribute {}: give names of attributes.")
    if "last" in found:
        raise Wrong("nn.Sequential is a module: it is registered, and so is what is in it.")
    if "shift" in found:
        raise Wrong("shift is an nn.Parameter, so it is registered.")
    if "first" in found:
        raise Wrong("nn.Linear is a module: it is registered.")
    if found != UNREGISTERED:
        raise Wrong(f"{len(found)} of 2 found.")
    return "both. The list needs nn.ModuleList, the tensor nn.Parameter."


@exercise(
    "06.3",
    "Mean square of an output before the ReLU: fan_in × variance of the weights × mean square in.",
    "A ReLU keeps half of the mean square. What, then, must fan_in × variance be?",
    "Which of the two sizes is fan_in, the terms in one output's sum? Take the root at the end.",
)
def ex06_3(answer: object) -> str:
    """Scale for a ReLU network."""
    number(
        answer,
        (2 / 512) ** 0.5,
        within=0.002,
        mistakes=[
            (512**-0.5, "that keeps a linear layer's signal: a ReLU throws half of it away."),
            (2 / 512, "that is the variance: the standard deviation is its root."),
            (2 * 512**-0.5, "the factor 2 belongs to the variance, under the root."),
            (2**0.5 / 512, "the root of 2 alone was taken: fan_in stands under the root, too."),
            ((2 / 2560) ** 0.5, "that is Xavier's compromise: keep the signal alone."),
            ((2 / 2048) ** 0.5, "that is for the gradient: a signal sums over the inputs."),
            (1 / 512, "that is a variance, and a ReLU's layer needs twice as much."),
            ((1 / 2048) ** 0.5, "the sum runs over the inputs, and the ReLU takes half."),
            ((1 / 1536) ** 0.5, "that is what nn.Linear draws by itself: it lets a signal shrink."),
            ((6 / 512) ** 0.5, "that is the bound of uniform numbers: their deviation is less."),
            ((512 / 2) ** 0.5, "upside down: the more terms a sum has, the smaller each must be."),
        ],
    )
    return "right: √(2/fan_in), Kaiming's recipe. The number of outputs does not matter."
