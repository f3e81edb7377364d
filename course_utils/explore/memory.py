"""The memory of an optimizer: what a model needs, by category, and which devices have so much."""

from collections.abc import Mapping
from functools import partial

from course_utils import draw, hardware, predict, units
from course_utils.draw.picture import Picture
from course_utils.explore.amount import Amount, doublings, tenths
from course_utils.explore.panel import Explorer, buttons

DEVICES = ["RTX 4090", "H100 SXM", "B200"]
HERE = "this machine"
FORMS = ["for-loop", "foreach", "fused"]


def optimizer_memory() -> Explorer:
    """Bytes of a model by category: parameters and devices typed or moved, buttons for the rest.

    This machine's memory is looked up once.
    """
    memories = {device: hardware.find(device).memory for device in DEVICES}
    memories[HERE] = hardware.machine().memory
    controls = {
        "parameters": Amount("parameters", 7e9, tenths(6, 12), (1e6, 1e12)),
        "optimizer": buttons("optimizer", list(predict.OPTIMIZER_STATE), "AdamW"),
        "formats": buttons("number formats", list(predict.OPTIMIZER_FORMATS), "all fp32"),
        "form": buttons("form of the step", FORMS, "foreach"),
        "count": Amount("devices", 1, doublings(0, 10), (1, 1024), whole=True),
    }
    return Explorer(controls, partial(_picture, memories))


def _picture(
    memories: Mapping[str, float], parameters: float, optimizer: str, formats: str, form: str,
    count: int,
) -> Picture:  # fmt: skip
    each = _per_parameter(optimizer, formats, form)
    total = sum(each.values())
    needed = total * parameters / count
    largest = {
        name: predict.largest_model(memory, total, devices=count)
        for name, memory in memories.items()
    }
    verdicts = {
        name: f"{units.size(memory, significant=3)}, {_fits(needed, memory)}: at most "
        f"{units.amount(largest[name], significant=3)}"
        for name, memory in memories.items()
    }
    where = "on one device" if count == 1 else f"on each of {count} devices"
    model = f"{units.amount(parameters)} parameters with {optimizer}, {formats}"
    title = f"{model}: {units.size(needed)} {where}"
    parts = {name: nbytes * parameters / count for name, nbytes in each.items() if nbytes}
    picture = draw.needs(parts, memories, title=title, beside=verdicts)
    lines = [
        picture.text,
        f"Bytes per parameter during a {form} step: {_sum(each)}.",
        f"In all: {units.amount(parameters)} × {units.digits(total)} B = "
        f"{units.size(total * parameters)}{_divided(count, needed)}.",
        *(f"{name}, {verdicts[name]} parameters{_on(count)}." for name in DEVICES),
        f"{HERE}: {units.measured(verdicts[HERE])} parameters{_on(count)}.",
        _about_scratch(optimizer, formats, form),
        "Activations come on top.",
    ]
    return Picture(picture.figure, "\n".join(line for line in lines if line))


def _per_parameter(optimizer: str, formats: str, form: str) -> dict[str, float]:
    """Bytes per parameter by category, at their most: in the optimizer's step."""
    kept = predict.optimizer_recipe(optimizer, formats)
    copies = predict.scratch_copies(optimizer, form)  # refuses a fused RMSProp
    scratch = predict.foreach_scratch(optimizer, formats) if form == "foreach" and copies else 0
    return {
        "parameters": kept.parameters,
        "gradients": kept.gradients,
        "master copy": kept.master_copy,
        "optimizer": kept.optimizer,
        "scratch": scratch,
    }


def _sum(each: Mapping[str, float]) -> str:
    """The categories as a sum: 'parameters 4 + gradients 4 = 8'."""
    terms = " + ".join(f"{name} {units.digits(nbytes)}" for name, nbytes in each.items() if nbytes)
    return f"{terms} = {units.digits(sum(each.values()))}"


def _fits(needed: float, memory: float) -> str:
    return "fits" if needed <= memory else "does not fit"


def _divided(count: int, needed: float) -> str:
    return "" if count == 1 else f", and a share of 1/{count} on each device: {units.size(needed)}"


def _on(count: int) -> str:
    return "" if count == 1 else f" on {count} of them"


def _about_scratch(optimizer: str, formats: str, form: str) -> str:
    """What the form of the step needs for a moment; '' where it needs nothing."""
    copies = predict.scratch_copies(optimizer, form)
    if not copies:
        return ""
    if not predict.foreach_scratch(optimizer, formats):
        return "8-bit states have a kernel of their own, which needs no scratch."
    if form == "for-loop":
        return (
            f"For a moment the step also holds {copies} tensors as large as the largest parameter "
            "tensor: how large that is depends on the model, so it is not drawn."
        )
    many = "a tensor" if copies == 1 else f"{copies} tensors"
    return (
        f"The scratch lives in the optimizer's step alone: {many} as large as all parameters "
        "together."
    )
