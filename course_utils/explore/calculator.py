"""The cost calculator: days and memory of a training run, from six numbers."""

from course_utils import draw, hardware, predict, units
from course_utils.draw.picture import Picture
from course_utils.explore.amount import Amount, doublings, tenths
from course_utils.explore.panel import Explorer, buttons

DEVICES = ["A100 80GB SXM", "H100 SXM", "H200", "B200", "MI300X"]
RECIPES = {
    "SGD fp32 (8 B)": "SGD, fp32",
    "AdamW fp32 (16 B)": "AdamW, fp32",
    "AdamW bf16 + master (16 B)": "AdamW, bf16 + fp32 master",
}
SHARES = [twentieth / 20 for twentieth in range(1, 21)]


def cost() -> Explorer:
    """Days and memory of a training run: numbers typed or moved, buttons for device and recipe."""
    controls = {
        "parameters": Amount("parameters N", 70e9, tenths(8, 12), (1e6, 1e15)),
        "tokens": Amount("tokens T", 15e12, tenths(9, 14), (1e6, 1e18)),
        "count": Amount("devices", 1024, doublings(0, 15), (1, 1_000_000), whole=True),
        "mfu": Amount("MFU", 0.5, SHARES, (0.001, 1)),
        "device": buttons("device", DEVICES, "H100 SXM"),
        "recipe": buttons("bytes per parameter", list(RECIPES.items()), "AdamW, fp32"),
    }
    return Explorer(controls, _plan)


def _plan(
    parameters: float, tokens: float, count: int, mfu: float, device: str, recipe: str
) -> Picture:
    found = hardware.find(device)
    peak = found.promised("bf16")
    days = predict.training_days(parameters, tokens, devices=count, peak=peak, mfu=mfu)
    whole = _bytes(predict.RECIPES[recipe], parameters)
    part = {name: value / count for name, value in whole.items()}
    share = f"{mfu:.2f}" if mfu == round(mfu, 2) else units.digits(mfu)
    title = (
        f"{units.amount(parameters)} parameters on {units.amount(tokens)} tokens, "
        f"{count:,} × {device}, MFU {share}"
    )
    placed = {"copied": whole, "sharded": part}
    return draw.plan(days, placed, found.memory, title=title)


def _bytes(recipe: predict.Recipe, parameters: float) -> dict[str, float]:
    """Bytes of the whole model by part; parts that the recipe does not keep are left out."""
    parts = {
        "parameters": recipe.parameters,
        "gradients": recipe.gradients,
        "master copy": recipe.master_copy,
        "optimizer": recipe.optimizer,
    }
    return {name: each * parameters for name, each in parts.items() if each}
