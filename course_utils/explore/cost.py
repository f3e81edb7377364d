"""The cost calculator: days and memory of a training run, from six numbers."""

import ipywidgets as widgets

from course_utils import draw, hardware, predict, units
from course_utils.draw.picture import Picture
from course_utils.explore.panel import Explorer, buttons, slider

DEVICES = ["A100 80GB SXM", "H100 SXM", "H200", "B200", "MI300X"]
RECIPES = {
    "SGD fp32 (8 B)": "SGD, fp32",
    "AdamW fp32 (16 B)": "AdamW, fp32",
    "AdamW bf16 + master (16 B)": "AdamW, bf16 + fp32 master",
}


def cost() -> Explorer:
    """Sliders for parameters, tokens, devices and MFU; buttons for the device and the recipe."""
    log = widgets.FloatLogSlider
    controls = {
        "parameters": slider(
            log, "parameters N", value=70e9, min=8, max=12, step=0.05, readout_format=".3s"
        ),
        "tokens": slider(
            log, "tokens T", value=15e12, min=9, max=14, step=0.05, readout_format=".3s"
        ),
        "count": slider(
            log, "devices", value=1024, base=2, min=0, max=15, step=0.1, readout_format=".0f"
        ),
        "mfu": slider(widgets.FloatSlider, "MFU", value=0.5, min=0.05, max=1.0, step=0.05),
        "device": buttons("device", DEVICES, "H100 SXM"),
        "recipe": buttons("bytes a parameter", list(RECIPES.items()), "AdamW, fp32"),
    }
    return Explorer(controls, _plan)


def _plan(
    parameters: float, tokens: float, count: float, mfu: float, device: str, recipe: str
) -> Picture:
    found, devices = hardware.find(device), round(count)
    peak = found.promised("bf16")
    days = predict.training_days(parameters, tokens, devices=devices, peak=peak, mfu=mfu)
    whole = _bytes(predict.RECIPES[recipe], parameters)
    part = {name: value / devices for name, value in whole.items()}
    title = (
        f"{units.amount(parameters, significant=3)} parameters on "
        f"{units.amount(tokens, significant=3)} tokens, {devices:,} × {device}, MFU {mfu:.2f}"
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
