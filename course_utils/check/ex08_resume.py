"""The check of chapter 08's exact resume: all that a run needs to go on, in copies."""

import io
from collections.abc import Callable, Mapping

import torch
from torch import nn

from course_utils.arguments import cause, one_line, shown
from course_utils.check.exercise import Wrong, exercise, function

STEPS = 4  # before what is packed, and after it
Parts = tuple[
    nn.Module,
    torch.optim.Optimizer,
    torch.optim.lr_scheduler.LRScheduler,
    torch.Generator,
]


@exercise(
    "08.4",
    "What changes from step to step? Four things are given, and one more draws the dropout.",
    "Each of them can say its state and be set to one; the fifth is torch's own generator.",
    "A state_dict refers to the tensors that train on: what does copy.deepcopy do for it?",
)
def ex08_4(answer: object) -> str:
    """Resume exactly."""
    if not isinstance(answer, (tuple, list)) or len(answer) != 2:
        raise Wrong(f"the pair (pack, unpack) is expected, got {shown(answer)}.")
    pack, unpack = (function(part, "a function") for part in answer)
    with torch.enable_grad():
        _resume(pack, unpack)
    return "right: the resumed run is the uninterrupted one, bit for bit."


class _Run:
    """A small run with dropout, AdamW, a falling lr, and data from a generator of its own."""

    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        self.model = nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.5), nn.Linear(6, 1))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.1)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda n: 1 / (1 + n))
        self.source = torch.Generator("cpu").manual_seed(seed)

    def steps(self, many: int) -> list[float]:
        """The loss of each step."""
        losses = []
        for _ in range(many):
            x = torch.randn(8, 6, generator=self.source, device="cpu")
            self.optimizer.zero_grad()
            loss = self.model(x).square().mean()
            loss.backward()
            self.optimizer.step()
            self.schedule.step()
            losses.append(loss.item())
        return losses

    @property
    def parts(self) -> Parts:
        return self.model, self.optimizer, self.schedule, self.source

    def states(self) -> dict[str, object]:
        """A copy of what each part has now, by the words that say that it is lost."""
        lr = [group["lr"] for group in self.optimizer.param_groups]
        states = {
            "the model's parameters are lost": self.model.state_dict(),
            "the optimizer's state is lost": self.optimizer.state_dict()["state"],
            "the learning rate is another one": lr,
            "the schedule is lost": self.schedule.last_epoch,
            "the data's generator is lost": self.source.get_state(),
            "torch's own generator, which draws the dropout, is lost": torch.get_rng_state(),
        }
        return _loaded(_saved(states))


def _resume(pack: Callable, unpack: Callable) -> None:
    """Pack after some steps, train on, and take the same steps again from what was packed."""
    whole = _Run(0).steps(2 * STEPS)
    first = _Run(0)
    first.steps(STEPS)
    wanted = first.states()
    state = pack(*first.parts)
    kept = _saved(state)
    loaded = _loaded(kept)
    if first.steps(STEPS) != whole[STEPS:]:
        raise Wrong("pack disturbed the run, which goes on otherwise than without it.")
    _must_be_copies(_loaded(kept), _loaded(_saved(state)))
    second = _Run(1)
    second.steps(1)  # it must be replaced, whatever it did before
    unpack(loaded, *second.parts)
    for lost, found in second.states().items():
        if not _same(found, wanted[lost]):
            raise Wrong(f"{lost} after unpack. Is it packed, and is it restored?")
    if second.steps(STEPS) != whole[STEPS:]:
        raise Wrong("everything is there after unpack, and yet the losses differ.")


def _saved(state: object) -> bytes:
    """What torch.save writes of `state`."""
    file = io.BytesIO()
    try:
        torch.save(state, file)
    except Exception as error:
        raise Wrong(f"torch.save cannot write what was packed: {cause(error)}.") from None
    return file.getvalue()


def _loaded(saved: bytes) -> object:
    """What torch.load reads back where it runs nothing that it finds."""
    try:
        return torch.load(io.BytesIO(saved), weights_only=True)
    except Exception:
        raise Wrong(
            "torch.load(weights_only=True) refuses what was packed: keep tensors, numbers, texts, "
            "lists and dictionaries, such as a state_dict, and no objects."
        ) from None


def _must_be_copies(packed: object, later: object) -> None:
    """Raise `Wrong` if what was packed changed while the run went on."""
    if _same(packed, later):
        return
    both = isinstance(packed, Mapping) and isinstance(later, Mapping)
    changed = [key for key in packed if not _same(packed[key], later.get(key))] if both else []
    which = f"the entry {one_line(repr(changed[0]), 40)}" if changed else "it"
    raise Wrong(f"what was packed changed while the run went on: {which} is no copy.")


def _same(one: object, other: object) -> bool:
    """Whether two states, nested as they are, have the same values."""
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and one == other
