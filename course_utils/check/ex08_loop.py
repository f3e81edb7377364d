"""The check of chapter 08's training loop, on small models that are trained bit for bit."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf, nan

import torch
from torch import Tensor, nn

from course_utils.arguments import shown
from course_utils.check.exercise import Wrong, exercise, function
from course_utils.check.flawed_loops import FLAWED
from course_utils.check.loops import plain
from course_utils.check.programs import different


@exercise(
    "08.1",
    "Each step first draws a batch; then come the four parts.",
    "What must be true of the model before its first step, and of the loss before its backward?",
    "loss.item() is the number alone, and math.isfinite says whether to go on.",
)
def ex08_1(answer: object) -> str:
    """Write the training loop."""
    fit = function(answer, "a function fit(model, optimizer, batches, loss_fn, steps)")
    (steps,), (seed, *seeds) = different(1, 5, 9), different(7, 0, 9999)
    settings = _settings(steps, seeds)
    for setting in settings:
        _must_agree(fit, setting)
    for bad in (inf, -inf, nan):
        _must_stop(fit, Setting(seed, steps, bad=bad))
    return f"right: in {len(settings)} settings every loss and every parameter agrees to the bit."


@dataclass(frozen=True)
class Setting:
    """What a loop meets: how many batches are left over, how the model comes, what the lr does.

    Each step multiplies the learning rate by `decay`. `bad`, if not 0, is the loss of the batch in
    the middle.
    """

    seed: int
    steps: int
    spare: int = 3
    training: bool = True
    leftover: bool = False
    decay: float = 1.0
    adam: bool = False
    bad: float = 0.0

    @property
    def middle(self) -> int:
        """The number of the batch, from 0, whose loss is `bad`."""
        return self.steps // 2


def _settings(steps: int, seeds: list[int]) -> list[Setting]:
    """One without a twist, then one for each, then all of them together."""
    return [
        Setting(seeds[0], steps, spare=2 * steps),
        Setting(seeds[1], steps, leftover=True),
        Setting(seeds[2], steps, training=False),
        Setting(seeds[3], steps, decay=0.7),
        Setting(seeds[4], steps, spare=0, adam=True),
        Setting(seeds[5], steps, spare=1, training=False, leftover=True, decay=0.9, adam=True),
    ]


def loss_fn(out: Tensor, y: Tensor) -> Tensor:
    """The mean square of the error, and an offset that each batch brings along."""
    return (out - y[:, :1]).square().mean() + y[:, 1].mean()


class Trial:
    """One run of a loop in a setting, with what it did: `taken` and `drawn` are counts."""

    def __init__(self, setting: Setting) -> None:
        self.setting, self.taken, self.drawn = setting, 0, 0
        torch.manual_seed(setting.seed)
        layers = nn.Linear(5, 7), nn.Tanh(), nn.Dropout(0.4), nn.Linear(7, 1)
        self.model = nn.Sequential(*layers).train(setting.training)
        rule = torch.optim.AdamW if setting.adam else torch.optim.SGD
        extra = {} if setting.adam else {"momentum": 0.9}
        self.optimizer = rule(self.model.parameters(), lr=0.05, **extra)
        self.optimizer.register_step_post_hook(self._stepped)
        if setting.leftover:
            for p in self.model.parameters():
                p.grad = torch.randn_like(p)
        self.before = self.parameters()
        self.losses, self.error = None, None

    def _stepped(self, optimizer: torch.optim.Optimizer, *_: object) -> None:
        self.taken += 1
        for group in optimizer.param_groups:
            group["lr"] *= self.setting.decay

    def batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """As many as the steps need, and the spare ones."""
        source = torch.Generator("cpu").manual_seed(self.setting.seed)
        for number in range(self.setting.steps + self.setting.spare):
            x, y = (torch.randn(6, n, generator=source, device="cpu") for n in (5, 2))
            if self.setting.bad and number == self.setting.middle:
                y[:, 1] = self.setting.bad
            self.drawn += 1
            yield x, y

    def run(self, fit: Callable) -> "Trial":
        """Call the loop; what it raises is kept in `error`. Returns this trial."""
        try:
            with torch.enable_grad():
                asked = self.optimizer, self.batches(), loss_fn, self.setting.steps
                self.losses = fit(self.model, *asked)
        except Exception as error:
            self.error = error
        return self

    def parameters(self) -> list[Tensor]:
        """Copies of what the model has now."""
        return [p.detach().clone() for p in self.model.parameters()]

    def agrees(self, other: "Trial") -> bool:
        """Whether both ended with the same losses and parameters, to the last bit."""
        return self.losses == other.losses and _equal(self.parameters(), other.parameters())


def _equal(some: list[Tensor], others: list[Tensor]) -> bool:
    return all(map(torch.equal, some, others))


def _must_agree(fit: Callable, setting: Setting) -> None:
    """Raise `Wrong` unless `fit` does in this setting what a right loop does."""
    got, wanted = Trial(setting).run(fit), Trial(setting).run(plain)
    _must_end_well(got)
    _must_be_numbers(got.losses, setting.steps)
    _must_use_what_is_given(got)
    if got.agrees(wanted):
        return
    for flaw in FLAWED:
        if flaw.told and got.agrees(Trial(setting).run(flaw)):
            raise Wrong(flaw.told)
    pairs = zip(got.losses, wanted.losses, strict=True)
    first = next((n for n, (a, b) in enumerate(pairs, start=1) if a != b), None)
    if first is None:
        raise Wrong("every loss agrees, the parameters at the end do not: what acts on them?")
    raise Wrong(f"the losses differ from a right loop's from step {first} of {setting.steps} on.")


def _must_end_well(got: Trial) -> None:
    if isinstance(got.error, StopIteration):
        raise Wrong("it asks for another batch when every step has had its own: draw one a step.")
    if isinstance(got.error, FloatingPointError):
        raise Wrong("it stops at a loss that is finite.")
    if "modified by an inplace operation" in str(got.error):
        raise Wrong("the optimizer changes the parameters before backward has used them.")
    if got.error is not None:
        raise got.error


def _must_be_numbers(losses: object, steps: int) -> None:
    """Raise `Wrong` unless `losses` is a list of `steps` floats."""
    if not isinstance(losses, list):
        raise Wrong(f"a list of losses is expected, got {shown(losses)}.")
    for loss in losses:
        if isinstance(loss, Tensor) and loss.grad_fn is not None:
            raise Wrong("each loss is still a tensor with its graph: a float is asked for.")
        if not isinstance(loss, float):
            raise Wrong(f"each loss must be a float, got {shown(loss)}.")
    if len(losses) != steps:
        raise Wrong(f"{steps} steps have {steps} losses, and the list has {len(losses)}.")


def _must_use_what_is_given(got: Trial) -> None:
    """Raise `Wrong` unless each step drew one batch, and the given optimizer acted on it."""
    steps = got.setting.steps
    if got.drawn != steps:
        batches = f"{got.drawn} batch{'es' * (got.drawn != 1)}"
        raise Wrong(f"for {steps} steps it draws {batches}: each step needs one of its own.")
    moved = not _equal(got.parameters(), got.before)
    if not got.taken and moved:
        raise Wrong("the parameters change, and the optimizer that was given took no step.")
    if not got.taken:
        raise Wrong("the optimizer takes no step, and the model stays as it was.")
    if got.taken != steps:
        raise Wrong(f"the optimizer acts {got.taken} times in {steps} steps.")


def _must_stop(fit: Callable, setting: Setting) -> None:
    """Raise `Wrong` unless `fit` raises as asked before the optimizer acts on the bad batch."""
    got, wanted = Trial(setting).run(fit), Trial(setting).run(plain)
    if got.error is None:
        raise Wrong(f"it goes on after a loss of {setting.bad}: raise FloatingPointError there.")
    if not isinstance(got.error, FloatingPointError):
        kind = type(got.error).__name__
        raise Wrong(f"a loss of {setting.bad} must raise FloatingPointError, and it raised {kind}.")
    if got.taken > setting.middle:
        raise Wrong(f"a loss of {setting.bad} stops it, and the optimizer has already acted on it.")
    if not _equal(got.parameters(), wanted.parameters()):
        raise Wrong("after it stops the parameters must be those of the last good step.")
