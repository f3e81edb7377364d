"""Interactive explorers: controls over `predict` and `draw`, each with its static picture."""

from course_utils.explore.calculator import cost
from course_utils.explore.floats import float_bits
from course_utils.explore.gradients import loss_scale
from course_utils.explore.initialisation import signals
from course_utils.explore.memory import optimizer_memory
from course_utils.explore.panel import Explorer
from course_utils.explore.rooflines import roofline
from course_utils.explore.transformers import transformer
from course_utils.explore.views import storage

__all__ = [
    "Explorer",
    "cost",
    "float_bits",
    "loss_scale",
    "optimizer_memory",
    "roofline",
    "signals",
    "storage",
    "transformer",
]
