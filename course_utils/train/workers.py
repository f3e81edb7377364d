"""A dataset with a generator inside, to see what happens to it in a loader's worker processes.

It stands in a module since a worker process may have to import it.
"""

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, get_worker_info

from course_utils.arguments import count


class Noise(Dataset):
    """`length` random numbers, drawn when asked for by the dataset's own generator."""

    def __init__(self, length: int, seed: int = 0) -> None:
        self.length = count("length", length)
        self.rng = np.random.default_rng(count("seed", seed, at_least=0))

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Tensor:
        if not 0 <= index < self.length:
            raise IndexError(f"index must be 0 to {self.length - 1}, got {index}")
        return torch.tensor(self.rng.random())


def own_stream(worker: int) -> None:
    """Give the worker's copy of the dataset a generator of its own (for `worker_init_fn`).

    torch.initial_seed() differs from worker to worker and from epoch to epoch.
    """
    get_worker_info().dataset.rng = np.random.default_rng(torch.initial_seed())
