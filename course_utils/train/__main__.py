"""A run that survives a crash: `python -m course_utils.train FOLDER` trains, saves, and resumes.

It trains a small byte model on Python's own documentation and prints, after each step, its number
and its loss as an exact (hexadecimal) float. Started again, it continues from the last checkpoint.
"""

import argparse
import random
from pathlib import Path

import torch

from course_utils.train.checkpoint import Checkpoints
from course_utils.train.data import Batches, text_tokens
from course_utils.train.loop import Step, train
from course_utils.train.models import Bigram, next_token_loss
from course_utils.train.optimizers import AdamW


def main(arguments: list[str] | None = None) -> None:
    """Train in the folder named on the command line."""
    options = _options(arguments)
    torch.set_num_threads(1)
    torch.manual_seed(1)
    random.seed(2)
    model = Bigram(options.width)
    optimizer = AdamW(model.parameters(), lr=3e-3)
    batches = Batches(text_tokens(), batch=16, context=32, seed=3, prefetch=True)
    kept = Checkpoints(options.folder, model=model, optimizer=optimizer, batches=batches)
    done = kept.load()
    left = max(0, options.steps - done)
    callbacks = (_tell, kept.every(options.every))
    train(
        model, optimizer, batches, next_token_loss, steps=left, first=done + 1, callbacks=callbacks
    )


def _tell(step: Step) -> None:
    print(step.number, step.loss.hex(), flush=True)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m course_utils.train", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the checkpoints are")
    parser.add_argument("--steps", type=int, default=60, help="steps of the whole run")
    parser.add_argument("--every", type=int, default=5, help="steps between two checkpoints")
    parser.add_argument("--width", type=int, default=32, help="width of the embedding")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
