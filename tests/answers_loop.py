"""Answers to the exercises of chapter 08: right ones, and wrong ones with a word of the reply."""

import copy
import math
import random
from functools import partial

import numpy as np
import torch
from torch import nn

from course_utils.check import flawed_loops, loops
from course_utils.train import train

# 08.1: loops


def short(model, optimizer, batches, loss_fn, steps):
    model.train()
    losses = []
    for _ in range(steps):
        x, y = next(batches)
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        losses.append(loss.item())
        if not math.isfinite(losses[-1]):
            raise FloatingPointError(f"the loss is {losses[-1]}")
        loss.backward()
        optimizer.step()
    return losses


def by_closure(model, optimizer, batches, loss_fn, steps):
    losses = []
    for module in model.modules():
        module.train()

    def ask():
        x, y = next(batches)
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        if loss.isnan() or loss.isinf():
            raise FloatingPointError
        loss.backward()
        return loss

    for _ in range(steps):
        losses.append(optimizer.step(ask).item())
    return losses


def by_hand(model, optimizer, batches, loss_fn, steps):
    model.train()
    every = list(model.parameters())
    losses = []
    for _, (x, y) in zip(range(steps), batches, strict=False):
        loss = loss_fn(model(x), y)
        if not torch.isfinite(loss):
            raise FloatingPointError("no number")
        for p, g in zip(every, torch.autograd.grad(loss, every), strict=True):
            p.grad = g
        optimizer.step()
        losses.append(loss.detach().item())
    return losses


def loop(model, optimizer, batches, loss_fn, steps, *, mode=True, clear=True, early=False,
         own=None, first=False, twice=False, after=False, act=True, check=math.isfinite,
         error=FloatingPointError, late=False, kept=lambda loss: loss.item(), again=1):  # fmt: skip
    """The loop with one part in another way."""
    if mode is not None:
        model.train(mode)
    if own:
        optimizer = own(model, optimizer)
    losses = []
    for _ in range(steps):
        x, y = next(batches)
        if twice:
            x, y = next(batches)
        if clear:
            optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        if not late and not check(loss.item()):
            raise error("no number")
        if first:
            optimizer.step()
        loss.backward()
        if early:
            optimizer.zero_grad()
        if act and not first:
            for _ in range(again):
                optimizer.step()
        if late and not check(loss.item()):
            raise error("no number")
        losses.append(kept(loss_fn(model(x), y) if after else loss))
    return losses


def one_too_many(model, optimizer, batches, loss_fn, steps):
    model.train()
    losses = []
    for number, (x, y) in enumerate(batches):
        if number == steps:
            break
        losses += short(model, optimizer, iter([(x, y)]), loss_fn, 1)
    return losses


def all_batches(model, optimizer, batches, loss_fn, steps):
    return short(model, optimizer, iter(every := list(batches)), loss_fn, len(every))


def prefetching(model, optimizer, batches, loss_fn, steps):
    def ahead():
        batch = next(batches)
        while True:
            following = next(batches)
            yield batch
            batch = following

    return short(model, optimizer, ahead(), loss_fn, steps)


def forgetful(*run):
    short(*run)


def of_rounded(*run):
    return [round(loss, 3) for loss in short(*run)]


def decayed(model, optimizer, batches, loss_fn, steps):
    losses = short(model, optimizer, batches, loss_fn, steps)
    with torch.no_grad():
        next(model.parameters()).mul_(0.99)
    return losses


def clipped(model, optimizer, batches, loss_fn, steps):
    every = list(model.parameters())
    clip = nn.utils.clip_grad_norm_
    hook = optimizer.register_step_pre_hook(lambda *_: [None for _ in [clip(every, 1e-3)]][0])
    try:
        return short(model, optimizer, batches, loss_fn, steps)
    finally:
        hook.remove()


def loudly(*run):
    """Any error where FloatingPointError is expected."""
    try:
        return short(*run)
    except FloatingPointError:
        return 1 / 0


def new_sgd(model, given):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


LOOPS = [
    (partial(loop, clear=False), "add up"),
    (partial(loop, mode=None), "came in evaluation mode"),
    (partial(loop, mode=False), "in evaluation mode while it trains"),
    (partial(loop, early=True), "no gradients are there"),
    (partial(loop, own=new_sgd), "the optimizer that was given took no step"),
    (partial(loop, own=lambda model, given: type(given)(model.parameters(), lr=1e-3)), "was given"),
    (partial(loop, first=True), "no gradients are there"),
    (flawed_loops.FLAWED[6], "before backward has used them"),
    (partial(loop, twice=True), "steps it draws"),
    (partial(loop, after=True), "after the step"),
    (partial(loop, act=False), "takes no step"),
    (partial(loop, again=2), "times in"),
    (partial(loop, check=lambda loss: True), "goes on after a loss of inf"),
    (partial(loop, check=lambda loss: loss != math.inf), "goes on after a loss of -inf"),
    (partial(loop, check=lambda loss: abs(loss) != math.inf), "goes on after a loss of nan"),
    (partial(loop, check=lambda loss: abs(loss) < 0.1), "stops at a loss that is finite"),
    (partial(loop, error=ValueError), "it raised ValueError"),
    (partial(loop, late=True), "has already acted"),
    (partial(loop, kept=lambda loss: loss), "still a tensor with its graph"),
    (partial(loop, kept=lambda loss: loss.detach()), "must be a float"),
    (partial(loop, kept=lambda loss: loss.detach().numpy()), "must be a float"),
    (one_too_many, "steps it draws"),
    (all_batches, "and the list has"),
    (prefetching, "steps it draws"),
    (clipped, "made smaller"),
    (flawed_loops.FLAWED[1], "that were there before"),
    (flawed_loops.FLAWED[8], "steps it draws 1 batch:"),
    (of_rounded, "from step 1"),
    (decayed, "the parameters at the end"),
    (loudly, "it raised ZeroDivisionError"),
    (forgetful, "a list of losses"),
    (lambda *run: tuple(short(*run)), "a list of losses"),
    (lambda *run: short(*run)[:-1], "losses, and the list has"),
    (lambda *run: short(*run[:4], run[4] - 1), "losses, and the list has"),
    (lambda model, steps: [], "TypeError"),
    (train, "TypeError"),
]


# 08.2: batchers


def gathered(tokens, T, starts, by=1):
    at = np.asarray(starts)[:, None] + np.arange(T + by)
    rows = torch.from_numpy(tokens[at].astype(np.int64))
    return rows[:, :T], rows[:, by:]


def stacked(tokens, T, starts):
    rows = [torch.tensor(tokens[s : s + T + 1].astype("int64")) for s in starts]
    return torch.stack([row[:-1] for row in rows]), torch.stack([row[1:] for row in rows])


def from_views(tokens, T, starts):
    windows = np.lib.stride_tricks.sliding_window_view(np.asarray(tokens), T + 1)
    rows = torch.tensor(windows[np.array(starts)].tolist())
    return [rows[:, :-1].clone(), rows[:, 1:].clone()]


def changed(how):
    """The right windows, with inputs and targets as `how` makes them."""
    return lambda tokens, T, starts: how(*gathered(tokens, T, starts))


def shifting(tokens, T, starts):
    made = gathered(tokens, T, starts)
    if isinstance(starts, list):
        starts[0] = 1
    else:
        starts += 1
    return made


def sorting(tokens, T, starts):
    made = gathered(tokens, T, starts)
    if tokens.flags.writeable:
        tokens.sort()
    return made


BATCHERS = [
    (changed(lambda x, y: (x, x + 1)), "plus 1"),
    (changed(lambda x, y: (x, x)), "the targets are the inputs"),
    (changed(lambda x, y: (y, x)), "swapped"),
    (changed(lambda x, y: (x, x.roll(-1, 1))), "the last target is the first input"),
    (changed(lambda x, y: (x, y.flip(0))), "not the tokens one further on"),
    (changed(lambda x, y: (x, y.roll(-1, 1))), "two tokens further on"),
    (changed(lambda x, y: (x.short().long(), y.short().long())), "do not fit int16"),
    (changed(lambda x, y: (x.byte().long(), y.byte().long())), "cut to one byte"),
    (changed(lambda x, y: (x.int(), y.int())), "int64"),
    (changed(lambda x, y: (x.numpy(), y.numpy())), "must be a tensor"),
    (changed(lambda x, y: (x.T, y.T)), "shape"),
    (changed(lambda x, y: torch.stack([x, y])), "a pair"),
    (changed(lambda x, y: x), "a pair"),
    (changed(lambda x, y: (1, 2)), "must be a tensor"),
    (lambda d, T, s: gathered(d, T, np.minimum(s, len(d) - T - 2)) if len(d) > T + 1
     else gathered(d, T, s), "one token too early. It is the last"),
    (lambda d, T, s: gathered(d, T, np.maximum(np.array(s) - 1, 0)), "one token too early"),
    (lambda d, T, s: gathered(np.append(d, 0), T, np.array(s) + 1), "one token too late"),
    (lambda d, T, s: gathered(d, T, np.array(s) * 0), "begins at the first token"),
    (lambda d, T, s: gathered(d, T, np.roll(s, 1)), "of start"),
    (lambda d, T, s: gathered(d, T - 1, s), "shape"),
    (lambda d, T, s: gathered(d, T, list(s)[:1]), "shape"),
    (lambda d, T, s: gathered(d, T, s * 1 if isinstance(s, np.ndarray) else s.size), "raised"),
    (shifting, "changed starts"), (sorting, "changed tokens"),
    (lambda: 1, "TypeError"),
]  # fmt: skip


# 08.4: resuming


def resumable(*forgotten, copied=copy.deepcopy, part=lambda name, state: state):
    """pack and unpack that leave out some of model, optimizer, schedule, source, torch."""

    def pack(model, optimizer, schedule, source):
        things = {"model": model, "optimizer": optimizer, "schedule": schedule}
        states = {name: thing.state_dict() for name, thing in things.items()}
        states |= {"source": source.get_state(), "torch": torch.get_rng_state()}
        states = {name: part(name, state) for name, state in states.items()}
        return copied({name: states[name] for name in states if name not in forgotten})

    def unpack(state, model, optimizer, schedule, source):
        things = {"model": model, "optimizer": optimizer, "schedule": schedule}
        takers = {name: thing.load_state_dict for name, thing in things.items()}
        takers |= {"source": source.set_state, "torch": torch.set_rng_state}
        for name, value in state.items():
            takers[name](value)

    return pack, unpack


def pack_in_a_list(model, optimizer, schedule, source):
    weights = [p.detach().clone() for p in model.parameters()]
    moments = copy.deepcopy(optimizer.state_dict())
    return [weights, moments, schedule.last_epoch, source.get_state(), torch.get_rng_state()]


def unpack_a_list(state, model, optimizer, schedule, source):
    weights, moments, schedule.last_epoch, drawn, everywhere = state
    with torch.no_grad():
        for p, kept in zip(model.parameters(), weights, strict=True):
            p.copy_(kept)
    optimizer.load_state_dict(moments)
    source.set_state(drawn)
    torch.set_rng_state(everywhere)


def without_lr(name, state):
    return {**state, "param_groups": [{**group, "lr": 0.1} for group in state["param_groups"]]} \
        if name == "optimizer" else state  # fmt: skip


def with_momentum_alone(name, state):
    if name != "optimizer":
        return state
    kept = {n: {**values, "exp_avg_sq": torch.zeros_like(values["exp_avg_sq"])}
            for n, values in state["state"].items()}  # fmt: skip
    return {**state, "state": kept}


def whole_objects(model, optimizer, schedule, source):
    return {"model": model, "optimizer": optimizer}


def generator_itself(model, optimizer, schedule, source):
    return {"source": source}


def disturbing(*parts):
    torch.rand(3, generator=parts[-1])
    return resumable()[0](*parts)


def only_the_seed(*parts):
    return {**resumable()[0](*parts), "source": torch.Generator().get_state()}


RIGHT, UNPACK = resumable(), resumable()[1]
RESUMES = [
    (resumable("model"), "the model's parameters are lost"),
    (resumable("optimizer"), "the optimizer's state is lost"),
    (resumable("schedule"), "the schedule is lost"),
    (resumable("source"), "the data's generator is lost"),
    (resumable("torch"), "torch's own generator"),
    (resumable(part=without_lr), "the learning rate"),
    (resumable(part=with_momentum_alone), "the optimizer's state is lost"),
    (resumable(copied=dict), "is no copy"),
    (resumable(copied=lambda states: copy.deepcopy({k: v for k, v in states.items()
                                                    if k != "model"}) | {"model": states["model"]}),
     "the entry 'model' is no copy"),
    (resumable(copied=lambda states: list(states.values())), "it is no copy"),
    ((whole_objects, UNPACK), "refuses what was packed"),
    ((generator_itself, UNPACK), "refuses what was packed"),
    ((lambda *_: {"names": (n for n in "ab")}, UNPACK), "torch.save cannot write"),
    ((disturbing, UNPACK), "pack disturbed the run"),
    ((only_the_seed, UNPACK), "the data's generator is lost"),
    ((RIGHT[0], lambda *_: None), "the model's parameters are lost"),
    ((lambda *_: {}, lambda *_: None), "the model's parameters are lost"),
    ((1, 2), "a function"), (lambda: 1, "the pair"), ((RIGHT[0],), "the pair"),
]  # fmt: skip


# 08.6: tests for loops


def a_run(seed=3, bad=None, leftover=False, training=False):
    """Model, optimizer, four batches of which the third may be `bad`, loss function, steps."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 1)).train(training)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    batches = [(torch.randn(2, 3), torch.randn(2, 1)) for _ in range(12)]
    if bad is not None:
        batches[2] = batches[2][0], torch.full((2, 1), bad)
    if leftover:
        for p in model.parameters():
            p.grad = torch.ones_like(p)
    return model, optimizer, iter(batches), nn.functional.mse_loss, 4


def result(fit, **how):
    """What a loop leaves, as one tuple that can be compared."""
    model, optimizer, batches, loss_fn, steps = a_run(**how)
    try:
        losses = fit(model, optimizer, batches, loss_fn, steps)
    except FloatingPointError:
        losses = "stopped"
    except Exception:
        losses = "raised"
    left = len(list(batches)) if losses not in ("stopped", "raised") else None
    return losses, left, [p.tolist() for p in model.parameters()]


HOW = [{}, {"training": True}, {"leftover": True}, {"bad": math.inf}, {"bad": math.nan}]


def by_comparison(fit, own=short, every=HOW):
    return any(result(fit, **how) != result(own, **how) for how in every)


def without_dropout(modes, module, inputs, out):
    modes.append(module.training)
    return inputs[0]


def by_properties(fit):
    """Without a loop of its own: what one knows of one weight and SGD, by hand."""
    for lr, leftover, data in ((0.25, 0.0, (1.0, 2.0, 4.0)), (0.125, 9.0, (3.0, -1.0, 0.5))):
        model = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Dropout(0.5)).eval()
        with torch.no_grad():
            model[0].weight.fill_(2.0)
        model[0].weight.grad = torch.full((1, 1), leftover)
        modes, w, wanted = [], 2.0, []
        model[1].register_forward_hook(partial(without_dropout, modes))
        for x in data:
            wanted.append(w * x)
            w -= lr * x
        feed = iter([(torch.tensor([[x]]), torch.zeros(1, 1)) for x in data])
        sgd = torch.optim.SGD(model.parameters(), lr=lr)
        try:
            losses = fit(model, sgd, feed, lambda out, y: out.sum(), len(data))
        except Exception:
            return True
        if losses != wanted or model[0].weight.item() != w or not all(modes):
            return True
    model = nn.Linear(1, 1)
    before = model.weight.item()
    try:
        fit(model, torch.optim.SGD(model.parameters(), lr=1.0), iter([(torch.ones(1, 1),) * 2]),
            lambda out, y: out.sum() * math.nan, 1)  # fmt: skip
    except FloatingPointError:
        return model.weight.item() != before
    return True


def counts_clearing(fit):
    """A spy: right loops may clear otherwise."""
    model, optimizer, batches, loss_fn, steps = a_run()
    calls, plain = [], optimizer.zero_grad
    optimizer.zero_grad = lambda *a, **k: (calls.append(1), plain(*a, **k))
    try:
        fit(model, optimizer, batches, loss_fn, steps)
    except Exception:
        return True
    return len(calls) != steps


def does_it_learn(fit):
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    x = torch.randn(8, 3)
    batches = iter([(x, x.sum(1, keepdim=True))] * 200)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = fit(model, sgd, batches, nn.functional.mse_loss, 50)
    return losses[-1] > 0.5 * losses[0]


def does_it_raise(fit):
    losses = fit(*a_run(bad=math.inf))
    return len(losses) != 4


FOUND = len(flawed_loops.FLAWED)
TESTERS = [
    (lambda fit: True, f"lets 0 of {FOUND} broken loops pass, and calls 5 of 5 right ones broken"),
    (lambda fit: False, f"lets {FOUND} of {FOUND} broken loops pass, and calls 0 of 5"),
    (lambda fit: random.random() < 0.5, "broken loops pass"),
    (lambda fit: not by_comparison(fit), "calls 5 of 5 right ones broken"),
    (counts_clearing, "calls 2 of 5 right ones broken"),
    (does_it_learn, "broken loops pass"),
    (partial(by_comparison, every=[{**how, "training": True} for how in HOW]), "in which it came"),
    (partial(by_comparison, every=[{}, *HOW[3:]]), "lets gradients from before"),
    (partial(by_comparison, every=HOW[:3]), "goes on after a loss"),
    (partial(by_comparison, own=partial(loop, clear=False)), "calls 5 of 5 right ones broken"),
    (does_it_raise, "your test raised"),
    (lambda fit: fit(), "your test raised TypeError"),
    (lambda fit: None, "True or False"), (lambda fit: "broken", "True or False"),
    (lambda fit: 1, "True or False"), (lambda: True, "your test raised TypeError"),
]  # fmt: skip


CASES = {
    "08.1": ([short, by_closure, by_hand, loop, *loops.RIGHT], LOOPS),
    "08.2": ([gathered, stacked, from_views], BATCHERS),
    "08.3": (
        [448_976, 448_976.0, np.int64(448_976)],
        [(448_975, "one start is forgotten"), (448_977, "T + 1"), (498_976, "the whole file"),
         (498_975, "the whole file"), (48_976, "kept back"), (898_976, "those are bytes"),
         (898_975, "those are bytes"), (998_976, "of the whole file"), (223_976, "int32"),
         (450_000, "no room"), (439, "overlap"), (439.45, "overlap"), (450_000 / 1024, "overlap"),
         (450_000 / 1025, "overlap"), (439.02, "overlap"), (440, "overlap"),
         (449_078, "may reach into"), (449_078.4, "may reach into"), (449_000, "rounded"),
         (448_974, "too small"), (448_978, "too large"), (3, "too small")],
    ),
    "08.4": ([RIGHT, list(RIGHT), (pack_in_a_list, unpack_a_list)], RESUMES),
    "08.5": ([], [(0, "above 0"), (-5, "above 0"), ("many", "a finite number")]),
    "08.6": ([by_comparison, by_properties, lambda fit: np.bool_(by_comparison(fit))], TESTERS),
    "08.7": (
        [4352 / 258, 16.87, 16.9, 17],
        [(4096 / 258, "need two"), (16.0, "need two"), (4096 / 129, "two pages"),
         (8192 / 258, "two pages"), (31.8, "two pages"), (4352 / 129, "a token has 2 bytes"),
         (4224 / 129, "uint8"), (258 / 4096, "upside down"), (258 / 4352, "upside down"),
         (1.0625, "pages for each window"), (4352, "bytes for each window"),
         (8 * 4352 / 258, "eight bits"), (20, "too large"), (2, "too small")],
    ),
}  # fmt: skip
