"""What chapters 06 to 10 study: models, optimizers, data, precision, the loop, checkpoints.

It needs torch and NumPy, and none of the instruments, the figures or the exercises.
"""

from course_utils.train import models, optimizers, precision
from course_utils.train.checkpoint import Checkpoints
from course_utils.train.data import Batches, open_tokens, text_tokens, write_tokens
from course_utils.train.loop import History, Step, evaluate, train
from course_utils.train.step import Diverged, one_step

__all__ = [
    "Batches",
    "Checkpoints",
    "Diverged",
    "History",
    "Step",
    "evaluate",
    "models",
    "one_step",
    "open_tokens",
    "optimizers",
    "precision",
    "text_tokens",
    "train",
    "write_tokens",
]
