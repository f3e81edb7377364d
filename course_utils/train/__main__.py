"""A run that survives a crash: `python -m course_utils.train FOLDER` trains, saves, and resumes.

It trains a small byte model on Python's own documentation and prints, after each step, its number,
its loss as an exact (hexadecimal) float, and the same loss to be read. Started again, it continues
from the last checkpoint.
"""

import argparse
import random
from collections.abc import Callable
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
    print(step.number, step.loss.hex(), f"{step.loss:.4f}", flush=True)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m course_utils.train", description=__doc__)
    parser.add_argument("folder", type=_folder, help="where the checkpoints are")
    for name, default, least, words in (
        ("--steps", 60, 0, "steps of the whole run"),
        ("--every", 5, 1, "steps between two checkpoints"),
        ("--width", 32, 1, "width of the embedding"),
    ):
        parser.add_argument(name, type=_whole(least), default=default, help=words)
    return parser.parse_args(arguments)


def _folder(text: str) -> Path:
    """The path of a folder, which need not be there yet."""
    path = Path(text)
    if not text.strip():
        raise argparse.ArgumentTypeError("it must be the name of a folder, got an empty text")
    if path.exists() and not path.is_dir():
        raise argparse.ArgumentTypeError(f"it must be a folder, and {path} is a file")
    return path


def _whole(least: int) -> Callable[[str], int]:
    """What reads a whole number of at least `least` from the command line."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            words = f"it must be a whole number of at least {least}, got {text!r}"
            raise argparse.ArgumentTypeError(words)
        return value

    return read


if __name__ == "__main__":
    main()
