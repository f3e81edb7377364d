"""Tokens on disk: a file of plain integers, read through a memory map, cut into batches.

A memory map lets a file larger than memory be indexed like an array: the operating system reads
the pages that are touched and drops them again when it needs room.
"""

import mmap
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor
from torch.utils.data import Dataset, get_worker_info

from course_utils.arguments import choice, count, one_of, shown
from course_utils.train.archive import PARTIAL

DTYPES = ("uint8", "uint16", "uint32", "int32", "int64")
NPY = b"\x93NUMPY"  # how a file of np.save begins
MAPPED = 64 * 2**20  # bytes: of a larger file, at most about so much is mapped at a time
PAGE = 2 * 2**20  # bytes that touching one token may map: a huge page

Batch = tuple[Int64[Tensor, "B T"], Int64[Tensor, "B T"]]


def text_tokens() -> np.ndarray:
    """English text that every Python carries, as bytes: uint8, each byte a token.

    It is Python's own language reference (`pydoc_data.topics`), about 466 000 bytes, a little
    different in each version.
    """
    from pydoc_data.topics import topics

    text = "\n\n".join(topics[name] for name in sorted(topics))
    return np.frombuffer(text.encode("utf-8"), dtype=np.uint8)


def write_tokens(
    path: str | Path, tokens: np.ndarray | Iterable[np.ndarray], dtype: str = "uint16"
) -> int:
    """Write whole numbers to `path`, nothing else: no header. Returns how many.

    `tokens` is an array, or an iterable of arrays, so that no more than one of them is in memory.
    They are written beside `path` and take its name when all are there: until then, and after an
    error, what stood at `path` stays. Raises ValueError for a number that `dtype` cannot hold, and
    TypeError for what is no array.
    """
    kind, path = np.dtype(one_of("dtype", dtype, DTYPES)), Path(path).resolve()  # not the link
    parts = [tokens] if isinstance(tokens, np.ndarray) else _parts(tokens)
    partial, written = path.with_name(path.name + PARTIAL), 0
    try:
        with open(partial, "wb") as file:
            for part in parts:
                if isinstance(part, Tensor):
                    raise TypeError(
                        f"tokens must be NumPy arrays: pass x.numpy(), got {shown(part)}"
                    )
                _fitting(np.asarray(part), kind).tofile(file)
                written += np.size(part)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return written


def _parts(tokens: object) -> Iterable[np.ndarray]:
    """The arrays in `tokens`; TypeError for a tensor, a text, or what cannot be iterated."""
    if isinstance(tokens, Tensor):
        raise TypeError(f"tokens must be a NumPy array: pass x.numpy(), got {shown(tokens)}")
    if isinstance(tokens, (str, bytes)) or not isinstance(tokens, Iterable):
        raise TypeError(f"tokens must be an array or an iterable of arrays, got {shown(tokens)}")
    return tokens


def open_tokens(
    path: str | Path, dtype: str = "uint16", *, vocabulary: int | None = None
) -> np.memmap:
    """The tokens of `path` as a read-only array that is read from disk where it is touched.

    A file of plain integers does not say what they are: `dtype` must be the one it was written
    with. Given the size of the `vocabulary`, a look at the first tokens finds most mistakes.
    Raises FileNotFoundError, and ValueError for an empty file, a size that is no multiple of the
    element's, a file of np.save, or tokens outside of the vocabulary.
    """
    path, kind = Path(path), np.dtype(one_of("dtype", dtype, DTYPES))
    size = path.stat().st_size
    if size == 0:
        raise ValueError(f"{path.name} is empty: no tokens were written to it")
    with open(path, "rb") as file:
        if file.read(len(NPY)) == NPY:
            raise ValueError(
                f"{path.name} was written by np.save and begins with a header: read it with "
                'np.load(path, mmap_mode="r")'
            )
    if size % kind.itemsize:
        raise ValueError(
            f"{path.name} has {size} bytes, no multiple of the {kind.itemsize} bytes of {dtype}: "
            "another dtype, or a file that was cut off"
        )
    tokens = np.memmap(path, dtype=kind, mode="r")
    if vocabulary is not None:
        _known(tokens[:4096], count("vocabulary", vocabulary), path.name, dtype)
    return tokens


class Batches:
    """An endless iterator of random windows: inputs and targets, both int64 of shape (B, T).

    A window is `context` + 1 consecutive tokens: the inputs are all but the last, the targets all
    but the first. With `prefetch`, the next batch is cut in a thread while this one is used; on
    CUDA that thread also puts it into pinned memory, from where it is copied without waiting.
    (Pinning at the moment of the copy costs more than it saves, and other devices do not hold on to
    memory that they are still copying from.) What `open_tokens` returns is read with little memory
    however large the file is: pages that were read are released.
    """

    def __init__(
        self,
        tokens: np.ndarray,
        *,
        batch: int,
        context: int,
        seed: int = 0,
        device: str = "cpu",
        prefetch: bool = False,
    ) -> None:
        self.batch, self.context = count("batch", batch), count("context", context)
        if not isinstance(tokens, np.ndarray) or tokens.ndim != 1 or tokens.dtype.kind not in "iu":
            raise TypeError(f"tokens must be a one-dimensional array of ints, got {shown(tokens)}")
        window = self.context + 1
        if len(tokens) < window:
            raise ValueError(
                f"a window needs context + 1 = {window} tokens, the data has {len(tokens)}"
            )
        self.windows = np.lib.stride_tricks.sliding_window_view(np.asarray(tokens), window)
        self._map = _large_map(tokens)
        self.rng = np.random.default_rng(count("seed", seed, at_least=0))
        self.device = torch.device(device)
        self._state = self.rng.bit_generator.state
        self._pool = ThreadPoolExecutor(1) if choice("prefetch", prefetch) else None
        self._next: Future | None = None

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        if self._pool is None:
            batch, self._state = self._cut()
        else:
            batch, self._state = (self._next or self._pool.submit(self._cut)).result()
            self._next = self._pool.submit(self._cut)
        batch = batch.to(self.device, non_blocking=batch.is_pinned())
        return batch[:, :-1], batch[:, 1:]

    def _cut(self) -> tuple[Tensor, dict]:
        """Windows at random starts, and the generator's state after them."""
        starts = self.rng.integers(0, len(self.windows), size=self.batch)
        batch = torch.from_numpy(self._read(starts))
        if self._pool is not None and self.device.type == "cuda":
            batch = batch.pin_memory()
        return batch, self.rng.bit_generator.state

    def _read(self, starts: np.ndarray) -> np.ndarray:
        """The windows at `starts`, as int64; the pages of a large map are released in between."""
        if self._map is None:
            return self.windows[starts].astype(np.int64)
        batch = np.empty((self.batch, self.context + 1), np.int64)
        at_once = max(1, MAPPED // (PAGE + self.windows.itemsize * self.context))
        for begin in range(0, self.batch, at_once):
            part = slice(begin, begin + at_once)
            batch[part] = self.windows[starts[part]]
            self._map.madvise(mmap.MADV_DONTNEED)  # the file is unchanged, and read again if needed
        return batch

    def state_dict(self) -> dict:
        """The generator's state after the batch that was returned last."""
        return self._state

    def load_state_dict(self, state: dict) -> None:
        """Continue from `state`; a batch that was prefetched is dropped."""
        if self._next is not None:
            self._next.result()
            self._next = None
        self.rng.bit_generator.state = self._state = state


def _large_map(tokens: np.ndarray) -> mmap.mmap | None:
    """The map under `tokens`, if it is read-only, large, and the system can release its pages."""
    if not isinstance(tokens, np.memmap) or tokens.mode != "r":
        return None
    under = tokens
    while isinstance(under, np.ndarray):
        under = under.base
    large = isinstance(under, mmap.mmap) and len(under) > MAPPED
    return under if large and hasattr(mmap, "MADV_DONTNEED") else None


def _fitting(tokens: np.ndarray, kind: np.dtype) -> np.ndarray:
    """`tokens` as `kind`, if every one of them fits."""
    if tokens.dtype.kind not in "iub":
        raise TypeError(f"tokens must be whole numbers, got an array of {tokens.dtype}")
    bounds = np.iinfo(kind)
    if tokens.size and not (bounds.min <= tokens.min() and tokens.max() <= bounds.max):
        raise ValueError(
            f"tokens from {tokens.min()} to {tokens.max()} do not fit {kind}, which holds "
            f"{bounds.min} to {bounds.max}"
        )
    return tokens.astype(kind, copy=False)


def _known(tokens: np.ndarray, vocabulary: int, name: str, dtype: str) -> None:
    if tokens.min() < 0 or tokens.max() >= vocabulary:
        raise ValueError(
            f"{name} read as {dtype} has tokens from {tokens.min()} to {tokens.max()}, outside of "
            f"0 to {vocabulary - 1}: was it written with another dtype?"
        )


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
